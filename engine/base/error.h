#pragma once

#include <stdexcept>
#include <string>

namespace refreshlab {

enum class ErrorKind {
    bad_input, ///< the user's files, options or text; exit status 2
    failure,   ///< device, disk, memory; exit status 1
};

/// The one exception type of the program's borders: files, command line, user input, devices. Its text is one line:
/// "reading tokenizer.json of ./models/x: merges missing; is this a SentencePiece model?" It has some thousand
/// characters at most: of a longer part (a file's line, an option) the middle is left out.
class Error : public std::runtime_error {
public:
    /// \param doing    what was being done: "reading model.safetensors"
    /// \param object   to what: a path, an option; may be empty
    /// \param problem  what was wrong
    /// \param hint     what would help; may be empty
    Error(std::string doing, std::string object, std::string problem, std::string hint = {},
          ErrorKind kind = ErrorKind::bad_input);

    [[nodiscard]] const std::string& doing() const { return m_parts.doing; }
    [[nodiscard]] const std::string& object() const { return m_parts.object; }
    [[nodiscard]] const std::string& problem() const { return m_parts.problem; }
    [[nodiscard]] const std::string& hint() const { return m_parts.hint; }
    [[nodiscard]] ErrorKind kind() const { return m_kind; }

private:
    struct Parts {
        std::string doing, object, problem, hint;
    };
    Error(Parts parts, ErrorKind kind);

    Parts m_parts;
    ErrorKind m_kind;
};

} // namespace refreshlab
