#include "kernels/ops/attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

/// Plain ATen on any device, fp32 inside. Keys are gathered by position, entries that no row attends are zeroed (a
/// poisoned cache holds NaN there, and 0 * NaN is NaN), and what a single row may not see is masked before the softmax.
namespace refreshlab::kernels::reference {
namespace {

/// What the KV heads may read, [kv_heads, m] on the CPU: positions, and the columns where they stand. -1 where a list is
/// shorter than another or lies beyond every row's sight.
struct Listed {
    at::Tensor positions, columns;
};
Listed listed_keys(const AttentionInputs& in, int64_t most_visible) {
    const int64_t least = in.first_visible.empty() ? 0 : std::ranges::min(in.first_visible);
    const int64_t kv_heads = in.k_cache.size(0);
    if (in.lists.empty()) {
        const at::Tensor all = at::arange(std::min(least, most_visible), most_visible, at::kLong);
        const at::Tensor rows = all.unsqueeze(0).expand({kv_heads, all.size(0)});
        return {rows, rows};
    }
    int64_t m = 0;
    for (const KeyList& list : in.lists)
        m = std::max(m, list.n);
    const Listed listed{at::full({kv_heads, m}, -1, at::kLong), at::full({kv_heads, m}, -1, at::kLong)};
    auto* position = listed.positions.mutable_data_ptr<int64_t>();
    auto* column = listed.columns.mutable_data_ptr<int64_t>();
    for (const KeyList& list : in.lists) {
        for (int64_t i = 0; i < list.n; ++i) {
            if (list.positions[i] < least || list.positions[i] >= most_visible) continue;
            position[i] = list.positions[i];
            column[i] = list.columns[i];
        }
        position += m;
        column += m;
    }
    return listed;
}

/// [rows, kv_heads]: how many entries of each list stand before what the row does not see any more.
at::Tensor entries_below(const AttentionInputs& in) {
    const auto rows = static_cast<int64_t>(in.num_visible.size()),
               kv_heads = static_cast<int64_t>(in.lists.size());
    at::Tensor counts = at::empty({rows, kv_heads}, at::kLong);
    auto* out = counts.mutable_data_ptr<int64_t>();
    for (const int64_t visible : in.num_visible) {
        for (const KeyList& list : in.lists)
            *out++ = std::lower_bound(list.positions, list.positions + list.n, visible) - list.positions;
    }
    return counts;
}

/// [kv_heads, m, head_dim] fp32, zeros where the column is -1.
at::Tensor gather(const at::Tensor& cache, const at::Tensor& columns) {
    const at::Tensor missing = (columns < 0).unsqueeze(-1);
    const at::Tensor index =
        columns.clamp_min(0).unsqueeze(-1).expand({columns.size(0), columns.size(1), cache.size(2)});
    return cache.gather(1, index).to(at::kFloat).masked_fill(missing, 0.0);
}

/// Factors 0 or 1/(1-p) for [rows, heads, m] probabilities; drawn on the host, so every device has the same masks.
at::Tensor dropout_factors(const AttentionInputs& in, const at::Tensor& positions, const at::Tensor& tails,
                           bool own, int64_t heads) {
    const int64_t rows = static_cast<int64_t>(in.passes.size());
    const int64_t listed = positions.size(1);
    const int64_t m = listed + (own ? 1 : 0) + (tails.defined() ? tails.size(1) : 0);
    const int64_t group = heads / positions.size(0);
    const at::Tensor dense = positions.contiguous();
    const int64_t* const list = dense.const_data_ptr<int64_t>();
    const int64_t* const tail = tails.defined() ? tails.const_data_ptr<int64_t>() : nullptr;
    at::Tensor factors = at::ones({rows, heads, m}, at::kFloat);
    float* const out = factors.mutable_data_ptr<float>();
    const float scale = 1.0F / (1.0F - in.dropout_p);
    for (int64_t r = 0; r < rows; ++r) {
        DropoutKey key = in.dropout_key;
        key.pass = in.passes[static_cast<size_t>(r)];
        if (key.pass == 0) continue;
        for (int64_t h = 0; h < heads; ++h) {
            for (int64_t i = 0; i < m; ++i) {
                const int64_t position = i < listed        ? list[h / group * listed + i]
                                         : tails.defined() ? tail[r * tails.size(1) + i - listed]
                                                           : in.num_visible[static_cast<size_t>(r)];
                if (position < 0) continue;
                const uint64_t element = (static_cast<uint64_t>(h) << 32) | static_cast<uint64_t>(position);
                const bool kept = dropout_keeps(key, DropoutSite::attention, element, in.dropout_p);
                out[(r * heads + h) * m + i] = kept ? scale : 0.0F;
            }
        }
    }
    return factors;
}

/// The tails of the rows, beside what all rows may see.
struct Tails {
    at::Tensor k, v; ///< [kv_heads, rows, m, head_dim] fp32, zeros where there is no key
    at::Tensor
        positions; ///< [rows, m] on the CPU; -1 where there is no key, or it lies before the row's first
    int64_t columns = 0; ///< the largest position + 1
};
Tails tails_of(const AttentionInputs& in) {
    Tails tails;
    if (!in.tails.defined() || in.tails.size(1) == 0) return tails;
    const int64_t rows = in.tails.size(0), m = in.tails.size(1), kv_heads = in.k_cache.size(0);
    const at::Tensor list = in.tails.contiguous();
    tails.positions = at::full({rows, m}, -1, at::kLong);
    const auto* const column = list.const_data_ptr<int64_t>();
    auto* const position = tails.positions.mutable_data_ptr<int64_t>();
    for (int64_t r = 0; r < rows; ++r) {
        const auto at = static_cast<size_t>(r);
        const int64_t first = in.first_visible.empty() ? 0 : in.first_visible[at];
        for (int64_t i = 0; i < m && column[r * m + i] >= 0; ++i) {
            const int64_t place = in.num_visible[at] + i;
            tails.columns = std::max(tails.columns, place + 1);
            if (place >= first) position[r * m + i] = place;
        }
    }
    const at::Device device = in.q.device();
    const at::Tensor index = list.clamp_min(0).view({-1}).to(device);
    const at::Tensor missing = (tails.positions < 0).view({1, rows, m, 1}).to(device);
    const auto of = [&](const at::Tensor& cache) {
        return cache.index_select(1, index)
            .to(at::kFloat)
            .view({kv_heads, rows, m, cache.size(2)})
            .masked_fill(missing, 0.0);
    };
    tails.k = of(in.k_cache);
    tails.v = of(in.v_cache);
    return tails;
}

} // namespace

at::Tensor attention(const AttentionInputs& in, at::Tensor* probabilities) {
    const int64_t rows = in.q.size(0);
    const int64_t heads = in.q.size(1);
    const int64_t head_dim = in.q.size(2);
    const int64_t kv_heads = in.k_cache.size(0);
    const int64_t group = heads / kv_heads;
    const at::Device device = in.q.device();
    const bool own = in.own_k.defined();
    const int64_t most = in.num_visible.empty() ? 0 : std::ranges::max(in.num_visible);
    const Tails tails = tails_of(in);
    const Listed listed_at = listed_keys(in, most);
    const bool by_list = !in.lists.empty();
    const int64_t keys = by_list ? listed_at.positions.size(1) : most;
    const int64_t columns = std::max(keys + (own ? 1 : 0), tails.columns);
    if (rows == 0 || columns == 0) {
        if (probabilities != nullptr)
            *probabilities = at::zeros({rows, heads, columns}, in.q.options().dtype(at::kFloat));
        return at::zeros_like(in.q);
    }
    at::Tensor visible = at::empty({rows}, at::kLong);
    std::ranges::copy(in.num_visible, visible.mutable_data_ptr<int64_t>());
    const at::Tensor& host_positions = listed_at.positions;
    const at::Tensor positions = host_positions.to(device);
    const at::Tensor at_columns = listed_at.columns.to(device);
    const at::Tensor k = gather(in.k_cache, at_columns);
    const at::Tensor v = gather(in.v_cache, at_columns);

    // [kv_heads, rows, group, .]: query heads of one KV head together.
    const at::Tensor q = in.q.to(at::kFloat).reshape({rows, kv_heads, group, head_dim}).permute({1, 0, 2, 3});
    at::Tensor scores = at::matmul(q.reshape({kv_heads, rows * group, head_dim}), k.transpose(1, 2))
                            .view({kv_heads, rows, group, -1});
    const at::Tensor device_visible = visible.to(device);
    at::Tensor hidden =
        (positions.unsqueeze(1) < 0) | (positions.unsqueeze(1) >= device_visible.view({1, rows, 1}));
    if (!in.first_visible.empty()) {
        at::Tensor first = at::empty({rows}, at::kLong);
        std::ranges::copy(in.first_visible, first.mutable_data_ptr<int64_t>());
        hidden = hidden | (positions.unsqueeze(1) < first.to(device).view({1, rows, 1}));
    }
    scores = scores.masked_fill(hidden.unsqueeze(2), -std::numeric_limits<double>::infinity());
    if (own) {
        const at::Tensor own_k =
            in.own_k.to(at::kFloat).permute({1, 0, 2}).unsqueeze(2); // [kv_heads, rows, 1, head_dim]
        scores = at::cat({scores, (q * own_k).sum(-1, /*keepdim=*/true)}, -1);
    }
    at::Tensor nothing = hidden.all(-1, /*keepdim=*/true); // [kv_heads, rows, 1]
    if (tails.k.defined()) {
        const at::Tensor absent = (tails.positions < 0).to(device);
        at::Tensor more = at::matmul(q, tails.k.transpose(2, 3)); // [kv_heads, rows, group, m]
        more = more.masked_fill(absent.view({1, rows, 1, -1}), -std::numeric_limits<double>::infinity());
        scores = at::cat({scores, more}, -1);
        nothing = nothing & absent.all(-1, /*keepdim=*/true).unsqueeze(0);
    }
    scores = scores * in.scale;
    if (in.soft_cap > 0) // what is hidden stays so
        scores = at::where(scores.isinf(), scores, at::tanh(scores / in.soft_cap) * in.soft_cap);
    at::Tensor p = at::softmax(scores, -1);
    if (!own) p = p.masked_fill(nothing.unsqueeze(2), 0.0); // a row that sees nothing
    // [rows, heads, listed (+1)]
    p = p.permute({1, 0, 2, 3}).reshape({rows, heads, -1});

    const int64_t listed = positions.size(1);
    if (probabilities != nullptr) {
        // Entry i of a list stands at i, a column at its position. One spare place takes what is not there.
        const at::Tensor places = by_list ? at::where(positions < 0, positions,
                                                      at::arange(listed, positions.options()).unsqueeze(0))
                                          : positions;
        const at::Tensor head_places =
            places.repeat_interleave(group, 0).unsqueeze(0).expand({rows, heads, listed});
        at::Tensor full = at::zeros({rows, heads, columns + 1}, p.options());
        full.scatter_add_(2, at::where(head_places < 0, columns, head_places), p.narrow(2, 0, listed));
        if (own) { // after what the row sees before it
            at::Tensor before = device_visible.view({rows, 1, 1}).expand({rows, heads, 1});
            if (by_list) before = entries_below(in).to(device).repeat_interleave(group, 1).unsqueeze(-1);
            full.scatter_(2, before, p.narrow(2, listed, 1));
        }
        if (tails.k.defined()) {
            const at::Tensor at_position = tails.positions.to(device).unsqueeze(1).expand({rows, heads, -1});
            full.scatter_add_(2, at::where(at_position < 0, columns, at_position),
                              p.narrow(2, listed, at_position.size(2)));
        }
        *probabilities = full.narrow(2, 0, columns).contiguous();
    }
    if (in.dropout_p > 0.0F && !in.passes.empty()) {
        p = p * dropout_factors(in, host_positions, tails.positions, own, heads).to(device);
    }
    const at::Tensor grouped = p.view({rows, kv_heads, group, -1}).permute({1, 0, 2, 3});
    at::Tensor out = at::matmul(grouped.narrow(3, 0, listed).reshape({kv_heads, rows * group, listed}), v)
                         .view({kv_heads, rows, group, head_dim});
    if (own) {
        const at::Tensor own_v = in.own_v.to(at::kFloat).permute({1, 0, 2}).unsqueeze(2);
        out = out + grouped.narrow(3, listed, 1) * own_v;
    }
    if (tails.k.defined()) out = out + at::matmul(grouped.narrow(3, listed, tails.v.size(2)), tails.v);
    return out.permute({1, 0, 2, 3}).reshape({rows, heads, head_dim}).to(in.q.scalar_type());
}

} // namespace refreshlab::kernels::reference
