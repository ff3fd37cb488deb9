#include "kernels/ops/row_statistics.h"
#include "tests/engine/model/parity_support.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>

#include <cmath>

namespace parity_statistics_test {

using refreshlab::Checkpoint;
using refreshlab::ModelConfig;
using refreshlab::kernels::kl_divergence;
using refreshlab::kernels::row_statistics;
using refreshlab::kernels::top_k;
using refreshlab::test::parity_cases;
using refreshlab::test::parity_devices;
using refreshlab::test::ParityCase;

namespace {

constexpr double ln2 = 0.69314718055994530942;

bool close(double value, double expected) {
    return std::abs(value - expected) <= 1e-6 * std::abs(expected) + 1e-9;
}

} // namespace

TEST_CASE("entropy, top-1, KL and top-k of real rows are those of float64 to 1e-6", "[model][parity]") {
    for (const ParityCase& c : parity_cases()) {
        CAPTURE(c.name);
        const Checkpoint reference = Checkpoint::open(c.reference);
        const int64_t length = c.prompt + c.steps;
        const at::Tensor rows =
            reference.read("logits", {length, ModelConfig::load(c.checkpoint).vocab_size});
        const at::Tensor log_p = at::log_softmax(rows.to(at::kDouble), 1);
        const at::Tensor p = log_p.exp();
        const at::Tensor entropy = -(p * log_p).sum(1) / ln2;
        // Row r against the row before it: two distributions of one model, far apart and close.
        const at::Tensor before = rows.roll(1, 0);
        const at::Tensor kl = (p * (log_p - log_p.roll(1, 0))).sum(1);
        const auto [top, ids] = at::sort(rows.to(at::kDouble), /*stable=*/true, 1,
                                         /*descending=*/true); // ties: the lower id first
        for (const at::Device device : parity_devices()) {
            CAPTURE(device.str());
            const auto statistics = row_statistics(rows.to(device));
            const auto divergence = kl_divergence(rows.to(device), before.to(device));
            for (int64_t r = 0; r < length; ++r) {
                CAPTURE(r);
                const auto i = static_cast<size_t>(r);
                REQUIRE(statistics[i].finite);
                REQUIRE(close(statistics[i].entropy_bits, entropy[r].item<double>()));
                REQUIRE(close(statistics[i].top1_prob, p[r].max().item<double>()));
                REQUIRE(close(statistics[i].log_z, at::logsumexp(rows[r].to(at::kDouble), 0).item<double>()));
                REQUIRE(statistics[i].top1_id == ids[r][0].item<int64_t>());
                REQUIRE(close(divergence[i], kl[r].item<double>()));
                const auto best = top_k(rows[r].to(device), 10);
                for (int64_t k = 0; k < 10; ++k) {
                    REQUIRE(best.ids[static_cast<size_t>(k)] == ids[r][k].item<int64_t>());
                    REQUIRE(static_cast<double>(best.logits[static_cast<size_t>(k)]) ==
                            top[r][k].item<double>());
                }
            }
        }
    }
}

} // namespace parity_statistics_test
