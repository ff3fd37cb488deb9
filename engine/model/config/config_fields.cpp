#include "engine/model/config/config_fields.h"

namespace refreshlab {

std::string short_dump(const nlohmann::json& value) {
    std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    constexpr size_t longest = 60;
    if (text.size() > longest) {
        text.resize(longest - 3);
        text += "...";
    }
    return text;
}

} // namespace refreshlab
