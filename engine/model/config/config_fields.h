#pragma once

#include "engine/base/error.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab {

/// JSON in one short line, for messages.
[[nodiscard]] std::string short_dump(const nlohmann::json& value);

/// One JSON object of a file, with the messages that name both. Absent and null mean the same.
class Fields {
    using json = nlohmann::json;

public:
    Fields(const json& object, std::string file, std::string prefix = {})
        : m_object(object)
        , m_file(std::move(file))
        , m_prefix(std::move(prefix)) {}

    [[noreturn]] void fail(const std::string& key, const std::string& problem,
                           const std::string& hint = {}) const {
        throw Error("reading", m_file, m_prefix + key + " " + problem, hint);
    }

    [[nodiscard]] const json* find(const std::string& key) const {
        const auto it = m_object.find(key);
        return it == m_object.end() || it->is_null() ? nullptr : &*it;
    }

    [[nodiscard]] int64_t integer(const std::string& key, const json& value, int64_t low,
                                  int64_t high) const {
        if (!value.is_number_integer()) fail(key, "must be an integer, not " + short_dump(value));
        // Values beyond int64 are stored unsigned; they are above every limit.
        const bool huge = value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(high);
        if (huge || value.get<int64_t>() < low || value.get<int64_t>() > high) {
            fail(key, fmt::format("must be in {} .. {}, not {}", low, high, short_dump(value)));
        }
        return value.get<int64_t>();
    }

    [[nodiscard]] int64_t size(const std::string& key, int64_t high) const {
        const json* value = find(key);
        if (value == nullptr) fail(key, "is missing", "is this the config.json of a language model?");
        return integer(key, *value, 1, high);
    }

    [[nodiscard]] std::optional<int64_t> optional_size(const std::string& key, int64_t high) const {
        const json* value = find(key);
        if (value == nullptr) return std::nullopt;
        return integer(key, *value, 1, high);
    }

    [[nodiscard]] std::optional<double> optional_number(const std::string& key, double low,
                                                        double high) const {
        const json* value = find(key);
        if (value == nullptr) return std::nullopt;
        if (!value->is_number()) fail(key, "must be a number, not " + short_dump(*value));
        const double number = value->get<double>();
        if (!(number >= low && number <= high)) {
            fail(key, fmt::format("must be in {} .. {}, not {}", low, high, short_dump(*value)));
        }
        return number;
    }

    [[nodiscard]] double number(const std::string& key, double low, double high) const {
        const auto value = optional_number(key, low, high);
        if (!value) fail(key, "is missing");
        return *value;
    }

    [[nodiscard]] bool flag(const std::string& key, bool fallback) const {
        const json* value = find(key);
        if (value == nullptr) return fallback;
        if (!value->is_boolean()) fail(key, "must be true or false, not " + short_dump(*value));
        return value->get<bool>();
    }

    [[nodiscard]] std::optional<std::string> text(const std::string& key) const {
        const json* value = find(key);
        if (value == nullptr) return std::nullopt;
        if (!value->is_string()) fail(key, "must be a string, not " + short_dump(*value));
        return value->get<std::string>();
    }

    /// One id or a list of ids.
    [[nodiscard]] std::vector<int32_t> ids(const std::string& key, int64_t vocab_size) const {
        const json* value = find(key);
        if (value == nullptr) return {};
        std::vector<int32_t> result;
        const auto add = [&](const json& id) {
            const auto checked = static_cast<int32_t>(integer(key, id, 0, vocab_size - 1));
            if (std::find(result.begin(), result.end(), checked) == result.end()) result.push_back(checked);
        };
        if (value->is_array()) {
            std::for_each(value->begin(), value->end(), add);
        } else {
            add(*value);
        }
        return result;
    }

    /// True where the key is there, be it null.
    [[nodiscard]] bool has(const std::string& key) const { return m_object.contains(key); }
    [[nodiscard]] const std::string& file() const { return m_file; }

private:
    const json& m_object;
    std::string m_file, m_prefix;
};

} // namespace refreshlab
