// LookaheadKV: what the answer will read of the prompt is seen by trained vectors that are read in its place.
//   32 soft tokens stand at positions L .. L+31; their rows alone go through a trained change of low rank of the model's projections
//   score[h][j] = sum over their rows of the attention on prompt entry j, mean of the group (our choice); not pooled (kernel 1)
// The best `budget` entries stay. The soft tokens' own entries are dropped, and decoding begins at L.
// Source: reference/cache-definitions.md, section 11; Ahn et al. 2026 (LookaheadKV).
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"
#include "engine/policies/methods/prompt/future_choice.h"

namespace refreshlab {

namespace {

class LookaheadKv final : public CacheMethodBase<LookaheadKv> {
public:
    LookaheadKv(const CacheValues& values, const PolicyContext& context)
        : m_choice(values, context) {}

    [[nodiscard]] PolicyNeeds needs() const override { return {.soft_tokens = m_choice.chooses()}; }
    void read_future(const FutureView& view) override { m_choice.add(view); }
    void finish_prompt(CacheEditor& cache) override { m_choice.keep(cache); }

private:
    FutureChoice m_choice;
};

} // namespace

CacheMethod cache_method_list::lookahead_kv() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "lookahead_kv";
    method.label = "LookaheadKV";
    method.summary =
        "Of the prompt, what trained soft tokens attend to that stand where the answer will; all "
        "that is generated stays.";
    method.cost =
        "stores and reads `budget` entries and the generated ones; a pass over 32 soft tokens, once";
    method.source = "Ahn et al. 2026 (LookaheadKV)";
    method.prompt_only = true;
    method.parameters = {budget(), kernel(1), pool(), group(1)};
    method.files = {gate_file(true)};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<LookaheadKv>(values, context);
    };
    return method;
}

} // namespace refreshlab
