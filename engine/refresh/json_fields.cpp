#include "engine/refresh/json_fields.h"

#include "engine/base/error.h"
#include "engine/base/json_text.h"
#include "engine/signals/nearest_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab {

std::string shown(const nlohmann::json& value) {
    std::string text = json_text(value);
    constexpr size_t longest = 40;
    if (text.size() > longest) {
        size_t end = longest;
        while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U)
            --end; // whole characters
        text = text.substr(0, end) + "...";
    }
    return text;
}

JsonFields::JsonFields(const nlohmann::json& object, std::string what, std::string path)
    : m_object(object)
    , m_what(std::move(what))
    , m_path(std::move(path)) {
    if (m_object.is_object()) return;
    const std::string problem = fmt::format("must be an object {{...}}, not {}", shown(m_object));
    throw Error("reading", m_what, m_path.empty() ? problem : m_path + ": " + problem);
}

const nlohmann::json* JsonFields::find(std::string_view key) {
    if (std::ranges::find(m_known, key) == m_known.end()) m_known.emplace_back(key);
    const auto it = m_object.find(key);
    return it == m_object.end() ? nullptr : &*it;
}

std::string JsonFields::path(std::string_view key) const {
    return m_path.empty() ? std::string(key) : fmt::format("{}.{}", m_path, key);
}

void JsonFields::fail(std::string_view key, const std::string& problem, const std::string& hint) const {
    throw Error("reading", m_what, path(key) + ": " + problem, hint);
}

void JsonFields::text(std::string_view key, std::string& out) {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_string()) fail(key, fmt::format("must be a text \"...\", not {}", shown(*value)));
    out = value->get<std::string>();
}

void JsonFields::boolean(std::string_view key, bool& out) {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_boolean()) fail(key, fmt::format("must be true or false, not {}", shown(*value)));
    out = value->get<bool>();
}

void JsonFields::real(std::string_view key, double& out, double min, double max) {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return;
    const bool good = value->is_number() && std::isfinite(value->get<double>());
    if (!good || value->get<double>() < min || value->get<double>() > max) {
        fail(key, fmt::format("must be a number from {} to {}, not {}", min, max, shown(*value)));
    }
    out = value->get<double>();
}

int64_t JsonFields::whole_number(const nlohmann::json& value, std::string_view key, int64_t min, int64_t max,
                                 std::string_view or_what) const {
    bool good = value.is_number_integer();
    // Unsigned numbers beyond int64 would wrap.
    if (value.is_number_unsigned()) good = value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
    if (!good || value.get<int64_t>() < min || value.get<int64_t>() > max) {
        fail(key,
             fmt::format("must be a whole number from {} to {}{}, not {}", min, max, or_what, shown(value)));
    }
    return value.get<int64_t>();
}

void JsonFields::unsigned_integer(std::string_view key, uint64_t& out) {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return;
    // A value built in code may hold a non-negative number as a signed one.
    const bool good =
        value->is_number_unsigned() || (value->is_number_integer() && value->get<int64_t>() >= 0);
    if (!good) {
        fail(key, fmt::format("must be a whole number from 0 to {}, not {}", UINT64_MAX, shown(*value)));
    }
    out = value->get<uint64_t>();
}

std::optional<size_t> JsonFields::choice(std::string_view key, const std::vector<std::string_view>& names) {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (value->is_string()) {
        const auto it = std::find(names.begin(), names.end(), value->get_ref<const std::string&>());
        if (it != names.end()) return static_cast<size_t>(it - names.begin());
    }
    fail(key, fmt::format("must be one of {}, not {}", fmt::join(names, ", "), shown(*value)));
}

void JsonFields::finish() const {
    for (const auto& [key, value] : m_object.items()) {
        if (std::find(m_known.begin(), m_known.end(), key) != m_known.end()) continue;
        const std::vector<std::string_view> known(m_known.begin(), m_known.end());
        fail(key, "unknown key", name_hint(key, known, "keys"));
    }
}

} // namespace refreshlab
