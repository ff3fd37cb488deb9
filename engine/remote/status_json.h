#pragma once

#include "engine/control/engine_link.h"
#include "engine/text/tokenizer/tokenizer.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <vector>

/// Status and outlook as JSON. Configurations, derived students, checks and scope maps have the JSON that they have elsewhere.
namespace refreshlab::remote {

/// Everything but `link`, which belongs to one side, and the rows of a landscape, which come as rows (row_sender.h). A key a part, so
/// that a status can be told as the keys that differ from the one before.
/// \param tokens  of the recording: texts of the tokens of an open draft; may be null where there is none
[[nodiscard]] nlohmann::json status_json(const EngineStatus& status, const TokenTable* tokens);

/// Texts of tokens that the client may not have met in rows.
struct TokenText {
    int32_t id = -1;
    std::string bytes;
    bool special = false;
};

struct ReadStatus {
    EngineStatus status;
    std::vector<TokenText> tokens; ///< of the open draft
};
/// Reads what status_json() writes; the landscape has no rows yet. Throws Error{bad_input} or nlohmann::json::exception.
[[nodiscard]] ReadStatus read_status(const nlohmann::json& json);

/// The keys of `now` that `before` has not or has otherwise, and those that are gone as null.
[[nodiscard]] nlohmann::json changed_keys(const nlohmann::json& before, const nlohmann::json& now);
/// The reverse: `status` becomes what it was told to be.
void apply_keys(nlohmann::json& status, const nlohmann::json& changed);

[[nodiscard]] nlohmann::json outlook_json(const RunOutlook& outlook);
[[nodiscard]] RunOutlook read_outlook(const nlohmann::json& json);

} // namespace refreshlab::remote
