#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace refreshlab {

/// A regular expression as the `tokenizers` library reads it (Oniguruma, Unicode 16), run by PCRE2, with its JIT where
/// the machine has one. Immutable and thread-safe.
///
/// What the two engines read differently is rewritten before compiling (regex_syntax.cpp). \s is White_Space, \h a hex
/// digit, {n,m}+ is not possessive, ^ and $ match at line ends. Letters, marks, digits and symbols of Unicode 15 and 16
/// count as what they are, although PCRE2 10.42 knows only Unicode 14. What cannot be rewritten is refused by name.
class Regex {
public:
    /// \throws Error{bad_input} naming `object`, the pattern and what is wrong with it
    Regex(std::string_view pattern, const std::string& object);
    /// Matches exactly this text.
    [[nodiscard]] static Regex literal(std::string_view text, const std::string& object);
    Regex(Regex&&) noexcept;
    Regex& operator=(Regex&&) noexcept;
    ~Regex();

    struct Span {
        size_t begin, end; ///< byte offsets
        [[nodiscard]] bool operator==(const Span&) const = default;
    };

    /// The matches of one text from left to right, as Oniguruma's find_iter gives them: no overlap, and no empty match
    /// directly after another match.
    class Matches {
    public:
        /// \param text  well-formed UTF-8; must outlive this, as must the expression
        Matches(const Regex& regex, std::string_view text);
        /// \throws Error{bad_input} when the pattern needs more backtracking than the limit allows; never a wrong or
        ///         missing match instead
        [[nodiscard]] std::optional<Span> next();

    private:
        const Regex* m_regex;
        std::string_view m_text;
        size_t m_from = 0;
        std::optional<size_t> m_last_end;
    };

private:
    friend class Matches;
    struct Code;
    explicit Regex(std::unique_ptr<Code> code);
    std::unique_ptr<Code> m_code;
};

/// The pattern in PCRE2's syntax (UTF, UCP, MULTILINE). Throws Error{bad_input} as Regex does.
[[nodiscard]] std::string translate_oniguruma(std::string_view pattern, const std::string& object);

} // namespace refreshlab
