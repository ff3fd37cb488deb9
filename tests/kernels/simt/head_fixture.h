#pragma once

#include "tests/kernels/simt/block_fixture.h"

/// What the suites of the head's answers share.
namespace refreshlab::test::head_simt {

using namespace block_simt;

/// Of the token's row, beside its statistics.
struct Asked {
    int64_t k = 0;      ///< largest logits
    int64_t token = -1; ///< whose logit
    double temperature = 0, share = -1;
};

/// A head whose inputs are given, and what it needs beside them.
struct Head {
    Head(Random& random, WeightType of_type, int64_t outputs, int64_t hidden, int64_t num_rows)
        : type(of_type)
        , rows(num_rows)
        , vocab(outputs)
        , x(random.normal({rows, hidden}, 2.0))
        , norm(random, {hidden}, type, "norm", 0.3, 1.0) {}

    /// \param logits  [rows, vocab]
    [[nodiscard]] kernels::DeviceAnswers run(const gpu::Matrix& matrix, const Asked& asked,
                                             at::Tensor* logits = nullptr) const {
        namespace decode = kernels::decode;
        using kernels::DeviceAnswers;
        gpu::StepState step;
        step.passes = static_cast<int32_t>(rows - 1);
        step.sequence = 41;
        step.asked = static_cast<int32_t>(asked.token);
        step.temperature = asked.temperature;
        step.share = asked.share;
        const Array<gpu::StepState> state(std::vector{step}, "state", Contents::read_only);
        const auto in_x = floats_on_device(x, "x");
        const Array<float> out(static_cast<size_t>(rows * vocab), "logits");
        const auto groups = static_cast<size_t>(decode::answer_groups(vocab)),
                   places = static_cast<size_t>(decode::answer_blocks(vocab)) + groups;
        const Array<kernels::shared::SoftmaxSums> sums(places, "sums");
        const Array<uint64_t> keys(places * static_cast<size_t>(asked.k), "keys");
        const Array<uint32_t> arrived(std::vector<uint32_t>(groups + 1, 0), "arrived");
        const Array<DeviceAnswers> answers(1, "answers");
        const Array<float> of_asked(1, "asked");
        const Array<double> weights(places, "weights");
        gpu::HeadInputs in;
        in.type = type;
        in.state = state.data();
        in.x = in_x.data();
        in.norm = norm.device.data();
        in.hidden = in.width = x.size(1);
        in.eps = 1e-5;
        in.head = matrix;
        in.logits = out.data();
        in.rows = rows;
        in.answers = {answers.data(),
                      asked.k,
                      sums.data(),
                      keys.data(),
                      arrived.data(),
                      of_asked.data(),
                      asked.temperature > 0 ? weights.data()
                                            : nullptr}; // nobody looks at them without a draw
        gpu::launch_head(in, nullptr);
        gpu::launch_head(in, nullptr); // the counters are as they were
        REQUIRE(arrived.values() == std::vector<uint32_t>(groups + 1, 0));
        if (logits != nullptr) *logits = tensor_of(out, {rows, vocab});
        return answers.values()[0];
    }

    WeightType type;
    int64_t rows, vocab;
    at::Tensor x;
    Weights norm;
};

} // namespace refreshlab::test::head_simt
