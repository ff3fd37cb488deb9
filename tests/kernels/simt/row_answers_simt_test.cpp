#include "kernels/cuda/decode/row_answers.h"
#include "kernels/ops/row_results.h"
#include "kernels/ops/row_statistics.h"
#include "kernels/simt/harness.h"
#include "tests/kernels/kernel_fixture.h"

/// The answers of a decode step's row, in one launch, against the plain ATen reference.
namespace refreshlab::test::row_answers_simt {
namespace {

using namespace kernels;
namespace gpu = kernels::RL_GPU;
using simt::Array;
using simt::Contents;

TEST_CASE("statistics and top-k of a step's row in one launch", "[simt][decode]") {
    Random random(1181);
    for (const int64_t vocab : {int64_t{1}, int64_t{33}, int64_t{4096}, int64_t{4097}, int64_t{12289}}) {
        at::Tensor row = random.normal({1, vocab}, 3.0).mul(8).round().div(8); // ties
        const bool broken = vocab == 4096;
        if (broken) row[0][17] = nan;
        const int64_t k = std::min<int64_t>(vocab, vocab % 2 == 0 ? 0 : 10);
        const RowStatistics expected = reference::row_statistics(row)[0];
        const TopK expected_top = reference::top_k(row[0], k);
        std::vector<shared::SoftmaxSums> first;
        simt::in_orders(4, [&](uint64_t order) {
            CAPTURE(vocab, k, order);
            const Array<float> logits(std::span(row.const_data_ptr<float>(), static_cast<size_t>(vocab)),
                                      "logits", Contents::read_only);
            const auto segments = static_cast<size_t>(gpu::answer_segments(vocab));
            const Array<shared::SoftmaxSums> parts(segments, "parts");
            const Array<uint64_t> keys(segments * static_cast<size_t>(k), "keys");
            const Array<uint32_t> arrived(std::vector<uint32_t>{0}, "arrived");
            gpu::StepState state;
            state.sequence = 41;
            const Array<gpu::StepState> device_state(std::vector{state}, "state", Contents::read_only);
            const Array<DeviceAnswers> answers(1, "answers");
            gpu::RowAnswersInputs in;
            in.state = device_state.data();
            in.logits = logits.data();
            in.vocab = vocab;
            in.top_k = k;
            in.parts = parts.data();
            in.keys = keys.data();
            in.arrived = arrived.data();
            in.answers = answers.data();
            gpu::launch_row_answers(in, nullptr);
            gpu::launch_row_answers(in, nullptr); // the counter is as it was
            const DeviceAnswers got = answers.values()[0];
            REQUIRE(got.sequence == 41);
            const RowStatistics statistics = finish_row(got.sums);
            REQUIRE(statistics.finite == expected.finite);
            if (!broken) {
                REQUIRE(statistics.top1_id == expected.top1_id);
                REQUIRE(std::abs(statistics.log_z - expected.log_z) <=
                        1e-12 * std::abs(expected.log_z) + 1e-12);
                REQUIRE(std::abs(statistics.entropy_bits - expected.entropy_bits) <= 1e-9);
            }
            const TopK top = finish_top_k(std::span(got.keys).first(static_cast<size_t>(k)));
            REQUIRE(top.ids == expected_top.ids);
            REQUIRE(top.logits == expected_top.logits);
            if (order == 0) first = {got.sums};
            REQUIRE(std::memcmp(&first[0], &got.sums, sizeof got.sums) == 0);
        });
    }
}

} // namespace
} // namespace refreshlab::test::row_answers_simt
