#include "kernels/cpu/attention_cpu.h"

#include "kernels/cpu/cpu_tensors.h"
#include "kernels/cpu/mask_stream.h"
#include "kernels/execution/thread_pool.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

/// Story: a task is a block of query rows times some query heads of one KV head, so that a key is loaded once for all of
/// them; scores are the dot products of kernels/ops/dense.h with keys as weights, and the weighted sum runs over positions
/// ascending, one chain per (row, head, channel). What a row attends to is a list of positions, in which its own column
/// (MC rows) is the last and from whose first entry (a sliding window) the lanes of its sums count: nothing depends on the
/// other rows of a task, so blocks of any size give the same bits. A
/// decode step has few tasks; then the query heads of a KV head are split over tasks as well (the keys come from the
/// cache the second time). Probabilities of one task stay in the second cache up to ~8k positions.
namespace refreshlab::kernels::cpu {
namespace {

constexpr int64_t rows_per_task = 8;

struct Problem {
    const AttentionInputs& in;
    int64_t rows, heads, kv_heads, group, head_dim;
    at::Tensor q, k, v, own_k, own_v, attended;
    float* out;
    float* probabilities; ///< null: not wanted
    int64_t probability_columns;
};

/// Positions that KV head `kv` may read, ascending: null means 0, 1, 2, ...
struct Keys {
    const int64_t* list = nullptr;
    int64_t size = 0;

    /// How many of them are below n.
    [[nodiscard]] int64_t count_below(int64_t n) const {
        return list == nullptr ? n : std::lower_bound(list, list + size, n) - list;
    }
};

Keys keys_of(const Problem& p, int64_t kv) {
    if (!p.attended.defined()) return {};
    const int64_t width = p.attended.size(1);
    const int64_t* const list = p.attended.const_data_ptr<int64_t>() + kv * width;
    return {list, std::find(list, list + width, int64_t{-1}) - list};
}

/// Sets s[i], first <= i < count (and i = count with an own column), to 0 or s[i] / (1 - p), by the key positions of row r.
void drop(const Problem& p, int64_t row, int64_t head, const Keys& keys, int64_t first, int64_t count,
          bool own, float* s) {
    DropoutKey key = p.in.dropout_key;
    key.pass = p.in.passes[static_cast<size_t>(row)];
    if (key.pass == 0) return;
    const shared::MaskStream stream =
        mask_stream(key, DropoutSite::attention, static_cast<uint32_t>(head), p.in.dropout_p);
    const float scale = 1.0F / (1.0F - p.in.dropout_p);
    const int64_t visible = p.in.num_visible[static_cast<size_t>(row)];
    if (keys.list == nullptr) {
        kernels().dropout(s + first, count - first + (own ? 1 : 0), stream, static_cast<uint32_t>(first),
                          scale); // the own column is at position `visible`
        return;
    }
    const auto apply = [&](float& value, int64_t position) {
        value *= shared::mask_keeps(stream, static_cast<uint32_t>(position)) ? scale : 0.0F;
    };
    for (int64_t i = first; i < count; ++i)
        apply(s[i], keys.list[i]);
    if (own) apply(s[count], visible);
}

/// Query rows [row, row_end), query heads [first, first + num_heads) of KV head kv.
void run_task(const Problem& p, int64_t row, int64_t row_end, int64_t kv, int64_t first, int64_t num_heads) {
    thread_local std::vector<float> queries, scores;
    const CpuKernels& table = kernels();
    const int64_t d = p.head_dim;
    const int64_t rows = row_end - row;
    const bool own = p.own_k.defined();
    const Keys keys = keys_of(p, kv);

    // Row r reads the keys [firsts[r], counts[r]) of the list.
    int64_t firsts[rows_per_task];
    int64_t counts[rows_per_task];
    int64_t lowest = INT64_MAX; // of any row
    int64_t most = 0;
    int64_t latest = 0; // [latest, least): read by every row
    int64_t least = INT64_MAX;
    for (int64_t r = 0; r < rows; ++r) {
        const auto at = static_cast<size_t>(row + r);
        counts[r] = keys.count_below(p.in.num_visible[at]);
        firsts[r] =
            p.in.first_visible.empty() ? 0 : std::min(keys.count_below(p.in.first_visible[at]), counts[r]);
        lowest = std::min(lowest, firsts[r]);
        latest = std::max(latest, firsts[r]);
        most = std::max(most, counts[r]);
        least = std::min(least, counts[r]);
    }
    const int64_t stride =
        (most + 1 + 31) / 16 * 16; // a softmax that starts anywhere writes up to 15 beyond its end
    queries.resize(static_cast<size_t>(rows * num_heads * d));
    scores.resize(static_cast<size_t>(rows * num_heads * stride));
    const float* const q = p.q.const_data_ptr<float>();
    for (int64_t r = 0; r < rows; ++r) {
        std::copy_n(q + ((row + r) * p.heads + first) * d, num_heads * d, queries.data() + r * num_heads * d);
    }

    Dots dots;
    dots.x = queries.data();
    dots.x_stride = d;
    dots.rows = rows * num_heads;
    // Without a list output o is column lowest + o, with one it is column list[lowest + o].
    dots.w = element(p.k, kv * p.k.stride(0) + (keys.list == nullptr ? lowest * p.k.stride(1) : 0));
    dots.w_type = element_type(p.k);
    dots.w_stride = p.k.stride(1);
    dots.w_index = keys.list == nullptr ? nullptr : keys.list + lowest;
    dots.outs = most - lowest;
    dots.in = d;
    dots.y = scores.data() + lowest;
    dots.y_stride = stride;
    table.dots(dots);

    for (int64_t r = 0; r < rows; ++r) {
        const int64_t first_key = firsts[r];
        const int64_t count = counts[r];
        float* const row_scores = scores.data() + r * num_heads * stride;
        if (own) {
            Dots one = dots;
            one.x += r * num_heads * d;
            one.rows = num_heads;
            one.w = element(p.own_k, (row + r) * p.own_k.stride(0) + kv * p.own_k.stride(1));
            one.w_type = element_type(p.own_k);
            one.w_index = nullptr;
            one.outs = 1;
            one.y = row_scores + count;
            table.dots(one);
        }
        const int64_t n = count - first_key + (own ? 1 : 0);
        for (int64_t h = 0; h < num_heads; ++h) {
            float* const s = row_scores + h * stride;
            table.softmax(s + first_key, n, static_cast<float>(p.in.scale));
            if (p.probabilities != nullptr) {
                float* const to = p.probabilities + ((row + r) * p.heads + first + h) * p.probability_columns;
                for (int64_t i = first_key; i < count; ++i)
                    to[keys.list != nullptr ? keys.list[i] : i] = s[i];
                if (own) to[p.in.num_visible[static_cast<size_t>(row + r)]] = s[count];
            }
            if (p.in.dropout_p > 0.0F && !p.in.passes.empty())
                drop(p, row + r, first + h, keys, first_key, count, own, s);
        }
    }

    // Each row's keys in ascending order: first what not all rows of the task see, then what all of them see, all rows at
    // once, then the rest of each row.
    const bool shared_keys = latest < least;
    const int64_t shared_begin = shared_keys ? latest : 0;
    const int64_t shared_end = shared_keys ? least : 0;
    WeightedSum sum;
    sum.p = scores.data();
    sum.p_stride = stride;
    sum.v = element(p.v, kv * p.v.stride(0));
    sum.v_type = element_type(p.v);
    sum.v_stride = p.v.stride(1);
    sum.v_index = keys.list;
    sum.width = d;
    std::fill(queries.begin(), queries.end(), 0.0F); // their space now takes the results
    sum.acc = queries.data();
    sum.acc_stride = d;
    sum.rows = rows * num_heads;
    const auto of_row = [&](int64_t r, int64_t begin, int64_t end) {
        WeightedSum part = sum;
        part.p += r * num_heads * stride;
        part.acc += r * num_heads * d;
        part.rows = num_heads;
        part.begin = begin;
        part.end = end;
        return part;
    };
    for (int64_t r = 0; r < rows && shared_keys; ++r) {
        if (firsts[r] < shared_begin) table.weighted_sum(of_row(r, firsts[r], shared_begin));
    }
    sum.begin = shared_begin;
    sum.end = shared_end;
    if (shared_keys) table.weighted_sum(sum);
    for (int64_t r = 0; r < rows; ++r) {
        WeightedSum rest = of_row(r, shared_keys ? shared_end : firsts[r], counts[r]);
        table.weighted_sum(rest);
        if (own) {
            rest.p += counts[r];
            rest.v = element(p.own_v, (row + r) * p.own_v.stride(0) + kv * p.own_v.stride(1));
            rest.v_type = element_type(p.own_v);
            rest.v_index = nullptr;
            rest.begin = 0;
            rest.end = 1;
            table.weighted_sum(rest);
        }
        std::copy_n(queries.data() + r * num_heads * d, num_heads * d,
                    p.out + ((row + r) * p.heads + first) * d);
    }
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
    at::Tensor out = at::empty({rows, heads, in.q.size(2)}, in.q.options());
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
              in.attended.defined() ? in.attended.contiguous() : at::Tensor(),
              out.mutable_data_ptr<float>(),
              nullptr,
              0};
    if (rows == 0) {
        if (probabilities != nullptr) *probabilities = at::zeros({0, heads, 0}, in.q.options());
        return out;
    }
    if (probabilities != nullptr) {
        p.probability_columns = std::ranges::max(in.num_visible) + (in.own_k.defined() ? 1 : 0);
        *probabilities = at::zeros({rows, heads, p.probability_columns}, in.q.options());
        p.probabilities = probabilities->mutable_data_ptr<float>();
    }
    const int64_t blocks = (rows + rows_per_task - 1) / rows_per_task;
    // Few tasks: one per query head, so that all threads have some.
    const int64_t heads_per_task = blocks * kv_heads < 2 * int64_t{num_threads()} ? 1 : p.group;
    const int64_t parts = heads / heads_per_task;
    parallel_for(blocks * parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
            // Heads outermost: consecutive tasks read the same keys. Longest rows first would not matter: chunks are
            // handed out as threads come.
            const int64_t first = t / blocks * heads_per_task;
            const int64_t row = t % blocks * rows_per_task;
            run_task(p, row, std::min(row + rows_per_task, rows), first / p.group, first, heads_per_task);
        }
    });
    return out;
}

} // namespace refreshlab::kernels::cpu
