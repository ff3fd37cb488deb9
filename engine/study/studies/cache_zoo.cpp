#include "engine/study/studies/cache_zoo.h"

#include "engine/base/check.h"
#include "engine/base/json_text.h"
#include "engine/policies/cache_method.h"
#include "engine/policies/common_parameters.h"
#include "engine/study/studies/study_run.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

namespace refreshlab {

namespace {

constexpr int64_t zoo_shares[] = {2, 4, 8, 16}, code_bits[] = {8, 4, 2};
constexpr double dropped_channels[] = {0.2, 0.4, 0.6};
constexpr int64_t fewest_entries = 8, most_interval = 16;

/// A method's defaults with these in place of its own; keys that it does not have are left out.
class Settings {
public:
    explicit Settings(std::string_view method)
        : m_config(cache_policy_defaults(method, "a study")) {}
    [[nodiscard]] bool has(const char* key) const { return m_config.values.contains(key); }
    [[nodiscard]] double value(const char* key) const {
        return has(key) ? m_config.values.find(key)->second : 0;
    }
    void set(const char* key, double value) {
        if (const auto found = m_config.values.find(key); found != m_config.values.end())
            found->second = value;
    }
    void at_most(const char* key, int64_t most) {
        if (const auto found = m_config.values.find(key); found != m_config.values.end())
            found->second = std::min(found->second, static_cast<double>(std::max<int64_t>(most, 1)));
    }
    [[nodiscard]] const CachePolicyConfig& config() const { return m_config; }

private:
    CachePolicyConfig m_config;
};

CachePolicyConfig with_share(std::string_view method, int64_t prompt, int64_t share) {
    Settings settings(method);
    const int64_t entries = std::max(fewest_entries, prompt / share), part = entries / 4;
    settings.at_most("last_tokens", part);
    settings.at_most("episode_window", part);
    // These come beside the budget.
    settings.set("budget", static_cast<double>(entries) - settings.value("last_tokens") -
                               settings.value("episode_window"));
    settings.set("partial", static_cast<double>(entries));
    settings.set("choose", 1);   // by budget
    settings.set("margin", 1e6); // by the limit, however far below the best one
    for (const char* key : {"window", "stabilizers", "floor", "page"})
        settings.at_most(key, part);
    settings.at_most("interval", most_interval);
    const double of_all = 1 / static_cast<double>(share);
    settings.set("limit", of_all);
    settings.set("fine_share", of_all);
    settings.set("coarse_share", std::min(1.0, 2 * of_all));
    return settings.config();
}

bool can_be_compared(const CacheMethod& method) {
    return method.name != "kv_direct" && method.name != "kv_routing";
}

ZooRow with_dropped(std::string_view method, int64_t prompt, double dropped) {
    Settings settings(method);
    settings.set("dropped", dropped);
    settings.at_most("window", prompt / 8);
    return {fmt::format("{} dropped", dropped), settings.config()};
}

ZooRow with_bits(std::string_view method, int64_t prompt, int64_t bits) {
    Settings settings(method);
    settings.set("bits", static_cast<double>(bits));
    settings.at_most("residual", prompt / 8);
    return {fmt::format("{} bits", bits), settings.config()};
}

/// How much of a cache a method leaves is said in this way.
enum class Measure : uint8_t { nothing, dropped, bits, share };

Measure measure_of(const CacheMethod& method) {
    const Settings defaults(method.name);
    if (method.name == "full") return Measure::nothing;
    if (defaults.has("dropped")) return Measure::dropped;
    return defaults.has("bits") && !defaults.has("budget") ? Measure::bits : Measure::share;
}

/// \param add  add(method, measure, rows): the rows of a method that leaves something out
template <typename Add>
std::vector<ZooRow> rows_of_methods(const Add& add) {
    std::vector<ZooRow> rows;
    for (const CacheMethod& method : cache_methods()) {
        if (!can_be_compared(method)) continue;
        const Measure measure = measure_of(method);
        if (measure == Measure::nothing) rows.push_back({"all", Settings(method.name).config()});
        add(method, measure, rows);
    }
    return rows;
}

} // namespace

std::vector<bool> on_frontier(std::span<const double> cost, std::span<const double> loss) {
    RL_ASSERT(cost.size() == loss.size());
    std::vector<bool> on(cost.size(), true);
    for (size_t i = 0; i < cost.size(); ++i) {
        for (size_t j = 0; j < cost.size(); ++j) {
            const bool as_good = cost[j] <= cost[i] && loss[j] <= loss[i];
            if (as_good && (cost[j] < cost[i] || loss[j] < loss[i])) on[i] = false;
        }
    }
    return on;
}

std::vector<ZooRow> zoo_rows(int64_t prompt) {
    return rows_of_methods([prompt](const CacheMethod& method, Measure measure, std::vector<ZooRow>& rows) {
        if (measure == Measure::dropped)
            for (const double dropped : dropped_channels)
                rows.push_back(with_dropped(method.name, prompt, dropped));
        if (measure == Measure::bits)
            for (const int64_t bits : code_bits)
                rows.push_back(with_bits(method.name, prompt, bits));
        if (measure == Measure::share)
            for (const int64_t share : zoo_shares)
                rows.push_back({fmt::format("1/{}", share), with_share(method.name, prompt, share)});
    });
}

std::vector<ZooRow> axes_rows(int64_t prompt, int64_t tokens) {
    const int64_t all = prompt + tokens;
    return rows_of_methods([=](const CacheMethod& method, Measure measure, std::vector<ZooRow>& rows) {
        if (measure == Measure::dropped) rows.push_back(with_dropped(method.name, all, 0.4));
        if (measure == Measure::bits) rows.push_back(with_bits(method.name, all, 4));
        if (measure == Measure::share)
            rows.push_back(method.prompt_only ? ZooRow{"1/4", with_share(method.name, prompt, 4)}
                                              : ZooRow{"1/8", with_share(method.name, all, 8)});
    });
}

StudyTable zoo_table(const std::string& name, const std::string& title, std::span<const ZooRow> rows,
                     const std::vector<std::vector<CacheReading>>& readings,
                     std::span<const std::string> kinds, uint64_t seed) {
    RL_ASSERT(!readings.empty() && readings.size() == kinds.size() && rows.front().config.is_full());
    std::vector<std::string> shown;
    for (const std::string& kind : kinds)
        if (std::ranges::find(shown, kind) == shown.end()) shown.push_back(kind);
    StudyTable table{name,
                     title,
                     {{"policy"},
                      {"family"},
                      {"budget"},
                      {"bytes held"},
                      {"entries read"},
                      {"KL (nats per token)", 4},
                      {"KL low", 4},
                      {"KL high", 4},
                      {"loss above full", 4, true},
                      {"low", 4, true},
                      {"high", 4, true},
                      {"first choices"},
                      {"choices low"},
                      {"choices high"}},
                     {},
                     {{.name = name,
                       .title = title,
                       .kind = TablePlot::Kind::points,
                       .series = {"family"},
                       .x = "bytes held",
                       .x_title = "bytes held, share of the full cache",
                       .x_log = true,
                       .parts = {{"KL to the full cache (nats per token)", {"KL (nats per token)"}, true},
                                 {"first choices", {"first choices"}}}},
                      {.name = name + "_frontier",
                       .title = title + ": what no other beats with as few bytes",
                       .facets = {},
                       .series = {"policy", "budget"},
                       .only = {{"frontier", "yes"}},
                       .parts = {{"bytes held", {"bytes held"}, true},
                                 {"KL to the full cache (nats per token)", {"KL (nats per token)"}, true}}}}};
    if (shown.size() > 1)
        for (const std::string& kind : shown)
            table.columns.push_back({kind});
    table.columns.push_back({"frontier"});
    table.columns.push_back({.name = "config", .csv_only = true});
    std::vector<double> bytes, kls;
    for (size_t r = 0; r < rows.size(); ++r) {
        std::vector<double> kl, above, choices, held, read;
        std::vector<std::vector<double>> of_kind(shown.size());
        for (size_t t = 0; t < readings.size(); ++t) {
            const CacheReading &one = readings[t][r], &full = readings[t][0];
            kl.push_back(one.kl());
            above.push_back(one.nll() - full.nll());
            choices.push_back(one.accuracy());
            held.push_back(one.bytes_held / full.bytes_held);
            read.push_back(one.entries_read / full.entries_read);
            const auto at = std::ranges::find(shown, kinds[t]) - shown.begin();
            of_kind[static_cast<size_t>(at)].push_back(one.accuracy());
        }
        const auto average = [](const std::vector<double>& values) {
            return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
        };
        bytes.push_back(average(held));
        kls.push_back(average(kl));
        const CacheMethod& method = *find_cache_method(rows[r].config.policy);
        std::vector<StudyCell> cells{std::string(method.name), std::string(method.family), rows[r].budget,
                                     bytes.back(), average(read)};
        for (const std::vector<double>* values : {&kl, &above, &choices})
            for (StudyCell& cell : mean_cells(*values, seed))
                cells.push_back(std::move(cell));
        if (shown.size() > 1)
            for (const std::vector<double>& values : of_kind)
                cells.emplace_back(average(values));
        table.rows.push_back(std::move(cells));
    }
    const std::vector<bool> on = on_frontier(bytes, kls);
    for (size_t r = 0; r < rows.size(); ++r)
        table.rows[r].insert(table.rows[r].end(),
                             {std::string(on[r] ? "yes" : ""), json_text(to_json(rows[r].config))});
    return table;
}

} // namespace refreshlab
