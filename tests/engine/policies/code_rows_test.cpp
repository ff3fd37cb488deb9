#include "engine/policies/bit_codes.h"
#include "engine/policies/code_products.h"
#include "engine/policies/code_rows.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>

#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

using namespace refreshlab;

namespace {

/// Runs `check` with the loops of each instruction set that this processor has.
template <typename Check>
void with_each_set(const Check& check) {
    for (const kernels::Isa isa : code_row_sets()) {
        CAPTURE(std::string(kernels::to_string(isa)));
        use_code_row_set(isa);
        check();
    }
    use_code_row_set(code_row_sets().back());
}

/// Random codes, and some of their rows.
struct Codes {
    explicit Codes(std::mt19937& random) {
        const auto below = [&](int64_t end) {
            return static_cast<int64_t>(random() % static_cast<uint64_t>(end));
        };
        bits = 1 + below(8);
        width = below(2) == 0 ? 16 * (1 + below(8)) : 1 + below(150);
        const int64_t all = 1 + below(60);
        bytes.resize(bytes_of_codes(all * width, bits));
        for (uint8_t& byte : bytes)
            byte = static_cast<uint8_t>(random());
        const int64_t neighbours = below(2), begin = below(all);
        for (int64_t i = 0; i < (neighbours == 1 ? all - begin : 1 + below(40)); ++i)
            rows.push_back(neighbours == 1 ? begin + i : below(all));
        first = below(3) == 0 ? below(width) : below(3) == 0 ? below(width) / 16 * 16 : 0;
        n = below(2) == 0 ? width - first : 1 + below(width - first);
        group = below(2) == 0 ? 16 * (1 + below(4)) : 1 + below(40);
    }
    [[nodiscard]] CodeRows to(std::vector<float>& numbers) const {
        return {bytes, bits, width * bits, rows, first, n, numbers.data(), n + 1};
    }
    [[nodiscard]] CodeRows to_width(float* numbers) const {
        return {bytes, bits, width * bits, rows, first, n, numbers, n};
    }
    [[nodiscard]] std::vector<float> room() const {
        return std::vector<float>(rows.size() * static_cast<size_t>(n + 1), 7);
    }
    [[nodiscard]] uint32_t code(size_t row, int64_t at) const {
        return code_at(bytes, rows[row] * width + first + at, bits);
    }
    template <typename Number>
    [[nodiscard]] std::vector<float> defined(const Number& number) const {
        std::vector<float> numbers = room();
        for (size_t i = 0; i < rows.size(); ++i)
            for (int64_t at = 0; at < n; ++at)
                numbers[i * static_cast<size_t>(n + 1) + static_cast<size_t>(at)] =
                    number(code(i, at), i, at);
        return numbers;
    }
    std::vector<uint8_t> bytes;
    std::vector<int64_t> rows;
    int64_t bits = 0, width = 0, first = 0, n = 0, group = 0;
};

std::vector<float> some(std::mt19937& random, size_t n) {
    std::vector<float> numbers(n);
    for (float& number : numbers)
        number = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 77;
    return numbers;
}

} // namespace

TEST_CASE("codes become the numbers of their definition, with every instruction set", "[policies][codec]") {
    std::mt19937 random(test::seed(17));
    for (int turn = 0; turn < 400; ++turn) {
        const Codes codes(random);
        CAPTURE(turn, codes.bits, codes.width, codes.first, codes.n, codes.group, codes.rows.size());
        const auto n = static_cast<size_t>(codes.n);
        const std::vector<float> channels = some(random, 2 * n);
        const auto groups = static_cast<size_t>((codes.width + codes.group - 1) / codes.group);
        const std::vector<float> pairs = some(random, codes.rows.size() * groups * 2);
        const std::vector<float> levels = some(random, size_t{1} << codes.bits);
        const std::vector<float> factors = some(random, codes.rows.size());
        const auto by_channel = codes.defined([&](uint32_t code, size_t, int64_t at) {
            const float* const pair = channels.data() + 2 * at;
            return static_cast<float>(code) * pair[0] + pair[1];
        });
        const auto by_row = codes.defined([&](uint32_t code, size_t row, int64_t at) {
            const auto group = static_cast<size_t>((codes.first + at) / codes.group);
            const float* const pair = pairs.data() + 2 * (row * groups + group);
            return static_cast<float>(code) * pair[0] + pair[1];
        });
        const auto of_levels =
            codes.defined([&](uint32_t code, size_t row, int64_t) { return levels[code] * factors[row]; });
        with_each_set([&] {
            std::vector<float> numbers = codes.room();
            numbers_by_channel(codes.to(numbers), channels);
            REQUIRE(numbers == by_channel);
            numbers = codes.room();
            numbers_by_row(codes.to(numbers), pairs, codes.group);
            REQUIRE(numbers == by_row);
            numbers = codes.room();
            numbers_of_levels(codes.to(numbers), levels, factors);
            REQUIRE(numbers == of_levels);
            if (codes.bits != 1) return;
            const auto of_signs = codes.defined(
                [&](uint32_t code, size_t row, int64_t) { return code != 0 ? factors[row] : -factors[row]; });
            numbers = codes.room();
            numbers_of_signs(codes.to(numbers), factors);
            REQUIRE(numbers == of_signs);
        });
    }
}

namespace {

/// In the order of kernels/cpu/cpu_kernels.h.
float product(const float* x, const float* row, int64_t n) {
    float lane[16] = {};
    for (int64_t i = 0; i < n; ++i)
        lane[i % 16] = std::fma(x[i], row[i], lane[i % 16]);
    for (const int half : {8, 4, 2, 1})
        for (int l = 0; l < half; ++l)
            lane[l] += lane[l + half];
    return lane[0];
}

/// What products() and sums() of a kind of codes give is what those of its rows, made one by one, give. \return how often they were there
template <typename Make, typename Dots, typename Sums>
int same_as_rows(const Codes& codes, std::mt19937& random, int64_t width, const Make& make, const Dots& dots,
                 const Sums& sums) {
    const auto n = std::ssize(codes.rows);
    const int64_t num = 1 + static_cast<int64_t>(random() % 8), stride = width + 3, places = n + 2;
    std::vector<float> rows(static_cast<size_t>(n * width));
    make(rows.data());
    const std::vector<float> x = some(random, static_cast<size_t>(num * stride)),
                             p = some(random, static_cast<size_t>(num * places));
    std::vector<float> y(static_cast<size_t>(num * places), 7),
        wanted = y, acc = some(random, static_cast<size_t>(num * stride)), wanted_acc = acc;
    for (int64_t r = 0; r < num; ++r) {
        for (int64_t i = 0; i < n; ++i) {
            wanted[static_cast<size_t>(r * places + i)] =
                product(x.data() + r * stride, rows.data() + i * width, width);
            for (int64_t c = 0; c < width; ++c) {
                float& sum = wanted_acc[static_cast<size_t>(r * stride + c)];
                sum = std::fma(p[static_cast<size_t>(r * places + i)],
                               rows[static_cast<size_t>(i * width + c)], sum);
            }
        }
    }
    int there = 0;
    if (dots({x.data(), stride, num, y.data(), places})) {
        REQUIRE(y == wanted);
        ++there;
    }
    if (sums({p.data(), places, num, acc.data(), stride})) {
        REQUIRE(acc == wanted_acc);
        ++there;
    }
    return there;
}

} // namespace

TEST_CASE("products and sums straight from codes have the bits of those of their rows", "[policies][codec]") {
    std::mt19937 random(test::seed(18));
    int there = 0;
    for (int turn = 0; turn < 600; ++turn) {
        Codes codes(random);
        CAPTURE(turn, codes.bits, codes.width, codes.first, codes.n, codes.group, codes.rows.size());
        const auto to = [&](float* rows) {
            CodeRows all = codes.to_width(rows);
            return all;
        };
        const auto n = static_cast<size_t>(codes.n);
        const std::vector<float> channels = some(random, 2 * n);
        const auto groups = static_cast<size_t>((codes.width + codes.group - 1) / codes.group);
        const std::vector<float> pairs = some(random, codes.rows.size() * groups * 2),
                                 levels = some(random, size_t{1} << codes.bits),
                                 factors = some(random, codes.rows.size()),
                                 of_signs = some(random, codes.rows.size());
        there += same_as_rows(
            codes, random, codes.n, [&](float* rows) { numbers_by_channel(to(rows), channels); },
            [&](const CodeDots& d) { return dots_by_channel(to(nullptr), channels, d); },
            [](const CodeSums&) { return false; });
        there += same_as_rows(
            codes, random, codes.n, [&](float* rows) { numbers_by_row(to(rows), pairs, codes.group); },
            [&](const CodeDots& d) { return dots_by_row(to(nullptr), pairs, codes.group, d); },
            [&](const CodeSums& s) { return sums_by_row(to(nullptr), pairs, codes.group, s); });
        there += same_as_rows(
            codes, random, codes.n, [&](float* rows) { numbers_of_levels(to(rows), levels, factors); },
            [&](const CodeDots& d) { return dots_of_levels(to(nullptr), levels, factors, {}, d); },
            [&](const CodeSums& s) { return sums_of_levels(to(nullptr), levels, factors, s); });
        // Signs among the same bytes, behind the levels.
        const int64_t width = codes.n + codes.n;
        there += same_as_rows(
            codes, random, width,
            [&](float* rows) {
                CodeRows all = to(rows);
                all.stride = width;
                numbers_of_levels(all, levels, factors);
                all.to = rows + codes.n;
                all.first *= all.bits;
                all.bits = 1;
                numbers_of_signs(all, of_signs);
            },
            [&](const CodeDots& d) {
                return dots_of_levels(to(nullptr), levels, factors,
                                      {codes.first * codes.bits, codes.n, of_signs}, d);
            },
            [](const CodeSums&) { return false; });
    }
    CHECK((there > 200) == (code_row_sets().back() == kernels::Isa::avx512));
    use_code_row_set(kernels::Isa::portable); // their kernels do not fuse, or are not this order's
    const Codes codes(random);
    CHECK(!dots_of_levels(codes.to_width(nullptr), some(random, size_t{1} << codes.bits),
                          some(random, codes.rows.size()), {}, {}));
    use_code_row_set(code_row_sets().back());
}

TEST_CASE("halves become floats, with every instruction set", "[policies][codec]") {
    std::vector<uint8_t> bytes;
    for (uint32_t half = 0; half < 65536; ++half) {
        bytes.push_back(static_cast<uint8_t>(half));
        bytes.push_back(static_cast<uint8_t>(half >> 8));
    }
    with_each_set([&] {
        std::vector<float> numbers(65536);
        numbers_of_halves(bytes, numbers);
        int wrong = 0;
        for (uint32_t half = 0; half < 65536; ++half) {
            const int exponent = static_cast<int>(half >> 10 & 31), fraction = static_cast<int>(half & 1023);
            const float sign = half >> 15 != 0 ? -1.0F : 1.0F;
            const float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                               : exponent == 31
                                   ? (fraction == 0 ? INFINITY : NAN)
                                   : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
            const float number = numbers[half];
            if (std::isnan(size) ? !std::isnan(number)
                                 : std::bit_cast<uint32_t>(number) != std::bit_cast<uint32_t>(sign * size))
                ++wrong;
        }
        REQUIRE(wrong == 0);
        for (size_t n = 0; n < 40; ++n) { // any number of them
            std::vector<float> few(n + 1, 7);
            numbers_of_halves(std::span(bytes).subspan(2 * 15000, 2 * n), std::span(few).first(n));
            REQUIRE(std::equal(few.begin(), few.end() - 1, numbers.begin() + 15000));
            REQUIRE(few.back() == 7);
        }
    });
}
