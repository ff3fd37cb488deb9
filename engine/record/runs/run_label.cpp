#include "engine/record/runs/run_label.h"

#include "engine/text/utf8.h"

namespace refreshlab {

std::string clean_run_name(std::string_view typed) {
    std::string name;
    for (size_t at = 0; at < typed.size();) {
        const Utf8Step step = utf8_step(typed, at);
        at += step.length;
        std::string character;
        append_utf8(character, step.code_point);
        if (visible_text(character) != character)
            character.assign(1, ' '); // a control, or nothing to be seen
        if (name.empty() && character == " ") continue;
        if (name.size() + character.size() > longest_run_name) break;
        name += character;
    }
    name.erase(name.find_last_not_of(' ') + 1);
    return name;
}

} // namespace refreshlab
