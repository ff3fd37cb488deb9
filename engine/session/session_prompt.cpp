#include "engine/session/session_prompt.h"

#include "engine/base/error.h"
#include "engine/session/model_pair.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer.h"

#include <algorithm>

namespace refreshlab {

namespace {

bool templated(const ModelPair& pair, const RunConfig& config) {
    return !config.raw_prompt && pair.chat_template;
}

} // namespace

RenderedPrompt render_prompt(const ModelPair& pair, const RunConfig& config) {
    RenderedPrompt text;
    text.rendered =
        templated(pair, config) ? pair.chat_template->render({{"user", config.prompt}}) : config.prompt;
    text.ids = pair.tokenizer->encode(text.rendered, !templated(pair, config));
    return text;
}

std::vector<int32_t> given_ids(const ModelPair& pair, const RunConfig& config, const RenderedPrompt& prompt) {
    if (config.given_text.empty()) return {};
    std::vector<int32_t> ids =
        pair.tokenizer->encode(prompt.rendered + config.given_text, !templated(pair, config));
    const auto length = static_cast<std::ptrdiff_t>(prompt.ids.size());
    if (ids.size() > prompt.ids.size() && std::equal(prompt.ids.begin(), prompt.ids.end(), ids.begin())) {
        ids.erase(ids.begin(), ids.begin() + length);
    } else {
        ids = pair.tokenizer->encode(config.given_text, false);
    }
    if (ids.empty()) throw Error("starting a run", "the given text", "gives no tokens");
    return ids;
}

} // namespace refreshlab
