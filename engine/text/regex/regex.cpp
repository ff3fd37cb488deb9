#include "engine/text/regex/regex.h"

#include "engine/base/error.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace refreshlab {

namespace {

std::string pcre2_message(int code) {
    std::array<PCRE2_UCHAR, 256> text{};
    pcre2_get_error_message(code, text.data(), text.size());
    return reinterpret_cast<const char*>(text.data());
}

/// What a match needs besides the compiled pattern; one set per thread, because creating it costs more than a match.
struct Scratch {
    pcre2_match_context* context = pcre2_match_context_create(nullptr);
    pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
    pcre2_jit_stack* stack = pcre2_jit_stack_create(size_t{32} << 10, size_t{16} << 20, nullptr);

    Scratch() {
        if (context == nullptr || data == nullptr) {
            throw Error("matching a regular expression", {}, "out of memory", {}, ErrorKind::failure);
        }
        // Without a stack of its own the JIT runs on 32 KiB; no stack at all only means that.
        pcre2_jit_stack_assign(context, nullptr, stack);
        pcre2_set_heap_limit(context, 256u << 10); // KiB
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() {
        pcre2_jit_stack_free(stack);
        pcre2_match_data_free(data);
        pcre2_match_context_free(context);
    }

    static Scratch& of_this_thread() {
        thread_local Scratch scratch;
        return scratch;
    }
};

} // namespace

struct Regex::Code {
    pcre2_code* code = nullptr;
    std::string object; ///< for messages
    std::string pattern;

    Code(std::string_view source, uint32_t options, std::string for_messages, std::string shown)
        : object(std::move(for_messages))
        , pattern(std::move(shown)) {
        int error = 0;
        PCRE2_SIZE offset = 0;
        pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
        if (context != nullptr) {
            pcre2_set_newline(context, PCRE2_NEWLINE_LF); // Oniguruma's only line end
            pcre2_set_parens_nest_limit(context, 100);
        }
        code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source.data()), source.size(), options, &error,
                             &offset, context);
        pcre2_compile_context_free(context);
        if (code == nullptr) {
            throw Error("reading", object,
                        fmt::format("regular expression \"{}\": {}", pattern, pcre2_message(error)));
        }
        pcre2_jit_compile(code,
                          PCRE2_JIT_COMPLETE); // where there is no JIT the interpreter gives the same matches
    }
    Code(const Code&) = delete;
    Code& operator=(const Code&) = delete;
    ~Code() { pcre2_code_free(code); }
};

Regex::Regex(std::unique_ptr<Code> code)
    : m_code(std::move(code)) {}

Regex::Regex(std::string_view pattern, const std::string& object)
    : m_code(std::make_unique<Code>(translate_oniguruma(pattern, object),
                                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, object,
                                    visible_text(pattern, 200))) {}

Regex Regex::literal(std::string_view text, const std::string& object) {
    return Regex(std::make_unique<Code>(text, PCRE2_UTF | PCRE2_LITERAL, object, visible_text(text, 200)));
}

Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Regex::Matches::Matches(const Regex& regex, std::string_view text)
    : m_regex(&regex)
    , m_text(text) {}

std::optional<Regex::Span> Regex::Matches::next() {
    Scratch& scratch = Scratch::of_this_thread();
    // The usual patterns go back over a run of white space once: a few units per byte. The constant is for short texts.
    constexpr size_t most = 4'000'000'000;
    const auto limit =
        static_cast<uint32_t>(std::min(2'000'000 + 16 * std::min(m_text.size(), most / 16), most));
    pcre2_set_match_limit(scratch.context, limit);
    while (m_from <= m_text.size()) {
        const auto* subject = reinterpret_cast<PCRE2_SPTR>(m_text.data() == nullptr ? "" : m_text.data());
        const int found = pcre2_match(m_regex->m_code->code, subject, m_text.size(), m_from,
                                      PCRE2_NO_UTF_CHECK, scratch.data, scratch.context);
        if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
        if (found < 0) {
            throw Error("tokenizing text with the regular expression", m_regex->m_code->pattern,
                        pcre2_message(found),
                        fmt::format("the pattern of {} does not suit this text", m_regex->m_code->object));
        }
        const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(scratch.data);
        const Span span{ends[0], ends[1]};
        if (span.begin == span.end && m_last_end == span.end) {
            m_from = span.end + (span.end < m_text.size() ? utf8_step(m_text, span.end).length : 1);
            continue;
        }
        m_from = span.end;
        m_last_end = span.end;
        return span;
    }
    return std::nullopt;
}

} // namespace refreshlab
