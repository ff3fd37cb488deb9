// What a probe costs: two runs of one text in turns, one without the probe and one with it. A probe does not change the text, so
// both make the same steps.
#include "engine/bench/measure/sections.h"
#include "engine/cache/kv_cache.h"
#include "engine/control/parameters.h"
#include "engine/model/sampler.h"
#include "engine/record/trace/trace_store.h"
#include "engine/session/parts/stopwatch.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>

namespace refreshlab::bench {

namespace {

/// Steps that both sides of a comparison make: the warm-up pair and the counted ones.
int64_t steps_of(const BenchOptions& options) {
    return (options.pairs + 1) * options.block;
}

/// Two runs that differ in their configuration, or in being recorded.
PairedCost compare_runs(const SectionInputs& in, const RunConfig& without, const RunConfig& with,
                        int64_t prompt, TraceStore* trace = nullptr) {
    const auto ids = bench_prompt(prompt, in.bench.decoder(without.mode).config().vocab_size);
    const auto a = std::make_shared<TimedRun>(in.bench, without, ids),
               b = std::make_shared<TimedRun>(in.bench, with, ids, trace);
    return compare_in_turns(side_of(a), side_of(b), in.options.pairs, in.options.block);
}

/// A decode below the session: the forward, then the next token from its row.
class BareDecode {
public:
    BareDecode(const Bench& bench, Mode mode, int64_t prompt, int64_t steps, bool statistics)
        : m_execution(bench.execution)
        , m_model(bench.decoder(mode))
        , m_cache(m_model.make_cache(prompt + steps))
        , m_statistics(statistics) {
        const c10::InferenceMode guard;
        const kernels::ExecutionScope scope(*m_execution);
        const auto ids = bench_prompt(prompt, m_model.config().vocab_size);
        StepInputs in;
        in.tokens = ids;
        in.origin = Origin::teacher_prefill;
        m_next = first_of(m_model.forward().prefill(*m_cache, in).logits[0]);
    }

    double steps(int64_t n) {
        const c10::InferenceMode guard;
        const kernels::ExecutionScope scope(*m_execution);
        const Stopwatch watch;
        for (int64_t i = 0; i < n; ++i)
            step();
        return watch.ms();
    }

private:
    static int32_t first_of(const at::Tensor& row) {
        return static_cast<int32_t>(row.argmax().item<int64_t>());
    }

    /// With statistics: entropy and its like, 8 candidates, and a token that is drawn. The most likely one is fed all the same,
    /// so that both sides go the same way.
    void step() {
        StepInputs in;
        in.tokens = std::span(&m_next, 1);
        in.origin = Origin::student;
        const SamplerConfig sampler{.temperature = 0.8, .top_k = 40, .top_p = 0.95};
        const int64_t next = m_cache->length() + 1;
        if (m_statistics) {
            in.ask.emplace().top_k = 8;
            in.draw = DrawAsk{.sampler = sampler, .share = uniform_number(0, next, 0, Draw::token)};
            in.logits = false;
        }
        const StepOutputs out = m_model.forward().step(*m_cache, in);
        if (!m_statistics) {
            m_next = first_of(out.logits[0]);
            return;
        }
        const auto& summary = out.summary[0];
        const Choice choice = out.drawn ? out.drawn->choice
                                        : choose_token(out.logits[0], sampler, 0, next, &summary.statistics);
        m_drawn += choice.token_id;
        m_next = summary.top.ids.front();
    }

    Execution m_execution;
    const LlamaModel& m_model;
    std::unique_ptr<KvCache> m_cache;
    bool m_statistics;
    int32_t m_next = 0;
    int64_t m_drawn = 0;
};

PairedCost compare_statistics(const SectionInputs& in, Mode mode, int64_t prompt) {
    BareDecode bare(in.bench, mode, prompt, steps_of(in.options), false),
        asked(in.bench, mode, prompt, steps_of(in.options), true);
    return compare_in_turns([&](int64_t n) { return bare.steps(n); },
                            [&](int64_t n) { return asked.steps(n); }, in.options.pairs, in.options.block);
}

PairedCost compare_recording(const SectionInputs& in, const RunConfig& config, int64_t prompt) {
    const auto file = in.options.scratch / "refreshlab-bench.rlt";
    const auto trace = TraceStore::create(file);
    PairedCost cost = compare_runs(in, config, config, prompt, trace.get());
    return cost;
}

RunConfig with_mc(RunConfig config, int32_t samples) {
    config.mc = {.measure = true, .samples = samples, .p = 0.1, .every = 1};
    return config;
}

/// A teacher pass every so many tokens, which never fires.
RunConfig with_kl_probe(RunConfig config, int64_t every) {
    config.policy = preset_policy("kl");
    set_parameter(config, "kl.every", std::to_string(every));
    set_parameter(config, "kl.threshold", "1000000");
    return config;
}

} // namespace

void measure_probes(const SectionInputs& in, BenchReport& report) {
    const Mode mode = in.bench.config.mode;
    const int64_t tokens = steps_of(in.options) + 1; // and the last one, which is not fed
    const RunConfig plain = in.bench.plain(mode, tokens);
    RunConfig attention = plain, entropy = plain;
    attention.capture.attention = true;
    entropy.capture.attention_entropy = true;
    std::vector<int64_t> done;
    for (const int64_t wanted : in.options.prompts) {
        const int64_t prompt = in.bench.prompt_that_fits(wanted, tokens);
        if (std::ranges::find(done, prompt) != done.end()) continue;
        done.push_back(prompt);
        const auto add = [&](const char* name, std::string what, const auto& compare) {
            in.tell(fmt::format("probe {} after {} tokens", name, prompt));
            report.probes.push_back({name, std::move(what), prompt, compare()});
        };
        const auto runs = [&](const RunConfig& with) {
            return [&in, &plain, &with, prompt] { return compare_runs(in, plain, with, prompt); };
        };
        if (!report.noise) {
            in.tell("noise: the same decode twice");
            report.noise = compare_runs(in, plain, plain, prompt);
        }
        add("statistics", "entropy, 8 candidates and a drawn token, beside an arg max",
            [&] { return compare_statistics(in, mode, prompt); });
        add("attention_rows", "attention rows of all layers for display", runs(attention));
        add("attention_entropy", "entropy of the attention of each layer", runs(entropy));
        add("mc_3", "MC dropout with 3 rows at every step", runs(with_mc(plain, 3)));
        add("mc_8", "MC dropout with 8 rows at every step", runs(with_mc(plain, 8)));
        if (mode == Mode::overfill)
            add("kl_probe", fmt::format("a teacher pass every {} tokens for the KL", in.options.block),
                runs(with_kl_probe(plain, in.options.block)));
        add("recording", "a trace on disk, without attention rows",
            [&] { return compare_recording(in, plain, prompt); });
        add("recording_rows", "the same with the attention rows, which both sides keep",
            [&] { return compare_recording(in, attention, prompt); });
    }
    if (mode != Mode::overfill) report.notes.emplace_back("no KL probe: it belongs to mode overfill");
}

} // namespace refreshlab::bench
