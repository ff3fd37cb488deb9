// DapQ (decoding-aligned): what stays of the prompt is judged from where the answer will stand, not from the prompt's own end.
//   N pseudo tokens are read behind the prompt, at positions L .. L+N-1; what they say hardly matters, where they stand does
//   score[h][j] = sum over their rows of the attention on prompt entry j, maximum of the group; not pooled (kernel 1)
// The best `budget` entries stay, none of them by its place. The pseudo tokens' own entries are dropped, and decoding begins at L.
// Ours: the pseudo tokens are the prompt's last N again, which every prompt has.
// Source: reference/cache-definitions.md, section 5; Tian et al. 2026 (DapQ).
#include "engine/policies/common_parameters.h"
#include "engine/policies/methods/method_list.h"
#include "engine/policies/methods/prompt/future_choice.h"

namespace refreshlab {

namespace {

class DapQ final : public CacheMethodBase<DapQ> {
public:
    DapQ(const CacheValues& values, const PolicyContext& context)
        : m_pseudo_tokens(values.whole("pseudo_tokens"))
        , m_choice(values, context) {}

    [[nodiscard]] PolicyNeeds needs() const override {
        // Where everything stays nothing is read for it.
        return {.pseudo_tokens = m_choice.chooses() ? m_pseudo_tokens : 0};
    }
    void read_future(const FutureView& view) override { m_choice.add(view); }
    void finish_prompt(CacheEditor& cache) override { m_choice.keep(cache); }

private:
    int64_t m_pseudo_tokens;
    FutureChoice m_choice;
};

} // namespace

CacheMethod cache_method_list::dapq() {
    using namespace cache_parameters;
    CacheMethod method;
    method.name = "dapq";
    method.label = "DapQ";
    method.summary = "Of the prompt, what tokens attend to that stand where the answer will; all that is "
                     "generated stays.";
    method.cost = "stores and reads `budget` entries and the generated ones; a pass over `pseudo_tokens` "
                  "tokens, once";
    method.source = "Tian et al. 2026 (DapQ)";
    method.prompt_only = true;
    method.parameters = {budget(),
                         whole("pseudo_tokens", "Pseudo tokens", "tokens",
                               "Tokens that are read behind the prompt to see what they attend to.", 1, 4096,
                               32),
                         kernel(1), pool(), group(0)};
    method.make = [](const CacheValues& values,
                     const PolicyContext& context) -> std::unique_ptr<CachePolicy> {
        return std::make_unique<DapQ>(values, context);
    };
    return method;
}

} // namespace refreshlab
