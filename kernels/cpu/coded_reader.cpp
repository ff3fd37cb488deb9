#include "kernels/cpu/coded_reader.h"

#include <vector>

namespace refreshlab::kernels::cpu {

namespace {

constexpr int64_t made_at_once = 4096; // numbers: 16 KB

/// Of the thread, as several may work at one task; some lanes more than are used.
float* room(std::vector<float>& all, int64_t n) {
    all.resize(std::max(all.size(), static_cast<size_t>(n) + 16));
    return all.data();
}
float* room_for_rows(int64_t n) {
    static thread_local std::vector<float> rows;
    return room(rows, n);
}

} // namespace

float* CodedReader::numbers(int64_t n) {
    static thread_local std::vector<float> all;
    return room(all, n);
}

int64_t CodedReader::most_made(bool values) const {
    if (m_from_codes) return CodedEntries::at_once;
    const int64_t widest = std::max(m_head_dim, m_entries.turned_width(values));
    return std::clamp(made_at_once / widest / 16 * 16, int64_t{16}, CodedEntries::at_once);
}

bool CodedReader::next_stretch(bool values, int64_t begin, int64_t end, Channels c, CodedPart& part) const {
    const int64_t* const places = m_columns + begin;
    const int64_t enough = std::min(most_made(values), end - begin);
    const CodedEntries::Stretch stretch = m_entries.stretch(values, places, end - begin, enough);
    if (stretch.n < enough) return false;
    part = CodedPart();
    part.begin = begin;
    part.turned = stretch.turned;
    part.n = stretch.stored != nullptr ? stretch.n : enough;
    if (stretch.stored != nullptr)
        stand(part, values, stretch.stored, stretch.stride, c);
    else
        are_made(part, values, places, c);
    return true;
}

void CodedReader::some_of(bool values, int64_t begin, int64_t n, const CodedEntries::Sorted& sorted,
                          bool turned, Channels c, int64_t* own_places, CodedPart& part) const {
    const CodedEntries::Alike& alike = turned ? sorted.turned : sorted.plain;
    part = CodedPart();
    part.begin = begin;
    part.turned = turned;
    part.n = alike.n;
    part.ones = alike.n == n ? nullptr : alike.ones;
    if (!turned && sorted.stored != nullptr) {
        part.index = sorted.slots;
        stand(part, values, sorted.stored, m_head_dim, c);
        return;
    }
    for (int64_t i = 0; i < alike.n; ++i)
        own_places[i] = m_columns[begin + alike.ones[i]];
    are_made(part, values, own_places, c);
}

void CodedReader::stand(CodedPart& part, bool values, const void* rows, int64_t stride, Channels c) const {
    part.type = m_type;
    part.rows = static_cast<const char*>(rows) + (part.turned ? 0 : c.begin) * element_bytes(m_type);
    part.stride = stride;
    part.width = part.turned ? m_entries.turned_width(values) : c.count;
}

void CodedReader::are_made(CodedPart& part, bool values, const int64_t* places, Channels c) const {
    part.places = places;
    part.first_channel = part.turned ? 0 : c.begin;
    part.width = part.stride = part.turned ? m_entries.turned_width(values) : c.count;
}

void CodedReader::make_rows(CodedPart& part, bool values) const {
    float* const rows = room_for_rows(part.n * part.width);
    if (part.turned)
        m_entries.read_turned(values, part.places, part.n, rows);
    else
        m_entries.read(values, part.places, part.n, part.first_channel, part.width, rows);
    part.rows = rows;
    part.made = true;
}

} // namespace refreshlab::kernels::cpu
