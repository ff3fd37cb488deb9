// Numbers of few bits, and the methods that store them.
#include "engine/policies/bit_codes.h"
#include "engine/policies/code_rows.h"
#include "engine/policies/methods/storage/few_bits.h"
#include "tests/engine/policies/fake_cache.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>

#include <bit>
#include <cmath>
#include <random>
#include <string_view>

namespace codec_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Positions = std::vector<int64_t>;

namespace {

float rounded(float value, StoredAs type) {
    std::vector<uint8_t> bytes;
    put_number(bytes, value, type);
    CHECK(std::ssize(bytes) == bytes_of(type));
    return number_at(bytes, 0, type);
}

PolicyContext one_head(int64_t head_dim) {
    PolicyContext context;
    context.layers = context.heads = context.kv_heads = 1;
    context.head_dim = head_dim;
    context.rope_frequencies.assign(static_cast<size_t>(head_dim / 2), 0.5F);
    return context;
}

std::vector<float> decoded(const EntryCodec& codec, const EncodedBlock& block, const BlockShape& shape) {
    std::vector<float> rows(static_cast<size_t>(shape.numbers()), -7.0F);
    codec.decode(block, shape, rows);
    return rows;
}

} // namespace

TEST_CASE("halves and bfloat16 keep their bits, and round to even", "[policies]") {
    for (const StoredAs type : {StoredAs::float16, StoredAs::bfloat16}) {
        for (uint32_t bits = 0; bits < 65536; ++bits) {
            const std::vector<uint8_t> bytes{static_cast<uint8_t>(bits), static_cast<uint8_t>(bits >> 8)};
            const float value = number_at(bytes, 0, type);
            if (std::isnan(value)) continue;
            std::vector<uint8_t> again;
            put_number(again, value, type);
            REQUIRE(again == bytes);
        }
    }
    const auto half = [](double value) { return rounded(static_cast<float>(value), StoredAs::float16); };
    CHECK(half(1 + std::ldexp(1, -11)) == 1);
    CHECK(half(1 + 3 * std::ldexp(1, -11)) == 1 + 2 * std::ldexp(1.0F, -10));
    CHECK(half(1 + 1.01 * std::ldexp(1, -11)) == 1 + std::ldexp(1.0F, -10));
    CHECK(half(65519) == 65504);
    CHECK(std::isinf(half(65520)));
    CHECK(half(std::ldexp(1, -25)) == 0);
    CHECK(half(-1.5 * std::ldexp(1, -25)) == -std::ldexp(1.0F, -24));
    CHECK(half(2047.5 * std::ldexp(1, -25)) ==
          std::ldexp(1.0F, -14)); // the carry into the first normal number
    CHECK(std::isnan(half(std::nan(""))));
    CHECK(rounded(1 + std::ldexp(1.0F, -8), StoredAs::bfloat16) == 1);
    CHECK(rounded(1.1F, StoredAs::float32) == 1.1F);
}

TEST_CASE("ThinK: the channels go that queries and keys weigh least", "[policies]") {
    FakeCache cache(1, 1, 4, 4);
    for (int64_t p = 0; p < 4; ++p)
        cache.key(p) = {1, 2, 3, 0.5F};
    const auto policy = make("think", {{"dropped", 0.5}, {"window", 1}}, one_head(4));
    CHECK(policy->needs().prompt_queries == 1);
    const Rows query({4.0F, 1.0F, 0.1F, 2.0F}, 1, 1); // 16 * 1, 1 * 4, 0.01 * 9, 4 * 0.25
    PromptView prompt;
    prompt.length = 4;
    prompt.queries = query.cube;
    policy->read_prompt(prompt, cache);
    REQUIRE(cache.blocks.size() == 1);
    CHECK(cache.blocks[0].half == KvHalf::keys);
    CHECK(cache.blocks[0].positions == Positions{0, 1, 2}); // the newest keeps all
    const BlockShape shape{2, 4, StoredAs::float32};
    const std::vector<float> rows{1, 2, 3, 4, 5, 6, 7, 8};
    const EntryCodec& codec = *cache.blocks[0].codec;
    const EncodedBlock block = codec.encode(rows, shape);
    CHECK(block.payload.size() == 4 * sizeof(float));
    CHECK(block.metadata.size() == 1);
    CHECK(decoded(codec, block, shape) == std::vector<float>{1, 2, 0, 0, 5, 6, 0, 0});
    const std::vector<float> zeros{1, 2, 0, 0, 5, 6, 0, 0}; // what is dropped was 0: nothing changes
    CHECK(decoded(codec, codec.encode(zeros, shape), shape) == zeros);
    CHECK(codec.encode(rows, {2, 4, StoredAs::bfloat16}).payload.size() == 8);

    FakeCache whole(1, 1, 4, 4);
    make("think", {{"dropped", 0.2}, {"window", 1}}, one_head(4))->read_prompt(prompt, whole); // int(0.8) = 0
    CHECK(whole.blocks.empty());
    make("think", {{"dropped", 0.5}, {"window", 1}, {"keep_window", 0}}, one_head(4))
        ->read_prompt(prompt, whole);
    REQUIRE(whole.blocks.size() == 1);
    CHECK(whole.blocks[0].positions == Positions{0, 1, 2, 3}); // the newest as well
}

TEST_CASE("KIVI: keys in groups when the residual is full, values one by one", "[policies]") {
    FakeCache cache(1, 1, 6);
    const auto policy = make("kivi", {{"bits", 2}, {"residual", 4}, {"group_size", 2}}, one_head(2));
    PromptView prompt;
    prompt.length = 6;
    policy->read_prompt(prompt, cache);
    const auto told = [&] {
        std::vector<std::pair<KvHalf, Positions>> all;
        for (const FakeCache::Block& block : cache.blocks)
            all.emplace_back(block.half, block.positions);
        cache.blocks.clear();
        return all;
    };
    using Told = std::vector<std::pair<KvHalf, Positions>>;
    CHECK(told() == Told{{KvHalf::keys, {0, 1}}, {KvHalf::keys, {2, 3}}, {KvHalf::values, {0, 1}}});
    const auto step = [&](int64_t position) {
        cache.append(position);
        StepView view;
        view.position = position;
        policy->after_attention(view, cache);
        return told();
    };
    CHECK(step(6) == Told{{KvHalf::values, {2}}});
    CHECK(step(7) == Told{{KvHalf::keys, {4, 5}}, {KvHalf::keys, {6, 7}}, {KvHalf::values, {3}}});
    CHECK(step(8) == Told{{KvHalf::values, {4}}});
}

TEST_CASE("KIVI: codes are off by half a scale at most, and as long as they say", "[policies]") {
    const auto codec_of = [](KvHalf half, double bits) {
        FakeCache cache(1, 1, 66, 48);
        PromptView prompt;
        prompt.length = 66;
        make("kivi", {{"bits", bits}, {"residual", 32}}, one_head(48))->read_prompt(prompt, cache);
        const auto found = std::ranges::find(cache.blocks, half, &FakeCache::Block::half);
        REQUIRE(found != cache.blocks.end());
        return found->codec;
    };
    std::mt19937_64 random(seed(8102));
    std::normal_distribution<float> normal(0.3F, 2);
    const BlockShape shape{32, 48, StoredAs::float32};
    std::vector<float> rows(static_cast<size_t>(shape.numbers()));
    for (float& value : rows)
        value = normal(random);
    for (int64_t i = 0; i < 32; ++i) // a channel, and a token, of one value
        rows[static_cast<size_t>(i * 48 + 5)] = 0.75F;
    for (int64_t c = 0; c < 48; ++c)
        rows[static_cast<size_t>(7 * 48 + c)] = 0.75F;
    for (const double bits : {2.0, 3.0, 4.0, 8.0}) {
        for (const KvHalf half : {KvHalf::keys, KvHalf::values}) {
            const auto codec = codec_of(half, bits);
            const EncodedBlock block = codec->encode(rows, shape);
            CHECK(std::ssize(block.payload) == 32 * 48 * static_cast<int64_t>(bits) / 8);
            // 4 B a group: 48 channels of 32 tokens, or 32 tokens with groups of 32 and 16 channels.
            CHECK(block.metadata.size() == (half == KvHalf::keys ? 48U : 64U) * 4);
            const std::vector<float> read = decoded(*codec, block, shape);
            double worst = 0;
            for (size_t i = 0; i < rows.size(); ++i)
                worst =
                    std::max(worst, std::fabs(static_cast<double>(rows[i]) - static_cast<double>(read[i])));
            const auto [low, high] = std::ranges::minmax(rows);
            const double scale = static_cast<double>(high - low) / (std::exp2(bits) - 1);
            CHECK(worst < scale / 2 + 0.02); // scale and minimum are halves: 0.02 of numbers up to 10
            CHECK(worst > scale / 16);
            const size_t constant = half == KvHalf::keys ? 9 * 48 + 5 : 7 * 48 + 9;
            CHECK(read[constant] == 0.75F);
            CHECK(decoded(*codec, codec->encode(read, shape), shape) == read); // once coded, it stays
        }
    }
}

TEST_CASE("TurboQuant: all but the newest are stored in codes, a token a step", "[policies]") {
    FakeCache cache(1, 1, 6);
    const auto policy = make("turbo_quant", {{"residual", 2}}, one_head(2));
    PromptView prompt;
    prompt.length = 6;
    policy->read_prompt(prompt, cache);
    REQUIRE(cache.blocks.size() == 2);
    CHECK(cache.blocks[0].half == KvHalf::keys);
    CHECK(cache.blocks[1].half == KvHalf::values);
    for (const FakeCache::Block& block : cache.blocks)
        CHECK(block.positions == Positions{0, 1, 2, 3});
    cache.append(6);
    StepView view;
    view.position = 6;
    policy->after_attention(view, cache);
    REQUIRE(cache.blocks.size() == 4);
    CHECK(cache.blocks[3].positions == Positions{4});
}

TEST_CASE("TurboQuant: errors of unit vectors keep the paper's bound, products are unbiased", "[policies]") {
    const auto codec_of = [](KvHalf half, double bits, int64_t head_dim, uint64_t draw) {
        FakeCache cache(1, 1, 3, head_dim);
        PolicyContext context = one_head(head_dim);
        context.seed = draw;
        PromptView prompt;
        prompt.length = 3;
        make("turbo_quant", {{"bits", bits}}, context)->read_prompt(prompt, cache);
        return std::ranges::find(cache.blocks, half, &FakeCache::Block::half)->codec;
    };
    std::mt19937_64 random(8103);
    std::normal_distribution<float> normal;
    for (const int64_t d : {64, 48, 128}) {
        const BlockShape shape{200, d, StoredAs::float32};
        std::vector<float> rows(static_cast<size_t>(shape.numbers()));
        for (float& value : rows)
            value = normal(random);
        for (int64_t i = 0; i < shape.n; ++i) {
            const auto row = std::span(rows).subspan(static_cast<size_t>(i * d), static_cast<size_t>(d));
            double square = 0;
            for (const float x : row)
                square += static_cast<double>(x) * static_cast<double>(x);
            for (float& x : row)
                x = static_cast<float>(static_cast<double>(x) / std::sqrt(square));
        }
        double before = 1;
        for (const double bits : {2.0, 3.0, 4.0}) {
            CAPTURE(d, bits);
            const auto codec = codec_of(KvHalf::values, bits, d, 5);
            const EncodedBlock block = codec->encode(rows, shape);
            const int64_t padded = d == 48 ? 64 : d;
            CHECK(std::ssize(block.payload) == 200 * padded * static_cast<int64_t>(bits) / 8);
            CHECK(block.metadata.size() == 400);
            const std::vector<float> read = decoded(*codec, block, shape);
            double error = 0;
            for (size_t i = 0; i < rows.size(); ++i)
                error += std::pow(static_cast<double>(rows[i]) - static_cast<double>(read[i]), 2) / 200;
            CHECK(error < std::sqrt(3) * std::acos(-1.0) / 2 / std::pow(4, bits));
            CHECK(error < before / 3); // a bit is worth a factor of about 4
            before = error;
        }
    }
    // Over draws of rotation and sketch the product with a key is that of the key itself; that of what a key without the sketch
    // would be is not: its codes shrink.
    constexpr int64_t d = 16, draws = 1000;
    const BlockShape one{1, d, StoredAs::float32};
    std::vector<float> key, query;
    double wanted = 0;
    for (int64_t c = 0; c < d; ++c) {
        key.push_back(3 * normal(random));
        query.push_back(0.5F * key.back() + normal(random));
        wanted += static_cast<double>(key.back()) * static_cast<double>(query.back());
    }
    double sum = 0, squares = 0, of_values = 0;
    for (uint64_t draw = 0; draw < draws; ++draw) {
        const auto product = [&](KvHalf half, double bits) {
            const auto codec = codec_of(half, bits, d, draw);
            const std::vector<float> read = decoded(*codec, codec->encode(key, one), one);
            double result = 0;
            for (size_t c = 0; c < read.size(); ++c)
                result += static_cast<double>(query[c]) * static_cast<double>(read[c]);
            return result;
        };
        const double x = product(KvHalf::keys, 3); // two bits and the sketch
        sum += x / draws;
        squares += x * x / draws;
        of_values += product(KvHalf::values, 2) / draws;
    }
    const double error = std::sqrt((squares - sum * sum) / draws);
    CAPTURE(sum, wanted, of_values, error);
    CHECK(std::abs(sum - wanted) < 3 * error);
    CHECK(of_values < wanted - 6 * error);
    const auto codec = codec_of(KvHalf::keys, 4, d, 1);
    const std::vector<float> zero(static_cast<size_t>(d), 0.0F);
    CHECK(decoded(*codec, codec->encode(zero, one), one) == zero);
}

TEST_CASE("MiKV: what H2O would evict is coded, once and for good", "[policies]") {
    FakeCache cache(1, 1, 6);
    PolicyContext context = one_head(2);
    context.prompt_length = 6;
    const auto policy = make("mikv", {{"budget", 4}, {"balance", 0}}, context);
    const Rows sums({1.0F, 3.0F, 0.4F, 0.5F, 0.1F, 0.1F}, 1, 1);
    PromptView prompt;
    prompt.length = 6;
    prompt.sums = sums.cube;
    policy->read_prompt(prompt, cache); // newest half: 4, 5; of 0 .. 3 the two largest
    REQUIRE(cache.blocks.size() == 2);
    CHECK(cache.blocks[0].half == KvHalf::keys);
    CHECK(cache.blocks[1].half == KvHalf::values);
    for (const FakeCache::Block& block : cache.blocks)
        CHECK(block.positions == Positions{2, 3});
    cache.append(6);
    StepView view;
    view.position = 6;
    const Rows row({0.0F, 0.0F, 9.0F, 9.0F, 2.0F, 0.1F, 0.1F}, 1, 1); // 2 and 3 come too late
    view.row = row.cube;
    policy->after_attention(view, cache);
    REQUIRE(cache.blocks.size() == 4);
    CHECK(cache.blocks[3].positions == Positions{0}); // 1, 3 and 2.1: 0 has the least
    CHECK(cache.of(0, 0).size() == 7);
}

TEST_CASE("MiKV: balanced channels lose less of a product", "[policies]") {
    // Channel 0: large keys, small queries; channel 1 the other way round; both in one group.
    std::mt19937_64 random(8104);
    std::normal_distribution<float> normal;
    constexpr int64_t n = 40;
    std::vector<float> queries, keys;
    FakeCache cache(1, 1, n);
    for (int64_t i = 0; i < n; ++i) {
        queries.insert(queries.end(), {0.1F * normal(random), 10 * normal(random)});
        cache.key(i) = {10 * normal(random), 0.1F * normal(random)};
        keys.insert(keys.end(), cache.key(i).begin(), cache.key(i).end());
    }
    const Rows rows(queries, n, 1);
    const Rows sums(std::vector<float>(n, 1.0F), 1, 1);
    std::vector<double> errors;
    for (const double balance : {0.0, 1.0}) {
        FakeCache own(1, 1, n);
        for (int64_t i = 0; i < n; ++i)
            own.key(i) = cache.key(i);
        PolicyContext context = one_head(2);
        context.prompt_length = n;
        const auto policy = make("mikv", {{"budget", 2}, {"balance", balance}, {"bits", 8}}, context);
        CHECK(policy->needs().prompt_queries == (balance > 0 ? n : 0));
        PromptView prompt;
        prompt.length = n;
        prompt.sums = sums.cube;
        prompt.queries = rows.cube;
        policy->read_prompt(prompt, own);
        const BlockShape shape{n, 2, StoredAs::float32};
        const EntryCodec& codec = *own.blocks[0].codec;
        const std::vector<float> read = decoded(codec, codec.encode(keys, shape), shape);
        double error = 0;
        for (size_t i = 0; i < n; ++i)
            for (size_t c = 0; c < 2; ++c)
                error = std::max(error, std::abs(static_cast<double>(queries[2 * i + c]) *
                                                 static_cast<double>(read[2 * i + c] - keys[2 * i + c])));
        errors.push_back(error);
    }
    CHECK(errors[1] < 0.03); // of products of the size 1
    CHECK(errors[1] < errors[0] / 4);
}

TEST_CASE("few bits: a part of a block is what its codes say, number by number", "[policies]") {
    std::mt19937 random(static_cast<uint32_t>(test::seed(41)));
    const auto between = [&](int64_t low, int64_t high) {
        return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
    };
    for (int round = 0; round < 300; ++round) {
        const int64_t bits = between(2, 8), d = between(1, 6) * (round % 2 == 0 ? 8 : 3), n = between(1, 70),
                      group = between(1, 40);
        const bool channels = round % 3 == 0;
        const FewBits codec(bits, channels ? FewBits::Groups::channels : FewBits::Groups::rows, group);
        const BlockShape shape{n, d, StoredAs::float32};
        std::vector<float> rows;
        for (int64_t i = 0; i < n * d; ++i)
            rows.push_back(static_cast<float>(random() % 2001) / 1000 - 1);
        const EncodedBlock block = codec.encode(rows, shape);
        std::vector<int64_t> own; // in any order, some of them twice
        for (int64_t i = 0, many = round % 5 == 0 ? n : between(1, n), first = between(0, n - 1); i < many;
             ++i)
            own.push_back(round % 2 == 0 ? (first + i) % n : between(0, n - 1));
        BlockPart part{own, 0, round % 4 == 0 ? d : between(1, d)};
        part.first_channel = between(0, d - part.channels);
        std::vector<float> read(own.size() * static_cast<size_t>(part.channels) + 1, -7.0F);
        codec.decode(block, shape, part, read.data());
        CAPTURE(bits, d, n, group, channels, own, part.first_channel, part.channels);
        CHECK(read.back() == -7.0F);
        const int64_t groups = (d + group - 1) / group;
        bool same = true;
        for (size_t i = 0; i < own.size(); ++i) {
            for (int64_t j = 0; j < part.channels; ++j) {
                const int64_t row = own[i], c = part.first_channel + j;
                const int64_t of = channels ? c : row * groups + c / group;
                const float scale = number_at(block.metadata, 2 * of, StoredAs::float16),
                            min = number_at(block.metadata, 2 * of + 1, StoredAs::float16);
                const float wanted =
                    static_cast<float>(code_at(block.payload, row * d + c, bits)) * scale + min;
                same =
                    same && read[i * static_cast<size_t>(part.channels) + static_cast<size_t>(j)] == wanted;
            }
        }
        REQUIRE(same);
    }
}

TEST_CASE("numbers are rounded as bfloat16 and halves round", "[policies]") {
    std::mt19937_64 random(seed(8105));
    for (const StoredAs type : {StoredAs::bfloat16, StoredAs::float16}) {
        std::vector<float> numbers{0.0F,
                                   -0.0F,
                                   65519.0F,
                                   65520.0F,
                                   -1e9F,
                                   std::ldexp(1.0F, -25),
                                   std::ldexp(1.5F, -25),
                                   std::ldexp(2047.5F, -25),
                                   INFINITY,
                                   -INFINITY};
        for (int i = 0; i < 3001; ++i) { // also those that lie between two, and at their edge
            const auto half = static_cast<uint16_t>(random());
            const std::vector<uint8_t> bytes{static_cast<uint8_t>(half), static_cast<uint8_t>(half >> 8)};
            const float value = number_at(bytes, 0, type);
            const uint32_t bits = std::bit_cast<uint32_t>(value) + (random() % 2 == 0 ? 0x1000U : 0x8000U) +
                                  static_cast<uint32_t>(random() % 3) - 1;
            numbers.push_back(std::isnan(value) ? 1.0F : std::bit_cast<float>(bits));
            if (std::isnan(numbers.back())) numbers.back() = value;
        }
        std::vector<float> wanted;
        for (const float number : numbers)
            wanted.push_back(rounded(number, type));
        round_numbers(numbers, type);
        for (size_t i = 0; i < numbers.size(); ++i)
            REQUIRE(std::bit_cast<uint32_t>(numbers[i]) == std::bit_cast<uint32_t>(wanted[i]));
        float nan = std::nanf("");
        round_numbers({&nan, 1}, type);
        CHECK(std::isnan(nan));
    }
}

TEST_CASE("levels of codes, whatever their bits and where they begin", "[policies]") {
    std::mt19937_64 random(seed(8106));
    for (int round = 0; round < 200; ++round) {
        const auto bits = static_cast<int64_t>(random() % 8 + 1), n = static_cast<int64_t>(random() % 90 + 1),
                   first = static_cast<int64_t>(random() % 20),
                   row_bits = (first + n) * bits + (round % 2 == 0 ? 0 : 5), all = int64_t{9};
        const int64_t row = round % 3 == 0 ? row_bits : (row_bits + 7) / 8 * 8;
        std::vector<uint8_t> bytes(static_cast<size_t>((all * row + 7) / 8));
        for (uint8_t& byte : bytes)
            byte = static_cast<uint8_t>(random());
        std::vector<float> levels, factors;
        for (int64_t i = 0; i < int64_t{1} << bits; ++i)
            levels.push_back(static_cast<float>(random() % 1000) / 7);
        std::vector<int64_t> rows;
        for (int i = 0; i < 5; ++i) {
            rows.push_back(static_cast<int64_t>(random() % all));
            factors.push_back(static_cast<float>(random() % 100) / 3);
        }
        const int64_t stride = n + static_cast<int64_t>(random() % 3);
        std::vector<float> to(static_cast<size_t>(5 * stride), -7.0F);
        numbers_of_levels({bytes, bits, row, rows, first, n, to.data(), stride}, levels, factors);
        CAPTURE(bits, n, first, row, stride);
        for (size_t i = 0; i < 5; ++i)
            for (int64_t c = 0; c < stride; ++c) {
                uint32_t code = 0; // bit by bit
                for (int64_t b = 0; b < bits && c < n; ++b) {
                    const auto bit = static_cast<size_t>(rows[i] * row + (first + c) * bits + b);
                    code |= (bytes[bit / 8] >> (bit % 8) & 1U) << b;
                }
                REQUIRE(to[i * static_cast<size_t>(stride) + static_cast<size_t>(c)] ==
                        (c < n ? levels[code] * factors[i] : -7.0F));
            }
    }
}

TEST_CASE("a turned row is worth the same as the row", "[policies]") {
    std::mt19937_64 random(seed(8107));
    std::normal_distribution<float> normal;
    const auto numbers = [&](int64_t n) {
        std::vector<float> made(static_cast<size_t>(n));
        for (float& x : made)
            x = normal(random);
        return made;
    };
    constexpr int64_t n = 40;
    int keys = 0, values = 0;
    for (const int64_t d : {16, 48, 64}) {
        for (const char* name : {"think", "turbo_quant", "mikv"}) {
            FakeCache cache(1, 1, n, d);
            for (int64_t p = 0; p < n; ++p)
                cache.key(p) = numbers(d);
            PolicyContext context = one_head(d);
            context.prompt_length = n;
            context.seed = random();
            const Rows queries(numbers(n * d), n, 1), sums(numbers(n), 1, 1);
            PromptView prompt;
            prompt.length = n;
            prompt.queries = queries.cube;
            prompt.sums = sums.cube;
            if (std::string_view(name) == "mikv")
                make(name, {{"budget", 8}}, context)->read_prompt(prompt, cache);
            else if (std::string_view(name) == "think")
                make(name, {{"window", n}, {"keep_window", 0}}, context)->read_prompt(prompt, cache);
            else
                make(name, {{"bits", static_cast<double>(random() % 3 + 2)}}, context)
                    ->read_prompt(prompt, cache);
            for (const FakeCache::Block& coded : cache.blocks) {
                const EntryCodec& codec = *coded.codec;
                const int64_t width = codec.turned_width(d);
                if (width == 0) continue;
                for (const StoredAs type : {StoredAs::float32, StoredAs::bfloat16}) {
                    const BlockShape shape{n, d, type};
                    std::vector<float> rows = numbers(n * d), sum(static_cast<size_t>(width), 0.0F),
                                       wanted(static_cast<size_t>(d), 0.5F), given = wanted;
                    round_numbers(rows, type);
                    const EncodedBlock block = codec.encode(rows, shape);
                    const std::vector<float> read = decoded(codec, block, shape), query = numbers(d);
                    std::vector<int64_t> own; // in any order
                    for (int i = 0; i < 11; ++i)
                        own.push_back(static_cast<int64_t>(random() % n));
                    std::vector<float> turned(own.size() * static_cast<size_t>(width)),
                        turned_query(sum.size());
                    codec.read_turned(block, shape, own, turned.data());
                    if (coded.half == KvHalf::keys) codec.turn(query, turned_query.data());
                    for (size_t i = 0; i < own.size(); ++i) {
                        const auto row =
                            std::span(read).subspan(static_cast<size_t>(own[i] * d), static_cast<size_t>(d));
                        const auto other = std::span(turned).subspan(i * sum.size(), sum.size());
                        double product = 0, of_turned = 0;
                        for (size_t c = 0; c < row.size(); ++c) {
                            product += static_cast<double>(row[c]) * static_cast<double>(query[c]);
                            wanted[c] += row[c] * static_cast<float>(i);
                        }
                        for (size_t c = 0; c < other.size(); ++c) {
                            of_turned += static_cast<double>(other[c]) * static_cast<double>(turned_query[c]);
                            sum[c] += other[c] * static_cast<float>(i);
                        }
                        CAPTURE(name, d, i);
                        if (coded.half == KvHalf::keys) REQUIRE(std::abs(product - of_turned) < 1e-4);
                    }
                    keys += coded.half == KvHalf::keys ? 1 : 0;
                    if (coded.half == KvHalf::keys) continue;
                    ++values;
                    codec.turn_back(sum.data(), given);
                    for (size_t c = 0; c < given.size(); ++c)
                        REQUIRE(std::abs(given[c] - wanted[c]) < 1e-3F);
                }
            }
        }
    }
    CHECK((keys == 3 * 3 * 2 && values == 2 * 3 * 2)); // keys of all three, values of TurboQuant and MiKV
}

} // namespace codec_test
