#include "engine/bench/numbers/plan_shape.h"

#include "engine/base/error.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/forward/held_experts.h"
#include "engine/model/model_config.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace refreshlab::bench {

namespace {

constexpr const char* form =
    "HIDDENxFFNxLAYERSxHEADSxKV_HEADSxHEAD_DIMxVOCAB, as in 1696x4512x28x24x8x128x128256";

void require_kernels(const kernels::decode::DecodeShape& s, const std::string& doing,
                     const std::string& object) {
    namespace decode = kernels::decode;
    if (s.heads % s.kv_heads != 0)
        throw Error(doing, object,
                    fmt::format("{} heads are no multiple of {} KV heads", s.heads, s.kv_heads));
    if (s.heads / s.kv_heads > decode::most_group)
        throw Error(doing, object,
                    fmt::format("the decode's kernels take at most {} heads of one KV head, and here are {}",
                                decode::most_group, s.heads / s.kv_heads));
    if (s.head_dim % 8 != 0 || s.head_dim > decode::most_head_dim)
        throw Error(
            doing, object,
            fmt::format("the decode's kernels take heads of a multiple of 8 channels, at most {}, and "
                        "here are {}",
                        decode::most_head_dim, s.head_dim));
}

kernels::MatrixForm planned_form(const std::string& dtype) {
    return dtype == "q8_0"   ? kernels::MatrixForm::q8_0
           : dtype == "q4_0" ? kernels::MatrixForm::q4_0
           : dtype == "q4_1" ? kernels::MatrixForm::q4_1
                             : kernels::MatrixForm::numbers;
}

} // namespace

PlannedModel planned_model(const std::string& text) {
    constexpr std::array<std::pair<const char*, int64_t>, 7> parts{{{"HIDDEN", ModelConfig::max_width},
                                                                    {"FFN", ModelConfig::max_width},
                                                                    {"LAYERS", ModelConfig::max_layers},
                                                                    {"HEADS", ModelConfig::max_heads},
                                                                    {"KV_HEADS", ModelConfig::max_heads},
                                                                    {"HEAD_DIM", ModelConfig::max_head_dim},
                                                                    {"VOCAB", ModelConfig::max_vocab}}};
    std::array<int64_t, parts.size()> n{};
    const char* at = text.data();
    const char* const end = at + text.size();
    for (size_t i = 0; i < parts.size(); ++i) {
        const auto [behind, problem] = std::from_chars(at, end, n[i]);
        const bool last = i + 1 == parts.size();
        if (problem != std::errc() || (last ? behind != end : behind == end || *behind != 'x'))
            throw Error("reading --shape", text, "is not of the form", form);
        if (n[i] < 1 || n[i] > parts[i].second)
            throw Error("reading --shape", text,
                        fmt::format("{} is {}, and may be 1 to {}", parts[i].first, n[i], parts[i].second));
        at = behind + 1;
    }
    PlannedModel model;
    model.name = text;
    model.hidden = n[0];
    model.ffn = n[1];
    kernels::decode::DecodeShape& s = model.shape;
    s.hidden = LlamaWeights::held_width(n[0]);
    s.ffn = LlamaWeights::held_width(n[1]);
    s.layers = n[2];
    s.heads = n[3];
    s.kv_heads = n[4];
    s.head_dim = n[5];
    s.vocab = n[6];
    require_kernels(s, "reading --shape", text);
    return model;
}

PlannedModel planned_model(const ModelConfig& config, const std::string& name) {
    if (const auto missing = missing_in(Kernels::gpu, config))
        throw Error("planning", name, fmt::format("the kernels of a GPU do not have {}", *missing));
    PlannedModel model;
    model.name = name;
    model.hidden = config.hidden_size;
    model.ffn = config.intermediate_size;
    kernels::decode::DecodeShape& s = model.shape;
    s.hidden = LlamaWeights::held_width(config.hidden_size);
    s.ffn = LlamaWeights::held_width(config.intermediate_size);
    s.layers = config.num_layers;
    s.heads = config.num_heads;
    s.kv_heads = config.num_kv_heads;
    s.head_dim = config.head_dim;
    s.vocab = config.vocab_size;
    s.qkv_bias = config.qkv_bias;
    s.output_bias = config.output_bias;
    s.mlp_bias = config.mlp_bias;
    s.qk_norm = config.qk_norm;
    s.qk_norm_whole = config.qk_norm_whole;
    s.pre_norms = config.pre_norms;
    s.branch_norms = config.branch_norms;
    s.windows = config.layer_windows;
    s.experts = held_experts(config);
    s.routed = config.layer_routed;
    require_kernels(s, "planning", name);
    return model;
}

kernels::WeightType planned_type(const std::string& dtype) {
    if (dtype == "bf16") return kernels::WeightType::bf16;
    if (dtype == "f16") return kernels::WeightType::f16;
    if (dtype == "f32") return kernels::WeightType::f32;
    if (planned_form(dtype) != kernels::MatrixForm::numbers) return kernels::WeightType::bf16;
    throw Error("reading", "--dtype", "'" + dtype + "' is not one of bf16, f16, f32, q8_0, q4_0, q4_1",
                "the types of a file's blocks stand in the place of native, as a plan reads no weights");
}

void set_forms(PlannedModel& model, const std::string& dtype) {
    const kernels::MatrixForm form = planned_form(dtype);
    kernels::decode::DecodeShape& s = model.shape;
    if (form != kernels::MatrixForm::numbers) {
        for (const int64_t width : {model.hidden, model.ffn, s.heads * s.head_dim, s.experts.width}) {
            if (width % kernels::block_width != 0)
                throw Error("planning", model.name,
                            fmt::format("its matrices cannot stand in blocks of {} inputs: {} is no multiple",
                                        kernels::block_width, width),
                            "use --dtype bf16");
        }
        // Outputs of k and v; the others are inputs of another matrix.
        if (s.kv_heads * s.head_dim % kernels::block_rows != 0)
            throw Error("planning", model.name,
                        fmt::format("its keys cannot be made in tiles of {}: {} is no multiple",
                                    kernels::block_rows, s.kv_heads * s.head_dim),
                        "use --dtype bf16");
    }
    s.form = form;
    s.embedding_form = s.head_form = s.vocab % kernels::block_rows == 0 ? form : kernels::MatrixForm::numbers;
}

} // namespace refreshlab::bench
