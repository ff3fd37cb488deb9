// Bandwidth and floors, first token, decode by context, and the run with refreshes.
#include "engine/base/error.h"
#include "engine/bench/measure/read_bandwidth.h"
#include "engine/bench/measure/sections.h"
#include "engine/control/parameters.h"
#include "engine/session/parts/stopwatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace refreshlab::bench {

namespace {

constexpr int64_t bandwidth_passes = 25;
constexpr double wake_up_ms =
    300; // it is the first thing measured: an idle processor reads at half of its speed for a while

ModelFacts facts_of(const SectionInputs& in, const LlamaModel& model, const std::string& role,
                    const std::string& path) {
    const ModelConfig& config = model.config();
    ModelFacts facts{.role = role,
                     .path = path,
                     .parameters = config.num_parameters(),
                     .layers = config.num_layers,
                     .kv_heads = config.num_kv_heads,
                     .head_dim = config.head_dim,
                     .vocab = config.vocab_size,
                     .bytes = bytes_per_token(model),
                     .bandwidth = {}};
    const ReadBuffer buffer(in.bench.execution, model.device(), facts.bytes.weights);
    const Stopwatch watch;
    while (watch.ms() < wake_up_ms)
        static_cast<void>(buffer.rates(1));
    facts.bandwidth = spread_of(buffer.rates(bandwidth_passes));
    return facts;
}

/// Prompt lengths as they fit, each once.
std::vector<int64_t> lengths_that_fit(const SectionInputs& in, const std::vector<int64_t>& wanted,
                                      int64_t tokens) {
    std::vector<int64_t> lengths;
    for (const int64_t length : wanted) {
        const int64_t fits = in.bench.prompt_that_fits(length, tokens);
        if (std::ranges::find(lengths, fits) == lengths.end()) lengths.push_back(fits);
    }
    return lengths;
}

/// Fewer tokens where the context has not room for them and a prompt of that length.
int64_t tokens_that_fit(const SectionInputs& in, int64_t prompt) {
    return std::clamp<int64_t>(in.bench.pair->context() - prompt, 2, in.options.tokens);
}

std::vector<int32_t> prompt_of(const SectionInputs& in, Mode mode, int64_t length) {
    return bench_prompt(length, in.bench.decoder(mode).config().vocab_size);
}

} // namespace

std::optional<double> measured_bandwidth(const BenchReport& report, Mode mode) {
    const char* const role = mode == Mode::teacher ? "teacher" : "student";
    for (const ModelFacts& model : report.models)
        if (model.role == role && model.bandwidth.median > 0) return model.bandwidth.median;
    return std::nullopt;
}

void measure_bandwidth(const SectionInputs& in, BenchReport& report) {
    for (const Mode mode : in.bench.modes()) {
        if (mode == Mode::overfill) continue;
        const std::string role(to_string(mode));
        in.tell("bandwidth at the size of the " + role);
        const ModelPair& pair = *in.bench.pair;
        report.models.push_back(facts_of(in, in.bench.decoder(mode), role,
                                         mode == Mode::teacher ? pair.teacher_dir : pair.student_dir));
    }
}

void measure_first_token(const SectionInputs& in, BenchReport& report) {
    for (const Mode mode : in.bench.modes()) {
        for (const int64_t length : lengths_that_fit(in, in.options.prompts, 2)) {
            in.tell(fmt::format("first token, {} after {} tokens", to_string(mode), length));
            std::vector<double> ms;
            for (int64_t round = -in.options.warm_ups; round < in.options.rounds; ++round) {
                const TimedRun run(in.bench, in.bench.plain(mode, 2), prompt_of(in, mode, length));
                if (round >= 0) ms.push_back(run.first_token_ms());
            }
            report.first_token.push_back({std::string(to_string(mode)), length, spread_of(ms)});
        }
    }
}

void measure_decode(const SectionInputs& in, BenchReport& report) {
    for (const Mode mode : in.bench.modes()) {
        if (mode == Mode::overfill) continue; // decodes as the student does
        const BytesPerToken bytes = bytes_per_token(in.bench.decoder(mode));
        for (const int64_t length : lengths_that_fit(in, in.options.contexts, in.options.tokens)) {
            in.tell(fmt::format("decode, {} after {} tokens", to_string(mode), length));
            const int64_t tokens = tokens_that_fit(in, length), timed = tokens - 1;
            TimedRun run(in.bench, in.bench.plain(mode, tokens), prompt_of(in, mode, length));
            std::vector<double> rates, step_ms, bandwidths;
            std::optional<ReadBuffer> buffer;
            if (measured_bandwidth(report, mode))
                buffer.emplace(in.bench.execution, in.bench.decoder(mode).device(), bytes.weights);
            for (int64_t round = -in.options.warm_ups; round < in.options.rounds; ++round) {
                double sum = 0;
                for (int64_t i = 0; i < timed; ++i) {
                    const double ms = run.step();
                    sum += ms;
                    if (round >= 0) step_ms.push_back(ms);
                }
                if (round >= 0) rates.push_back(static_cast<double>(timed) * 1000 / sum);
                run.rewind();
                if (!buffer) continue;
                const std::vector<double> read = buffer->rates(bandwidth_passes);
                bandwidths.insert(bandwidths.end(), read.begin(), read.end());
            }
            DecodeSpeed speed{.mode = std::string(to_string(mode)),
                              .prompt = length,
                              .tokens = tokens,
                              .tokens_per_second = spread_of(rates),
                              .step_ms = latency_of(step_ms),
                              .bandwidth = spread_of(bandwidths)};
            if (buffer) {
                // Step i of N - 1 reads the columns of the prompt, of the tokens before it and its own.
                const double cached = static_cast<double>(length) + 0.5 * static_cast<double>(timed + 1);
                speed.floor_ms = floor_ms(bytes.step(cached), speed.bandwidth.median);
                speed.share = speed.floor_ms * speed.tokens_per_second.median / 1000;
            }
            report.decode.push_back(std::move(speed));
        }
    }
}

void measure_refreshed_run(const SectionInputs& in, BenchReport& report) {
    if (in.bench.config.mode != Mode::overfill) {
        report.notes.emplace_back("no refreshed run: it belongs to mode overfill");
        return;
    }
    in.tell("a run with refreshes");
    const int64_t length = in.bench.prompt_that_fits(in.options.prompts.front(), in.options.tokens),
                  tokens = tokens_that_fit(in, length);
    RunConfig config = in.bench.plain(Mode::overfill, tokens);
    config.policy = preset_policy("periodic");
    set_parameter(config, "periodic.every", std::to_string(in.options.refresh_every));
    RefreshedRun result;
    result.prompt = length;
    result.tokens = tokens;
    result.every = in.options.refresh_every;
    std::vector<double> all, plain, refresh;
    TimedRun run(in.bench, config, prompt_of(in, Mode::overfill, length));
    for (int64_t round = -1; round < in.options.rounds; ++round) { // the first one warms up
        for (int64_t t = 1; t < tokens; ++t) {
            const double ms = run.step();
            if (round < 0) continue;
            all.push_back(ms);
            (run.recording().refresh_at(t) != nullptr ? refresh : plain).push_back(ms);
        }
        run.rewind();
    }
    result.refreshes = static_cast<int64_t>(refresh.size());
    result.all = latency_of(all);
    result.plain = latency_of(plain);
    result.refresh = latency_of(refresh);
    report.refreshed = result;
    report.refreshed_step_ms = std::move(all);
}

PlainDecode decode_only(const std::shared_ptr<const ModelPair>& pair, const RunConfig& config,
                        const Execution& execution, const std::vector<int32_t>& prompt, int64_t tokens,
                        int64_t rounds, int64_t warm_ups) {
    const Bench bench{pair, execution, config};
    const int64_t vocab = bench.decoder(config.mode).config().vocab_size, context = pair->context(),
                  length = static_cast<int64_t>(prompt.size());
    if (prompt.empty()) throw Error("decoding", "--ids", "the list is empty");
    for (const int32_t id : prompt)
        if (id < 0 || id >= vocab)
            throw Error("decoding", "--ids", fmt::format("{} is no token: the vocabulary has {}", id, vocab));
    if (length + tokens > context)
        throw Error(
            "decoding", "--ids",
            fmt::format("{} ids and {} tokens do not fit into the context of {}", length, tokens, context));
    PlainDecode result;
    for (int64_t round = -warm_ups; round < rounds; ++round) {
        TimedRun run(bench, bench.plain(config.mode, tokens), prompt);
        const double ms = run.steps(tokens - 1);
        if (round < 0) continue;
        result.tokens_per_second.push_back(static_cast<double>(tokens - 1) * 1000 / ms);
        result.first_token_ms.push_back(run.first_token_ms());
        result.ids = run.recording().token_ids();
    }
    return result;
}

} // namespace refreshlab::bench
