#pragma once

#include "engine/text/tokenizer/tokenizer.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace refreshlab::trace {

/// Bytes of the ids that occur in a trace.
class TraceTokens final : public TokenTable {
public:
    void add(int32_t id, std::string bytes, bool special) { m_tokens[id] = {std::move(bytes), special}; }
    [[nodiscard]] bool contains(int32_t id) const { return m_tokens.contains(id); }
    [[nodiscard]] std::string_view token_bytes(int32_t id) const override {
        const auto found = m_tokens.find(id);
        return found == m_tokens.end() ? std::string_view() : std::string_view(found->second.bytes);
    }
    [[nodiscard]] bool is_special(int32_t id) const override {
        const auto found = m_tokens.find(id);
        return found != m_tokens.end() && found->second.special;
    }

private:
    struct Token {
        std::string bytes;
        bool special = false;
    };
    std::unordered_map<int32_t, Token> m_tokens;
};

} // namespace refreshlab::trace
