#include "tests/engine/session/tiny_pair.h"

#include "engine/session/decode/decode_session.h"
#include "engine/session/policies/policy_runner.h"
#include "engine/text/tokenizer/tokenizer.h"

#include <ATen/ATen.h>

#include <random>

namespace refreshlab::test {

std::shared_ptr<const LlamaModel> tiny_model(uint64_t seed, const TinyShape& shape, at::Device device) {
    ModelConfig config;
    config.model_type = "llama";
    config.vocab_size = shape.vocab;
    config.hidden_size = shape.hidden;
    config.intermediate_size = shape.intermediate;
    config.num_layers = shape.layers;
    config.num_heads = shape.heads;
    config.num_kv_heads = shape.kv_heads;
    config.head_dim = shape.head_dim;
    config.max_position = shape.max_position;
    config.tied_head = false;
    config.eos_ids = {shape.end_id};
    if (shape.attention_dropout > 0) config.attention_dropout = shape.attention_dropout;
    if (shape.window > 0) config.layer_windows.assign(static_cast<size_t>(shape.layers), shape.window);
    if (shape.differs != nullptr) shape.differs(config);
    std::mt19937_64 random(seed);
    const auto weight = [&random](const std::string& name, at::IntArrayRef sizes) {
        at::Tensor values = at::empty(sizes, at::kFloat);
        float* data = values.mutable_data_ptr<float>();
        const bool norm = name.find("norm") != std::string::npos;
        std::normal_distribution<float> normal(norm ? 1.0F : 0.0F, norm ? 0.1F : 0.35F);
        for (int64_t i = 0; i < values.numel(); ++i)
            data[i] = normal(random);
        return values;
    };
    return LlamaModel::from_weights(config, weight, device, at::kFloat);
}

std::shared_ptr<const ModelPair> tiny_pair(uint64_t teacher_seed, uint64_t student_seed,
                                           const TinyShape& teacher, const TinyShape& student,
                                           at::Device teacher_device, at::Device student_device) {
    auto pair = std::make_shared<ModelPair>();
    pair->teacher = tiny_model(teacher_seed, teacher, teacher_device);
    pair->student = tiny_model(student_seed, student, student_device);
    static const auto tokenizer = Tokenizer::load(RL_SOURCE_DIR "/assets/models/llama-tales-student");
    pair->tokenizer = tokenizer;
    pair->teacher_dir = "tiny-teacher";
    pair->student_dir = "tiny-student";
    pair->teacher_gates = untrained_gates(pair->teacher->config(), teacher_device, teacher_seed);
    pair->student_gates = untrained_gates(pair->student->config(), student_device, student_seed);
    for (const CacheMethod& method : cache_methods()) {
        const auto profile = [&](const LlamaModel& model) {
            return aids_of(cache_policy_defaults(method.name, "a test"), {}, model.config()).profile;
        };
        if (method.profile == nullptr) continue;
        pair->teacher_profiles[std::string(method.name)] = profile(*pair->teacher);
        pair->student_profiles[std::string(method.name)] = profile(*pair->student);
    }
    pair->geometry_difference = geometry_difference(pair->teacher->config(), pair->student->config());
    return pair;
}

RunConfig tiny_run(int32_t max_tokens) {
    RunConfig config;
    config.prompt = "Once upon a time";
    config.raw_prompt = true;
    config.max_tokens = max_tokens;
    config.ignore_stop = true;
    config.threads = 2;
    config.seed = 7;
    return config;
}

std::vector<int32_t> text_of(const std::shared_ptr<const ModelPair>& pair, const RunConfig& config) {
    DecodeSession session(pair, config);
    while (session.step()) {
    }
    return session.recording()->token_ids();
}

Trigger trigger(std::string signal, Comparison comparison, double threshold, int32_t every,
                int32_t cooldown) {
    Trigger t;
    t.signal = std::move(signal);
    t.comparison = comparison;
    t.threshold = threshold;
    t.every = every;
    t.cooldown = cooldown;
    return t;
}

RefreshPolicy policy_of(std::vector<Trigger> triggers, std::optional<int32_t> window, OnFire on_fire) {
    RefreshPolicy policy;
    policy.name = "test";
    policy.triggers = std::move(triggers);
    policy.window = window;
    policy.on_fire = on_fire;
    return policy;
}

} // namespace refreshlab::test
