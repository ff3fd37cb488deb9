#include "engine/study/studies/cache_zoo.h"

#include "engine/base/check.h"
#include "engine/policies/cache_method.h"
#include "engine/policies/common_parameters.h"
#include "engine/study/studies/study_run.h"

#include <fmt/format.h>

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
    settings.set("choose", 1); // by budget
    for (const char* key : {"window", "stabilizers", "floor", "page"})
        settings.at_most(key, part);
    settings.at_most("interval", most_interval);
    const double of_all = 1 / static_cast<double>(share);
    settings.set("limit", of_all);
    settings.set("fine_share", of_all);
    settings.set("coarse_share", std::min(1.0, 2 * of_all));
    return settings.config();
}

/// The steps of a frontier's columns; NaN-free.
std::vector<bool> frontier_of(std::span<const double> bytes, std::span<const double> loss) {
    std::vector<bool> on(bytes.size(), true);
    for (size_t i = 0; i < bytes.size(); ++i)
        for (size_t j = 0; j < bytes.size(); ++j) {
            const bool as_good = bytes[j] <= bytes[i] && loss[j] <= loss[i];
            if (as_good && (bytes[j] < bytes[i] || loss[j] < loss[i])) on[i] = false;
        }
    return on;
}

} // namespace

std::vector<ZooRow> zoo_rows(int64_t prompt) {
    std::vector<ZooRow> rows;
    for (const CacheMethod& method : cache_methods()) {
        if (method.name == "kv_direct" || method.name == "kv_routing") continue;
        const Settings defaults(method.name);
        if (method.name == "full") {
            rows.push_back({"all", defaults.config()});
        } else if (defaults.has("dropped")) {
            for (const double dropped : dropped_channels) {
                Settings settings(method.name);
                settings.set("dropped", dropped);
                settings.at_most("window", prompt / 8);
                rows.push_back({fmt::format("{} dropped", dropped), settings.config()});
            }
        } else if (defaults.has("bits") && !defaults.has("budget")) {
            for (const int64_t bits : code_bits) {
                Settings settings(method.name);
                settings.set("bits", static_cast<double>(bits));
                settings.at_most("residual", prompt / 8);
                rows.push_back({fmt::format("{} bits", bits), settings.config()});
            }
        } else {
            for (const int64_t share : zoo_shares)
                rows.push_back({fmt::format("1/{}", share), with_share(method.name, prompt, share)});
        }
    }
    return rows;
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
    const std::vector<bool> on = frontier_of(bytes, kls);
    for (size_t r = 0; r < rows.size(); ++r)
        table.rows[r].emplace_back(std::string(on[r] ? "yes" : ""));
    return table;
}

} // namespace refreshlab
