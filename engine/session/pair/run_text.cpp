#include "engine/session/pair/run_text.h"

#include "engine/base/error.h"
#include "engine/session/pair/model_pair.h"

#include <fmt/format.h>

#include <algorithm>

namespace refreshlab {

PromptText render_prompt(const ModelPair& pair, const RunConfig& config) {
    return prompt_text(*pair.tokenizer, pair.chat_template.get(), config.prompt, config.raw_prompt);
}

std::vector<int32_t> given_ids(const ModelPair& pair, const RunConfig& config, const PromptText& prompt) {
    if (!config.given_ids.empty()) {
        const int32_t vocab = pair.tokenizer->vocab_size();
        for (const int32_t id : config.given_ids) {
            if (id < 0 || id >= vocab)
                throw Error("starting a run", "the given text",
                            fmt::format("token id {} is outside the vocabulary of {}", id, vocab));
        }
        return config.given_ids;
    }
    if (config.given_text.empty()) return {};
    const std::vector<int32_t> alone = pair.tokenizer->encode(prompt.text, false);
    std::vector<int32_t> ids = pair.tokenizer->encode(prompt.text + config.given_text, false);
    if (ids.size() > alone.size() && std::equal(alone.begin(), alone.end(), ids.begin())) {
        ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(alone.size()));
    } else {
        ids = pair.tokenizer->encode(config.given_text, false);
    }
    if (ids.empty()) throw Error("starting a run", "the given text", "gives no tokens");
    return ids;
}

int64_t RunText::limit(const RunConfig& config) const {
    const int64_t wanted = config.max_tokens;
    return given.empty() ? wanted : std::min(wanted, static_cast<int64_t>(given.size()));
}

int64_t RunText::capacity(const RunConfig& config, int64_t context) const {
    return std::min<int64_t>(context, static_cast<int64_t>(prompt.ids.size()) + limit(config));
}

RunText run_text(const ModelPair& pair, const RunConfig& config) {
    RunText text{render_prompt(pair, config), {}};
    text.given = given_ids(pair, config, text.prompt);
    return text;
}

} // namespace refreshlab
