// Stochastic KV routing: one layer of `layers_per_cache` keeps a cache; the others keep none and read the nearest lower one's.
//   source(l) = l - l mod layers_per_cache. Layers with source(l) = l keep their entries; every other one reads K and V of layer
//   source(l) at all positions, the new token's included
// Meant for models trained so: each layer above the first attends to its own keys and values or, at random, to those of the layer below.
// Another model reads keys that its queries were never made for, which shows what the training is worth.
// Ours: the prompt is read with every layer's own entries, and what the others hold of it goes then (in mode overfill the teacher reads
// it). Keys of all layers turn by the same angles, so a key of another layer needs no turning.
// Source: docs/reference/cache-definitions.md, section 10; Filippova et al. 2026.
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"

#include <numeric>

namespace refreshlab {

namespace {

class KvRouting final : public CacheMethodBase<KvRouting> {
public:
    KvRouting(int64_t layers_per_cache, const PolicyContext& context)
        : m_layers_per_cache(layers_per_cache)
        , m_context(context) {}

    [[nodiscard]] PolicyNeeds needs() const override {
        PolicyNeeds needs;
        needs.edits = m_layers_per_cache > 1;
        if (m_layers_per_cache == 1) return needs; // every layer keeps its own
        for (int64_t layer = 0; layer < m_context.layers; ++layer)
            needs.reads_layer.push_back(source(layer));
        return needs;
    }

    void read_prompt(const PromptView& view, CacheEditor& cache) override {
        if (!keeps(view.layer)) drop(view.layer, cache);
    }
    const HeadPositions* before_attention(const StepView& view, CacheEditor& cache) override {
        if (keeps(view.layer)) return nullptr;
        drop(view.layer, cache); // the new token's
        std::vector<int64_t> every(static_cast<size_t>(view.position + 1));
        std::iota(every.begin(), every.end(), 0);
        m_read.assign(static_cast<size_t>(m_context.kv_heads), every);
        return &m_read;
    }

private:
    [[nodiscard]] int64_t source(int64_t layer) const { return layer - layer % m_layers_per_cache; }
    [[nodiscard]] bool keeps(int64_t layer) const { return source(layer) == layer; }
    void drop(int64_t layer, CacheEditor& cache) const {
        for (int64_t head = 0; head < m_context.kv_heads; ++head)
            cache.keep(layer, head, {});
    }

    int64_t m_layers_per_cache;
    PolicyContext m_context;
    HeadPositions m_read;
};

} // namespace

CacheMethod cache_method_list::kv_routing() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "kv_routing";
    method.label = "Stochastic KV routing";
    method.summary = "One layer of `layers_per_cache` keeps its entries, and the layers above it read them "
                     "in place of their own; "
                     "made for models trained so, which no bundled one is.";
    method.cost =
        "stores n entries in one layer of `layers_per_cache`, reads n; the others' are copied at every step";
    method.source = "Filippova et al. 2026 (Stochastic KV routing)";
    method.parameters = {
        whole("layers_per_cache", "Layers per cache", "layers",
              "One of so many layers keeps a cache, the others read it; 1: each keeps its own.", 1, 64, 2)};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<KvRouting>(values.whole("layers_per_cache"), context);
    };
    return method;
}

} // namespace refreshlab
