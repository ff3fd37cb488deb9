#include "engine/session/decode/decode_session.h"
#include "engine/session/decode/session_prompt.h"
#include "engine/session/decode/steering.h"

#include <utility>

namespace refreshlab {

std::shared_ptr<Recording> replay(const Recording& recorded, std::shared_ptr<const ModelPair> pair) {
    const RunConfig& config = recorded.info().config;
    RunText text{{recorded.info().rendered_prompt, recorded.info().prompt_ids, 0}, {}};
    text.given = given_ids(*pair, config, text.prompt);
    DecodeSession session(std::move(pair), config, {}, &text);
    Steering steering(commands_of(recorded));
    const int64_t steps = recorded.steps();
    while (session.recording()->steps() < steps) {
        steering.apply_due(session);
        if (!session.step()) break;
    }
    steering.apply_due(session);
    if (const auto end = recorded.end()) {
        if (end->stop_reason == "cancelled") session.stop();
        if (end->teacher_ppl) session.score();
    }
    return session.recording();
}

} // namespace refreshlab
