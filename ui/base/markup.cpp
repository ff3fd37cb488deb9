#include "ui/base/markup.h"

namespace refreshlab::ui {

std::string escaped_markup(std::string_view text) {
    std::string markup;
    for (const char c : text) {
        switch (c) {
        case '&':
            markup += "&amp;";
            break;
        case '<':
            markup += "&lt;";
            break;
        case '>':
            markup += "&gt;";
            break;
        case '"':
            markup += "&quot;";
            break;
        default:
            markup += c;
        }
    }
    return markup;
}

} // namespace refreshlab::ui
