#include "engine/train/judge_gate.h"

#include "engine/base/check.h"
#include "engine/results/bootstrap.h"
#include "engine/study/measure/cache_reading.h"
#include "engine/study/studies/study_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace refreshlab {

namespace {

constexpr int64_t shares[] = {2, 4, 8};
constexpr int64_t fewest_entries = 8;

/// The gate's policy and those that it is compared with, with as many entries on average over the answer. Where it thins the prompt alone,
/// its entries are a share of the prompt and all of the answer so far; others, which thin the answer too, have room for half of it. Else
/// they are a share of the text.
std::vector<CachePolicyConfig> compared(const std::string& method, const TrainingText& text, int64_t share) {
    const bool prompt_only = find_cache_method(method)->prompt_only;
    const int64_t all = std::ssize(text.ids), of = prompt_only ? text.prompt : all,
                  entries = std::max(fewest_entries, of / share);
    std::vector<std::string> names{method, "h2o", "streaming_llm", "random"};
    if (prompt_only) names.insert(names.begin() + 1, "snapkv");
    std::vector<CachePolicyConfig> policies;
    for (const std::string& name : names) {
        CachePolicyConfig policy = cache_policy_defaults(name, "judging a gate");
        const auto set = [&](const char* key, int64_t value) {
            if (const auto found = policy.values.find(key); found != policy.values.end())
                found->second = static_cast<double>(value);
        };
        const bool thins_all = prompt_only && !find_cache_method(name)->prompt_only;
        // What is kept in any case is a quarter of the budget at most, and counts.
        const int64_t last = policy.values.contains("last_tokens") ? entries / 4 : 0;
        set("last_tokens", last);
        set("budget", entries - last + (thins_all ? (all - text.prompt) / 2 : 0));
        set("choose", 1); // by budget
        set("window", std::min<int64_t>(32, entries / 4));
        policies.push_back(std::move(policy));
    }
    return policies;
}

} // namespace

std::optional<StudyTable> judge_gate(const LlamaModel& model, const std::shared_ptr<const TokenGate>& gate,
                                     const std::vector<TrainingText>& texts, uint64_t seed,
                                     const std::function<bool(double)>& progress) {
    const std::string method(gate->kind().method);
    const ModelGates gates{{method, gate}};
    const auto aids = [&](const CachePolicyConfig& policy) { return aids_of(policy, gates, model.config()); };
    RL_ASSERT(!texts.empty());
    const size_t policies = compared(method, texts[0], 1).size(), rows = policies * std::size(shares);
    std::vector<std::vector<double>> kl(rows + 1), loss(rows + 1), accuracy(rows + 1), read(rows + 1);
    for (size_t i = 0; i < texts.size(); ++i) {
        if (!progress(static_cast<double>(i) / static_cast<double>(texts.size()))) return std::nullopt;
        std::vector<CachePolicyConfig> asked{cache_policy_defaults("full", "judging a gate")};
        for (const int64_t share : shares) {
            for (CachePolicyConfig& policy : compared(method, texts[i], share))
                asked.push_back(std::move(policy));
        }
        const auto readings = read_under_policies(model, texts[i].ids, texts[i].prompt, asked, seed, aids);
        for (size_t row = 0; row < readings.size(); ++row) {
            kl[row].push_back(readings[row].kl());
            loss[row].push_back(readings[row].nll());
            accuracy[row].push_back(readings[row].accuracy());
            read[row].push_back(readings[row].entries_read);
        }
    }
    StudyTable table{
        "held_out",
        fmt::format("Answers of {} texts that were not trained on, read token by token (95 % over texts)",
                    texts.size()),
        {{"policy"},
         {"budget"},
         {"KL (nats per token)", 4},
         {"low", 4},
         {"high", 4},
         {"loss (nats per token)", 4},
         {"first choices"},
         {"entries read", 0}},
        {},
        {{.name = "held_out",
          .title = "Held-out answers under cache policies (95 % over texts)",
          .facets = {"budget"},
          .series = {"policy"},
          .parts = {{"KL to the full cache (nats per token)", {"KL (nats per token)"}, true}}}}};
    const auto mean_of = [](const std::vector<double>& values) { return StudyCell(*mean(values)); };
    for (size_t row = 0; row <= rows; ++row) {
        const bool full = row == 0;
        std::vector<StudyCell> cells{full ? "full"
                                          : compared(method, texts[0], 1)[(row - 1) % policies].policy,
                                     full ? "all" : fmt::format("1/{}", shares[(row - 1) / policies])};
        for (StudyCell& cell : mean_cells(kl[row], seed))
            cells.push_back(std::move(cell));
        cells.push_back(mean_of(loss[row]));
        cells.push_back(mean_of(accuracy[row]));
        cells.push_back(mean_of(read[row]));
        table.rows.push_back(std::move(cells));
    }
    return table;
}

} // namespace refreshlab
