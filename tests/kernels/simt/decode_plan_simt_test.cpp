#include "kernels/cuda/decode/decoder.h"
#include "kernels/cuda/decode/row_answers.h"
#include "kernels/decode/decode_plan.h"
#include "tests/kernels/simt/decode_fixture.h"

#include <deque>

/// The plan of a decode step against the launches that a decoder makes.
namespace refreshlab::test::decode_plan_simt {
namespace {

using namespace kernels;
namespace gpu = kernels::RL_GPU;
using simt::Array;
using simt::Contents;

/// A model whose numbers say nothing, where kernels see it.
class Model {
public:
    explicit Model(const decode::DecodeShape& s) {
        model.type = s.type;
        model.hidden = model.width = s.hidden;
        model.ffn = s.ffn;
        model.heads = s.heads;
        model.kv_heads = s.kv_heads;
        model.head_dim = s.head_dim;
        model.vocab = s.vocab;
        model.norm_eps = 1e-5;
        model.embedding = numbers(s.vocab * s.hidden, s.type);
        model.final_norm = numbers(s.hidden, s.type);
        model.head = numbers(s.vocab * s.hidden, s.type);
        const auto matrix = [&](int64_t outputs, int64_t inputs) {
            return DeviceMatrix{numbers(outputs * inputs, s.type), nullptr, outputs, inputs};
        };
        for (int64_t l = 0; l < s.layers; ++l) {
            DeviceModel::Layer& layer = model.layers.emplace_back();
            layer.input_norm = numbers(s.hidden, s.type);
            layer.post_norm = numbers(s.hidden, s.type);
            layer.q = matrix(s.heads * s.head_dim, s.hidden);
            layer.k = matrix(s.kv_heads * s.head_dim, s.hidden);
            layer.v = matrix(s.kv_heads * s.head_dim, s.hidden);
            layer.o = matrix(s.hidden, s.heads * s.head_dim);
            if (!s.windows.empty()) layer.window = s.windows[static_cast<size_t>(l)];
            if (!s.has_mlp.empty() && !s.has_mlp[static_cast<size_t>(l)]) continue;
            layer.gate = matrix(s.ffn, s.hidden);
            layer.up = matrix(s.ffn, s.hidden);
            layer.down = matrix(s.hidden, s.ffn);
        }
        const int64_t entries = s.layers * s.kv_heads * s.capacity * s.head_dim;
        cache.k = numbers(entries, s.type);
        cache.v = numbers(entries, s.type);
        cache.capacity = s.capacity;
        const int64_t rotations = s.capacity * s.head_dim / 2;
        cache.cos = reinterpret_cast<const float*>(numbers(rotations, WeightType::f32));
        cache.sin = reinterpret_cast<const float*>(numbers(rotations, WeightType::f32));
    }

    DeviceModel model;
    DeviceCache cache;

private:
    uint8_t* numbers(int64_t n, WeightType type) {
        const auto bytes = static_cast<size_t>(n * bytes_of(type));
        return m_memory.emplace_back(std::vector<uint8_t>(bytes, 0), "numbers").data();
    }
    std::deque<Array<uint8_t>> m_memory;
};

void require_same(const decode::PlannedLaunch& planned, const simt::LaunchRecord& made) {
    INFO(planned.part << " of layer " << planned.layer << ", launched as " << made.kernel);
    REQUIRE(made.kernel.starts_with(std::string(name_of(planned.kernel)) + "_kernel"));
    for (size_t i = 0; i < 3; ++i) {
        REQUIRE(made.grid[i] == planned.shape.grid[i]);
        REQUIRE(made.block[i] == planned.shape.block[i]);
    }
    REQUIRE(made.shared_bytes == planned.shape.shared_bytes);
    REQUIRE(made.dependent == planned.dependent);
}

TEST_CASE("a decoder makes the launches of its plan, in that order", "[simt][decode]") {
    decode::DecodeShape shape;
    shape.hidden = 64;
    shape.ffn = 96;
    shape.layers = 3;
    shape.heads = 4;
    shape.kv_heads = 2;
    shape.head_dim = 16;
    shape.vocab = 330;
    shape.windows = {0, 100, 0};
    shape.has_mlp = {true, true, false};
    for (const WeightType type : {WeightType::bf16, WeightType::f32}) {
        for (const int64_t rows : {1, 2, 9, 10, 20, 40}) {
            shape.type = type;
            shape.rows = rows;
            shape.context = 300;
            shape.capacity = 520;
            const Model m(shape);
            const auto decoder = gpu::make_decoder(m.model);
            const Array<float> logits(static_cast<size_t>(rows * shape.vocab), "logits");
            DeviceStep step;
            step.token = 7;
            step.position = shape.context;
            step.rows = rows;
            step.logits = logits.data();
            (void)simt::take_activity();
            decoder->step(m.cache, step, nullptr);
            const simt::Activity activity = simt::take_activity();
            const auto planned = plan_step(shape);
            CAPTURE(rows);
            REQUIRE(activity.graph_launches == 1);
            REQUIRE(activity.launches.size() == planned.size());
            for (size_t i = 0; i < planned.size(); ++i)
                require_same(planned[i], activity.launches[i]);
        }
    }
}

TEST_CASE("a step's answers are launched as planned", "[simt][decode]") {
    for (const int64_t vocab : {330, 4096, 4097}) {
        decode::DecodeShape shape;
        shape.hidden = shape.ffn = 64;
        shape.layers = shape.heads = shape.kv_heads = 1;
        shape.head_dim = 16;
        shape.vocab = vocab;
        shape.capacity = 1;
        shape.top_k = 3;
        const auto segments = static_cast<size_t>(gpu::answer_segments(vocab));
        const Array<float> logits(std::vector<float>(static_cast<size_t>(vocab), 0.5F), "logits");
        const Array<shared::SoftmaxSums> parts(segments, "parts");
        const Array<uint64_t> keys(segments * 3, "keys");
        const Array<uint32_t> arrived(std::vector<uint32_t>{0}, "arrived");
        const Array<gpu::StepState> state(std::vector<gpu::StepState>(1), "state", Contents::read_only);
        const Array<DeviceAnswers> answers(1, "answers");
        gpu::RowAnswersInputs in;
        in.state = state.data();
        in.logits = logits.data();
        in.vocab = vocab;
        in.top_k = 3;
        in.parts = parts.data();
        in.keys = keys.data();
        in.arrived = arrived.data();
        in.answers = answers.data();
        in.dependent = true;
        (void)simt::take_activity();
        gpu::launch_row_answers(in, nullptr);
        const simt::Activity activity = simt::take_activity();
        REQUIRE(activity.launches.size() == 1);
        require_same(plan_step(shape).back(), activity.launches[0]);
    }
}

} // namespace
} // namespace refreshlab::test::decode_plan_simt
