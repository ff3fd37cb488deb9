#pragma once

#include "engine/record/notes/run_notes.h"

#include <nlohmann/json.hpp>

namespace refreshlab::remote {

/// [first_step, last_step, colour, text, made_at]; nothing: null.
[[nodiscard]] inline nlohmann::json note_json(const std::optional<StepNote>& note) {
    if (!note) return nullptr;
    return nlohmann::json::array(
        {note->first_step, note->last_step, note->colour, note->text, note->made_at});
}

/// The reverse; the note has no id. Throws nlohmann::json::exception. What a note may be is for RunNotes to say.
[[nodiscard]] inline std::optional<StepNote> note_of(const nlohmann::json& json) {
    if (json.is_null()) return std::nullopt;
    return StepNote{.first_step = json.at(0).get<int64_t>(),
                    .last_step = json.at(1).get<int64_t>(),
                    .colour = json.at(2).get<uint32_t>(),
                    .text = clean_note_text(json.at(3).get_ref<const std::string&>()),
                    .made_at = json.at(4).get<std::string>()};
}

} // namespace refreshlab::remote
