#pragma once

#include "engine/text/regex/regex.h"
#include "engine/text/tokenizer/json_fields.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

class Digest;

/// What Metaspace, as pre-tokenizer and as decoder, says about spaces.
struct MetaspaceFields {
    enum class Prepend { never, first, always };
    std::string sign; ///< the one character that stands for a space
    Prepend prepend;  ///< before which pieces it is put when they lack it
};
/// Throws Error{bad_input} as the readers that use it.
[[nodiscard]] MetaspaceFields read_metaspace(const FileFields& fields);
/// The one character of a field. Throws Error{bad_input} when it is none or several.
[[nodiscard]] std::string read_character(const FileFields& fields, const char* key);

/// The `pre_tokenizer` of a tokenizer.json: cuts text into the words that merges never cross. Split with any behaviour,
/// Digits, Metaspace, ByteLevel and Sequence of these; ByteLevel must come last (it is what makes a model byte-level).
class PreTokenizer {
public:
    PreTokenizer() = default; ///< the whole text is one word
    /// Throws Error{bad_input} naming what is missing or not supported.
    explicit PreTokenizer(const FileFields& fields);

    [[nodiscard]] bool is_byte_level() const { return !m_steps.empty() && m_steps.back().byte_level; }
    /// A Metaspace puts its sign only before the first piece of a text.
    [[nodiscard]] bool needs_start() const;

    /// Calls word(bytes) for every word in order; the bytes live only during the call.
    /// \param text      well-formed UTF-8, not empty
    /// \param at_start  nothing stands before `text` in what is tokenized, not even an added token
    void split(std::string_view text, bool at_start, const std::function<void(std::string_view)>& word) const;

    /// Adds how it cuts a text.
    void describe(Digest& digest) const;

private:
    enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
    using Prepend = MetaspaceFields::Prepend;
    struct Step {
        std::vector<Regex> pattern; ///< one, or none: the text is not cut
        std::string source;         ///< of the pattern, as pattern_source() gives it
        Behavior behavior = Behavior::isolated;
        bool invert = false;           ///< the pattern finds what is not a delimiter
        bool add_prefix_space = false; ///< ByteLevel: every piece starts with a space
        bool byte_level = false;
        std::string space;                ///< Metaspace: what stands for a space; empty: another kind of step
        Prepend prepend = Prepend::never; ///< Metaspace: where it is put before a piece
    };
    void add(const FileFields& fields, int depth);
    static Step read_split(const FileFields& fields);
    static std::string with_space_signs(const Step& step, std::string_view text, bool at_start);
    void run(size_t step, std::string_view text, bool at_start,
             const std::function<void(std::string_view)>& word) const;

    std::vector<Step> m_steps;
};

} // namespace refreshlab
