#include "ui/scene/tables/row_policy.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

namespace refreshlab::ui {

namespace {

constexpr std::array<std::string_view, 5> policy_columns = {"cachepolicy", "policy", "method", "config",
                                                            "cache"};
constexpr auto budget_keys =
    std::to_array<std::string_view>({"budget", "partial"}); // a method has one of them

/// Without capitals, underscores and spaces.
std::string plain(std::string_view name) {
    std::string text;
    for (const char c : name)
        if (c != '_' && c != ' ' && c != '-')
            text += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return text;
}

std::optional<size_t> column_named(const DataTable& table, std::string_view name) {
    const auto found = std::ranges::find(table.columns, plain(name), plain);
    if (found == table.columns.end()) return std::nullopt;
    return static_cast<size_t>(found - table.columns.begin());
}

const CacheMethod* method_named(std::string_view words) {
    // As tables of studies call it, and cache_words().
    const bool full = plain(words) == "vanilla" || plain(words) == plain(cache_words({}));
    const std::string name = full ? "full" : plain(words);
    for (const CacheMethod& method : cache_methods())
        if (plain(method.name) == name || plain(method.label) == name) return &method;
    return nullptr;
}

std::string_view trimmed(std::string_view text) {
    while (text.starts_with(' '))
        text.remove_prefix(1);
    while (text.ends_with(' '))
        text.remove_suffix(1);
    return text;
}

/// "n/8", "1/8": a part of the whole.
std::optional<double> share_of(std::string_view cell) {
    const size_t slash = cell.find('/');
    if (slash == std::string_view::npos) return std::nullopt;
    const std::string_view over = trimmed(cell.substr(0, slash));
    const auto above = over == "n" ? std::optional(1.0) : cell_number(over),
               below = cell_number(trimmed(cell.substr(slash + 1)));
    if (!above || !below || !(*above > 0) || !(*below >= *above)) return std::nullopt;
    return *above / *below;
}

/// Puts settings into the JSON of a policy, so that the reader of policy files checks them.
class Settings {
public:
    explicit Settings(const CacheMethod& method)
        : m_method(method) {
        m_json["policy"] = std::string(method.name);
    }

    /// \return false: the method has no such setting
    bool set(std::string_view name, std::string_view cell) {
        for (const CacheFile& file : m_method.files)
            if (plain(file.key) == plain(name)) {
                m_json[std::string(file.key)] = std::string(cell);
                return true;
            }
        for (const CacheParameter& parameter : m_method.parameters)
            if (plain(parameter.key) == plain(name) || plain(parameter.label) == plain(name)) {
                put(parameter, cell);
                return true;
            }
        return false;
    }
    /// The column "budget": a number or share of entries, whatever the method calls them, or another setting as studies write it, "4 bits".
    /// \return false: the method has no such thing
    bool set_budget(std::string_view cell) {
        for (const std::string_view key : budget_keys)
            if ((cell_number(cell) || share_of(cell)) && set(key, cell)) return true;
        const size_t space = cell.find(' ');
        return space != std::string_view::npos && set(trimmed(cell.substr(space + 1)), cell.substr(0, space));
    }

    [[nodiscard]] RowPolicy policy() const {
        return {cache_policy_from_json(m_json, "the table"), m_share, m_budget_said};
    }

private:
    void put(const CacheParameter& parameter, std::string_view cell) {
        const bool budget = std::ranges::find(budget_keys, parameter.key) != budget_keys.end();
        if (budget && share_of(cell)) {
            m_share = share_of(cell);
            m_budget_said = true;
            return;
        }
        m_budget_said = m_budget_said || budget;
        nlohmann::json& value = m_json[std::string(parameter.key)];
        using Kind = CacheParameter::Kind;
        const auto number = cell_number(cell);
        if (parameter.kind == Kind::boolean)
            value = cell == "true" || cell == "1";
        else if (parameter.kind == Kind::choice || !number)
            value = std::string(cell); // of a number: refused with its key
        else if (*number == std::floor(*number) && std::abs(*number) < 1e15)
            value = static_cast<int64_t>(*number);
        else
            value = *number;
    }

    const CacheMethod& m_method;
    nlohmann::json m_json;
    std::optional<double> m_share;
    bool m_budget_said = false;
};

/// Of "H2O, budget 64": what stands behind the name. \return what is no setting; empty: all is
std::string_view set_words(Settings& settings, std::string_view words) {
    while (!words.empty()) {
        const size_t comma = words.find(',');
        const std::string_view one = trimmed(words.substr(0, comma));
        words = comma == std::string_view::npos ? std::string_view() : words.substr(comma + 1);
        const size_t space = one.rfind(' ');
        if (space == std::string_view::npos || !settings.set(one.substr(0, space), one.substr(space + 1)))
            return one;
    }
    return {};
}

RowReading from_words(const DataTable& table, size_t row, std::string_view cell, size_t policy_column) {
    const size_t comma = cell.find(',');
    const CacheMethod* const method = method_named(trimmed(cell.substr(0, comma)));
    if (method == nullptr) return {{}, fmt::format("'{}' is no cache policy", visible_text(cell, 60))};
    Settings settings(*method);
    const auto rest = comma == std::string_view::npos ? std::string_view() : cell.substr(comma + 1);
    if (const auto strange = set_words(settings, rest); !strange.empty())
        return {{}, fmt::format("'{}' is no setting of {}", visible_text(strange, 60), method->label)};
    for (size_t c = 0; c < table.columns.size(); ++c) {
        const std::string& value = table.rows[row][c];
        if (c == policy_column || value.empty() || value == "-" || value == "all") continue;
        if (plain(table.columns[c]) != "budget")
            settings.set(table.columns[c], value);
        else if (!settings.set_budget(value))
            return {{}, fmt::format("'{}' is no budget of {}", visible_text(value, 60), method->label)};
    }
    return {settings.policy(), {}};
}

} // namespace

CachePolicyConfig RowPolicy::in(const RunReach& reach) const {
    CachePolicyConfig cache = config;
    const CacheMethod* const method = find_cache_method(cache.policy);
    for (const std::string_view key : budget_keys) {
        const auto budget = cache.values.find(key);
        if (budget == cache.values.end() || method == nullptr) continue;
        const int64_t entries = method->prompt_only ? reach.prompt : reach.whole;
        if (share && entries > 0)
            budget->second = std::max(1.0, std::floor(*share * static_cast<double>(entries)));
        const auto choose = cache.values.find("choose"); // by a threshold, or by a budget
        if (budget_said && choose != cache.values.end()) choose->second = 1;
        if (const auto last = cache.values.find("last_tokens"); share && last != cache.values.end())
            last->second = std::min(last->second, std::floor(budget->second / 2));
        if (!budget_said) budget->second = chosen_cache(cache.policy, reach).values.find(key)->second;
    }
    return cache;
}

RowReading read_policy(const DataTable& table, size_t row) {
    for (const std::string_view name : policy_columns) {
        const auto column = column_named(table, name);
        if (!column || table.rows[row][*column].empty()) continue;
        const std::string& cell = table.rows[row][*column];
        try {
            if (!cell.starts_with('{')) return from_words(table, row, cell, *column);
            return {RowPolicy{cache_policy_from_json(parse_json(cell, "the table"), "the table"), {}, true},
                    {}};
        } catch (const Error& e) {
            return {{}, e.problem().empty() ? e.what() : fmt::format("{}: {}", e.object(), e.problem())};
        }
    }
    return {};
}

} // namespace refreshlab::ui
