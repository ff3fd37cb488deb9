#include "engine/base/error.h"
#include "engine/text/regex/regex.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>
#include <vector>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace refreshlab {

namespace {

struct Addition {
    char32_t first, last;
    std::string_view category;
};

/// Characters assigned after Unicode 14 with their general category in Unicode 16 (UnicodeData.txt, field 2). A newer
/// PCRE2 knows them already; naming them twice does no harm.
// clang-format off
constexpr Addition additions[] = {
    {0x897, 0x897, "Mn"}, {0xCF3, 0xCF3, "Mc"}, {0xECE, 0xECE, "Mn"}, {0x1B4E, 0x1B4F, "Po"},
    {0x1B7F, 0x1B7F, "Po"}, {0x1C89, 0x1C89, "Lu"}, {0x1C8A, 0x1C8A, "Ll"}, {0x2427, 0x2429, "So"},
    {0x2FFC, 0x2FFF, "So"}, {0x31E4, 0x31E5, "So"}, {0x31EF, 0x31EF, "So"}, {0xA7CB, 0xA7CC, "Lu"},
    {0xA7CD, 0xA7CD, "Ll"}, {0xA7DA, 0xA7DA, "Lu"}, {0xA7DB, 0xA7DB, "Ll"}, {0xA7DC, 0xA7DC, "Lu"},
    {0x105C0, 0x105F3, "Lo"}, {0x10D40, 0x10D49, "Nd"}, {0x10D4A, 0x10D4D, "Lo"}, {0x10D4E, 0x10D4E, "Lm"},
    {0x10D4F, 0x10D4F, "Lo"}, {0x10D50, 0x10D65, "Lu"}, {0x10D69, 0x10D6D, "Mn"}, {0x10D6E, 0x10D6E, "Pd"},
    {0x10D6F, 0x10D6F, "Lm"}, {0x10D70, 0x10D85, "Ll"}, {0x10D8E, 0x10D8F, "Sm"}, {0x10EC2, 0x10EC4, "Lo"},
    {0x10EFC, 0x10EFF, "Mn"}, {0x1123F, 0x11240, "Lo"}, {0x11241, 0x11241, "Mn"}, {0x11380, 0x11389, "Lo"},
    {0x1138B, 0x1138B, "Lo"}, {0x1138E, 0x1138E, "Lo"}, {0x11390, 0x113B5, "Lo"}, {0x113B7, 0x113B7, "Lo"},
    {0x113B8, 0x113BA, "Mc"}, {0x113BB, 0x113C0, "Mn"}, {0x113C2, 0x113C2, "Mc"}, {0x113C5, 0x113C5, "Mc"},
    {0x113C7, 0x113CA, "Mc"}, {0x113CC, 0x113CD, "Mc"}, {0x113CE, 0x113CE, "Mn"}, {0x113CF, 0x113CF, "Mc"},
    {0x113D0, 0x113D0, "Mn"}, {0x113D1, 0x113D1, "Lo"}, {0x113D2, 0x113D2, "Mn"}, {0x113D3, 0x113D3, "Lo"},
    {0x113D4, 0x113D5, "Po"}, {0x113D7, 0x113D8, "Po"}, {0x113E1, 0x113E2, "Mn"}, {0x116D0, 0x116E3, "Nd"},
    {0x11B00, 0x11B09, "Po"}, {0x11BC0, 0x11BE0, "Lo"}, {0x11BE1, 0x11BE1, "Po"}, {0x11BF0, 0x11BF9, "Nd"},
    {0x11F00, 0x11F01, "Mn"}, {0x11F02, 0x11F02, "Lo"}, {0x11F03, 0x11F03, "Mc"}, {0x11F04, 0x11F10, "Lo"},
    {0x11F12, 0x11F33, "Lo"}, {0x11F34, 0x11F35, "Mc"}, {0x11F36, 0x11F3A, "Mn"}, {0x11F3E, 0x11F3F, "Mc"},
    {0x11F40, 0x11F40, "Mn"}, {0x11F41, 0x11F41, "Mc"}, {0x11F42, 0x11F42, "Mn"}, {0x11F43, 0x11F4F, "Po"},
    {0x11F50, 0x11F59, "Nd"}, {0x11F5A, 0x11F5A, "Mn"}, {0x1342F, 0x1342F, "Lo"}, {0x13439, 0x1343F, "Cf"},
    {0x13440, 0x13440, "Mn"}, {0x13441, 0x13446, "Lo"}, {0x13447, 0x13455, "Mn"}, {0x13460, 0x143FA, "Lo"},
    {0x16100, 0x1611D, "Lo"}, {0x1611E, 0x16129, "Mn"}, {0x1612A, 0x1612C, "Mc"}, {0x1612D, 0x1612F, "Mn"},
    {0x16130, 0x16139, "Nd"}, {0x16D40, 0x16D42, "Lm"}, {0x16D43, 0x16D6A, "Lo"}, {0x16D6B, 0x16D6C, "Lm"},
    {0x16D6D, 0x16D6F, "Po"}, {0x16D70, 0x16D79, "Nd"}, {0x18CFF, 0x18CFF, "Lo"}, {0x1B132, 0x1B132, "Lo"},
    {0x1B155, 0x1B155, "Lo"}, {0x1CC00, 0x1CCEF, "So"}, {0x1CCF0, 0x1CCF9, "Nd"}, {0x1CD00, 0x1CEB3, "So"},
    {0x1D2C0, 0x1D2D3, "No"}, {0x1DF25, 0x1DF2A, "Ll"}, {0x1E030, 0x1E06D, "Lm"}, {0x1E08F, 0x1E08F, "Mn"},
    {0x1E4D0, 0x1E4EA, "Lo"}, {0x1E4EB, 0x1E4EB, "Lm"}, {0x1E4EC, 0x1E4EF, "Mn"}, {0x1E4F0, 0x1E4F9, "Nd"},
    {0x1E5D0, 0x1E5ED, "Lo"}, {0x1E5EE, 0x1E5EF, "Mn"}, {0x1E5F0, 0x1E5F0, "Lo"}, {0x1E5F1, 0x1E5FA, "Nd"},
    {0x1E5FF, 0x1E5FF, "Po"}, {0x1F6DC, 0x1F6DC, "So"}, {0x1F774, 0x1F776, "So"}, {0x1F77B, 0x1F77F, "So"},
    {0x1F7D9, 0x1F7D9, "So"}, {0x1F8B2, 0x1F8BB, "So"}, {0x1F8C0, 0x1F8C1, "So"}, {0x1FA75, 0x1FA77, "So"},
    {0x1FA87, 0x1FA89, "So"}, {0x1FA8F, 0x1FA8F, "So"}, {0x1FAAD, 0x1FAAF, "So"}, {0x1FABB, 0x1FABF, "So"},
    {0x1FAC6, 0x1FAC6, "So"}, {0x1FACE, 0x1FACF, "So"}, {0x1FADA, 0x1FADC, "So"}, {0x1FADF, 0x1FADF, "So"},
    {0x1FAE8, 0x1FAE9, "So"}, {0x1FAF7, 0x1FAF8, "So"}, {0x1FBCB, 0x1FBEF, "So"}, {0x2B739, 0x2B739, "Lo"},
    {0x2EBF0, 0x2EE5D, "Lo"}, {0x31350, 0x323AF, "Lo"},
};
// clang-format on

/// The same for the scripts that patterns name (Scripts.txt).
struct ScriptAddition {
    std::string_view script; ///< lower case
    char32_t first, last;
};
constexpr ScriptAddition script_additions[] = {{"han", 0x2B739, 0x2B739},
                                               {"han", 0x2EBF0, 0x2EE5D},
                                               {"han", 0x31350, 0x323AF},
                                               {"hiragana", 0x1B132, 0x1B132},
                                               {"katakana", 0x1B155, 0x1B155}};

constexpr std::string_view categories[] = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N", "Nd", "Nl", "No", "P",  "Pc", "Pd",
    "Ps", "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp", "Cc", "Cf", "Co"};

constexpr std::pair<std::string_view, std::string_view> long_names[] = {
    {"letter", "L"},      {"uppercaseletter", "Lu"}, {"lowercaseletter", "Ll"},
    {"mark", "M"},        {"number", "N"},           {"decimalnumber", "Nd"},
    {"punctuation", "P"}, {"symbol", "S"},           {"separator", "Z"}};

std::string range_items(char32_t first, char32_t last) {
    return fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", static_cast<uint32_t>(first), static_cast<uint32_t>(last));
}

/// Items for the inside of a PCRE2 class: the characters of a general category in Unicode 16.
std::string category_items(std::string_view category) {
    std::string items = fmt::format("\\p{{{}}}", category);
    for (const Addition& added : additions) {
        if (!added.category.starts_with(category)) continue;
        items += fmt::format("\\x{{{:X}}}", static_cast<uint32_t>(added.first));
        if (added.last != added.first)
            items += fmt::format("-\\x{{{:X}}}", static_cast<uint32_t>(added.last));
    }
    return items;
}

bool compiles(const std::string& pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                     PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
    pcre2_code_free(code);
    return code != nullptr;
}

/// One pass over the pattern, left to right. m_out grows; m_atom is where in it the last repeatable thing begins.
class Translator {
public:
    Translator(std::string_view pattern, const std::string& object)
        : m_in(pattern)
        , m_object(object) {}

    std::string run() {
        while (m_at < m_in.size())
            one();
        return std::move(m_out);
    }

private:
    [[noreturn]] void refuse(const std::string& problem) const {
        throw Error("reading", m_object,
                    fmt::format("regular expression \"{}\": {} at character {}", visible_text(m_in, 200),
                                problem, 1 + count_code_points(m_in.substr(0, m_at))));
    }

    [[nodiscard]] bool next_is(std::string_view text) const { return m_in.substr(m_at).starts_with(text); }

    void atom(const std::string& text) {
        m_atom = m_out.size();
        m_out += text;
    }

    /// Copies one character of the pattern, which may be several bytes.
    std::string take_character() {
        const Utf8Step step = utf8_step(m_in, m_at);
        if (step.kind != Utf8Step::Kind::character) refuse("text that is not UTF-8");
        const std::string text(m_in.substr(m_at, step.length));
        m_at += step.length;
        return text;
    }

    void one() {
        switch (m_in[m_at]) {
        case '\\':
            escape();
            break;
        case '[':
            char_class();
            break;
        case '(':
            open_group();
            break;
        case ')':
            if (m_groups.empty()) refuse("')' without '('");
            m_atom = m_groups.back();
            m_groups.pop_back();
            m_out += ')';
            ++m_at;
            break;
        case '*':
        case '+':
        case '?': {
            m_out += m_in[m_at++];
            if (m_at < m_in.size() && (m_in[m_at] == '?' || m_in[m_at] == '+')) m_out += m_in[m_at++];
            break;
        }
        case '{':
            interval();
            break;
        case '|':
        case '^':
        case '$':
            m_out += m_in[m_at++];
            break;
        default:
            atom(take_character());
        }
    }

    void open_group() {
        if (m_groups.size() == 90) refuse("too many nested groups");
        const size_t begin = m_out.size();
        if (next_is("(?") && !next_is("(?:") && !next_is("(?=") && !next_is("(?!") && !next_is("(?<=") &&
            !next_is("(?<!") && !next_is("(?>") && !next_is("(?i:") && !next_is("(?-i:")) {
            // Elsewhere than at the front "(?i)" takes the rest of the group, "|" included, in Oniguruma only.
            if (!next_is("(?i)") || !m_out.empty()) refuse("this kind of group is not supported");
            m_out += "(?i)";
            m_at += 4;
            return;
        }
        // "(*" opens a verb in PCRE2; in Oniguruma it is a quantifier without an operand.
        if (next_is("(*")) refuse("nothing to repeat");
        m_groups.push_back(begin);
        const size_t end = next_is("(?") ? m_in.find_first_of(":=!>", m_at) + 1 : m_at + 1;
        m_out += m_in.substr(m_at, end - m_at);
        m_at = end;
    }

    /// {n}, {n,}, {,m}, {n,m}; any other '{' is itself.
    void interval() {
        size_t end = m_at + 1;
        const auto digits = [&] {
            const size_t begin = end;
            while (end < m_in.size() && m_in[end] >= '0' && m_in[end] <= '9')
                ++end;
            return std::string(m_in.substr(begin, end - begin));
        };
        const std::string low = digits();
        const bool comma = end < m_in.size() && m_in[end] == ',';
        if (comma) ++end;
        const std::string high = comma ? digits() : low;
        if (end >= m_in.size() || m_in[end] != '}' || (low.empty() && high.empty())) {
            ++m_at;
            atom("\\{");
            return;
        }
        m_at = end + 1;
        const std::string least = low.empty() ? "0" : low;
        m_out += comma ? fmt::format("{{{},{}}}", least, high) : fmt::format("{{{}}}", least);
        if (m_at == m_in.size()) return;
        if (m_in[m_at] == '?') {
            if (!comma) refuse("{n}? is not supported");
            m_out += '?';
            ++m_at;
        } else if (m_in[m_at] == '+') { // not possessive here: the repetition itself is repeated
            m_out.insert(m_atom, "(?:");
            m_out += ")+";
            ++m_at;
        }
    }

    /// Hexadecimal digits up to a closing brace or a number of them.
    char32_t hex(size_t most, bool braced) {
        char32_t value = 0;
        size_t count = 0;
        while (m_at < m_in.size() && count < most && std::isxdigit(static_cast<unsigned char>(m_in[m_at]))) {
            const char c = m_in[m_at++];
            value = value * 16 + static_cast<char32_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
            ++count;
        }
        if (braced) {
            if (!next_is("}")) refuse("a number in hexadecimal digits and '}' expected");
            ++m_at;
        }
        if (count == 0 || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
            refuse("no such character");
        return value;
    }

    /// \p{Name}, \p{^Name}, \P{Name}: the items, and whether the complement is meant.
    std::pair<std::string, bool> property(bool negative) {
        const size_t end = m_in.find('}', m_at);
        if (!next_is("{") || end == std::string_view::npos) refuse("'{' and a property expected");
        std::string name(m_in.substr(m_at + 1, end - m_at - 1));
        if (name.starts_with('^')) {
            negative = !negative;
            name.erase(0, 1);
        }
        const bool plain =
            !name.empty() && name.size() <= 40 && std::all_of(name.begin(), name.end(), [](char c) {
                return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == ' ' || c == '-';
            });
        if (!plain) refuse("not a property");
        std::string key;
        for (const char c : name) {
            if (std::isalnum(static_cast<unsigned char>(c))) key += static_cast<char>(std::tolower(c));
        }
        for (const auto& [spelling, category] : long_names) {
            if (key == spelling) name = category;
        }
        std::string items;
        for (const std::string_view category : categories) {
            if (name == category) items = category_items(category);
        }
        const bool unassigned = key == "c" || key == "cn" || key == "other" || key == "unassigned";
        if (items.empty() && !unassigned) {
            // A script by name is the script here; PCRE2's plain \p{Han} would mean script extensions.
            for (const char* form : {"\\p{sc:%}", "\\p{%}"}) {
                std::string candidate = form;
                candidate.replace(candidate.find('%'), 1, key);
                if (items.empty() && compiles(candidate)) items = candidate;
            }
            for (const ScriptAddition& added : script_additions) {
                if (added.script == key) items += range_items(added.first, added.last);
            }
        }
        if (items.empty()) refuse(fmt::format("property {} is not supported", name));
        m_at = end + 1;
        return {items, negative};
    }

    /// What stands after a backslash: either a set of characters (items, negative) or one character.
    struct Escaped {
        std::string items;
        bool negative = false;
        bool is_set = false;
    };

    Escaped escaped() {
        const char c = m_in[m_at];
        const auto character = [](char32_t value) {
            return Escaped{fmt::format("\\x{{{:X}}}", static_cast<uint32_t>(value)), false, false};
        };
        if (static_cast<unsigned char>(c) >= 0x80) return {take_character(), false, false};
        ++m_at;
        switch (c) {
        case 's':
            return {"\\p{White_Space}", false, true};
        case 'S':
            return {"\\p{White_Space}", true, true};
        case 'd':
            return {category_items("Nd"), false, true};
        case 'D':
            return {category_items("Nd"), true, true};
        case 'w':
            return {word_items(), false, true};
        case 'W':
            return {word_items(), true, true};
        case 'h':
            return {"0-9A-Fa-f", false, true};
        case 'H':
            return {"0-9A-Fa-f", true, true};
        case 'p':
        case 'P': {
            const auto [items, negative] = property(c == 'P');
            return {items, negative, true};
        }
        case 'n':
            return character('\n');
        case 'r':
            return character('\r');
        case 't':
            return character('\t');
        case 'f':
            return character('\f');
        case 'v':
            return character('\v');
        case 'a':
            return character('\a');
        case 'e':
            return character(0x1B);
        case 'u':
            return character(hex(4, false));
        case 'x':
            if (next_is("{")) {
                ++m_at;
                return character(hex(8, true));
            }
            return character(hex(2, false));
        default:
            if (std::isalnum(static_cast<unsigned char>(c))) {
                --m_at;
                refuse(fmt::format("\\{} is not supported", c));
            }
            return character(static_cast<unsigned char>(c));
        }
    }

    static std::string word_items() {
        return "\\p{Alphabetic}" + category_items("L") + category_items("M") + category_items("Nd") +
               "\\p{Pc}";
    }

    /// Outside of classes Oniguruma goes by its Latin-1 table, which calls the superscripts and fractions letters.
    static std::string lone_word_items() { return word_items() + "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}"; }

    void escape() {
        ++m_at;
        if (m_at == m_in.size()) refuse("nothing after '\\'");
        const std::string word = "[" + lone_word_items() + "]";
        switch (m_in[m_at]) {
        case 'A':
        case 'z':
        case 'Z':
            m_out += {'\\', m_in[m_at++]};
            return;
        case 'b':
            atom("(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))");
            ++m_at;
            return;
        case 'B':
            atom("(?:(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + "))");
            ++m_at;
            return;
        default:
            break;
        }
        const bool is_word = next_is("w") || next_is("W");
        Escaped what = escaped();
        if (is_word) what.items = lone_word_items();
        atom(what.is_set ? (what.negative ? "[^" : "[") + what.items + "]" : what.items);
    }

    void char_class() {
        std::string text = "[";
        ++m_at;
        if (next_is("^")) {
            text += '^';
            ++m_at;
        }
        if (next_is("]")) refuse("']' as the first character of a class is not supported; write \\]");
        while (!next_is("]")) {
            if (m_at >= m_in.size()) refuse("'[' without ']'");
            if (next_is("[")) refuse("a class inside a class is not supported");
            if (next_is("&&")) refuse("an intersection of classes is not supported");
            if (m_in[m_at] != '\\') {
                text += take_character();
                continue;
            }
            ++m_at;
            if (m_at == m_in.size()) refuse("nothing after '\\'");
            if (next_is("b")) { // backspace, here
                text += "\\x{8}";
                ++m_at;
                continue;
            }
            const Escaped what = escaped();
            if (what.negative && what.items != "\\p{White_Space}") {
                refuse("a complement inside a class is not supported");
            }
            text += what.negative ? "\\P{White_Space}" : what.items;
        }
        ++m_at;
        atom(text + "]");
    }

    std::string_view m_in;
    const std::string& m_object;
    size_t m_at = 0;
    std::string m_out;
    size_t m_atom = 0;
    std::vector<size_t> m_groups; ///< where in m_out each open group begins
};

} // namespace

std::string translate_oniguruma(std::string_view pattern, const std::string& object) {
    constexpr size_t most_bytes = 64 * 1024;
    if (pattern.size() > most_bytes) {
        throw Error("reading", object, fmt::format("a regular expression of more than {} bytes", most_bytes));
    }
    return Translator(pattern, object).run();
}

} // namespace refreshlab
