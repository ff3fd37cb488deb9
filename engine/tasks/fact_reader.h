#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

namespace refreshlab {

/// Reads byte by byte the lines of a text that name travelers and state facts about them: "HEAD: ROLE WORD, ROLE WORD." The form of these lines
/// is described at TaskScorer. Threads: one owner.
class FactReader {
public:
    static constexpr size_t longest_word = 64; ///< bytes; what is longer is no fact

    /// A complete word of such a list, of a role whose name is known.
    struct Word {
        std::string name; ///< whose
        std::string text;
        std::optional<size_t> attribute; ///< of Almanac; nothing: the word is the name itself
    };

    /// \param roll_calls  "Roll call: ROLE NAME, ..." names travelers too, behind whatever its line begins with: as in a prompt
    explicit FactReader(bool roll_calls)
        : m_roll_calls(roll_calls) {}

    /// \return the word that this byte ends
    [[nodiscard]] std::optional<Word> take(char c);
    /// Bytes of the list's word that the byte taken last belongs to; 0: it belongs to none. Not above longest_word + 1.
    [[nodiscard]] size_t word_bytes() const { return m_word.size(); }
    /// Names by role, as the latest list has them.
    [[nodiscard]] const std::map<std::string, std::string>& names() const { return m_names; }
    /// An answer follows, which does not call the roll.
    void prompt_is_over() { m_roll_calls = false; }

private:
    enum class Where { head, list, rest };

    void read_head();
    [[nodiscard]] std::optional<Word> end_word();

    bool m_roll_calls;
    std::map<std::string, std::string> m_names;
    Where m_where = Where::head;
    std::optional<size_t> m_attribute; ///< of the list; nothing: it is one of names
    std::string m_head, m_role, m_word;
    int m_words = 0; ///< complete words of this item: 0 the next is the role, 1 its word, 2 nothing more
};

} // namespace refreshlab
