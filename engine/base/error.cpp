#include "engine/base/error.h"

#include <utility>

namespace refreshlab {

namespace {

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
    : std::runtime_error(compose(doing, object, problem, hint))
    , m_doing(std::move(doing))
    , m_object(std::move(object))
    , m_problem(std::move(problem))
    , m_hint(std::move(hint))
    , m_kind(kind) {}

} // namespace refreshlab
