#include "engine/study/measure/cache_reading.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/cache/kv_cache.h"
#include "engine/session/policies/shared_prompt.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/stack.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <numeric>

namespace refreshlab {

namespace {

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
        std::vector<at::Tensor> rows;
        const CacheReading full = read_end(nullptr, &rows);
        m_full = at::stack(rows);
        std::vector<CacheReading> readings;
        for (const auto& runner : runners)
            readings.push_back(runner ? read_end(runner.get(), nullptr) : full);
        return readings;
    }

private:
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

    /// \param runner  null: everything is read
    CacheReading read_end(PolicyRunner* runner, std::vector<at::Tensor>* rows) const {
        RL_ASSERT(runner == nullptr || !runner->needs().borrows());
        const auto cache = m_model.make_cache(std::ssize(m_tokens),
                                              runner != nullptr ? runner->layout() : CacheLayout::dense);
        cache->adopt_prefix(*m_cache, m_prompt);
        if (runner != nullptr) {
            runner->foresee(m_model, *m_cache, m_tokens.first(static_cast<size_t>(m_prompt)),
                            m_tokens.subspan(static_cast<size_t>(m_prompt), static_cast<size_t>(steps())));
            runner->finish_prompt(*cache);
        }
        CacheReading reading;
        add_token(m_first, m_tokens[static_cast<size_t>(m_prompt)], reading);
        for (int64_t step = 1; step <= steps(); ++step) {
            const auto at = static_cast<size_t>(m_prompt + step - 1);
            StepInputs in;
            in.tokens = m_tokens.subspan(at, 1);
            in.origin = Origin::student;
            in.ask.emplace().tokens = m_tokens.subspan(at + 1, 1);
            LayerHooks* const hooks[] = {runner};
            if (runner != nullptr) {
                runner->begin_step(step);
                in.hooks = hooks;
            }
            const StepOutputs out = m_model.forward().step(*cache, in);
            add_token(out.summary[0], m_tokens[at + 1], reading);
            if (rows != nullptr) rows->push_back(out.logits[0]);
            note(runner, step, out.logits, reading);
            reading.bytes_held += static_cast<double>(cache->bytes_used() + cache->index_bytes());
        }
        for (double& share : reading.full_step_share)
            share /= static_cast<double>(steps());
        reading.entries_read /= static_cast<double>(steps());
        reading.bytes_held /= static_cast<double>(steps());
        return reading;
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
        reading.kl_nats.push_back(kernels::summarize_rows(m_full.narrow(0, step - 1, 1), ask)[0].kl_nats);
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
    at::Tensor m_full;                ///< [steps, vocab] with everything read
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
