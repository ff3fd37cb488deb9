#include "kernels/ops/attention.h"

#include "kernels/cpu/attention_cpu.h"
#include "kernels/execution/isa.h"
#include "kernels/ops/probabilities.h"
#include "kernels/shared/attention_bins.h"
#include "kernels/shared/check.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace refreshlab::kernels {
namespace {

int64_t columns_of_first_row(const AttentionInputs& in) {
    return in.num_visible[0] + (in.own_k.defined() ? 1 : 0);
}

void check(const AttentionInputs& in) {
    RL_ASSERT(in.q.dim() == 3 && in.k_cache.dim() == 3 && in.v_cache.sizes() == in.k_cache.sizes());
    const int64_t rows = in.q.size(0);
    const int64_t kv_heads = in.k_cache.size(0);
    RL_ASSERT(kv_heads > 0 && in.q.size(1) % kv_heads == 0 && in.q.size(2) == in.k_cache.size(2));
    RL_ASSERT(static_cast<int64_t>(in.num_visible.size()) == rows);
    for (const int64_t n : in.num_visible)
        RL_ASSERT(n >= 0 && (!in.lists.empty() || n <= in.k_cache.size(1)));
    RL_ASSERT(in.first_visible.empty() || static_cast<int64_t>(in.first_visible.size()) == rows);
    for (const int64_t n : in.first_visible)
        RL_ASSERT(n >= 0);
    RL_ASSERT(in.own_k.defined() == in.own_v.defined());
    if (in.own_k.defined()) {
        const at::IntArrayRef own = in.own_k.sizes();
        RL_ASSERT(own.size() == 3 && own[0] == rows && own[1] == kv_heads && own[2] == in.q.size(2));
        RL_ASSERT(in.own_v.sizes() == own);
    }
    RL_ASSERT(in.lists.empty() || static_cast<int64_t>(in.lists.size()) == kv_heads);
    for (const KeyList& list : in.lists) {
        RL_ASSERT(list.n >= 0 && (list.n == 0 || (list.positions != nullptr && list.columns != nullptr)));
        RL_DEBUG_ASSERT(std::is_sorted(list.positions, list.positions + list.n));
    }
    if (in.tails.defined()) {
        RL_ASSERT(!in.own_k.defined() && in.lists.empty());
        RL_ASSERT(in.tails.dim() == 2 && in.tails.size(0) == rows);
        RL_ASSERT(in.tails.is_cpu() && in.tails.scalar_type() == at::kLong);
    }
    if (!in.halves.empty()) {
        RL_ASSERT(rows > 0 && in.lists.empty() && !in.tails.defined());
        RL_ASSERT(in.bin > 0 && static_cast<int64_t>(in.halves.size()) ==
                                    in.q.size(1) * shared::num_bins(columns_of_first_row(in), in.bin));
    }
    RL_ASSERT(in.passes.empty() || static_cast<int64_t>(in.passes.size()) == rows);
    RL_ASSERT(in.dropout_p >= 0.0F && in.dropout_p < 1.0F);
    RL_ASSERT(!in.out.defined() || (in.out.sizes() == in.q.sizes() && in.out.is_contiguous() &&
                                    in.out.scalar_type() == in.q.scalar_type()));
}

bool is_coded(const AttentionInputs& in) {
    return std::ranges::any_of(in.lists, [](const KeyList& list) { return list.coded != nullptr; });
}

/// A call whose coded entries stand in a cache of their own.
struct PlainCall {
    AttentionInputs in;
    std::vector<KeyList> lists;
    std::vector<std::vector<int64_t>> columns;
    explicit PlainCall(const AttentionInputs& coded)
        : in(coded) {
        const int64_t kv_heads = std::ssize(coded.lists), d = coded.q.size(2);
        int64_t longest = 0;
        for (const KeyList& list : coded.lists)
            longest = std::max(longest, list.n);
        at::Tensor halves[2];
        for (const bool values : {false, true}) {
            at::Tensor& half = halves[values ? 1 : 0];
            half = at::zeros({kv_heads, longest, d}, at::kFloat);
            for (int64_t head = 0; head < kv_heads; ++head) {
                const KeyList& list = coded.lists[static_cast<size_t>(head)];
                RL_ASSERT(list.coded != nullptr);
                list.coded->read(values, list.columns, list.n, 0, d,
                                 half.mutable_data_ptr<float>() + head * longest * d);
            }
            half = half.to(coded.k_cache.options());
        }
        for (const KeyList& list : coded.lists) {
            auto& own = columns.emplace_back(static_cast<size_t>(list.n));
            std::iota(own.begin(), own.end(), 0);
            lists.push_back({list.positions, own.data(), list.n});
        }
        in.k_cache = halves[0];
        in.v_cache = halves[1];
        in.lists = lists;
    }
};

} // namespace

int64_t CodedEntries::turned_width(bool) const {
    return 0;
}
CodedEntries::Stretch CodedEntries::stretch(bool, const int64_t*, int64_t n, int64_t most_made) const {
    return {std::min(n, most_made), false, nullptr, 0};
}
void CodedEntries::sort(bool, const int64_t*, int64_t n, Sorted& to) const {
    to.stored = nullptr;
    to.turned.n = 0;
    to.plain.n = n;
    std::iota(to.plain.ones, to.plain.ones + n, 0);
}
void CodedEntries::read_turned(bool, const int64_t*, int64_t, float*) const {
    RL_ASSERT(false); // no entry is read turned
}
bool CodedEntries::dots(const Some&, const float*, int64_t, int64_t, float*, int64_t) const {
    return false;
}
bool CodedEntries::weighted_sum(const Some&, const float*, int64_t, int64_t, float*, int64_t) const {
    return false;
}
void CodedEntries::turn(const float*, float*) const {
    RL_ASSERT(false);
}
void CodedEntries::turn_back(const float*, float*) const {
    RL_ASSERT(false);
}

at::Tensor attention(const AttentionInputs& in, at::Tensor* probabilities) {
    check(in);
    if (in.q.is_cpu() && isa() != Isa::reference) return cpu::attention(in, probabilities);
    if (is_coded(in)) {
        const PlainCall plain(in);
        return attention(plain.in, probabilities);
    }
    at::Tensor made;
    if (probabilities == nullptr && !in.halves.empty()) probabilities = &made;
    const at::Tensor out = reference::attention(in, probabilities);
    if (!in.halves.empty()) {
        const at::Tensor row = (*probabilities)[0].narrow(1, 0, columns_of_first_row(in)).cpu().contiguous();
        rows_to_half({row.const_data_ptr<float>(), static_cast<size_t>(row.numel())}, row.size(0), in.bin,
                     in.halves);
    }
    return in.out.defined() ? in.out.copy_(out) : out;
}

} // namespace refreshlab::kernels
