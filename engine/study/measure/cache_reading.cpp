#include "engine/study/measure/cache_reading.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/cache/kv_cache.h"
#include "engine/session/policies/shared_prompt.h"

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

namespace refreshlab {

namespace {

/// Policies that read a token together: what they gain by more is little, and each has a cache.
constexpr int64_t most_together = 32, room_for_caches = int64_t{2} << 30;

double mean_of(const std::vector<double>& values) {
    return values.empty()
               ? 0
               : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// One text of one model.
class Reader {
public:
    Reader(const LlamaModel& model, std::span<const int32_t> tokens, int64_t prompt, uint64_t seed,
           const PolicyAidsFor& aids_for)
        : m_model(model)
        , m_tokens(tokens)
        , m_prompt(prompt)
        , m_seed(seed)
        , m_aids_for(aids_for) {}

    std::vector<CacheReading> read(std::span<const CachePolicyConfig> policies) {
        std::vector<std::unique_ptr<PolicyRunner>> runners;
        for (const CachePolicyConfig& policy : policies) {
            runners.push_back(policy.is_full()
                                  ? nullptr
                                  : std::make_unique<PolicyRunner>(
                                        policy, m_model.config(), m_model.config(), m_model.device(),
                                        m_prompt, m_seed, m_aids_for ? m_aids_for(policy) : PolicyAids()));
        }
        read_prompt(runners);
        std::vector<CacheReading> readings;
        const auto together = static_cast<size_t>(
            std::clamp<int64_t>(room_for_caches / m_cache->bytes_reserved(), 1, most_together));
        // The first row of the first group reads everything, for all to be compared with.
        std::vector<PolicyRunner*> asked{nullptr};
        for (const auto& runner : runners)
            if (runner) asked.push_back(runner.get());
        for (size_t first = 0; first < asked.size(); first += together) {
            const auto group = std::span(asked).subspan(first, std::min(together, asked.size() - first));
            for (CacheReading& reading : read_ends(group))
                readings.push_back(std::move(reading));
        }
        std::vector<CacheReading> ordered;
        size_t next = 1;
        for (const auto& runner : runners)
            ordered.push_back(readings[runner ? next++ : 0]);
        return ordered;
    }

private:
    /// A cache that the end is read on.
    struct End {
        PolicyRunner* runner; ///< null: everything is read
        std::unique_ptr<KvCache> cache;
        LayerHooks* hook;
        CacheReading reading;
    };

    [[nodiscard]] int64_t steps() const { return std::ssize(m_tokens) - m_prompt - 1; }

    void read_prompt(const std::vector<std::unique_ptr<PolicyRunner>>& runners) {
        std::vector<PolicyRunner*> reading;
        for (const auto& runner : runners) {
            if (runner) reading.push_back(runner.get());
        }
        m_cache = m_model.make_cache(std::ssize(m_tokens));
        const auto prompt = static_cast<size_t>(m_prompt);
        kernels::RowAsk ask;
        ask.tokens = m_tokens.subspan(prompt, 1);
        m_first = read_shared_prompt(m_model, m_tokens.first(prompt), *m_cache, reading, ask).summary[0];
    }

    [[nodiscard]] End start(PolicyRunner* runner) const {
        RL_ASSERT(runner == nullptr || !runner->needs().borrows());
        End end{runner,
                m_model.make_cache(std::ssize(m_tokens),
                                   runner != nullptr ? runner->layout() : CacheLayout::dense),
                runner,
                {}};
        end.cache->adopt_prefix(*m_cache, m_prompt);
        if (runner != nullptr) {
            runner->foresee(m_model, *m_cache, m_tokens.first(static_cast<size_t>(m_prompt)),
                            m_tokens.subspan(static_cast<size_t>(m_prompt), static_cast<size_t>(steps())));
            runner->finish_prompt(*end.cache);
        }
        add_token(m_first, m_tokens[static_cast<size_t>(m_prompt)], end.reading);
        return end;
    }

    /// All of them read a token before any reads the next one, so that the weights are read once for it.
    std::vector<CacheReading> read_ends(std::span<PolicyRunner* const> runners) {
        std::vector<End> ends;
        for (PolicyRunner* runner : runners)
            ends.push_back(start(runner));
        for (int64_t step = 1; step <= steps(); ++step) {
            const auto at = static_cast<size_t>(m_prompt + step - 1);
            std::vector<CacheStep> together;
            for (End& end : ends) {
                StepInputs in;
                in.tokens = m_tokens.subspan(at, 1);
                in.origin = Origin::student;
                in.ask.emplace().tokens = m_tokens.subspan(at + 1, 1);
                if (end.runner != nullptr) {
                    end.runner->begin_step(step);
                    in.hooks = {&end.hook, 1};
                }
                together.push_back({end.cache.get(), std::move(in)});
            }
            const std::vector<StepOutputs> outs = m_model.forward().step_together(together);
            for (size_t i = 0; i < ends.size(); ++i) {
                End& end = ends[i];
                add_token(outs[i].summary[0], m_tokens[at + 1], end.reading);
                if (end.runner == nullptr) m_full.push_back(outs[i].logits[0].clone());
                note(end.runner, step, outs[i].logits, end.reading);
                end.reading.bytes_held +=
                    static_cast<double>(end.cache->bytes_used() + end.cache->index_bytes());
            }
        }
        std::vector<CacheReading> readings;
        for (End& end : ends) {
            for (double& share : end.reading.full_step_share)
                share /= static_cast<double>(steps());
            end.reading.entries_read /= static_cast<double>(steps());
            end.reading.bytes_held /= static_cast<double>(steps());
            readings.push_back(std::move(end.reading));
        }
        return readings;
    }

    static void add_token(const kernels::RowSummary& row, int32_t token, CacheReading& reading) {
        reading.logprob.push_back(row.logprob);
        reading.first_choice.push_back(row.statistics.top1_id == token ? 1 : 0);
    }

    void note(PolicyRunner* runner, int64_t step, const at::Tensor& row, CacheReading& reading) const {
        if (runner == nullptr) {
            reading.kl_nats.push_back(0);
            reading.entries_read += static_cast<double>(m_prompt + step);
            return;
        }
        const int64_t same = 0;
        kernels::RowAsk ask;
        ask.kl_against = row;
        ask.kl_rows = {&same, 1};
        reading.kl_nats.push_back(
            kernels::summarize_rows(m_full[static_cast<size_t>(step - 1)].unsqueeze(0), ask)[0].kl_nats);
        const std::vector<float>& read = runner->entries_read();
        reading.entries_read +=
            std::accumulate(read.begin(), read.end(), 0.0) / static_cast<double>(read.size());
        for (const PolicySignal& signal : runner->policy().signals()) {
            if (signal.name != "full_step") continue;
            reading.full_step_share.resize(signal.values.size());
            for (size_t layer = 0; layer < signal.values.size(); ++layer)
                reading.full_step_share[layer] += static_cast<double>(signal.values[layer]);
        }
    }

    const LlamaModel& m_model;
    std::span<const int32_t> m_tokens;
    int64_t m_prompt;
    uint64_t m_seed;
    const PolicyAidsFor& m_aids_for;
    std::unique_ptr<KvCache> m_cache; ///< of the prompt, everything held
    kernels::RowSummary m_first;      ///< of the row that predicts the first token of the end
    std::vector<at::Tensor> m_full;   ///< [steps], rows [vocab] with everything read
};

} // namespace

double CacheReading::nll() const {
    return -mean_of(logprob);
}
double CacheReading::kl() const {
    return mean_of(kl_nats);
}
double CacheReading::accuracy() const {
    return mean_of({first_choice.begin(), first_choice.end()});
}
double CacheReading::stride() const {
    const double share = mean_of(full_step_share);
    return share > 0 ? 1 / share : 0;
}

std::vector<CacheReading> read_under_policies(const LlamaModel& model, std::span<const int32_t> tokens,
                                              int64_t prompt, std::span<const CachePolicyConfig> policies,
                                              uint64_t seed, const PolicyAidsFor& aids_for) {
    RL_ASSERT(prompt >= 1 && prompt + 2 <= std::ssize(tokens));
    return Reader(model, tokens, prompt, seed, aids_for).read(policies);
}

nlohmann::json to_json(const CacheReading& reading) {
    return {{"logprob", reading.logprob},       {"first_choice", reading.first_choice},
            {"kl_nats", reading.kl_nats},       {"entries_read", reading.entries_read},
            {"bytes_held", reading.bytes_held}, {"full_step_share", reading.full_step_share}};
}

CacheReading cache_reading_from_json(const nlohmann::json& json, const std::string& what) {
    try {
        CacheReading reading;
        json.at("logprob").get_to(reading.logprob);
        json.at("first_choice").get_to(reading.first_choice);
        json.at("kl_nats").get_to(reading.kl_nats);
        json.at("entries_read").get_to(reading.entries_read);
        json.at("bytes_held").get_to(reading.bytes_held);
        json.at("full_step_share").get_to(reading.full_step_share);
        return reading;
    } catch (const nlohmann::json::exception& e) {
        throw Error("reading", what, e.what());
    }
}

} // namespace refreshlab
