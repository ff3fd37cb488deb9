#include "kernels/ops/attention.h"
#include "kernels/shared/check.h"
#include "tests/kernels/kernel_fixture.h"

#include <algorithm>
#include <numeric>

namespace refreshlab {
namespace {

using kernels::AttentionInputs;
using kernels::DropoutKey;
using kernels::DropoutSite;
using kernels::Isa;
using test::Random;
using test::relative_error;
using test::same_bits;
using test::Setting;

const std::vector<at::ScalarType> cache_types{at::kFloat, at::kBFloat16, at::kHalf};

/// A random attention problem over a poisoned cache, with the storage that AttentionInputs points to.
struct Problem {
    AttentionInputs in;
    std::vector<int64_t> num_visible;
    std::vector<int64_t> first_visible;
    std::vector<int32_t> passes;
    std::vector<std::vector<int64_t>> positions, columns; ///< of each KV head; empty: no lists
    std::vector<kernels::KeyList> lists;

    Problem() = default;
    Problem(const Problem&) = delete; // `in` points into the vectors
    Problem& operator=(const Problem&) = delete;

    void connect() {
        in.num_visible = num_visible;
        in.first_visible = first_visible;
        in.passes = passes;
        lists.clear();
        for (size_t h = 0; h < positions.size(); ++h)
            lists.push_back({positions[h].data(), columns[h].data(), std::ssize(positions[h])});
        in.lists = lists;
    }

    /// The same with only the rows [first, first + n).
    void keep_rows(int64_t first, int64_t n) {
        in.q = in.q.narrow(0, first, n);
        if (in.own_k.defined()) {
            in.own_k = in.own_k.narrow(0, first, n);
            in.own_v = in.own_v.narrow(0, first, n);
        }
        num_visible = {num_visible.begin() + first, num_visible.begin() + first + n};
        if (!first_visible.empty())
            first_visible = {first_visible.begin() + first, first_visible.begin() + first + n};
        if (!passes.empty()) passes = {passes.begin() + first, passes.begin() + first + n};
        connect();
    }
};

struct Wanted {
    bool listed = false, own = false, dropout = false;
    int64_t rows = 0; ///< 0: random
    bool window = false;
};

void fill(Problem& p, Random& random, const Wanted& wanted) {
    const int64_t rows = wanted.rows > 0 ? wanted.rows : random.pick<int64_t>({1, 2, 3, 9, 20});
    const int64_t kv_heads = random.between(1, 4);
    const int64_t heads = kv_heads * random.between(1, 4);
    const int64_t head_dim = random.pick<int64_t>({2, 16, 20, 64, 66, 128});
    const int64_t length = random.between(rows, rows + 150);
    const int64_t capacity = length + random.between(0, 30);
    const at::ScalarType type = random.pick(cache_types);
    p.in.q = random.normal({rows, heads, head_dim});
    p.in.k_cache = random.normal({kv_heads, capacity, head_dim}, 1.0, type);
    p.in.v_cache = random.normal({kv_heads, capacity, head_dim}, 1.0, type);
    p.in.k_cache.narrow(1, length, capacity - length).fill_(test::nan);
    p.in.v_cache.narrow(1, length, capacity - length).fill_(test::nan);
    p.in.scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
    p.in.soft_cap = random.pick<double>({0, 0, 1.5});
    for (int64_t r = 0; r < rows; ++r)
        p.num_visible.push_back(wanted.own ? length : length - rows + r + 1);
    if (wanted.own) {
        p.in.own_k = random.normal({rows, kv_heads, head_dim});
        p.in.own_v = random.normal({rows, kv_heads, head_dim});
    }
    if (wanted.listed) {
        // Lists of different lengths over columns in any order; every other column is free, that is, poisoned.
        const int64_t width = random.between(1, length);
        for (int64_t h = 0; h < kv_heads; ++h) {
            std::vector<int64_t> all(static_cast<size_t>(length)), some, places;
            std::iota(all.begin(), all.end(), 0);
            std::mt19937 engine(static_cast<uint32_t>(random.between(0, 1 << 30)));
            std::ranges::sample(all, std::back_inserter(some), random.between(1, width), engine);
            std::ranges::sample(all, std::back_inserter(places), std::ssize(some), engine);
            std::ranges::shuffle(places, engine);
            const at::Tensor k = p.in.k_cache[h].clone();
            const at::Tensor v = p.in.v_cache[h].clone();
            p.in.k_cache[h].fill_(test::nan);
            p.in.v_cache[h].fill_(test::nan);
            for (size_t i = 0; i < some.size(); ++i) {
                p.in.k_cache[h][places[i]].copy_(k[some[i]]);
                p.in.v_cache[h][places[i]].copy_(v[some[i]]);
            }
            p.positions.push_back(some);
            p.columns.push_back(places);
        }
    }
    if (wanted.window) {
        // (p - window, p] of the row's own position; what no row can see is poisoned.
        const int64_t window = random.pick<int64_t>({1, 2, 7, 16, 33, random.between(1, length + 5)});
        for (const int64_t visible : p.num_visible)
            p.first_visible.push_back(std::max<int64_t>(visible - window + (wanted.own ? 1 : 0), 0));
        const int64_t lowest = wanted.listed ? 0 : std::ranges::min(p.first_visible);
        p.in.k_cache.narrow(1, 0, std::min(lowest, capacity)).fill_(test::nan);
        p.in.v_cache.narrow(1, 0, std::min(lowest, capacity)).fill_(test::nan);
    }
    if (wanted.dropout) {
        for (int64_t r = 0; r < rows; ++r)
            p.passes.push_back(static_cast<int32_t>(r));
        p.in.dropout_key = {static_cast<uint64_t>(random.between(0, int64_t{1} << 62)), length, 3, 0};
        p.in.dropout_p = static_cast<float>(random.uniform(0.05, 0.6));
    }
    p.connect();
}

/// float64, one query at a time, straight from the definition.
void by_hand(const AttentionInputs& in, at::Tensor& out, at::Tensor& probabilities) {
    const int64_t rows = in.q.size(0);
    const int64_t heads = in.q.size(1);
    const int64_t group = heads / in.k_cache.size(0);
    const bool own = in.own_k.defined();
    out = at::zeros(in.q.sizes(), at::kDouble);
    int64_t longest = in.lists.empty() ? std::ranges::max(in.num_visible) : 0;
    for (const kernels::KeyList& list : in.lists)
        longest = std::max(longest, list.n);
    probabilities = at::zeros({rows, heads, longest + (own ? 1 : 0)}, at::kDouble);
    for (int64_t r = 0; r < rows; ++r) {
        const int64_t visible = in.num_visible[static_cast<size_t>(r)];
        const int64_t lowest = in.first_visible.empty() ? 0 : in.first_visible[static_cast<size_t>(r)];
        for (int64_t h = 0; h < heads; ++h) {
            std::vector<int64_t> positions, columns,
                places; // of what the row reads; place: in `probabilities`
            int64_t before = 0;
            const auto* list = in.lists.empty() ? nullptr : &in.lists[static_cast<size_t>(h / group)];
            for (int64_t i = 0; i < (list != nullptr ? list->n : visible); ++i) {
                const int64_t position = list != nullptr ? list->positions[i] : i;
                if (position >= visible) continue;
                ++before;
                if (position < lowest) continue;
                positions.push_back(position);
                columns.push_back(list != nullptr ? list->columns[i] : i);
                places.push_back(i);
            }
            const at::Tensor index = at::tensor(columns, at::kLong);
            at::Tensor keys = in.k_cache[h / group].index_select(0, index).to(at::kDouble);
            at::Tensor values = in.v_cache[h / group].index_select(0, index).to(at::kDouble);
            if (own) {
                positions.push_back(visible);
                places.push_back(before);
                keys = at::cat({keys, in.own_k[r][h / group].unsqueeze(0).to(at::kDouble)});
                values = at::cat({values, in.own_v[r][h / group].unsqueeze(0).to(at::kDouble)});
            }
            if (positions.empty()) continue;
            at::Tensor scores = at::mv(keys, in.q[r][h].to(at::kDouble)) * in.scale;
            if (in.soft_cap > 0) scores = at::tanh(scores / in.soft_cap) * in.soft_cap;
            const at::Tensor p = at::softmax(scores, 0);
            at::Tensor dropped = p.clone();
            for (size_t i = 0; i < positions.size(); ++i) {
                const int64_t at_i = static_cast<int64_t>(i);
                probabilities[r][h][places[i]] = p[at_i];
                if (in.dropout_p == 0.0F || in.passes.empty() || in.passes[static_cast<size_t>(r)] == 0)
                    continue;
                DropoutKey key = in.dropout_key;
                key.pass = in.passes[static_cast<size_t>(r)];
                const uint64_t element =
                    (static_cast<uint64_t>(h) << 32) | static_cast<uint64_t>(positions[i]);
                const bool kept = dropout_keeps(key, DropoutSite::attention, element, in.dropout_p);
                dropped[at_i] *= kept ? 1.0 / (1.0 - static_cast<double>(in.dropout_p)) : 0.0;
            }
            out[r][h] = at::mv(values.t(), dropped);
        }
    }
}

TEST_CASE("attention follows its definition in every combination of inputs", "[kernels][attention]") {
    Random random(11);
    for (int round = 0; round < 48; ++round) {
        const Wanted wanted{(round & 1) != 0, (round & 2) != 0, (round & 4) != 0, 0, (round & 8) != 0};
        Problem p;
        fill(p, random, wanted);
        at::Tensor expected, expected_probabilities;
        by_hand(p.in, expected, expected_probabilities);
        for (const Isa isa : kernels::available_isas()) {
            const Setting setting(isa);
            CAPTURE(round, std::string(to_string(isa)), p.in.q.sizes(), p.in.k_cache.sizes());
            at::Tensor probabilities;
            const at::Tensor out = kernels::attention(p.in, &probabilities);
            REQUIRE(out.scalar_type() == at::kFloat);
            REQUIRE(relative_error(out, expected) < 1e-5);
            REQUIRE(probabilities.sizes() == expected_probabilities.sizes());
            REQUIRE((probabilities.to(at::kDouble) - expected_probabilities).abs().max().item<double>() <
                    1e-5);
            REQUIRE(same_bits(kernels::attention(p.in), out)); // asking for probabilities changes nothing
        }
    }
}

TEST_CASE("an attention row has the same bits alone and in any company", "[kernels][attention]") {
    Random random(12);
    for (int round = 0; round < 48; ++round) {
        const Wanted wanted{(round & 1) != 0, (round & 2) != 0, (round & 4) != 0, random.between(2, 40),
                            (round & 8) != 0};
        Problem p;
        fill(p, random, wanted);
        for (const Isa isa : test::own_isas()) {
            const Setting setting(isa);
            CAPTURE(round, std::string(to_string(isa)));
            const at::Tensor whole = kernels::attention(p.in);
            for (const int64_t n : {int64_t{1}, int64_t{2}, p.in.q.size(0) / 2}) {
                const int64_t first = random.between(0, p.in.q.size(0) - n);
                Problem part;
                part.in = p.in;
                part.num_visible = p.num_visible;
                part.first_visible = p.first_visible;
                part.passes = p.passes;
                part.positions = p.positions;
                part.columns = p.columns;
                part.keep_rows(first, n);
                REQUIRE(same_bits(kernels::attention(part.in), whole.narrow(0, first, n)));
            }
        }
    }
}

TEST_CASE("attention does not depend on the number of threads", "[kernels][attention]") {
    Random random(13);
    for (int round = 0; round < 16; ++round) {
        Problem p;
        fill(p, random, {(round & 1) != 0, (round & 2) != 0, (round & 4) != 0, 0, (round & 8) != 0});
        for (const Isa isa : test::own_isas()) {
            at::Tensor first;
            for (const int threads : {1, 2, 5}) {
                const Setting setting(isa, threads);
                const at::Tensor out = kernels::attention(p.in);
                if (threads == 1) first = out;
                REQUIRE(same_bits(out, first));
            }
        }
    }
}

TEST_CASE("an own column equals the same column in the cache, bit for bit", "[kernels][attention]") {
    // The MC rows' case: with p = 0 they must repeat row 0, whose column is in the cache already.
    Random random(14);
    for (const Isa isa : test::own_isas()) {
        const Setting setting(isa);
        for (int round = 0; round < 6; ++round) {
            Problem cached;
            fill(cached, random, {false, false, false, 1, round % 2 == 1});
            const int64_t n = cached.num_visible[0];
            Problem own;
            own.in = cached.in;
            own.first_visible = cached.first_visible;
            own.num_visible = {n - 1};
            own.in.own_k = cached.in.k_cache.narrow(1, n - 1, 1).permute({1, 0, 2}).to(at::kFloat);
            own.in.own_v = cached.in.v_cache.narrow(1, n - 1, 1).permute({1, 0, 2}).to(at::kFloat);
            own.connect();
            at::Tensor a, b;
            REQUIRE(same_bits(kernels::attention(cached.in, &a), kernels::attention(own.in, &b)));
            REQUIRE(same_bits(a, b));
        }
    }
}

TEST_CASE("lists of every position change no bit, wherever the columns stand", "[kernels][attention]") {
    Random random(15);
    for (const Isa isa : test::own_isas()) {
        const Setting setting(isa);
        Problem p;
        fill(p, random, {false, false, true});
        const at::Tensor all = kernels::attention(p.in);
        const int64_t n = p.in.k_cache.size(1);
        std::vector<int64_t> columns(static_cast<size_t>(n));
        std::iota(columns.begin(), columns.end(), 0);
        const std::vector<int64_t> positions = columns;
        p.positions.assign(static_cast<size_t>(p.in.k_cache.size(0)), positions);
        p.columns = p.positions;
        p.connect();
        REQUIRE(same_bits(kernels::attention(p.in), all));
        std::ranges::shuffle(columns, std::mt19937(static_cast<uint32_t>(random.between(0, 1 << 30))));
        p.columns.assign(p.positions.size(), columns);
        const at::Tensor index = at::argsort(at::tensor(columns, at::kLong));
        p.in.k_cache = p.in.k_cache.index_select(1, index);
        p.in.v_cache = p.in.v_cache.index_select(1, index);
        p.connect();
        REQUIRE(same_bits(kernels::attention(p.in), all));
    }
}

TEST_CASE("a window as long as the text changes no bit; a window of one leaves the own value",
          "[kernels][attention]") {
    Random random(19);
    for (const Isa isa : kernels::available_isas()) {
        const Setting setting(isa);
        Problem p;
        fill(p, random, {false, false, false, 12});
        const at::Tensor all = kernels::attention(p.in);
        p.first_visible.assign(12, 0);
        p.connect();
        REQUIRE(same_bits(kernels::attention(p.in), all));
        for (size_t r = 0; r < 12; ++r)
            p.first_visible[r] = p.num_visible[r] - 1;
        p.connect();
        const at::Tensor last = kernels::attention(p.in);
        const int64_t group = p.in.q.size(1) / p.in.k_cache.size(0);
        for (int64_t r = 0; r < 12; ++r) {
            const at::Tensor value =
                p.in.v_cache.select(1, p.num_visible[static_cast<size_t>(r)] - 1).to(at::kFloat);
            REQUIRE(relative_error(last[r], value.repeat_interleave(group, 0)) < 1e-6);
        }
    }
}

TEST_CASE("a row that attends nothing gives zeros", "[kernels][attention]") {
    Random random(16);
    Problem p;
    fill(p, random, {false, false, false, 3});
    p.num_visible = {0, 2, 1};
    p.positions.assign(static_cast<size_t>(p.in.k_cache.size(0)), {1}); // position 1: only row 1 sees it
    p.columns = p.positions;
    p.connect();
    for (const Isa isa : kernels::available_isas()) {
        const Setting setting(isa);
        CAPTURE(std::string(to_string(isa)));
        at::Tensor probabilities;
        const at::Tensor out = kernels::attention(p.in, &probabilities);
        REQUIRE(out[0].eq(0).all().item<bool>());
        REQUIRE(out[2].eq(0).all().item<bool>());
        REQUIRE(out[1].ne(0).any().item<bool>());
        REQUIRE(probabilities[1].sum(-1).sub(1).abs().max().item<double>() < 1e-6);
        REQUIRE(probabilities[0].eq(0).all().item<bool>());
    }
}

TEST_CASE("pass 0 is not touched by its dropping neighbours", "[kernels][attention]") {
    Random random(17);
    Problem p;
    fill(p, random, {false, true, true, 9});
    const at::Tensor with = kernels::attention(p.in);
    p.passes.assign(9, 0);
    const at::Tensor without = kernels::attention(p.in);
    REQUIRE(same_bits(with[0], without[0]));
    for (int64_t r = 1; r < 9; ++r)
        REQUIRE_FALSE(same_bits(with[r], without[r]));
}

TEST_CASE("attention refuses inputs that do not fit", "[kernels][attention]") {
    Random random(18);
    Problem p;
    fill(p, random, {false, true, true, 2});
    const auto refused = [&](const std::function<void(AttentionInputs&)>& damage) {
        AttentionInputs in = p.in;
        damage(in);
        REQUIRE_THROWS_AS(kernels::attention(in), InvariantError);
    };
    const std::vector<int64_t> too_far{1, p.in.k_cache.size(1) + 1};
    refused([&](AttentionInputs& in) { in.num_visible = too_far; });
    refused([&](AttentionInputs& in) { in.num_visible = in.num_visible.first(1); });
    refused([&](AttentionInputs& in) { in.first_visible = std::span(too_far).first(1); });
    const std::vector<int64_t> negative{0, -1};
    refused([&](AttentionInputs& in) { in.first_visible = negative; });
    const std::vector<kernels::KeyList> missing(static_cast<size_t>(p.in.k_cache.size(0)) + 1);
    refused([&](AttentionInputs& in) { in.lists = missing; });
    const std::vector<kernels::KeyList> nowhere(static_cast<size_t>(p.in.k_cache.size(0)),
                                                {nullptr, nullptr, 1});
    refused([&](AttentionInputs& in) { in.lists = nowhere; });
    refused([](AttentionInputs& in) { in.own_v = at::Tensor(); });
    refused([](AttentionInputs& in) { in.passes = in.passes.first(1); });
    refused([](AttentionInputs& in) { in.dropout_p = 1.0F; });
    refused([](AttentionInputs& in) { in.v_cache = in.v_cache.narrow(1, 0, 1); });
}

} // namespace
} // namespace refreshlab
