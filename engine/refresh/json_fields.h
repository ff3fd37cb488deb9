#pragma once

#include <nlohmann/json.hpp>

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refreshlab {

/// Strict reading of one JSON object. Each key is named once, where it is read. finish() refuses every other key and
/// names the nearest of those that were read. All errors are Error{bad_input}:
/// "reading gate.json: when.any[0].every: must be a whole number from 1 to 1000000, not 0".
/// Absent keys leave the value as it was.
class JsonFields {
public:
    /// \param what  what the JSON is, for messages: a path, "--policy"
    /// \param path  where `object` sits in it: "when.any[0]"; empty at the top
    JsonFields(const nlohmann::json& object, std::string what, std::string path = {});

    /// Null when the key is absent.
    [[nodiscard]] const nlohmann::json* find(std::string_view key);
    /// Path of a key of this object, for what is nested in it.
    [[nodiscard]] std::string path(std::string_view key) const;
    [[noreturn]] void fail(std::string_view key, const std::string& problem,
                           const std::string& hint = {}) const;

    void text(std::string_view key, std::string& out);
    void boolean(std::string_view key, bool& out);
    /// Finite, in [min, max].
    void real(std::string_view key, double& out, double min, double max);
    template <std::integral T>
    void integer(std::string_view key, T& out, int64_t min, int64_t max) {
        if (const nlohmann::json* value = find(key))
            out = static_cast<T>(whole_number(*value, key, min, max));
    }
    void unsigned_integer(std::string_view key, uint64_t& out);
    /// A whole number, or null for nothing.
    template <std::integral T>
    void optional_integer(std::string_view key, std::optional<T>& out, int64_t min, int64_t max) {
        const nlohmann::json* value = find(key);
        if (value == nullptr) return;
        if (value->is_null()) {
            out.reset();
        } else {
            out = static_cast<T>(whole_number(*value, key, min, max, " or null"));
        }
    }
    /// One of the names; returns its index, or nothing when the key is absent.
    [[nodiscard]] std::optional<size_t> choice(std::string_view key,
                                               const std::vector<std::string_view>& names);

    /// Call after the last look-up.
    void finish() const;

private:
    [[nodiscard]] int64_t whole_number(const nlohmann::json& value, std::string_view key, int64_t min,
                                       int64_t max, std::string_view or_what = {}) const;

    const nlohmann::json& m_object;
    std::string m_what, m_path;
    std::vector<std::string> m_known;
};

/// A JSON value for a message: short, on one line.
[[nodiscard]] std::string shown(const nlohmann::json& value);

} // namespace refreshlab
