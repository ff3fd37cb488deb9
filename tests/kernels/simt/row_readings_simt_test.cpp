#include "kernels/cuda/row_launchers.cuh"
#include "kernels/ops/row_reading.h"
#include "kernels/simt/harness.h"
#include "tests/kernels/kernel_fixture.h"

/// What a teacher's pass is asked about its rows, by the device's kernels on the host machine: against the separate ops on the CPU, in
/// several orders of blocks and threads, with the same bits in each.
namespace refreshlab::test::row_readings_simt {
namespace {

using namespace kernels;
namespace gpu = kernels::RL_GPU;
using simt::Array;
using simt::Contents;

bool close(double a, double b, double relative, double absolute) {
    return (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= relative * std::abs(b) + absolute;
}

Array<float> on_device(const at::Tensor& t, const std::string& name) {
    const at::Tensor c = t.contiguous();
    return {std::span(c.const_data_ptr<float>(), static_cast<size_t>(c.numel())), name, Contents::read_only};
}

TEST_CASE("readings of a teacher's rows on the host machine equal the CPU's", "[simt][statistics]") {
    constexpr int64_t n = 7, m = 5;
    Random random(1177);
    for (const int64_t vocab : {1, 33, 4096, 4097, 9001}) {
        at::Tensor rows = random.normal({n, vocab}, 3.0);
        at::Tensor others = random.normal({m, vocab}, 3.0);
        rows[1].fill_(2.0); // all tie
        rows[2][random.between(0, vocab - 1)] = nan;
        others[3][random.between(0, vocab - 1)] = -std::numeric_limits<float>::infinity();
        rows[5].copy_(others[4]); // no distance
        // Of other places than their own, of none, and of one that several have; tokens likewise.
        const std::vector<int64_t> other_of{0, 2, 1, 3, -1, 4, 0};
        std::vector<int32_t> tokens;
        for (int64_t r = 0; r < n; ++r)
            tokens.push_back(r == 3 ? -1 : static_cast<int32_t>(random.between(0, vocab - 1)));
        const std::vector<RowReading> expected = read_rows(rows, tokens, others, other_of);
        REQUIRE(expected[5].kl_nats < 1e-9);
        REQUIRE(std::isnan(expected[4].kl_nats));

        const std::vector<int64_t> wide_tokens(tokens.begin(), tokens.end());
        const auto segments = static_cast<size_t>(gpu::num_segments(vocab));
        std::vector<shared::RowReadingSums> first;
        simt::in_orders(3, [&](uint64_t order) {
            const Array<float> p = on_device(rows, "p"), q = on_device(others, "q");
            const Array<int64_t> of(other_of, "other_of", Contents::read_only),
                ids(wide_tokens, "tokens", Contents::read_only);
            const Array<shared::RowReadingSums> parts(n * segments, "parts"), readings(n, "readings");
            const Array<shared::SoftmaxSums> overlap_parts(n * segments, "overlap parts"),
                overlaps(n, "overlaps");
            gpu::RowReadingsInputs in;
            in.p = p.data();
            in.q = q.data();
            in.rows = n;
            in.vocab = vocab;
            in.other_of = of.data();
            in.tokens = ids.data();
            in.parts = parts.data();
            in.readings = readings.data();
            in.overlap_parts = overlap_parts.data();
            in.overlaps = overlaps.data();
            gpu::launch_row_readings(in, nullptr);
            const auto sums = readings.values();
            const auto overlap = overlaps.values();
            for (size_t r = 0; r < n; ++r) {
                CAPTURE(vocab, order, r);
                const RowReading got = finish_reading(sums[r], overlap[r], tokens[r] >= 0);
                const RowReading& want = expected[r];
                REQUIRE(got.statistics.finite == want.statistics.finite);
                if (want.statistics.finite) REQUIRE(got.statistics.top1_id == want.statistics.top1_id);
                REQUIRE(close(got.statistics.log_z, want.statistics.log_z, 1e-12, 1e-12));
                REQUIRE(close(got.statistics.entropy_bits, want.statistics.entropy_bits, 1e-9, 1e-11));
                REQUIRE(close(got.logprob, want.logprob, 1e-12, 1e-12));
                REQUIRE(got.rank == want.rank);
                REQUIRE(close(got.kl_nats, want.kl_nats, 1e-9, 1e-11));
                // The smaller log-probabilities are summed as fp32 on both sides.
                REQUIRE(close(got.overlap.acceptance, want.overlap.acceptance, 1e-6, 1e-9));
                REQUIRE(got.overlap.same_top1 == want.overlap.same_top1);
            }
            if (order == 0) first = sums;
            for (size_t r = 0; r < n; ++r) {
                REQUIRE(sums[r].p.sum == first[r].p.sum);
                REQUIRE(sums[r].kl.u == first[r].kl.u);
                REQUIRE(sums[r].above == first[r].above);
            }
        });
    }
}

} // namespace
} // namespace refreshlab::test::row_readings_simt
