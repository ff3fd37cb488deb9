#include "engine/text/tokenizer/normalizer.h"

#include "engine/base/error.h"
#include "engine/text/digest.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

namespace refreshlab {

namespace {

/// Characters that the tables of the `tokenizers` library (unicode-normalization-alignments 0.1.12, Unicode 9) do not
/// know as marks or as parts of a composition, and newer tables do. To it they are letters that combine with nothing,
/// so text is normalised piecewise between them. Found by comparing the two over all marks of Unicode 16.
constexpr std::pair<char32_t, char32_t> inert[] = {
    {0x7FD, 0x7FD},     {0x897, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},
    {0xCF3, 0xCF3},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0xECE, 0xECE},     {0x1715, 0x1715},
    {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},   {0x105C0, 0x105FF}, {0x10D24, 0x10D27},
    {0x10D69, 0x10D6D}, {0x10EAB, 0x10EAC}, {0x10EFC, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85},
    {0x11070, 0x11070}, {0x11241, 0x11241}, {0x1133B, 0x1133B}, {0x11380, 0x113E2}, {0x1145E, 0x1145E},
    {0x11839, 0x1183A}, {0x11935, 0x11935}, {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943},
    {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42},
    {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F00, 0x11F01}, {0x11F03, 0x11F03}, {0x11F34, 0x11F3A},
    {0x11F3E, 0x11F42}, {0x11F5A, 0x11F5A}, {0x13440, 0x13440}, {0x13447, 0x13455}, {0x16100, 0x1613F},
    {0x16D40, 0x16D7F}, {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE},
    {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1E5EE, 0x1E5EF}};

bool is_inert(char32_t c) {
    if (c < inert[0].first) return false;
    const auto* above =
        std::upper_bound(std::begin(inert), std::end(inert), c,
                         [](char32_t value, const auto& range) { return value < range.first; });
    return above != std::begin(inert) && c <= std::prev(above)->second;
}

void append_nfc(std::string& out, std::string_view text) {
    if (text.empty()) return;
    utf8proc_uint8_t* mapped = nullptr;
    const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    const utf8proc_ssize_t length =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                     static_cast<utf8proc_ssize_t>(text.size()), &mapped, options);
    if (length < 0)
        throw Error("normalising text to NFC", {}, utf8proc_errmsg(length), {}, ErrorKind::failure);
    out.append(reinterpret_cast<const char*>(mapped), static_cast<size_t>(length));
    std::free(mapped);
}

/// A file may ask for replacements that multiply the text again and again.
void check_length(size_t now, size_t before) {
    if (now > 8 * before + (size_t{1} << 20))
        throw Error("normalising text", {}, "the normalizer makes it more than eight times as long");
}

} // namespace

std::string nfc(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    size_t begin = 0;
    for (size_t at = 0; at < text.size();) {
        const Utf8Step step = utf8_step(text, at);
        if (is_inert(step.code_point)) {
            append_nfc(out, text.substr(begin, at - begin));
            out += text.substr(at, step.length);
            begin = at + step.length;
        }
        at += step.length;
    }
    append_nfc(out, text.substr(begin));
    return out;
}

Normalizer::Normalizer(const FileFields& fields) {
    add(fields, 0);
}

void Normalizer::add(const FileFields& fields, int depth) {
    const std::string type = fields.text("type");
    if (type == "NFC") {
        m_steps.push_back({Kind::nfc, {}, {}, {}});
    } else if (type == "Prepend") {
        m_steps.push_back({Kind::prepend, fields.text("prepend"), {}, {}});
    } else if (type == "Replace") {
        Step step{Kind::replace, fields.text("content"), {}, pattern_source(fields.object("pattern"))};
        if (step.text.size() > 1024) fields.fail("content", "longer than 1024 bytes");
        step.pattern.push_back(read_pattern(fields.object("pattern")));
        m_steps.push_back(std::move(step));
    } else if (type == "Sequence" && depth < 8) {
        const size_t count = fields.array("normalizers").size();
        for (size_t i = 0; i < count; ++i)
            add(fields.element("normalizers", i), depth + 1);
    } else {
        fields.fail("type", fmt::format("normalizer {} is not supported", visible_text(type, 60)),
                    "supported are NFC, Prepend, Replace and Sequence");
    }
}

std::string Normalizer::apply(std::string_view text) const {
    std::string now(text);
    for (const Step& step : m_steps) {
        switch (step.kind) {
        case Kind::nfc:
            now = nfc(now);
            break;
        case Kind::prepend:
            if (!now.empty()) now = step.text + now;
            break;
        case Kind::replace: {
            std::string next;
            size_t done = 0;
            Regex::Matches matches(step.pattern.front(), now);
            while (const auto match = matches.next()) {
                next.append(now, done, match->begin - done);
                next += step.text;
                done = match->end;
                check_length(next.size(), text.size());
            }
            next.append(now, done);
            now = std::move(next);
        }
        }
        check_length(now.size(), text.size());
    }
    return now;
}

void Normalizer::describe(Digest& digest) const {
    digest.add("normalizer");
    for (const Step& step : m_steps) {
        digest.add(static_cast<uint64_t>(step.kind));
        digest.add(step.text);
        digest.add(step.source);
    }
}

bool Normalizer::only_nfc() const {
    return std::all_of(m_steps.begin(), m_steps.end(),
                       [](const Step& step) { return step.kind == Kind::nfc; });
}

std::string pattern_source(const FileFields& fields) {
    return fields.find("Regex") != nullptr ? "R" + fields.text("Regex") : "S" + fields.text("String");
}

Regex read_pattern(const FileFields& fields) {
    const std::string what = "tokenizer.json of " + fields.file() + ", " + fields.where();
    if (fields.find("Regex") != nullptr) return {fields.text("Regex"), what};
    return Regex::literal(fields.text("String"), what);
}

} // namespace refreshlab
