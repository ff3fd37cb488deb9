#pragma once

#include "kernels/cuda/decode/decoder.h"
#include "kernels/decode/decode_plan.h"
#include "kernels/shared/half_types.h"
#include "tests/kernels/simt/decode_fixture.h"

#include <deque>
#include <functional>
#include <string>
#include <vector>

/// What the suites of plans share: a model to launch with, and a launch against its plan.
namespace refreshlab::test::plan_simt {

using namespace kernels;
namespace gpu = kernels::RL_GPU;
using simt::Array;
using simt::Contents;

/// A model whose numbers say nothing, where kernels see it: zeros, or what `draw` makes in bf16.
class PlanModel {
public:
    explicit PlanModel(const decode::DecodeShape& s, std::function<float()> draw = {})
        : m_draw(std::move(draw)) {
        model.type = s.type;
        model.hidden = model.width = s.hidden;
        model.ffn = s.ffn;
        model.heads = s.heads;
        model.kv_heads = s.kv_heads;
        model.head_dim = s.head_dim;
        model.vocab = s.vocab;
        model.norm_eps = 1e-5;
        model.qk_norm_whole = s.qk_norm_whole;
        model.experts = s.experts;
        model.final_norm = numbers(s.hidden, s.type);
        const auto matrix_of = [&](MatrixForm form, int64_t outputs, int64_t inputs) {
            return DeviceMatrix{bytes(matrix_bytes(s.type, form, outputs, inputs)), nullptr, outputs, inputs,
                                form};
        };
        const auto matrix = [&](int64_t outputs, int64_t inputs) {
            return matrix_of(s.form, outputs, inputs);
        };
        model.embedding = matrix_of(s.embedding_form, s.vocab, s.hidden);
        model.head = matrix_of(s.head_form, s.vocab, s.hidden);
        for (int64_t l = 0; l < s.layers; ++l) {
            DeviceModel::Layer& layer = model.layers.emplace_back();
            if (s.pre_norms) {
                layer.input_norm = numbers(s.hidden, s.type);
                layer.post_norm = numbers(s.hidden, s.type);
            }
            if (s.branch_norms) {
                layer.o_norm = numbers(s.hidden, s.type);
                layer.down_norm = numbers(s.hidden, s.type);
            }
            if (s.qk_norm) {
                layer.q_norm = numbers((s.qk_norm_whole ? s.heads : 1) * s.head_dim, s.type);
                layer.k_norm = numbers((s.qk_norm_whole ? s.kv_heads : 1) * s.head_dim, s.type);
            }
            layer.k = matrix(s.kv_heads * s.head_dim, s.hidden);
            layer.v = matrix(s.kv_heads * s.head_dim, s.hidden);
            if (s.attends.empty() || s.attends[static_cast<size_t>(l)]) {
                layer.q = matrix(s.heads * s.head_dim, s.hidden);
                layer.o = matrix(s.hidden, s.heads * s.head_dim);
            }
            if (!s.windows.empty()) layer.window = s.windows[static_cast<size_t>(l)];
            if (!s.has_mlp.empty() && !s.has_mlp[static_cast<size_t>(l)]) continue;
            if (s.routes(l)) {
                layer.router = matrix_of(MatrixForm::numbers, s.experts.count, s.hidden);
                for (int64_t e = 0; e < s.experts.count; ++e)
                    layer.experts.push_back({matrix(s.experts.width, s.hidden),
                                             matrix(s.experts.width, s.hidden),
                                             matrix(s.hidden, s.experts.width)});
                continue;
            }
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
    uint8_t* numbers(int64_t n, WeightType type) { return bytes(n * bytes_of(type)); }
    uint8_t* bytes(int64_t n) {
        std::vector<uint8_t> of_model(static_cast<size_t>(n), 0);
        for (size_t i = 0; m_draw && i + 2 <= of_model.size(); i += 2) {
            const uint16_t number = shared::float_to_bf16(m_draw());
            std::memcpy(of_model.data() + i, &number, sizeof number);
        }
        return m_memory.emplace_back(of_model, "numbers").data();
    }
    std::function<float()> m_draw;
    std::deque<Array<uint8_t>> m_memory;
};

inline void require_same(const decode::PlannedLaunch& planned, const simt::LaunchRecord& made) {
    INFO(planned.part << " of layer " << planned.layer << ", launched as " << made.kernel);
    REQUIRE(made.kernel.starts_with(std::string(name_of(planned.kernel)) + "_kernel"));
    if (planned.outer_instance > 0)
        REQUIRE(made.kernel.ends_with(std::to_string(planned.outer_instance) + ", " +
                                      std::to_string(planned.instance) + ">"));
    for (size_t i = 0; i < 3; ++i) {
        REQUIRE(made.grid[i] == planned.shape.grid[i]);
        REQUIRE(made.block[i] == planned.shape.block[i]);
    }
    REQUIRE(made.shared_bytes == planned.shape.shared_bytes);
    REQUIRE(made.cluster == planned.shape.cluster);
    REQUIRE(made.dependent == planned.dependent);
}

/// All of them, in that order.
inline void require_same(const std::vector<decode::PlannedLaunch>& planned,
                         const std::vector<simt::LaunchRecord>& made) {
    REQUIRE(made.size() == planned.size());
    for (size_t i = 0; i < planned.size(); ++i)
        require_same(planned[i], made[i]);
}

} // namespace refreshlab::test::plan_simt
