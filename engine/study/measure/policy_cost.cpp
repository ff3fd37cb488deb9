#include "engine/study/measure/policy_cost.h"

#include "engine/base/error.h"
#include "engine/base/quantile.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/llama_model.h"
#include "engine/policies/cache_policy_config.h"
#include "engine/session/policies/backing.h"
#include "engine/session/policies/policy_runner.h"
#include "engine/session/policies/shared_prompt.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <random>

namespace refreshlab {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t warm_steps = 8, fewest_entries = 16;

double milliseconds(Clock::duration time) {
    return std::chrono::duration<double, std::milli>(time).count();
}
double mean_cost_of(const std::vector<float>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}
double mean_cost_of(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Time between the attention calls of a pass and their ends. The first of its hooks: what others see and do is not counted.
class AttentionTime final : public LayerHooks {
public:
    void attend(int64_t, kernels::AttentionInputs&) override { m_start = Clock::now(); }
    void observe(const LayerView&) override { m_total += Clock::now() - m_start; }
    [[nodiscard]] double take_ms() { return milliseconds(std::exchange(m_total, Clock::duration::zero())); }

private:
    Clock::time_point m_start;
    Clock::duration m_total = Clock::duration::zero();
};

CachePolicyConfig configured(const std::string& method, int64_t budget) {
    CachePolicyConfig config = cache_policy_defaults(method, "measuring cache policies");
    const auto set = [&](const char* key, double value) {
        if (const auto found = config.values.find(key); found != config.values.end()) found->second = value;
    };
    set("budget", static_cast<double>(budget));
    set("partial", static_cast<double>(budget));
    set("choose", 1); // the budget, where that is a choice
    set("interval", warm_steps);
    set("schedule", 1); // fixed
    set("check_every", 10);
    set("dense_layers", 0);
    return config;
}

/// All policies behind one prompt.
class Length {
public:
    Length(const LlamaModel& model, const PolicyCostInputs& inputs, int64_t entries)
        : m_model(model)
        , m_inputs(inputs)
        , m_entries(entries)
        , m_cache(model.make_cache(capacity())) {
        std::mt19937_64 random(inputs.seed);
        for (int64_t i = 0; i < capacity(); ++i)
            m_tokens.push_back(
                static_cast<int32_t>(random() % static_cast<uint64_t>(model.config().vocab_size)));
    }

    std::vector<PolicyCostRow> measure(const std::vector<std::string>& policies) {
        const ModelGates gates = untrained_gates(m_model.config(), m_model.device(), m_inputs.seed);
        std::vector<std::unique_ptr<PolicyRunner>> runners;
        std::vector<PolicyRunner*> reading;
        for (const std::string& policy : policies) {
            const CachePolicyConfig config = configured(policy, budget());
            runners.push_back(std::make_unique<PolicyRunner>(config, m_model.config(), m_model.config(),
                                                             m_model.device(), m_entries, m_inputs.seed,
                                                             aids_of(config, gates, m_model.config())));
            reading.push_back(runners.back().get());
        }
        read_shared_prompt(m_model, std::span(m_tokens).first(static_cast<size_t>(m_entries)), *m_cache,
                           reading);
        std::vector<PolicyCostRow> rows;
        for (size_t i = 0; i < policies.size(); ++i) {
            rows.push_back(row_of(policies[i], *runners[i]));
            runners[i].reset();
            m_cache->truncate(m_entries);
        }
        return rows;
    }

private:
    struct Times {
        std::vector<double> step, attention;
        [[nodiscard]] double median_step() const { return *quantile(step, 0.5); }
        [[nodiscard]] double median_attention() const { return *quantile(attention, 0.5); }
    };

    [[nodiscard]] int64_t budget() const { return std::max<int64_t>(m_entries / m_inputs.share, 1); }
    [[nodiscard]] int64_t steps() const { return warm_steps + m_inputs.steps; }
    [[nodiscard]] int64_t capacity() const { return m_entries + steps(); }

    PolicyCostRow row_of(const std::string& policy, PolicyRunner& runner) {
        const auto cache = m_model.make_cache(capacity(), runner.layout());
        cache->adopt_prefix(*m_cache, m_entries);
        runner.foresee(m_model, *m_cache, std::span(m_tokens).first(static_cast<size_t>(m_entries)),
                       std::span(m_tokens).last(static_cast<size_t>(steps() - 1)));
        const std::unique_ptr<Backing> backing =
            make_backing(runner.needs(), m_model, *cache, nullptr,
                         [this](int64_t position) { return m_tokens[static_cast<size_t>(position)]; });
        if (backing) runner.set_backing(*backing);
        runner.finish_prompt(*cache);
        Times times, full;
        const auto start = Clock::now();
        for (int64_t step = 1; step <= steps(); ++step) {
            const bool late = milliseconds(Clock::now() - start) > 1000 * m_inputs.seconds;
            if (late && !times.step.empty()) break;
            // Where a step takes long, those before the timed ones are few.
            const bool timed = step > warm_steps || late;
            take_step(*m_cache, nullptr, step, timed ? &full : nullptr);
            take_step(*cache, &runner, step, timed ? &times : nullptr);
        }
        PolicyCostRow row;
        row.policy = policy;
        row.entries = m_entries;
        row.budget = budget();
        row.steps = std::ssize(times.step);
        row.step_ms = times.median_step();
        row.step_low_ms = *quantile(times.step, 0.25);
        row.step_high_ms = *quantile(times.step, 0.75);
        row.step_mean_ms = mean_cost_of(times.step);
        row.full_step_ms = full.median_step();
        row.attention_ms = times.median_attention();
        row.full_attention_ms = full.median_attention();
        row.entries_held = mean_cost_of(runner.entries_held());
        row.entries_read = mean_cost_of(runner.entries_read());
        row.cache_bytes = cache->bytes_used();
        row.metadata_bytes = cache->metadata_bytes();
        row.index_bytes = cache->index_bytes();
        row.scratch_bytes = cache->scratch_bytes() + (backing ? backing->bytes() : 0);
        return row;
    }

    /// \param runner  null: everything is read
    void take_step(KvCache& cache, PolicyRunner* runner, int64_t step, Times* times) {
        std::vector<LayerHooks*> hooks{&m_attention};
        StepInputs in;
        in.tokens = std::span(m_tokens).subspan(static_cast<size_t>(m_entries + step - 1), 1);
        in.origin = Origin::student;
        const auto start = Clock::now();
        if (runner != nullptr) {
            runner->begin_step(step);
            hooks.push_back(runner);
        }
        in.hooks = hooks;
        static_cast<void>(m_model.forward().step(cache, in));
        const double ms = milliseconds(Clock::now() - start), attention = m_attention.take_ms();
        if (times == nullptr) return;
        times->step.push_back(ms);
        times->attention.push_back(attention);
    }

    const LlamaModel& m_model;
    const PolicyCostInputs& m_inputs;
    int64_t m_entries;
    std::unique_ptr<KvCache> m_cache; ///< of the prompt, and of the steps that read everything
    std::vector<int32_t> m_tokens;    ///< prompt and steps
    AttentionTime m_attention;
};

void check(const PolicyCostInputs& inputs) {
    constexpr auto doing = "measuring cache policies";
    for (const std::string& policy : inputs.policies)
        static_cast<void>(cache_policy_defaults(policy, doing)); // throws
    if (inputs.steps < 1 || inputs.share < 1)
        throw Error(doing, "steps and share of the budget", "must be at least 1");
    for (const int64_t entries : inputs.entries) {
        if (entries < fewest_entries || entries + warm_steps + inputs.steps > inputs.shape.max_position)
            throw Error(doing, fmt::format("a length of {} entries", entries),
                        fmt::format("must be from {} to {}, the model's context less the steps",
                                    fewest_entries, inputs.shape.max_position - warm_steps - inputs.steps));
    }
}

} // namespace

ModelConfig one_billion_shape(int64_t layers) {
    ModelConfig shape;
    shape.model_type = "llama";
    shape.vocab_size = 4096;
    shape.hidden_size = 2048;
    shape.intermediate_size = 8192;
    shape.num_layers = layers;
    shape.num_heads = 32;
    shape.num_kv_heads = 8;
    shape.head_dim = 64;
    shape.max_position = 131072;
    shape.rope_theta = 500000;
    shape.tied_head = true;
    return shape;
}

std::vector<PolicyCostRow> policy_cost(const PolicyCostInputs& inputs) {
    check(inputs);
    std::vector<std::string> policies = inputs.policies;
    if (policies.empty()) {
        for (const CacheMethod& method : cache_methods())
            policies.emplace_back(method.name);
    }
    const c10::InferenceMode guard;
    const auto model = random_llama(inputs.shape, inputs.seed, at::kCPU, at::kFloat);
    std::vector<PolicyCostRow> rows;
    for (const int64_t entries : inputs.entries) {
        for (PolicyCostRow& row : Length(*model, inputs, entries).measure(policies))
            rows.push_back(std::move(row));
    }
    return rows;
}

} // namespace refreshlab
