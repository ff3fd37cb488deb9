#include "engine/policies/entry_codec.h"

#include "engine/base/check.h"
#include "engine/policies/code_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

namespace refreshlab {

namespace {

uint16_t to_bfloat16(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40U);
    return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

/// IEEE half: 5 bits of exponent, 10 of fraction. Halves below 2^-14 are multiples of 2^-24.
uint16_t to_float16(float value) {
    const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
    if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7E00);
    const double size = std::fabs(static_cast<double>(value));
    if (size == 0) return sign;
    if (size >= 65520) return static_cast<uint16_t>(sign | 0x7C00); // rounds to infinity
    int exponent = 0;
    std::frexp(size, &exponent); // size in [2^(exponent - 1), 2^exponent)
    const int step = std::max(exponent - 11, -24);
    const auto units = static_cast<int64_t>(std::nearbyint(std::ldexp(size, -step))); // ties to even
    // 1024 units or more carry into the exponent, which is how it comes to its value.
    const int64_t bits = (static_cast<int64_t>(step + 24) << 10) + units;
    return static_cast<uint16_t>(sign | bits);
}

} // namespace

void EntryCodec::decode(const EncodedBlock& block, const BlockShape& shape, std::span<float> rows) const {
    RL_ASSERT(std::ssize(rows) == shape.numbers());
    std::vector<int64_t> all(static_cast<size_t>(shape.n));
    std::iota(all.begin(), all.end(), 0);
    decode(block, shape, {all, 0, shape.head_dim}, rows.data());
}

bool EntryCodec::joins(int64_t) const {
    return false;
}
int64_t EntryCodec::turned_width(int64_t) const {
    return 0;
}
void EntryCodec::read_turned(const EncodedBlock&, const BlockShape&, std::span<const int64_t>, float*) const {
    RL_ASSERT(false); // no turned rows
}
TurnedRows EntryCodec::turned_rows(const EncodedBlock&) const {
    return {};
}
bool EntryCodec::dots(const EncodedBlock&, const BlockShape&, const BlockPart&, bool, const CodeDots&) const {
    return false;
}
bool EntryCodec::sums(const EncodedBlock&, const BlockShape&, const BlockPart&, bool, const CodeSums&) const {
    return false;
}
void EntryCodec::turn(std::span<const float>, float*) const {
    RL_ASSERT(false);
}
void EntryCodec::turn_back(const float*, std::span<float>) const {
    RL_ASSERT(false);
}

void round_numbers(std::span<float> numbers, StoredAs type) {
    if (type == StoredAs::bfloat16) round_to_bfloat16(numbers);
    if (type == StoredAs::float16) round_to_half(numbers);
}

void put_number(std::vector<uint8_t>& bytes, float value, StoredAs type) {
    const auto put = [&bytes](auto bits) {
        const size_t at = bytes.size();
        bytes.resize(at + sizeof(bits));
        std::memcpy(bytes.data() + at, &bits, sizeof(bits));
    };
    switch (type) {
    case StoredAs::float32:
        return put(value);
    case StoredAs::bfloat16:
        return put(to_bfloat16(value));
    case StoredAs::float16:
        return put(to_float16(value));
    }
}

float number_at(std::span<const uint8_t> bytes, int64_t index, StoredAs type) {
    float value = 0;
    numbers_at(bytes, index, type, {&value, 1});
    return value;
}

void numbers_at(std::span<const uint8_t> bytes, int64_t first, StoredAs type, std::span<float> to) {
    const auto size = static_cast<size_t>(bytes_of(type)), at = static_cast<size_t>(first) * size;
    RL_ASSERT(at + to.size() * size <= bytes.size());
    if (to.empty()) return;
    if (type == StoredAs::float32) {
        std::memcpy(to.data(), bytes.data() + at, to.size_bytes());
        return;
    }
    const auto own = bytes.subspan(at, to.size() * size);
    if (type == StoredAs::float16) return numbers_of_halves(own, to);
    for (size_t i = 0; i < to.size(); ++i) {
        uint16_t bits = 0;
        std::memcpy(&bits, own.data() + 2 * i, sizeof(bits));
        to[i] = std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
    }
}

void numbers_of_rows(std::span<const uint8_t> bytes, std::span<const int64_t> rows, StoredAs type,
                     std::span<float> to) {
    if (rows.empty()) return;
    const size_t each = to.size() / rows.size();
    int64_t other = 0; // without a branch for each
    for (size_t i = 0; i < rows.size(); ++i)
        other |= rows[i] ^ (rows.front() + static_cast<int64_t>(i));
    if (other == 0) // side by side
        return numbers_at(bytes, rows.front() * static_cast<int64_t>(each), type, to);
    static thread_local std::vector<uint8_t> own; // attention decodes at every step
    const size_t size = each * static_cast<size_t>(bytes_of(type));
    own.resize(rows.size() * size);
    for (size_t i = 0; i < rows.size(); ++i) {
        const size_t at = static_cast<size_t>(rows[i]) * size;
        RL_ASSERT(at + size <= bytes.size());
        std::memcpy(own.data() + i * size, bytes.data() + at, size);
    }
    numbers_at(own, 0, type, to);
}

} // namespace refreshlab
