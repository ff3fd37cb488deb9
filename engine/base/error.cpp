#include "engine/base/error.h"

#include <utility>

namespace refreshlab {

namespace {

/// At most so many bytes: of a longer text the middle is left out, because both ends tell more of what it is.
std::string shortened(std::string text, size_t longest) {
    if (text.size() <= longest) return text;
    const auto inside_character = [&](size_t at) {
        return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
    };
    size_t head = longest * 2 / 3, tail = text.size() - longest / 4;
    while (head > 0 && inside_character(head))
        --head;
    while (tail < text.size() && inside_character(tail))
        ++tail;
    return text.substr(0, head) + " [... " + std::to_string(tail - head) + " bytes ...] " + text.substr(tail);
}

/// What files and options hold may be of any length, and all of it may be in an error. A list of names, as hints have them,
/// is the longest thing that a person wants to read.
constexpr size_t max_doing = 400, max_object = 1000, max_problem = 1600, max_hint = 3000;

/// One line, whatever a foreign library or a file name put into it.
std::string one_line(std::string text) {
    for (char& c : text) {
        if (c == '\n' || c == '\r' || c == '\t') c = ' ';
    }
    return text;
}

std::string compose(const std::string& doing, const std::string& object, const std::string& problem,
                    const std::string& hint) {
    std::string text = doing;
    if (!object.empty()) text += " " + object;
    text += ": " + problem;
    if (!hint.empty()) text += "; " + hint;
    return one_line(std::move(text));
}

} // namespace

Error::Error(std::string doing, std::string object, std::string problem, std::string hint, ErrorKind kind)
    : Error(Parts{shortened(std::move(doing), max_doing), shortened(std::move(object), max_object),
                  shortened(std::move(problem), max_problem), shortened(std::move(hint), max_hint)},
            kind) {}

Error::Error(Parts parts, ErrorKind kind)
    : std::runtime_error(compose(parts.doing, parts.object, parts.problem, parts.hint))
    , m_parts(std::move(parts))
    , m_kind(kind) {}

} // namespace refreshlab
