#include "engine/study/measure/epicache_profile.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/forward/layer_hooks.h"

#include <ATen/ops/cosine_similarity.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>

namespace refreshlab {

namespace {

/// A token sees its own block alone.
class OwnBlock final : public LayerHooks {
public:
    explicit OwnBlock(int64_t block)
        : m_block(block) {}
    void attend(int64_t, kernels::AttentionInputs& inputs) override {
        m_first.clear();
        for (size_t row = 0; row < inputs.num_visible.size(); ++row) {
            const int64_t position = inputs.num_visible[row] - 1,
                          models = inputs.first_visible.empty() ? 0 : inputs.first_visible[row];
            m_first.push_back(std::max(models, position / m_block * m_block));
        }
        inputs.first_visible = m_first;
    }

private:
    int64_t m_block;
    std::vector<int64_t> m_first;
};

std::unique_ptr<KvCache> read(const LlamaModel& model, std::span<const int32_t> ids, LayerHooks* hook) {
    auto cache = model.make_cache(std::ssize(ids));
    StepInputs in;
    in.tokens = ids;
    in.rows = Rows::none;
    if (hook != nullptr) in.hooks = {&hook, 1};
    static_cast<void>(model.forward().prefill(*cache, in));
    return cache;
}

} // namespace

std::optional<CacheProfile> measure_epicache(const LlamaModel& model,
                                             std::span<const std::vector<int32_t>> texts, int64_t block,
                                             const std::function<bool(double)>& progress) {
    RL_ASSERT(block > 0);
    const c10::InferenceMode guard;
    const ModelConfig& config = model.config();
    std::vector<double> sums(static_cast<size_t>(config.num_layers), 0);
    int64_t keys = 0;
    for (size_t i = 0; i < texts.size(); ++i) {
        if (!progress(static_cast<double>(i) / static_cast<double>(texts.size()))) return std::nullopt;
        const int64_t behind = std::ssize(texts[i]) - block;
        if (behind <= 0) continue;
        std::vector<int64_t> positions(static_cast<size_t>(behind));
        std::iota(positions.begin(), positions.end(), block);
        OwnBlock hook(block);
        const auto all = read(model, texts[i], nullptr), own = read(model, texts[i], &hook);
        keys += behind * config.num_kv_heads;
        for (int64_t layer = 0; layer < config.num_layers; ++layer) {
            for (int64_t head = 0; head < config.num_kv_heads; ++head)
                sums[static_cast<size_t>(layer)] +=
                    at::cosine_similarity(all->read(layer, head, positions)[0].to(at::kDouble),
                                          own->read(layer, head, positions)[0].to(at::kDouble), 1)
                        .sum()
                        .item<double>();
        }
    }
    if (keys == 0)
        throw Error("measuring a profile", {},
                    fmt::format("no text is longer than a block of {} tokens", block),
                    "give longer texts, a larger --length or a smaller --block");
    CacheProfile profile;
    profile.method = "epicache";
    for (const double sum : sums)
        profile.layers.push_back({{"similarity", {std::clamp(sum / static_cast<double>(keys), 0.0, 1.0)}}});
    return profile;
}

} // namespace refreshlab
