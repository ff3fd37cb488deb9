#include "kernels/ops/attention.h"
#include "tests/kernels/kernel_fixture.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace refreshlab {
namespace {

using kernels::AttentionInputs;
using kernels::Isa;
using test::Random;
using test::relative_error;
using test::same_bits;
using test::Setting;

/// Rows that share the first columns of a cache, each with a tail somewhere else in it; and the same rows one by one, over a
/// cache of their own in which the tail stands after the shared columns.
struct Tailed {
    AttentionInputs in;
    std::vector<int64_t> visible, first;
    std::vector<int32_t> passes;
    struct Alone {
        at::Tensor k, v;
        int64_t length = 0;
    };
    std::vector<Alone> alone;

    Tailed(Random& random, bool window, bool dropout) {
        const int64_t rows = random.pick<int64_t>({1, 2, 7, 9, 20}), kv_heads = random.between(1, 3);
        const int64_t heads = kv_heads * random.between(1, 4), prefix = random.between(1, 60);
        const int64_t head_dim = random.pick<int64_t>({2, 16, 20, 64, 66});
        const at::ScalarType type = random.pick<at::ScalarType>({at::kFloat, at::kBFloat16, at::kHalf});
        const int64_t most = random.between(0, 40), capacity = prefix + rows * most + 5;
        in.q = random.normal({rows, heads, head_dim});
        in.k_cache = random.normal({kv_heads, capacity, head_dim}, 1.0, type);
        in.v_cache = random.normal({kv_heads, capacity, head_dim}, 1.0, type);
        in.scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
        in.tails = at::full({rows, most}, -1, at::kLong);
        std::vector<int64_t> free(static_cast<size_t>(capacity - prefix));
        std::iota(free.begin(), free.end(), prefix);
        std::ranges::shuffle(free, std::mt19937(static_cast<uint32_t>(random.between(0, 1 << 30))));
        for (int64_t r = 0; r < rows; ++r) {
            visible.push_back(random.between(0, prefix));
            const int64_t tail = random.between(visible.back() == 0 && most > 0 ? 1 : 0, most);
            std::vector<int64_t> columns(static_cast<size_t>(visible.back()));
            std::iota(columns.begin(), columns.end(), 0);
            for (int64_t i = 0; i < tail; ++i) {
                in.tails[r][i] = free.back();
                columns.push_back(free.back());
                free.pop_back();
            }
            const at::Tensor index = at::empty({static_cast<int64_t>(columns.size())}, at::kLong);
            std::ranges::copy(columns, index.mutable_data_ptr<int64_t>());
            alone.push_back({in.k_cache.index_select(1, index), in.v_cache.index_select(1, index),
                             static_cast<int64_t>(columns.size())});
            if (window) first.push_back(random.between(0, std::max<int64_t>(alone.back().length - 1, 0)));
            if (dropout) passes.push_back(static_cast<int32_t>(r));
        }
        for (const int64_t unused : free) { // nobody may read these
            in.k_cache.select(1, unused).fill_(test::nan);
            in.v_cache.select(1, unused).fill_(test::nan);
        }
        in.num_visible = visible;
        in.first_visible = first;
        in.passes = passes;
        in.dropout_key = {77, 5, 1, 0};
        if (dropout) in.dropout_p = 0.3F;
    }
    Tailed(const Tailed&) = delete;
    Tailed& operator=(const Tailed&) = delete;

    [[nodiscard]] at::Tensor row_alone(int64_t r, at::Tensor* probabilities) const {
        const auto at_row = static_cast<size_t>(r);
        AttentionInputs one = in;
        one.tails = at::Tensor();
        one.q = in.q.narrow(0, r, 1);
        one.k_cache = alone[at_row].k;
        one.v_cache = alone[at_row].v;
        one.num_visible = std::span(&alone[at_row].length, 1);
        if (!first.empty()) one.first_visible = std::span(&first[at_row], 1);
        if (!passes.empty()) one.passes = std::span(&passes[at_row], 1);
        return kernels::attention(one, probabilities);
    }
};

TEST_CASE("a row with a tail has the bits of a row whose tail stands after the visible columns",
          "[kernels][attention]") {
    Random random(0x7A11);
    for (int round = 0; round < 60; ++round) {
        const Tailed problem(random, round % 3 == 1, round % 4 == 2);
        for (const Isa isa : test::own_isas()) {
            const Setting setting(isa, round % 2 == 0 ? 1 : 3);
            at::Tensor seen;
            const at::Tensor together = kernels::attention(problem.in, &seen);
            for (int64_t r = 0; r < problem.in.q.size(0); ++r) {
                at::Tensor seen_alone;
                const at::Tensor alone = problem.row_alone(r, &seen_alone);
                REQUIRE(same_bits(together.narrow(0, r, 1), alone));
                REQUIRE(same_bits(seen.narrow(0, r, 1).narrow(2, 0, seen_alone.size(2)), seen_alone));
            }
        }
    }
}

TEST_CASE("the plain attention knows tails as well", "[kernels][attention]") {
    Random random(0x7A12);
    for (int round = 0; round < 40; ++round) {
        const Tailed problem(random, round % 3 == 1, round % 4 == 2);
        at::Tensor seen, seen_plain;
        const at::Tensor own = kernels::attention(problem.in, &seen);
        const at::Tensor plain = kernels::reference::attention(problem.in, &seen_plain);
        REQUIRE(relative_error(own, plain) < 1e-5);
        REQUIRE(relative_error(seen, seen_plain) < 1e-5);
    }
}

} // namespace
} // namespace refreshlab
