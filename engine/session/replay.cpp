#include "engine/base/error.h"
#include "engine/session/decode_session.h"
#include "engine/session/session_prompt.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <variant>

namespace refreshlab {

std::shared_ptr<Recording> replay(const Recording& recorded, std::shared_ptr<const ModelPair> pair) {
    const RunConfig& config = recorded.info().config;
    RunText text{{recorded.info().rendered_prompt, recorded.info().prompt_ids, 0}, {}};
    text.given = given_ids(*pair, config, text.prompt);
    DecodeSession session(std::move(pair), config, {}, &text);
    const auto& log = recorded.commands();
    size_t next = 0;
    // A command logged with step s was applied behind boundary s - 1.
    const auto apply_due = [&] {
        for (; next < log.size() && log[next].step <= session.recording()->steps() + 1; ++next) {
            const Command command =
                command_from_json(nlohmann::json::parse(log[next].json), "a recorded command");
            std::visit(
                [&](const auto& c) {
                    using C = std::decay_t<decltype(c)>;
                    if constexpr (std::is_same_v<C, command::RequestAttention>) {
                        session.capture_attention(c.position, c.teacher);
                    } else if constexpr (std::is_same_v<C, command::SetParameter> ||
                                         std::is_same_v<C, command::SetPolicy> ||
                                         std::is_same_v<C, command::RefreshNow>) {
                        session.apply(c);
                    } else {
                        throw Error("replaying a run", log[next].json,
                                    "this command does not belong into a recording");
                    }
                },
                command);
        }
    };
    const int64_t steps = recorded.steps();
    while (session.recording()->steps() < steps) {
        apply_due();
        if (!session.step()) break;
    }
    apply_due();
    if (const auto end = recorded.end()) {
        if (end->stop_reason == "cancelled") session.stop();
        if (end->teacher_ppl) session.score();
    }
    return session.recording();
}

} // namespace refreshlab
