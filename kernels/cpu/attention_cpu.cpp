#include "kernels/cpu/attention_cpu.h"

#include "kernels/cpu/coded_reader.h"
#include "kernels/cpu/cpu_tensors.h"
#include "kernels/cpu/mask_stream.h"
#include "kernels/execution/isa.h"
#include "kernels/execution/thread_pool.h"
#include "kernels/ops/probabilities.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

/// Story: a task is a block of query rows times some query heads of one KV head, so that a key is loaded once for all of
/// them. It finds what its rows read, scores the keys, normalises, and sums the values.
///
/// Same bits in blocks of any size: scores are the dot products of kernels/ops/dense.h with keys as weights. The weighted sum
/// runs over positions ascending, one chain per (row, head, channel). What a row attends to is a list of positions. Its own
/// column (MC rows) is the last of them, and the lanes of its sums count from the first (a sliding window). So nothing depends
/// on the other rows of a task. A row's tail (columns of the cache after its visible ones) is scored and summed by its list.
///
/// A decode step has few tasks. On a short context the query heads of a KV head are split over tasks as well, and the keys come from the
/// cache the second time. On a long one (run_in_parts) all threads share each task, step by step: scores are cut by keys, the softmax
/// by heads, the values by channels. So every key and value is read once, and no sum is cut. Probabilities of one task stay in the
/// second cache up to ~8k positions.
namespace refreshlab::kernels::cpu {
namespace {

constexpr int64_t rows_per_task = 8;
constexpr int64_t long_context_elements =
    int64_t{1} << 18; // keys of a call; below, three waits for all threads cost more than they give
constexpr int64_t part_channels = 32, part_keys = 256; // of a thread's piece, at least
constexpr int64_t made_numbers = 4096;                 // of coded entries at once: 16 KB

struct Problem {
    const AttentionInputs& in;
    int64_t rows, heads, kv_heads, group, head_dim;
    at::Tensor q, k, v, own_k, own_v, tails;
    float* out;
    float* probabilities; ///< null: not wanted
    int64_t probability_columns;
};

/// What KV head `kv` may read, positions ascending: null means 0, 1, 2, ..., and column = position.
struct Keys {
    const int64_t* positions = nullptr;
    const int64_t* columns = nullptr;
    int64_t size = 0;
    const CodedEntries* coded = nullptr;

    /// How many of them are below n.
    [[nodiscard]] int64_t count_below(int64_t n) const {
        return positions == nullptr ? n : std::lower_bound(positions, positions + size, n) - positions;
    }
};

Keys keys_of(const Problem& p, int64_t kv) {
    if (p.in.lists.empty()) return {};
    const KeyList& list = p.in.lists[static_cast<size_t>(kv)];
    static constexpr int64_t nothing = 0; // an empty list is no missing one
    if (list.n == 0) return {&nothing, &nothing, 0};
    return {list.positions, list.columns, list.n, list.coded};
}

/// The tail of a row: columns of the cache, as keys after its visible ones.
Keys tail_of(const Problem& p, int64_t row) {
    if (!p.tails.defined()) return {};
    const int64_t width = p.tails.size(1);
    const int64_t* const list = p.tails.const_data_ptr<int64_t>() + row * width;
    return {list, list, std::find(list, list + width, int64_t{-1}) - list};
}

/// Kept from task to task: a decode step has dozens of them.
struct Scratch {
    std::vector<float> queries, scores;
    std::vector<float>
        turned; ///< queries turned for coded keys, then sums of values that are still to be turned back
};

/// One task: query rows [row, row + rows), query heads [first, first + num_heads) of KV head kv. Its life is the steps of
/// run(); pieces of one step may be done by several threads. Row r of the task reads the keys [m_firsts[r], m_counts[r]) of its
/// list, then its own column or its tail if it has one. Its scores stand at [m_begins[r], m_ends[r]).
class Task {
public:
    Task(const Problem& p, Scratch& scratch, int64_t row, int64_t row_end, int64_t kv, int64_t first,
         int64_t num_heads)
        : m_p(p)
        , m_scratch(scratch)
        , m_row(row)
        , m_rows(row_end - row)
        , m_kv(kv)
        , m_first(first)
        , m_num_heads(num_heads)
        , m_own(p.own_k.defined())
        , m_keys(keys_of(p, kv)) {}

    void run() {
        prepare();
        score_keys(m_lowest, m_most);
        for (int64_t r = 0; r < m_rows; ++r) {
            if (m_own) score_own_column(r, 0, m_num_heads);
            score_tail(r);
            for (int64_t h = 0; h < m_num_heads; ++h)
                normalise(r, h);
        }
        sum_values({0, m_p.head_dim});
    }

    // --- the same in pieces: prepare(), then all keys, then each row and head, then all channels; no tails ---

    void prepare() {
        find_ranges();
        copy_queries();
        turn_queries();
        m_scratch.scores.resize(static_cast<size_t>(m_rows * m_num_heads * m_stride));
    }
    [[nodiscard]] int64_t lowest() const { return m_lowest; }
    [[nodiscard]] int64_t most() const { return m_most; }
    [[nodiscard]] int64_t rows_and_heads() const { return m_rows * m_num_heads; }
    /// Sums of its values are turned back, so all channels are summed at once.
    [[nodiscard]] bool turns_back() const { return turned_width(true) > 0; }
    void finish_scores(int64_t row_and_head) {
        const int64_t r = row_and_head / m_num_heads, h = row_and_head % m_num_heads;
        if (m_own) score_own_column(r, h, 1);
        normalise(r, h);
    }

    /// Keys [begin, end) of the list, within [lowest, most), for all rows at once: a key is loaded once.
    void score_keys(int64_t begin, int64_t end) {
        if (m_keys.coded != nullptr) return score_coded(begin, end);
        Dots dots;
        dots.x = m_scratch.queries.data();
        dots.x_stride = m_p.head_dim;
        dots.rows = m_rows * m_num_heads;
        // Without a list output o is column begin + o, with one it is column columns[begin + o].
        const int64_t offset = m_keys.columns == nullptr ? begin * m_p.k.stride(1) : 0;
        dots.w = element(m_p.k, m_kv * m_p.k.stride(0) + offset);
        dots.w_type = element_type(m_p.k);
        dots.w_stride = m_p.k.stride(1);
        dots.w_index = m_keys.columns == nullptr ? nullptr : m_keys.columns + begin;
        dots.outs = end - begin;
        dots.in = m_p.head_dim;
        dots.y = m_scratch.scores.data() + begin;
        dots.y_stride = m_stride;
        m_table.dots(dots);
    }

    /// Each row's keys in ascending order: first what not all rows of the task see, then what all of them see, all rows at
    /// once, then the rest of each row. The results take the place of the queries.
    void sum_values(Channels c) {
        for (int64_t i = 0; i < rows_and_heads(); ++i)
            std::fill_n(m_scratch.queries.data() + i * m_p.head_dim + c.begin, c.count, 0.0F);
        const int64_t turned = turned_width(true);
        if (turned > 0) m_scratch.turned.assign(static_cast<size_t>(rows_and_heads() * turned), 0.0F);
        const bool shared_keys = m_latest < m_least;
        const int64_t shared_begin = shared_keys ? m_latest : 0, shared_end = shared_keys ? m_least : 0;
        for (int64_t r = 0; r < m_rows && shared_keys; ++r) {
            if (m_firsts[r] < shared_begin) add_values(r, 1, m_firsts[r], shared_begin, c);
        }
        if (shared_keys) add_values(0, m_rows, shared_begin, shared_end, c);
        for (int64_t r = 0; r < m_rows; ++r) {
            add_values(r, 1, shared_keys ? shared_end : m_firsts[r], m_counts[r], c);
            if (m_own) m_table.weighted_sum(own_sum_of(r, c));
            if (m_tails[r].size > 0) m_table.weighted_sum(tail_sum_of(r, c));
            for (int64_t h = 0; h < m_num_heads; ++h) {
                const int64_t i = r * m_num_heads + h, from = i * m_p.head_dim + c.begin;
                if (turned > 0)
                    m_keys.coded->turn_back(m_scratch.turned.data() + i * turned,
                                            m_scratch.queries.data() + i * m_p.head_dim);
                const int64_t to = ((m_row + r) * m_p.heads + m_first + h) * m_p.head_dim + c.begin;
                std::copy_n(m_scratch.queries.data() + from, c.count, m_p.out + to);
            }
        }
    }

private:
    // --- 1. what each row reads ---
    void find_ranges() {
        for (int64_t r = 0; r < m_rows; ++r) {
            const auto at = static_cast<size_t>(m_row + r);
            m_counts[r] = m_keys.count_below(m_p.in.num_visible[at]);
            m_firsts[r] = m_p.in.first_visible.empty()
                              ? 0
                              : std::min(m_keys.count_below(m_p.in.first_visible[at]), m_counts[r]);
            m_tails[r] = tail_of(m_p, m_row + r);
            const int64_t first = m_p.in.first_visible.empty() ? 0 : m_p.in.first_visible[at];
            m_skipped[r] = std::clamp<int64_t>(first - m_counts[r], 0, m_tails[r].size);
            m_begins[r] = m_firsts[r] + m_skipped[r];
            m_ends[r] = m_counts[r] + (m_own ? 1 : m_tails[r].size);
            m_last = std::max(m_last, m_ends[r]);
            m_lowest = std::min(m_lowest, m_firsts[r]);
            m_latest = std::max(m_latest, m_firsts[r]);
            m_most = std::max(m_most, m_counts[r]);
            m_least = std::min(m_least, m_counts[r]);
        }
        m_stride = (m_last + 31) / 16 * 16; // a softmax that starts anywhere writes up to 15 beyond its end
    }

    // --- 2. queries side by side, [rows * heads, head_dim] ---
    void copy_queries() {
        const int64_t row_size = m_num_heads * m_p.head_dim;
        m_scratch.queries.resize(static_cast<size_t>(m_rows * row_size));
        const float* const q = m_p.q.const_data_ptr<float>();
        for (int64_t r = 0; r < m_rows; ++r) {
            std::copy_n(q + ((m_row + r) * m_p.heads + m_first) * m_p.head_dim, row_size,
                        m_scratch.queries.data() + r * row_size);
        }
    }

    /// As coded keys are read turned; after copy_queries().
    void turn_queries() {
        const int64_t width = turned_width(false);
        m_scratch.turned.resize(static_cast<size_t>(rows_and_heads() * width));
        for (int64_t i = 0; width > 0 && i < rows_and_heads(); ++i)
            m_keys.coded->turn(m_scratch.queries.data() + i * m_p.head_dim,
                               m_scratch.turned.data() + i * width);
    }
    [[nodiscard]] CodedReader coded() const {
        return {*m_keys.coded, m_keys.columns, m_p.head_dim, element_type(m_p.k), m_from_codes};
    }
    [[nodiscard]] int64_t turned_width(bool values) const {
        return m_keys.coded != nullptr ? m_keys.coded->turned_width(values) : 0;
    }

    // --- 3. scores, [rows * heads, stride]; column i is key i of the list; see score_keys() ---
    /// Keys [begin, end) of coded entries.
    void score_coded(int64_t begin, int64_t end) {
        coded().each(false, begin, end, {0, m_p.head_dim}, [&](CodedPart& part) { score_part(part); });
    }
    void score_part(CodedPart& part) {
        Dots dots;
        dots.x = part.turned ? m_scratch.turned.data() : m_scratch.queries.data();
        dots.x_stride = part.width;
        dots.rows = rows_and_heads();
        dots.outs = part.n;
        dots.in = part.width;
        float* const to = m_scratch.scores.data() + part.begin;
        const bool all = part.ones == nullptr;
        dots.y = all ? to : CodedReader::numbers(rows_and_heads() * part.n);
        dots.y_stride = all ? m_stride : part.n;
        if (!m_from_codes || part.places == nullptr ||
            !m_keys.coded->dots(CodedReader::some_of(part, false), dots.x, dots.x_stride, dots.rows, dots.y,
                                dots.y_stride)) {
            if (part.places != nullptr) coded().make_rows(part, false);
            dots.w = part.rows;
            dots.w_type = part.type;
            dots.w_stride = part.stride;
            dots.w_index = part.index;
            dots.near = part.made;
            m_table.dots(dots);
        }
        for (int64_t i = 0; i < rows_and_heads() && !all; ++i)
            for (int64_t k = 0; k < part.n; ++k)
                to[i * m_stride + part.ones[k]] = dots.y[i * part.n + k];
    }

    /// The row's own column, as its last key. Scores of all other keys are there already: they also fill the place of this one.
    void score_own_column(int64_t r, int64_t head, int64_t num_heads) {
        Dots dots;
        dots.x = m_scratch.queries.data() + (r * m_num_heads + head) * m_p.head_dim;
        dots.x_stride = m_p.head_dim;
        dots.rows = num_heads;
        dots.w = own_element(m_p.own_k, r);
        dots.w_type = element_type(m_p.own_k);
        dots.w_stride = m_p.k.stride(1);
        dots.outs = 1;
        dots.in = m_p.head_dim;
        dots.y = scores_of(r, head) + m_counts[r];
        dots.y_stride = m_stride;
        m_table.dots(dots);
    }

    /// The columns of the row's tail that it sees, as its last keys.
    void score_tail(int64_t r) {
        const Keys& tail = m_tails[r];
        if (m_skipped[r] == tail.size) return;
        Dots dots;
        dots.x = m_scratch.queries.data() + r * m_num_heads * m_p.head_dim;
        dots.x_stride = m_p.head_dim;
        dots.rows = m_num_heads;
        dots.w = element(m_p.k, m_kv * m_p.k.stride(0));
        dots.w_type = element_type(m_p.k);
        dots.w_stride = m_p.k.stride(1);
        dots.w_index = tail.columns + m_skipped[r];
        dots.outs = tail.size - m_skipped[r];
        dots.in = m_p.head_dim;
        dots.y = scores_of(r, 0) + m_counts[r] + m_skipped[r];
        dots.y_stride = m_stride;
        m_table.dots(dots);
    }

    // --- 4. softmax of each row and head, what a caller wants to see of it, dropout ---
    void normalise(int64_t r, int64_t h) {
        float* const s = scores_of(r, h);
        auto scale = static_cast<float>(m_p.in.scale);
        if (m_p.in.soft_cap > 0) {
            m_table.soft_cap(s + m_begins[r], m_ends[r] - m_begins[r], scale,
                             static_cast<float>(m_p.in.soft_cap));
            scale = 1;
        }
        m_table.softmax(s + m_begins[r], m_ends[r] - m_begins[r], scale);
        if (m_p.probabilities != nullptr) keep_probabilities(r, h, s);
        if (!m_p.in.halves.empty() && m_row + r == 0) keep_halves(h, s);
        if (m_p.in.dropout_p > 0.0F && !m_p.in.passes.empty()) drop(r, h, s);
    }

    void keep_probabilities(int64_t r, int64_t h, const float* s) const {
        float* const to =
            m_p.probabilities + ((m_row + r) * m_p.heads + m_first + h) * m_p.probability_columns;
        const int64_t end = m_counts[r] + (m_own ? 1 : 0); // of what stands in order; a tail follows it
        const int64_t tail = m_counts[r] + m_skipped[r], tail_end = m_counts[r] + m_tails[r].size;
        std::fill(to, to + m_firsts[r], 0.0F);
        std::copy(s + m_firsts[r], s + end, to + m_firsts[r]);
        if (end < tail) std::fill(to + end, to + tail, 0.0F);
        std::copy(s + tail, s + tail_end, to + tail);
        std::fill(to + std::max(end, tail_end), to + m_p.probability_columns, 0.0F);
    }

    /// Of row 0; without lists and tails its scores stand by position.
    void keep_halves(int64_t h, const float* s) const {
        const std::span<uint16_t> all = m_p.in.halves;
        const size_t n = all.size() / static_cast<size_t>(m_p.heads);
        const auto to = all.subspan(static_cast<size_t>(m_first + h) * n, n);
        const auto seen = static_cast<size_t>(m_ends[0] - m_begins[0]);
        if (m_p.in.bin > 1)
            return kernels::to_half_bins({s + m_begins[0], seen}, m_begins[0], m_p.in.bin, to);
        const auto read = to.subspan(static_cast<size_t>(m_begins[0]), seen);
        std::fill(to.begin(), read.begin(), uint16_t{0});
        kernels::to_half({s + m_begins[0], read.size()}, read);
    }

    /// Sets a weight to 0 or to itself / (1 - p), by the position of its key.
    void drop(int64_t r, int64_t h, float* s) const {
        DropoutKey key = m_p.in.dropout_key;
        key.pass = m_p.in.passes[static_cast<size_t>(m_row + r)];
        if (key.pass == 0) return;
        const shared::MaskStream stream =
            mask_stream(key, DropoutSite::attention, static_cast<uint32_t>(m_first + h), m_p.in.dropout_p);
        const float scale = 1.0F / (1.0F - m_p.in.dropout_p);
        const int64_t first = m_firsts[r], count = m_counts[r];
        if (m_keys.positions ==
            nullptr) { // positions in a row; the own column or the tail begins at position `visible`
            m_table.dropout(s + m_begins[r], m_ends[r] - m_begins[r], stream,
                            static_cast<uint32_t>(m_begins[r]), scale);
            return;
        }
        const auto apply = [&](float& value, int64_t position) {
            value *= shared::mask_keeps(stream, static_cast<uint32_t>(position)) ? scale : 0.0F;
        };
        for (int64_t i = first; i < count; ++i)
            apply(s[i], m_keys.positions[i]);
        if (m_own) apply(s[count], visible(r));
    }

    // --- 5. weighted sums of the values: see sum_values() ---
    void add_values(int64_t r, int64_t rows, int64_t begin, int64_t end, Channels c) const {
        if (m_keys.coded == nullptr) {
            m_table.weighted_sum(sum_of(r, rows, begin, end, c));
            return;
        }
        // One chain per channel of plain ones and one of turned ones, cut nowhere.
        coded().each(true, begin, end, c, [&](CodedPart& part) { add_part(r, rows, part, c); });
    }
    void add_part(int64_t r, int64_t rows, CodedPart& part, Channels c) const {
        WeightedSum sum;
        sum.p = scores_of(r, 0) + part.begin;
        sum.p_stride = m_stride;
        sum.rows = rows * m_num_heads;
        if (part.ones != nullptr) {
            float* const weights = CodedReader::numbers(sum.rows * part.n);
            for (int64_t i = 0; i < sum.rows; ++i)
                for (int64_t k = 0; k < part.n; ++k)
                    weights[i * part.n + k] = sum.p[i * m_stride + part.ones[k]];
            sum.p = weights;
            sum.p_stride = part.n;
        }
        sum.end = part.n;
        sum.width = part.width;
        sum.acc_stride = part.turned ? part.width : m_p.head_dim;
        sum.acc = (part.turned ? m_scratch.turned.data() : m_scratch.queries.data() + c.begin) +
                  r * m_num_heads * sum.acc_stride;
        if (m_from_codes && part.places != nullptr &&
            m_keys.coded->weighted_sum(CodedReader::some_of(part, true), sum.p, sum.p_stride, sum.rows,
                                       sum.acc, sum.acc_stride))
            return;
        if (part.places != nullptr) coded().make_rows(part, true);
        sum.v = part.rows;
        sum.v_type = part.type;
        sum.v_stride = part.stride;
        sum.v_index = part.index;
        sum.near = part.made;
        m_table.weighted_sum(sum);
    }
    /// Keys [begin, end) of rows [r, r + rows).
    [[nodiscard]] WeightedSum sum_of(int64_t r, int64_t rows, int64_t begin, int64_t end, Channels c) const {
        WeightedSum sum;
        sum.p = scores_of(r, 0);
        sum.p_stride = m_stride;
        sum.rows = rows * m_num_heads;
        sum.v = element(m_p.v, m_kv * m_p.v.stride(0) + c.begin);
        sum.v_type = element_type(m_p.v);
        sum.v_stride = m_p.v.stride(1);
        sum.v_index = m_keys.columns;
        sum.begin = begin;
        sum.end = end;
        sum.width = c.count;
        sum.acc = m_scratch.queries.data() + r * m_num_heads * m_p.head_dim + c.begin;
        sum.acc_stride = m_p.head_dim;
        return sum;
    }
    [[nodiscard]] WeightedSum own_sum_of(int64_t r, Channels c) const {
        WeightedSum sum = sum_of(r, 1, 0, 1, c);
        sum.p += m_counts[r];
        sum.v = own_element(m_p.own_v, r, c.begin);
        sum.v_type = element_type(m_p.own_v);
        sum.v_index = nullptr;
        return sum;
    }

    [[nodiscard]] WeightedSum tail_sum_of(int64_t r, Channels c) const {
        WeightedSum sum = sum_of(r, 1, m_skipped[r], m_tails[r].size, c);
        sum.p += m_counts[r];
        sum.v_index = m_tails[r].columns;
        return sum;
    }

    [[nodiscard]] float* scores_of(int64_t r, int64_t h) const {
        return m_scratch.scores.data() + (r * m_num_heads + h) * m_stride;
    }
    [[nodiscard]] const void* own_element(const at::Tensor& own, int64_t r, int64_t channel = 0) const {
        return element(own, (m_row + r) * own.stride(0) + m_kv * own.stride(1) + channel);
    }
    [[nodiscard]] int64_t visible(int64_t r) const {
        return m_p.in.num_visible[static_cast<size_t>(m_row + r)];
    }

    const Problem& m_p;
    Scratch& m_scratch;
    int64_t m_row, m_rows, m_kv, m_first, m_num_heads;
    bool m_own;
    Keys m_keys;
    const CpuKernels& m_table = kernels();
    bool m_from_codes = isa() == Isa::avx512; ///< coded entries may be read so: CodedEntries::dots()
    int64_t m_firsts[rows_per_task] = {}, m_counts[rows_per_task] = {};
    Keys m_tails[rows_per_task];
    int64_t m_skipped[rows_per_task] = {}; ///< of the tail: before a sliding window
    int64_t m_begins[rows_per_task] = {}, m_ends[rows_per_task] = {};
    int64_t m_last = 0;                        ///< the largest of m_ends
    int64_t m_lowest = INT64_MAX, m_most = 0;  ///< [lowest, most): read by some row
    int64_t m_latest = 0, m_least = INT64_MAX; ///< [latest, least): read by every row
    int64_t m_stride = 0;                      ///< floats of one row of scores
};

/// Piece i of n nearly equal ones of [begin, end), cut at multiples of `step` from begin.
std::pair<int64_t, int64_t> piece_of(int64_t begin, int64_t end, int64_t i, int64_t n, int64_t step) {
    const int64_t steps = (end - begin + step - 1) / step;
    return {begin + steps * i / n * step, std::min(begin + steps * (i + 1) / n * step, end)};
}

/// Whether all threads shall share each task: there are few, and long ones. Rows with tails are many tasks.
bool is_for_all_threads(const Problem& p, int64_t blocks) {
    if (num_threads() == 1 || p.tails.defined() || blocks * p.kv_heads >= 2 * int64_t{num_threads()})
        return false;
    int64_t keys = std::ranges::max(p.in.num_visible);
    for (const KeyList& list : p.in.lists)
        keys = std::min(keys, list.n);
    return keys * p.kv_heads * p.head_dim >= long_context_elements;
}

/// One task for each block of rows and KV head; every step of all of them by all threads.
void run_in_parts(const Problem& p, int64_t blocks) {
    static thread_local std::vector<Scratch> scratch;
    const int64_t num_tasks = blocks * p.kv_heads;
    scratch.resize(std::max(scratch.size(), static_cast<size_t>(num_tasks)));
    std::vector<Task> tasks;
    tasks.reserve(static_cast<size_t>(num_tasks));
    int64_t most_keys = 0;
    for (int64_t t = 0; t < num_tasks; ++t) {
        const int64_t kv = t / blocks, row = t % blocks * rows_per_task;
        tasks.emplace_back(p, scratch[static_cast<size_t>(t)], row, std::min(row + rows_per_task, p.rows), kv,
                           kv * p.group, p.group);
        tasks.back().prepare();
        most_keys = std::max(most_keys, tasks.back().most() - tasks.back().lowest());
    }
    const auto each = [&](int64_t parts, const auto& body) { // body(task, part)
        parallel_for(num_tasks * parts, 1, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i)
                body(tasks[static_cast<size_t>(i / parts)], i % parts);
        });
    };
    const int64_t wanted = (4 * int64_t{num_threads()} + num_tasks - 1) / num_tasks;
    const int64_t key_parts = std::clamp<int64_t>(most_keys / part_keys, 1, wanted);
    each(key_parts, [&](Task& task, int64_t part) {
        const auto [begin, end] = piece_of(task.lowest(), task.most(), part, key_parts, 16);
        task.score_keys(begin, end);
    });
    const int64_t heads_and_rows = std::min(p.rows, rows_per_task) * p.group;
    each(heads_and_rows, [&](Task& task, int64_t part) {
        if (part < task.rows_and_heads()) task.finish_scores(part);
    });
    const int64_t channel_parts = std::clamp<int64_t>(p.head_dim / part_channels, 1, wanted);
    each(channel_parts, [&](Task& task, int64_t part) {
        if (task.turns_back()) {
            if (part == 0) task.sum_values({0, p.head_dim});
            return;
        }
        const auto [begin, end] = piece_of(0, p.head_dim, part, channel_parts, part_channels);
        task.sum_values({begin, end - begin});
    });
}

/// Memory in steps of 16 KB: rows grow by a column a token, and blocks that are each a little larger than all that were freed make an
/// allocator search. Not libtorch's memory: glibc's posix_memalign() asks for some bytes more than it keeps, so it finds no room where such a block
/// has been, and each step would take new memory.
at::Tensor probabilities_of(std::array<int64_t, 3> shape) {
    constexpr int64_t step = 4096;
    const int64_t n = (shape[0] * shape[1] * shape[2] + step - 1) / step * step;
    void* const numbers = std::malloc(static_cast<size_t>(n) * sizeof(float));
    if (numbers == nullptr) throw std::bad_alloc();
    at::Tensor rows = at::from_blob(
        numbers, {n}, [](void* p) { std::free(p); }, at::TensorOptions().dtype(at::kFloat));
    rows.unsafeGetTensorImpl()->set_sizes_contiguous(
        shape); // two views cost more than the attention of a short context
    return rows;
}

at::Tensor dense_rows(const at::Tensor& t) {
    return !t.defined() || t.stride(2) == 1 ? t : t.contiguous();
}

} // namespace

at::Tensor attention(const AttentionInputs& in, at::Tensor* probabilities) {
    RL_ASSERT(in.q.scalar_type() == at::kFloat);
    const int64_t rows = in.q.size(0);
    const int64_t heads = in.q.size(1);
    const int64_t kv_heads = in.k_cache.size(0);
    RL_ASSERT(in.k_cache.stride(2) == 1 && in.v_cache.stride(2) == 1); // a cache is never copied
    at::Tensor out = in.out.defined() ? in.out : at::empty({rows, heads, in.q.size(2)}, in.q.options());
    Problem p{in,
              rows,
              heads,
              kv_heads,
              heads / kv_heads,
              in.q.size(2),
              in.q.contiguous(),
              in.k_cache,
              in.v_cache,
              dense_rows(in.own_k),
              dense_rows(in.own_v),
              in.tails.defined() ? in.tails.contiguous() : at::Tensor(),
              out.mutable_data_ptr<float>(),
              nullptr,
              0};
    if (rows == 0) {
        if (probabilities != nullptr) *probabilities = at::zeros({0, heads, 0}, in.q.options());
        return out;
    }
    if (probabilities != nullptr) {
        p.probability_columns = in.lists.empty() ? std::ranges::max(in.num_visible) : 0;
        for (const KeyList& list : in.lists)
            p.probability_columns = std::max(p.probability_columns, list.n);
        p.probability_columns += in.own_k.defined() ? 1 : 0;
        for (int64_t r = 0; r < rows && p.tails.defined(); ++r) {
            p.probability_columns =
                std::max(p.probability_columns, in.num_visible[static_cast<size_t>(r)] + tail_of(p, r).size);
        }
        *probabilities = probabilities_of({rows, heads, p.probability_columns});
        p.probabilities = probabilities->mutable_data_ptr<float>();
    }
    const int64_t blocks = (rows + rows_per_task - 1) / rows_per_task;
    if (is_for_all_threads(p, blocks)) {
        run_in_parts(p, blocks);
        return out;
    }
    // Few tasks: one per query head, so that all threads have some. Rows of coded entries are made once for a group.
    const bool coded =
        std::ranges::any_of(in.lists, [](const KeyList& list) { return list.coded != nullptr; });
    const int64_t heads_per_task = blocks * kv_heads < 2 * int64_t{num_threads()} && !coded ? 1 : p.group;
    const int64_t parts = heads / heads_per_task;
    parallel_for(blocks * parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
            // Heads outermost: consecutive tasks read the same keys. Longest rows first would not matter: chunks are
            // handed out as threads come.
            const int64_t first = t / blocks * heads_per_task;
            const int64_t row = t % blocks * rows_per_task;
            static thread_local Scratch scratch;
            Task(p, scratch, row, std::min(row + rows_per_task, rows), first / p.group, first, heads_per_task)
                .run();
        }
    });
    return out;
}

} // namespace refreshlab::kernels::cpu
