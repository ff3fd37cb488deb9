#pragma once

#include "engine/text/regex/regex.h"
#include "engine/text/tokenizer/json_fields.h"

#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

class Digest;

/// The text with canonical decomposition and composition (Unicode NFC), with the combining classes that the
/// `tokenizers` library knows: marks encoded after Unicode 9 stay where they are.
/// \param text  well-formed UTF-8
[[nodiscard]] std::string nfc(std::string_view text);

/// The `normalizer` of a tokenizer.json: NFC, Prepend, Replace, Sequence of these, or none.
class Normalizer {
public:
    Normalizer() = default; ///< leaves text as it is
    /// Throws Error{bad_input} naming the kind that is not supported.
    explicit Normalizer(const FileFields& fields);

    [[nodiscard]] bool is_identity() const { return m_steps.empty(); }
    [[nodiscard]] std::string apply(std::string_view text) const;
    /// Adds what it does to a text.
    void describe(Digest& digest) const;
    /// True where nothing is put in or replaced: the first character of a normalised text then comes from the first of
    /// the text.
    [[nodiscard]] bool only_nfc() const;

private:
    enum class Kind { nfc, prepend, replace };
    struct Step {
        Kind kind;
        std::string text;           ///< what is put in
        std::vector<Regex> pattern; ///< of replace: exactly one
        std::string source;         ///< of replace: the pattern as the file says it
    };
    void add(const FileFields& fields, int depth);
    std::vector<Step> m_steps;
};

/// The `pattern` object of Split and Replace: {"Regex": ...} or {"String": ...}.
[[nodiscard]] Regex read_pattern(const FileFields& fields);
/// The same as one text, for digests: "R" or "S" and the pattern.
[[nodiscard]] std::string pattern_source(const FileFields& fields);

} // namespace refreshlab
