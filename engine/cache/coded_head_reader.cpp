#include "engine/cache/coded_head_reader.h"

#include "engine/base/check.h"
#include "engine/policies/code_products.h"

#include <algorithm>
#include <numeric>

namespace refreshlab {

namespace {

const CodedPlace& at(const CodedHalf& of, int64_t place) {
    return of.places[static_cast<size_t>(place)];
}
const CodedBlock& block_of(const CodedHalf& of, const CodedPlace& place) {
    return *of.blocks[static_cast<size_t>(place.block)];
}

bool is_turned(const CodedHalf& of, const CodedPlace& place) {
    return !place.is_row() && block_of(of, place).codec.get() == of.turning;
}
/// How many of the places, from the first on, are rows of one block, or slots, one after the other.
int64_t run_of(const CodedHalf& of, const int64_t* places, int64_t n) {
    const CodedPlace first = at(of, places[0]);
    // Rows of a block stand by position, as places do: between two rows that are all held nothing else stands.
    if (!first.is_row() && block_of(of, first).positions.all_held() && places[n - 1] - places[0] == n - 1) {
        const CodedPlace& last = at(of, places[n - 1]);
        if (last.block == first.block && last.row == first.row + n - 1) return n;
    }
    int64_t run = 1;
    for (constexpr int64_t some = 8; run + some <= n; run += some) { // without a branch for each
        int32_t other = 0;
        for (int64_t i = run; i < run + some; ++i) {
            const CodedPlace& place = at(of, places[i]);
            other |= (place.block ^ first.block) | (place.row ^ (first.row + static_cast<int32_t>(i)));
        }
        if (other != 0) break;
    }
    while (run < n && at(of, places[run]).block == first.block && at(of, places[run]).row == first.row + run)
        ++run;
    return run;
}

/// Asks for the blocks behind this one: each stands somewhere else, and who reads short ones would wait for memory at each of three
/// pointers. Inline, or gcc 12 takes a function that only asks for one that does nothing.
[[gnu::always_inline]] inline void ask_for_next(const CodedBlocks& blocks, size_t block) {
    constexpr size_t line = 64, most = 512;
    const auto ask = [](const auto* for_all_of) __attribute__((always_inline)) {
        __builtin_prefetch(for_all_of);
        __builtin_prefetch(reinterpret_cast<const char*>(for_all_of + 1) -
                           1); // it may begin in the middle of a line
    };
    if (block + 12 < blocks.size()) ask(blocks[block + 12].get());
    if (block + 8 < blocks.size()) ask(blocks[block + 8]->bytes.get());
    if (block + 4 >= blocks.size()) return;
    const EncodedBlock& next = *blocks[block + 4]->bytes;
    for (const auto* bytes : {&next.metadata, &next.payload})
        for (size_t i = 0; i < std::min(bytes->size(), most); i += line)
            __builtin_prefetch(bytes->data() + i);
}

/// Asks for what says where the entries after the next ones stand.
void ask_for_places(const CodedHalf& of, const int64_t* places, int64_t n, int64_t most_made) {
    constexpr int64_t in_line = 64 / sizeof(CodedPlace);
    for (int64_t i = most_made; i < std::min(n, 2 * most_made); i += in_line)
        __builtin_prefetch(&at(of, places[i]));
}
/// Asks for the rows that follow in a block: a layer is read once a step, so they come from memory.
[[gnu::always_inline]] inline void ask_for_rows(const CodedBlock& block, int64_t first, int64_t n) {
    constexpr int64_t line = 64, most = 8192;
    const int64_t rows = block.positions.rows();
    for (const auto* bytes : {&block.bytes->payload, &block.bytes->metadata}) {
        const int64_t row = std::ssize(*bytes) / rows, begin = first * row,
                      end = std::min({(first + n) * row, std::ssize(*bytes), begin + most});
        for (int64_t i = begin; i < end; i += line)
            __builtin_prefetch(bytes->data() + i);
    }
}

/// Asks for what comes after some rows of a block.
[[gnu::always_inline]] inline void ask_for_more(const CodedHalf& of, const CodedPlace& first, int64_t n) {
    const CodedBlock& block = block_of(of, first);
    if (first.row + n < block.positions.rows())
        ask_for_rows(block, first.row + n, n);
    else
        ask_for_next(of.blocks, static_cast<size_t>(first.block));
}

/// Reads rows of blocks, block by block: read(block, rows, out) for some of its rows, of `width` numbers.
template <typename Read>
void for_blocks(const CodedHalf& of, const int64_t* places, int64_t n, int64_t width, float* to,
                const Read& read) {
    constexpr int64_t at_once = kernels::CodedEntries::at_once, long_run = 16; // worth a call of its own
    static thread_local std::vector<float> scratch;
    int64_t rows[at_once], outs[at_once];
    for (int64_t begin = 0; begin < n; begin += at_once) {
        const int64_t end = std::min(begin + at_once, n);
        bool done[at_once] = {};
        for (int64_t i = begin; i < end;) {
            const CodedPlace first = at(of, places[i]);
            if (first.is_row() || done[i - begin]) {
                ++i;
                continue;
            }
            const CodedBlock& block = block_of(of, first);
            const int64_t most = block.positions.rows() - first.row; // rows stand by position
            if (const int64_t run = run_of(of, places + i, end - i); run == most || run >= long_run) {
                std::iota(rows, rows + run, first.row);
                ask_for_more(of, first, run);
                read(block, std::span<const int64_t>(rows, static_cast<size_t>(run)), to + i * width);
                i += run;
                continue;
            }
            ask_for_next(of.blocks, static_cast<size_t>(first.block));
            int64_t found = 0;
            for (int64_t j = i; j < end && found < most; ++j) {
                const CodedPlace& place = at(of, places[j]);
                if (place.block != first.block) continue;
                done[j - begin] = true;
                rows[found] = place.row;
                outs[found++] = j;
            }
            const std::span<const int64_t> of_block(rows, static_cast<size_t>(found));
            if (outs[found - 1] == i + found - 1) { // side by side
                read(block, of_block, to + i * width);
            } else {
                scratch.resize(std::max(scratch.size(), static_cast<size_t>(at_once * width)));
                read(block, of_block, scratch.data());
                for (int64_t k = 0; k < found; ++k)
                    std::copy_n(scratch.data() + k * width, width, to + outs[k] * width);
            }
            ++i;
        }
    }
}

} // namespace

CodedHeadReader::Stretch CodedHeadReader::first_run(bool values, const int64_t* places, int64_t n,
                                                    int64_t most_made) const {
    const CodedHalf& of = half(values);
    const CodedPlace& first = at(of, places[0]);
    Stretch run{0, is_turned(of, first), nullptr, m_head_dim};
    const void* rows = first.is_row() ? m_rows[values ? 1 : 0].rows().const_data_ptr() : nullptr;
    if (run.turned) {
        const TurnedRows stored = of.turning->turned_rows(*block_of(of, first).bytes);
        rows = stored.first;
        run.stride = stored.stride;
    }
    run.n = run_of(of, places, rows != nullptr ? n : std::min(n, most_made));
    if (rows != nullptr)
        run.stored = static_cast<const char*>(rows) + first.row * run.stride * bytes_of(stored_as());
    return run;
}

template <typename Visit>
bool CodedHeadReader::for_runs(const Some& some, const Visit& visit) const {
    const CodedHalf& of = half(some.values);
    if (!some.turned && stored_as() != StoredAs::float32) return false; // rounded when they are made
    int64_t runs[at_once], num_runs = 0, rows[at_once];
    const EntryCodec* codec = nullptr;
    if (some.n > at_once) return false;
    for (int64_t i = 0; i < some.n; i += runs[num_runs++]) {
        const CodedPlace& first = at(of, some.places[i]);
        if (first.is_row()) return false;
        const EntryCodec* const own = block_of(of, first).codec.get();
        if (codec != nullptr && own != codec) return false;
        codec = own;
        runs[num_runs] = run_of(of, some.places + i, some.n - i);
    }
    for (int64_t k = 0, i = 0; k < num_runs; i += runs[k++]) {
        const CodedPlace first = at(of, some.places[i]);
        const CodedBlock& block = block_of(of, first);
        ask_for_more(of, first, runs[k]);
        std::iota(rows, rows + runs[k], first.row);
        const std::span<const int64_t> own(rows, static_cast<size_t>(runs[k]));
        if (visit(block, BlockPart{own, some.first_channel, some.channels}, i)) continue;
        RL_ASSERT(i == 0);
        return false;
    }
    return true;
}

void CodedHeadReader::read(bool values, const int64_t* places, int64_t n, int64_t first, int64_t channels,
                           float* to) const {
    const CodedHalf& of = half(values);
    const RowStore& rows = m_rows[values ? 1 : 0];
    for (int64_t i = 0; i < n; ++i) {
        const CodedPlace& place = at(of, places[i]);
        if (place.is_row()) rows.read(place.row, first, channels, to + i * channels);
    }
    decode(values, places, n, first, channels, to);
}

void CodedHeadReader::decode(bool values, const int64_t* places, int64_t n, int64_t first, int64_t channels,
                             float* to) const {
    const auto read = [&](const CodedBlock& block, std::span<const int64_t> of_block, float* out) {
        block.codec->decode(*block.bytes, shape_of(block), {of_block, first, channels}, out);
        round_numbers({out, of_block.size() * static_cast<size_t>(channels)}, stored_as());
    };
    for_blocks(half(values), places, n, channels, to, read);
}

int64_t CodedHeadReader::turned_width(bool values) const {
    const EntryCodec* const codec = half(values).turning;
    return codec != nullptr ? codec->turned_width(m_head_dim) : 0;
}

CodedHeadReader::Stretch CodedHeadReader::stretch(bool values, const int64_t* places, int64_t n,
                                                  int64_t most_made) const {
    ask_for_places(half(values), places, n, most_made);
    Stretch all = first_run(values, places, n, most_made);
    const int64_t most = std::min(n, most_made);
    while (all.stored == nullptr && all.n < most) {
        const Stretch next = first_run(values, places + all.n, most - all.n, most_made);
        if (next.stored != nullptr || next.turned != all.turned) break;
        all.n += next.n;
    }
    return all;
}

void CodedHeadReader::sort(bool values, const int64_t* places, int64_t n, Sorted& to) const {
    const CodedHalf& of = half(values);
    to.plain.n = to.turned.n = 0;
    to.stored = m_rows[values ? 1 : 0].rows().const_data_ptr();
    for (int64_t i = 0; i < n;) {
        const CodedPlace& first = at(of, places[i]);
        const int64_t run = run_of(of, places + i, n - i);
        const bool turned = is_turned(of, first);
        if (!turned && !first.is_row()) to.stored = nullptr;
        Alike& alike = turned ? to.turned : to.plain;
        for (int64_t k = 0; k < run; ++k) {
            if (!turned) to.slots[alike.n] = first.row + k;
            alike.ones[alike.n++] = i++;
        }
    }
}

void CodedHeadReader::read_turned(bool values, const int64_t* places, int64_t n, float* to) const {
    const auto read = [&](const CodedBlock& block, std::span<const int64_t> of_block, float* out) {
        block.codec->read_turned(*block.bytes, shape_of(block), of_block, out);
    };
    for_blocks(half(values), places, n, turned_width(values), to, read);
}

bool CodedHeadReader::dots(const Some& some, const float* x, int64_t x_stride, int64_t rows, float* y,
                           int64_t y_stride) const {
    return for_runs(some, [&](const CodedBlock& block, const BlockPart& part, int64_t i) {
        return block.codec->dots(*block.bytes, shape_of(block), part, some.turned,
                                 {x, x_stride, rows, y + i, y_stride});
    });
}

bool CodedHeadReader::weighted_sum(const Some& some, const float* p, int64_t p_stride, int64_t rows,
                                   float* acc, int64_t acc_stride) const {
    return for_runs(some, [&](const CodedBlock& block, const BlockPart& part, int64_t i) {
        return block.codec->sums(*block.bytes, shape_of(block), part, some.turned,
                                 {p + i, p_stride, rows, acc, acc_stride});
    });
}

void CodedHeadReader::turn(const float* query, float* to) const {
    half(false).turning->turn({query, static_cast<size_t>(m_head_dim)}, to);
}

void CodedHeadReader::turn_back(const float* sum, float* to) const {
    half(true).turning->turn_back(sum, {to, static_cast<size_t>(m_head_dim)});
}

} // namespace refreshlab
