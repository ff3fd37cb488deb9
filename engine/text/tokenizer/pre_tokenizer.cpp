#include "engine/text/tokenizer/pre_tokenizer.h"

#include "engine/text/digest.h"
#include "engine/text/tokenizer/normalizer.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace refreshlab {

namespace {

/// What ByteLevel cuts by when use_regex is on (Radford et al. 2019, encoder.py of GPT-2).
constexpr const char* gpt2_words =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

struct Piece {
    size_t begin, end;
    bool delimiter;
};

/// The text as an alternation of delimiters and what lies between them.
std::vector<Piece> alternate(const Regex& pattern, std::string_view text, bool invert) {
    std::vector<Piece> pieces;
    size_t done = 0;
    Regex::Matches matches(pattern, text);
    while (const auto match = matches.next()) {
        if (match->begin != done) pieces.push_back({done, match->begin, invert});
        pieces.push_back({match->begin, match->end, !invert});
        done = match->end;
    }
    if (done != text.size()) pieces.push_back({done, text.size(), invert});
    return pieces;
}

/// Joins each delimiter to the piece before it. A run of delimiters is joined at its first one only, as `tokenizers`
/// does: "a--b" gives "a-", "-", "b".
std::vector<Piece> join_to_previous(const std::vector<Piece>& pieces) {
    std::vector<Piece> joined;
    bool after_delimiter = false;
    for (const Piece& piece : pieces) {
        if (piece.delimiter && !after_delimiter && !joined.empty()) {
            joined.back().end = piece.end;
        } else {
            joined.push_back(piece);
        }
        after_delimiter = piece.delimiter;
    }
    return joined;
}

/// The mirror image: each delimiter to the piece after it.
std::vector<Piece> join_to_next(const std::vector<Piece>& pieces) {
    std::vector<Piece> joined; // from right to left
    bool before_delimiter = false;
    for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
        if (piece->delimiter && !before_delimiter && !joined.empty()) {
            joined.back().begin = piece->begin;
        } else {
            joined.push_back(*piece);
        }
        before_delimiter = piece->delimiter;
    }
    std::reverse(joined.begin(), joined.end());
    return joined;
}

std::vector<Piece> join_runs(const std::vector<Piece>& pieces) {
    std::vector<Piece> joined;
    bool previous = false;
    for (const Piece& piece : pieces) {
        if (piece.delimiter == previous && !joined.empty()) {
            joined.back().end = piece.end;
        } else {
            joined.push_back(piece);
        }
        previous = piece.delimiter;
    }
    return joined;
}

} // namespace

std::string read_character(const FileFields& fields, const char* key) {
    const std::string text = fields.text(key);
    if (text.empty() || utf8_step(text, 0).length != text.size())
        fields.fail(key, fmt::format("one character expected, \"{}\" found", visible_text(text, 60)));
    return text;
}

MetaspaceFields read_metaspace(const FileFields& fields) {
    using Prepend = MetaspaceFields::Prepend;
    const std::string scheme = fields.text("prepend_scheme", "always");
    constexpr std::pair<std::string_view, Prepend> schemes[] = {
        {"never", Prepend::never}, {"first", Prepend::first}, {"always", Prepend::always}};
    const auto* found = std::find_if(std::begin(schemes), std::end(schemes),
                                     [&](const auto& known) { return known.first == scheme; });
    if (found == std::end(schemes)) {
        fields.fail("prepend_scheme", fmt::format("{} is not known", visible_text(scheme, 60)),
                    "known are never, first and always");
    }
    if (!fields.boolean("add_prefix_space", true) && found->second != Prepend::never)
        fields.fail("add_prefix_space", "false does not go with prepend_scheme " + scheme);
    return {read_character(fields, "replacement"), found->second};
}

PreTokenizer::PreTokenizer(const FileFields& fields) {
    add(fields, 0);
    for (size_t i = 0; i + 1 < m_steps.size(); ++i) {
        if (m_steps[i].byte_level) fields.fail("", "something follows ByteLevel; that is not supported");
    }
}

bool PreTokenizer::needs_start() const {
    return std::any_of(m_steps.begin(), m_steps.end(),
                       [](const Step& step) { return step.prepend == Prepend::first; });
}

void PreTokenizer::add(const FileFields& fields, int depth) {
    const std::string type = fields.text("type");
    if (m_steps.size() == 64) fields.fail("", "more than 64 steps");
    Step step;
    if (type == "Sequence" && depth < 8) {
        const size_t count = fields.array("pretokenizers").size();
        for (size_t i = 0; i < count; ++i)
            add(fields.element("pretokenizers", i), depth + 1);
        return;
    }
    if (type == "ByteLevel") {
        step.byte_level = true;
        step.add_prefix_space = fields.boolean("add_prefix_space", true);
        if (fields.boolean("use_regex", true)) {
            step.pattern.emplace_back(gpt2_words, fields.file() + ", ByteLevel");
            step.source = fmt::format("R{}", gpt2_words);
        }
    } else if (type == "Split") {
        step = read_split(fields);
    } else if (type == "Metaspace") {
        const MetaspaceFields metaspace = read_metaspace(fields);
        step.space = metaspace.sign;
        step.prepend = metaspace.prepend;
        if (fields.boolean("split", true)) {
            step.pattern.push_back(Regex::literal(step.space, fields.file() + ", Metaspace"));
            step.source = "S" + step.space;
            step.behavior = Behavior::merged_with_next;
        }
    } else if (type == "Digits") {
        step.pattern.emplace_back("\\p{N}", fields.file() + ", Digits");
        step.source = "R\\p{N}";
        step.behavior =
            fields.boolean("individual_digits", false) ? Behavior::isolated : Behavior::contiguous;
    } else {
        fields.fail("type", fmt::format("pre-tokenizer {} is not supported", visible_text(type, 60)),
                    "supported are ByteLevel, Split, Digits, Metaspace and Sequence");
    }
    m_steps.push_back(std::move(step));
}

PreTokenizer::Step PreTokenizer::read_split(const FileFields& fields) {
    Step step;
    step.pattern.push_back(read_pattern(fields.object("pattern")));
    step.source = pattern_source(fields.object("pattern"));
    step.invert = fields.boolean("invert", false);
    const std::string behavior = fields.text("behavior");
    constexpr std::pair<std::string_view, Behavior> behaviors[] = {
        {"Removed", Behavior::removed},
        {"Isolated", Behavior::isolated},
        {"MergedWithPrevious", Behavior::merged_with_previous},
        {"MergedWithNext", Behavior::merged_with_next},
        {"Contiguous", Behavior::contiguous}};
    const auto* found = std::find_if(std::begin(behaviors), std::end(behaviors),
                                     [&](const auto& known) { return known.first == behavior; });
    if (found == std::end(behaviors)) {
        fields.fail("behavior", fmt::format("{} is not known", visible_text(behavior, 60)));
    }
    step.behavior = found->second;
    return step;
}

std::string PreTokenizer::with_space_signs(const Step& step, std::string_view text, bool at_start) {
    std::string out;
    out.reserve(text.size() + 16);
    for (const char c : text) {
        if (c == ' ')
            out += step.space;
        else
            out += c;
    }
    const bool wanted = step.prepend == Prepend::always || (step.prepend == Prepend::first && at_start);
    if (wanted && !out.starts_with(step.space)) out.insert(0, step.space);
    return out;
}

void PreTokenizer::describe(Digest& digest) const {
    digest.add("pre-tokenizer");
    for (const Step& step : m_steps) {
        digest.add(step.source);
        digest.add(static_cast<uint64_t>(step.behavior));
        // Pieces that are all kept as they are do not show which of them the pattern found.
        digest.add(uint64_t{step.invert && step.behavior != Behavior::isolated &&
                            step.behavior != Behavior::contiguous});
        digest.add(uint64_t{step.add_prefix_space});
        digest.add(uint64_t{step.byte_level});
        digest.add(step.space);
        digest.add(static_cast<uint64_t>(step.prepend));
    }
}

void PreTokenizer::split(std::string_view text, bool at_start,
                         const std::function<void(std::string_view)>& word) const {
    run(0, text, at_start, word);
}

void PreTokenizer::run(size_t index, std::string_view text, bool at_start,
                       const std::function<void(std::string_view)>& word) const {
    if (index == m_steps.size()) {
        word(text);
        return;
    }
    const Step& step = m_steps[index];
    std::string changed; // the text that this step works on, where it is not `text` itself
    if (!step.space.empty()) {
        changed = with_space_signs(step, text, at_start);
        text = changed;
    } else if (step.add_prefix_space && !text.starts_with(' ')) {
        changed = " " + std::string(text);
        text = changed;
    }
    const auto emit = [&](size_t begin, size_t end) {
        if (begin != end) run(index + 1, text.substr(begin, end - begin), at_start && begin == 0, word);
    };
    if (step.pattern.empty()) {
        emit(0, text.size());
        return;
    }
    if (step.behavior == Behavior::isolated) { // the usual case, without a list
        size_t done = 0;
        Regex::Matches matches(step.pattern.front(), text);
        while (const auto match = matches.next()) {
            emit(done, match->begin);
            emit(match->begin, match->end);
            done = match->end;
        }
        emit(done, text.size());
        return;
    }
    std::vector<Piece> pieces = alternate(step.pattern.front(), text, step.invert);
    switch (step.behavior) {
    case Behavior::removed:
        std::erase_if(pieces, [](const Piece& piece) { return piece.delimiter; });
        break;
    case Behavior::merged_with_previous:
        pieces = join_to_previous(pieces);
        break;
    case Behavior::merged_with_next:
        pieces = join_to_next(pieces);
        break;
    case Behavior::contiguous:
        pieces = join_runs(pieces);
        break;
    case Behavior::isolated:
        break;
    }
    for (const Piece& piece : pieces)
        emit(piece.begin, piece.end);
}

} // namespace refreshlab
