// Overlap and rank of rows, against plain loops in double.
#include "kernels/execution/execution_context.h"
#include "kernels/execution/isa.h"
#include "kernels/ops/row_overlap.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <catch2/catch_test_macros.hpp>

#include <cmath>

namespace row_overlap_test {

using namespace refreshlab;
using namespace refreshlab::kernels;

namespace {

at::Tensor random_rows(int64_t rows, int64_t vocab, double width, uint64_t seed) {
    at::Generator generator = at::detail::createCPUGenerator(seed);
    return at::empty({rows, vocab}, at::TensorOptions().dtype(at::kFloat)).normal_(0, width, generator);
}

double naive(const at::Tensor& p, const at::Tensor& q) {
    const at::Tensor a = p.to(at::kDouble).softmax(0), b = q.to(at::kDouble).softmax(0);
    double sum = 0;
    for (int64_t i = 0; i < a.numel(); ++i)
        sum += std::min(a[i].item<double>(), b[i].item<double>());
    return sum;
}

} // namespace

TEST_CASE("the overlap of two rows is the sum of the smaller probabilities", "[kernels]") {
    for (const Isa set : available_isas()) {
        const ExecutionContext context(2, set);
        const ExecutionScope scope(context);
        for (const int64_t vocab : {1, 7, 97, 4096, 5001}) {
            CAPTURE(std::string(to_string(set)), vocab);
            const at::Tensor p = random_rows(5, vocab, 3, refreshlab::test::seed(1)),
                             q = random_rows(4, vocab, 3, refreshlab::test::seed(2));
            q[3].copy_(p[2]);
            p.select(0, 4).fill_(1.5);
            const std::vector<int64_t> other = {2, -1, 3, 0, 1};
            const auto statistics = row_statistics(p);
            const auto found = row_overlap(p, statistics, q, other);
            REQUIRE(found.size() == 5);
            for (const size_t r : {size_t{0}, size_t{2}, size_t{3}, size_t{4}}) {
                const at::Tensor mine = p[static_cast<int64_t>(r)], theirs = q[other[r]];
                CHECK(std::abs(found[r].acceptance - naive(mine, theirs)) < 1e-6);
                CHECK(found[r].acceptance <= 1);
                CHECK(found[r].same_top1 ==
                      (mine.argmax().item<int64_t>() == theirs.argmax().item<int64_t>()));
                // Symmetric.
                const std::vector<int64_t> first = {0};
                const auto back = row_overlap(theirs.unsqueeze(0), row_statistics(theirs.unsqueeze(0)),
                                              mine.unsqueeze(0), first);
                CHECK(std::abs(back[0].acceptance - found[r].acceptance) < 1e-6);
            }
            CHECK(std::isnan(found[1].acceptance));
            CHECK(std::abs(found[2].acceptance - 1) < 1e-6); // equal rows
            CHECK(found[2].same_top1);
            const auto other_code = reference::row_overlap(p, statistics, q, other);
            for (size_t r = 0; r < found.size(); ++r)
                CHECK((std::isnan(found[r].acceptance)
                           ? std::isnan(other_code[r].acceptance)
                           : std::abs(found[r].acceptance - other_code[r].acceptance) < 1e-6));
        }
        // Rows that share nothing; a row that is no distribution.
        const at::Tensor far = at::tensor({100.0F, 0.0F, 0.0F}).unsqueeze(0),
                         away = at::tensor({0.0F, 100.0F, 0.0F}).unsqueeze(0);
        const std::vector<int64_t> own = {0};
        CHECK(row_overlap(far, row_statistics(far), away, own)[0].acceptance < 1e-30);
        const at::Tensor broken = at::tensor({NAN, 1.0F, 0.0F}).unsqueeze(0);
        CHECK(std::isnan(row_overlap(far, row_statistics(far), broken, own)[0].acceptance));
        CHECK(std::isnan(row_overlap(broken, row_statistics(broken), far, own)[0].acceptance));
    }
}

TEST_CASE("the rank of a token is its place in the sorted row", "[kernels]") {
    for (const Isa set : available_isas()) {
        const ExecutionContext context(1, set);
        const ExecutionScope scope(context);
        at::Tensor rows = random_rows(40, 301, 1, refreshlab::test::seed(3));
        rows = (rows * 4).round(); // many ties
        std::vector<int32_t> tokens;
        for (int32_t r = 0; r < 40; ++r)
            tokens.push_back(r * 7);
        tokens[5] = -1;
        const auto ranks = token_ranks(rows, tokens);
        CHECK(reference::token_ranks(rows, tokens) == ranks);
        for (int64_t r = 0; r < 40; ++r) {
            const int32_t token = tokens[static_cast<size_t>(r)];
            if (token < 0) {
                CHECK(ranks[static_cast<size_t>(r)] == 0);
                continue;
            }
            const at::Tensor order = std::get<1>(rows[r].sort(true, 0, true));
            CHECK(order[ranks[static_cast<size_t>(r)] - 1].item<int64_t>() == token);
        }
        const at::Tensor row = at::tensor({1.0F, NAN, 3.0F, 3.0F}).unsqueeze(0);
        const auto rank = [&](int32_t token) { return token_ranks(row, std::vector<int32_t>{token})[0]; };
        CHECK(rank(2) == 1);
        CHECK(rank(3) == 2);
        CHECK(rank(0) == 3);
        CHECK(rank(1) == 0);
    }
}

} // namespace row_overlap_test
