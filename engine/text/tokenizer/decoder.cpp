#include "engine/text/tokenizer/decoder.h"

#include "engine/base/error.h"
#include "engine/text/tokenizer/normalizer.h"
#include "engine/text/tokenizer/pre_tokenizer.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace refreshlab {

namespace {

constexpr const char* supported_decoders =
    "supported are ByteLevel alone, or Replace, Strip, Metaspace, then ByteFallback, then "
    "Fuse, then Strip, in a Sequence";

constexpr size_t max_token_bytes = 64
                                   << 10; // a file may ask for replacements that multiply it again and again

/// The byte that a token such as "<0xE2>" names. Its two characters are read as the reference reads them: either case,
/// and "+5" too.
std::optional<char> named_byte(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
    std::string_view digits = token.substr(3, 2);
    if (digits.front() == '+') digits.remove_prefix(1);
    unsigned value = 0;
    const char* end = digits.data() + digits.size();
    const auto [stop, code] = std::from_chars(digits.data(), end, value, 16);
    if (code != std::errc() || stop != end) return std::nullopt;
    return static_cast<char>(static_cast<unsigned char>(value));
}

std::string replaced(const Regex& pattern, std::string_view text, const std::string& with) {
    std::string out;
    size_t done = 0;
    Regex::Matches matches(pattern, text);
    while (const auto match = matches.next()) {
        out.append(text, done, match->begin - done);
        out += with;
        done = match->end;
        if (out.size() > max_token_bytes) {
            throw Error("reading tokenizer.json", {},
                        fmt::format("its decoder makes a token longer than {} bytes", max_token_bytes));
        }
    }
    return out.append(text, done, text.size() - done);
}

/// Takes characters from the start of text, at most `left`, which counts down. \return whether more could follow
bool strip_start(std::string_view& text, std::string_view character, size_t& left) {
    while (left > 0 && text.starts_with(character)) {
        text.remove_prefix(character.size());
        --left;
    }
    return text.empty();
}

} // namespace

Decoder::Decoder(const FileFields& fields, bool byte_level) {
    add(fields, byte_level, 0);
}

void Decoder::add(const FileFields& fields, bool byte_level, int depth) {
    const std::string type = fields.text("type");
    const std::string shown = visible_text(type, 60);
    if (type == "Sequence" && depth < 8) {
        const size_t count = fields.array("decoders").size();
        for (size_t i = 0; i < count; ++i)
            add(fields.element("decoders", i), byte_level, depth + 1);
        return;
    }
    if (m_steps.size() + m_strips.size() == 32) fields.fail("", "more than 32 steps");
    const bool known = type == "Replace" || type == "Strip" || type == "Metaspace" ||
                       type == "ByteFallback" || type == "Fuse";
    if (type == "ByteLevel") {
        if (!byte_level)
            fields.fail("type", "ByteLevel without a pre-tokenizer ByteLevel is not supported",
                        supported_decoders);
        return;
    }
    if (!known) fields.fail("type", fmt::format("decoder {} is not supported", shown), supported_decoders);
    if (byte_level)
        fields.fail("type", fmt::format("decoder {} is not supported in a byte-level model", shown),
                    "ByteLevel is");
    if (type == "Strip") {
        add_strip(fields);
        return;
    }
    if (type == "Fuse") {
        m_fused = true;
        return;
    }
    if (m_byte_fallback || m_fused)
        fields.fail("type", fmt::format("decoder {} after ByteFallback or Fuse is not supported", shown),
                    supported_decoders);
    if (type == "ByteFallback") {
        m_byte_fallback = true;
    } else if (type == "Replace") {
        Step step{Kind::replace, {}, fields.text("content")};
        if (step.text.size() > 1024) fields.fail("content", "longer than 1024 bytes");
        step.pattern.push_back(read_pattern(fields.object("pattern")));
        m_steps.push_back(std::move(step));
    } else {
        const MetaspaceFields metaspace = read_metaspace(fields);
        Step step{Kind::metaspace, {}, metaspace.sign};
        step.start_is_bare = metaspace.prepend != MetaspaceFields::Prepend::never;
        m_steps.push_back(std::move(step));
    }
}

void Decoder::add_strip(const FileFields& fields) {
    const auto count = [&](const char* key) {
        const nlohmann::json* value = fields.find(key);
        if (value == nullptr) fields.fail(key, "missing");
        if (!value->is_number_integer() || *value < 0 || *value > 1'000'000)
            fields.fail(key, "a whole number from 0 to 1000000 expected");
        return value->get<size_t>();
    };
    const std::string character = read_character(fields, "content");
    const size_t start = count("start");
    if (count("stop") != 0) fields.fail("stop", "only 0 is supported: nothing is taken from the end");
    if (m_fused) {
        m_strips.push_back({character, start});
    } else if (m_byte_fallback) {
        fields.fail("type", "decoder Strip between ByteFallback and Fuse is not supported",
                    supported_decoders);
    } else {
        Step step{Kind::strip, {}, character};
        step.most = start;
        m_steps.push_back(std::move(step));
    }
}

bool Decoder::start_is_bare() const {
    return std::any_of(m_steps.begin(), m_steps.end(), [](const Step& step) { return step.start_is_bare; });
}

Decoder::Piece Decoder::piece(std::string_view token, bool first) const {
    std::string text(token);
    for (const Step& step : m_steps) {
        switch (step.kind) {
        case Kind::replace:
            text = replaced(step.pattern.front(), text, step.text);
            break;
        case Kind::strip: {
            std::string_view rest = text;
            size_t left = step.most;
            strip_start(rest, step.text, left);
            text = std::string(rest);
            break;
        }
        case Kind::metaspace: {
            const std::string space = first && step.start_is_bare ? "" : " ";
            std::string out;
            for (size_t at = 0; at < text.size();) {
                const bool sign = std::string_view(text).substr(at).starts_with(step.text);
                out += sign ? space : std::string(1, text[at]);
                at += sign ? step.text.size() : 1;
            }
            text = std::move(out);
        }
        }
    }
    if (m_byte_fallback) {
        if (const auto byte = named_byte(text)) return {std::string(1, *byte), true};
    }
    return {std::move(text), false};
}

JoinedText::JoinedText(const Decoder& decoder)
    : m_decoder(&decoder) {
    for (const Decoder::Strip& strip : decoder.strips())
        m_left.push_back(strip.most);
}

std::string JoinedText::push(std::string_view token) {
    const Decoder::Piece piece = m_decoder->piece(token, std::exchange(m_first, false));
    if (piece.is_byte) {
        m_bytes += piece.text;
        return {};
    }
    return stripped(take_bytes() + piece.text);
}

std::string JoinedText::finish() {
    return stripped(take_bytes());
}

std::string JoinedText::take_bytes() {
    std::string bytes = std::exchange(m_bytes, {});
    if (!first_invalid_utf8(bytes)) return bytes;
    std::string text; // one bad byte spoils its whole run, as in the reference
    for (size_t i = 0; i < bytes.size(); ++i)
        append_utf8(text, 0xFFFD);
    return text;
}

std::string JoinedText::stripped(std::string text) {
    std::string_view rest = text;
    for (size_t i = 0; i < m_left.size(); ++i) {
        if (!strip_start(rest, m_decoder->strips()[i].character, m_left[i])) m_left[i] = 0;
    }
    return std::string(rest);
}

} // namespace refreshlab
