#pragma once

#include "engine/base/error.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace refreshlab {

/// Checked look-ups in one JSON object of a file, so that a field of the wrong kind is a message and not an exception
/// of the JSON library. Private to engine/text.
class FileFields {
public:
    /// \param where  place in the file, for messages: "pre_tokenizer.pretokenizers[0]"
    FileFields(const nlohmann::json& object, std::string doing, std::string file, std::string where)
        : m_json(&object)
        , m_doing(std::move(doing))
        , m_file(std::move(file))
        , m_where(std::move(where)) {
        if (!object.is_object()) fail("", fmt::format("an object expected, {} found", object.type_name()));
    }

    [[noreturn]] void fail(std::string_view key, const std::string& problem,
                           const std::string& hint = {}) const {
        std::string place = m_where;
        if (!key.empty()) place += (place.empty() ? "" : ".") + std::string(key);
        throw Error(m_doing, m_file, place.empty() ? problem : place + ": " + problem, hint);
    }

    /// Null when absent or JSON null.
    [[nodiscard]] const nlohmann::json* find(const char* key) const {
        const auto at = m_json->find(key);
        return at == m_json->end() || at->is_null() ? nullptr : &*at;
    }

    [[nodiscard]] bool boolean(const char* key, bool otherwise) const {
        const nlohmann::json* value = find(key);
        if (value == nullptr) return otherwise;
        if (!value->is_boolean())
            fail(key, fmt::format("true or false expected, {} found", value->type_name()));
        return value->get<bool>();
    }

    [[nodiscard]] std::string text(const char* key, const char* otherwise = nullptr) const {
        const nlohmann::json* value = find(key);
        if (value == nullptr && otherwise != nullptr) return otherwise;
        if (value == nullptr) fail(key, "missing");
        if (!value->is_string()) fail(key, fmt::format("a string expected, {} found", value->type_name()));
        return value->get<std::string>();
    }

    [[nodiscard]] const nlohmann::json& array(const char* key) const {
        const nlohmann::json* value = find(key);
        if (value == nullptr) fail(key, "missing");
        if (!value->is_array()) fail(key, fmt::format("an array expected, {} found", value->type_name()));
        return *value;
    }

    [[nodiscard]] FileFields object(const char* key) const {
        const nlohmann::json* value = find(key);
        if (value == nullptr) fail(key, "missing");
        return {*value, m_doing, m_file, m_where.empty() ? std::string(key) : m_where + "." + key};
    }

    /// The object at place i of the array `key`.
    [[nodiscard]] FileFields element(const char* key, size_t i) const {
        return {array(key).at(i), m_doing, m_file,
                fmt::format("{}{}{}[{}]", m_where, m_where.empty() ? "" : ".", key, i)};
    }

    [[nodiscard]] const nlohmann::json& json() const { return *m_json; }
    [[nodiscard]] const std::string& file() const { return m_file; }
    [[nodiscard]] const std::string& where() const { return m_where; }

private:
    const nlohmann::json* m_json;
    std::string m_doing, m_file, m_where;
};

} // namespace refreshlab
