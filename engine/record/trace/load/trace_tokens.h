#pragma once

#include "engine/text/tokenizer/tokenizer.h"

#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace refreshlab::trace {

/// Bytes of the ids that occur in a trace.
///
/// Threads  one adds, any reads: a trace may still grow.
class TraceTokens final : public TokenTable {
public:
    /// Nothing where the id is known already.
    void add(int32_t id, std::string bytes, bool special) {
        const std::unique_lock lock(m_mutex);
        m_tokens.try_emplace(id, Token{std::move(bytes), special});
    }
    [[nodiscard]] bool contains(int32_t id) const { return find(id) != nullptr; }
    [[nodiscard]] std::string_view token_bytes(int32_t id) const override {
        const Token* token = find(id);
        return token == nullptr ? std::string_view() : std::string_view(token->bytes);
    }
    [[nodiscard]] bool is_special(int32_t id) const override {
        const Token* token = find(id);
        return token != nullptr && token->special;
    }

private:
    struct Token {
        std::string bytes;
        bool special = false;
    };
    /// It stays where it is, as it is.
    [[nodiscard]] const Token* find(int32_t id) const {
        const std::shared_lock lock(m_mutex);
        const auto found = m_tokens.find(id);
        return found == m_tokens.end() ? nullptr : &found->second;
    }

    mutable std::shared_mutex m_mutex;
    std::unordered_map<int32_t, Token> m_tokens;
};

} // namespace refreshlab::trace
