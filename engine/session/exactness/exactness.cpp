#include "engine/session/exactness/exactness.h"

#include "engine/base/error.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/forward/captures.h"
#include "engine/model/sampler.h"
#include "engine/session/driver/run_driver.h"
#include "engine/session/exactness/exactness_latency.h"
#include "engine/session/pair/run_text.h"

#include <ATen/Functions.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace refreshlab {

namespace {

constexpr Origin origin_of_tests = Origin::teacher_decode;

/// Logits of a pass: [rows, vocab], undefined for Rows::none.
at::Tensor read(const LlamaModel& model, KvCache& cache, std::span<const int32_t> tokens, Rows rows) {
    StepInputs in;
    in.tokens = tokens;
    in.origin = origin_of_tests;
    in.rows = rows;
    return model.forward().prefill(cache, in).logits;
}

/// Logits of one decode step, [vocab]; wrong on purpose where a fault is given.
at::Tensor decode(const LlamaModel& model, KvCache& cache, int32_t token, StepFault* fault = nullptr,
                  Origin origin = origin_of_tests) {
    LayerHooks* const hooks[] = {fault};
    StepInputs in;
    in.tokens = std::span(&token, 1);
    in.origin = origin;
    if (fault != nullptr) in.hooks = hooks;
    return model.forward().step(cache, in).logits[0];
}

/// Largest absolute difference; NaN where either is not finite, so that nothing broken passes as small.
double max_abs_difference(const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor difference = (a.to(at::kDouble) - b.to(at::kDouble)).abs();
    if (difference.numel() == 0) return 0;
    return difference.max().item<double>(); // at::max hands a NaN on
}

bool within(double difference, double tolerance) {
    return difference <= tolerance; // false for NaN
}

/// Keeps the largest difference and its place.
struct Worst {
    double max_abs = 0;
    std::string where;
    void see(double difference, const std::string& place) {
        if (std::isnan(max_abs) || difference <= max_abs) return;
        max_abs = difference; // larger, or the first NaN
        where = place;
    }
};

ExactnessCheck judged(std::string subject, std::string name, const Worst& worst, double tolerance) {
    ExactnessCheck check;
    check.subject = std::move(subject);
    check.name = std::move(name);
    check.max_abs = worst.max_abs;
    check.tolerance = tolerance;
    check.passed = within(worst.max_abs, tolerance);
    check.where = worst.where;
    return check;
}

ExactnessCheck not_measured(std::string subject, std::string name, std::string why) {
    ExactnessCheck check;
    check.subject = std::move(subject);
    check.name = std::move(name);
    check.where = std::move(why);
    check.measured = false;
    return check;
}

constexpr double clear_gap = 0.1; ///< top two logits further apart than this: the arg max must agree

/// reference/refresh.md, section 9. In half precision kernels of different shape may round differently: there the arg max
/// is what must hold, and the bound only says that nothing is plainly wrong (logits and keys are of order 10).
double tolerance_of(const LlamaModel& model) {
    if (model.dtype() != at::kFloat) return 0.5;
    return model.config().num_parameters() > 1'000'000'000 ? 1e-3 : 1e-4;
}

/// Compares all columns [0, n) of two caches, layer by layer.
void see_columns(const KvCache& a, const KvCache& b, int64_t n, const std::string& place, Worst& worst) {
    for (int64_t layer = 0; layer < a.num_layers(); ++layer) {
        const auto columns = [&](const at::Tensor& storage) { return storage.narrow(1, 0, n); };
        worst.see(max_abs_difference(columns(a.keys(layer)), columns(b.keys(layer))),
                  fmt::format("{}layer {}, K", place, layer));
        worst.see(max_abs_difference(columns(a.values(layer)), columns(b.values(layer))),
                  fmt::format("{}layer {}, V", place, layer));
    }
}

class Checker {
public:
    Checker(std::shared_ptr<const ModelPair> pair, const RunConfig& config, const ExactnessOptions& options,
            const std::function<bool(const ExactnessReport&)>& progress, Execution execution)
        : m_pair(std::move(pair))
        , m_execution(std::move(execution))
        , m_config(config)
        , m_progress(progress) {
        m_report.options = options;
        m_prompt = render_prompt(*m_pair, config).ids;
        if (m_prompt.empty()) throw Error("checking exactness", "the prompt", "gives no tokens");
        if (static_cast<int64_t>(m_prompt.size()) + 2 > m_pair->context()) {
            throw Error("checking exactness", "the prompt",
                        fmt::format("has {} tokens and the models' context is {}", m_prompt.size(),
                                    m_pair->context()),
                        "shorten it");
        }
        const LlamaModel& any = m_pair->student ? *m_pair->student : *m_pair->teacher;
        m_report.device = any.device().str();
        m_report.dtype = std::string(to_string(config.dtype));
    }

    ExactnessReport run() {
        std::vector<std::pair<std::string, const LlamaModel*>> models;
        if (m_pair->teacher) models.emplace_back("teacher", m_pair->teacher.get());
        if (m_pair->student) models.emplace_back("student", m_pair->student.get());
        note_cuts(models);
        for (const auto& [name, model] : models)
            cached_against_naive(name, *model);
        tell(0.4);
        for (const auto& [name, model] : models) {
            chunks_against_prefill(name, *model);
            memory(name, *model);
        }
        tell(0.5);
        splice();
        tell(0.55);
        rewind();
        tell(0.6);
        if (m_report.options.latency) {
            double done = 0.6;
            for (const auto& [name, model] : models) {
                const double share = 0.4 / static_cast<double>(models.size());
                measure_latency(*model, name, m_report.options, m_report.latency,
                                [&](double fraction) { tell(done + share * fraction); });
                done += share;
            }
        }
        tell(1);
        return std::move(m_report);
    }

private:
    void tell(double fraction) {
        m_report.progress = fraction;
        if (m_progress && !m_progress(m_report))
            throw Error("checking exactness", {}, "cancelled", {}, ErrorKind::failure);
    }

    /// Decode steps that the context leaves room for after the prompt.
    [[nodiscard]] int64_t checked_steps() const {
        return std::min<int64_t>(m_report.options.steps,
                                 m_pair->context() - static_cast<int64_t>(m_prompt.size()) - 1);
    }

    /// What was asked for and does not fit is cut, and that is said.
    void note_cuts(const std::vector<std::pair<std::string, const LlamaModel*>>& models) {
        if (checked_steps() < m_report.options.steps) {
            m_report.notes.push_back(
                fmt::format("{} of {} steps are checked: after a prompt of {} tokens the "
                            "context of {} has no room for more",
                            checked_steps(), m_report.options.steps, m_prompt.size(), m_pair->context()));
        }
        if (!m_report.options.latency) return;
        for (const auto& [name, model] : models) {
            std::vector<int32_t> left_out;
            for (const int32_t length : m_report.options.lengths) {
                if (!latency_length_fits(*model, length)) left_out.push_back(length);
            }
            if (left_out.empty()) continue;
            m_report.notes.push_back(fmt::format("no latency of {} at {} tokens: beyond its context of {}",
                                                 name, fmt::join(left_out, ", "),
                                                 model->config().max_position));
        }
    }

    /// Text that the check reads: the prompt repeated up to n tokens (content does not matter, only that it is the same).
    [[nodiscard]] std::vector<int32_t> text_of(int64_t n) const {
        std::vector<int32_t> text;
        for (int64_t i = 0; i < n; ++i)
            text.push_back(m_prompt[static_cast<size_t>(i) % m_prompt.size()]);
        return text;
    }

    [[nodiscard]] static int32_t greedy(const at::Tensor& logits) {
        return choose_token(logits, {}, 0, 0).token_id;
    }

    /// The cached path of a model, with the fault that it is to have, beside a forward over the whole text.
    struct TwoPaths {
        std::unique_ptr<KvCache> cached, naive;
        std::vector<int32_t> text; ///< the right one: both read it, so that errors are the cache's alone
        int64_t other_tokens = 0;  ///< steps with another token than the clearly likeliest
    };

    /// Both caches, and the prefill of the cached one, up to the first token; faults of the prefill are in it.
    TwoPaths prefilled_paths(const LlamaModel& model) const {
        const CacheFault fault = m_report.options.fault;
        const auto length = static_cast<int64_t>(m_prompt.size());
        // One position to spare: a faulty cache may hold a column too many, a faulty mask look at one.
        TwoPaths paths{model.make_cache(length + checked_steps() + 2),
                       model.make_cache(length + checked_steps()), m_prompt};
        for (int64_t layer = 0; layer < model.config().num_layers;
             ++layer) { // what a faulty mask reads is the same on every run
            paths.cached->keys(layer).zero_();
            paths.cached->values(layer).zero_();
        }
        std::vector<int32_t> prefilled = m_prompt; // what the cached path's prefill saw
        if (fault == CacheFault::stale_cache) {
            // As if the word in the middle had been another one when the cache was made.
            int32_t& token = prefilled[static_cast<size_t>(length / 2)];
            token = token > 0 ? token - 1 : token + 1;
        }
        at::Tensor row = read(model, *paths.cached, prefilled, Rows::last)[0];
        if (fault == CacheFault::duplicated_token) row = decode(model, *paths.cached, m_prompt.back());
        paths.text.push_back(greedy(row));
        return paths;
    }

    /// One decode step of both paths; what they hold and say goes into the map.
    void compare_step(const LlamaModel& model, TwoPaths& paths, int64_t step, ExactnessMap& map,
                      Worst& worst) const {
        StepFault wrong;
        if (m_report.options.fault == CacheFault::off_by_one_position) wrong.position_shift = 1;
        if (m_report.options.fault == CacheFault::mask_one_too_long) wrong.mask_shift = 1;
        const at::Tensor row = decode(model, *paths.cached, paths.text.back(), &wrong);
        paths.naive->truncate(0);
        const at::Tensor expected = read(model, *paths.naive, paths.text, Rows::last)[0];
        const int64_t n = paths.naive->length();
        for (int64_t layer = 0; layer < map.layers; ++layer) {
            const auto at_cell = static_cast<size_t>(layer * map.steps + step);
            const auto columns = [&](const at::Tensor& storage) { return storage.narrow(1, 0, n); };
            const double k =
                max_abs_difference(columns(paths.cached->keys(layer)), columns(paths.naive->keys(layer)));
            const double v =
                max_abs_difference(columns(paths.cached->values(layer)), columns(paths.naive->values(layer)));
            map.k[at_cell] = static_cast<float>(k);
            map.v[at_cell] = static_cast<float>(v);
            worst.see(k, fmt::format("layer {}, step {}, K", layer, step + 1));
            worst.see(v, fmt::format("layer {}, step {}, V", layer, step + 1));
        }
        const double logits = max_abs_difference(row, expected);
        map.logits.push_back(static_cast<float>(logits));
        worst.see(logits, fmt::format("step {}, logits", step + 1));
        const int32_t right = greedy(expected);
        const bool same = greedy(row) == right;
        map.same_token.push_back(same ? 1 : 0);
        if (!same) {
            const auto two = std::get<0>(expected.topk(2));
            if ((two[0] - two[1]).item<double>() > clear_gap) ++paths.other_tokens;
        }
        paths.text.push_back(right);
    }

    void cached_against_naive(const std::string& name, const LlamaModel& model) {
        const int64_t steps = checked_steps();
        ExactnessMap map;
        map.subject = name;
        map.layers = static_cast<int32_t>(model.config().num_layers);
        map.steps = static_cast<int32_t>(steps);
        map.k.resize(static_cast<size_t>(map.layers * steps));
        map.v.resize(map.k.size());
        Worst worst;
        TwoPaths paths = prefilled_paths(model);
        for (int64_t step = 0; step < steps; ++step) {
            compare_step(model, paths, step, map, worst);
            tell(0.4 * static_cast<double>(step) / static_cast<double>(std::max<int64_t>(steps, 1)));
        }
        ExactnessCheck check = judged(name, "cached = naive", worst, tolerance_of(model));
        if (paths.other_tokens > 0) {
            check.passed = false;
            check.where += fmt::format("; another token at {} steps", paths.other_tokens);
        }
        m_report.checks.push_back(std::move(check));
        m_report.maps.push_back(std::move(map));
    }

    void chunks_against_prefill(const std::string& name, const LlamaModel& model) {
        const int64_t n = std::min<int64_t>(std::max<int64_t>(static_cast<int64_t>(m_prompt.size()), 96),
                                            model.config().max_position);
        const std::vector<int32_t> text = text_of(n);
        const auto whole = model.make_cache(n);
        const at::Tensor expected = read(model, *whole, text, Rows::last)[0];
        for (const int64_t chunk : {1, 7, 64}) {
            const auto cache = model.make_cache(n);
            at::Tensor row;
            for (int64_t begin = 0; begin < n; begin += chunk) {
                const int64_t count = std::min<int64_t>(chunk, n - begin);
                row = read(model, *cache,
                           std::span(text).subspan(static_cast<size_t>(begin), static_cast<size_t>(count)),
                           Rows::last)[0];
            }
            Worst worst;
            see_columns(*cache, *whole, n, "", worst);
            worst.see(max_abs_difference(row, expected), "logits");
            m_report.checks.push_back(judged(name,
                                             chunk == 1 ? "token by token = one prefill"
                                                        : fmt::format("chunks of {} = one prefill", chunk),
                                             worst, tolerance_of(model)));
        }
    }

    void memory(const std::string& name, const LlamaModel& model) {
        const ModelConfig& c = model.config();
        const int64_t capacity = std::min<int64_t>(128, c.max_position);
        const auto cache = model.make_cache(capacity);
        const auto formula = 2 * c.num_layers * c.num_kv_heads * c.head_dim * capacity *
                             static_cast<int64_t>(c10::elementSize(model.dtype()));
        int64_t held = 0;
        for (int64_t layer = 0; layer < c.num_layers; ++layer)
            held += static_cast<int64_t>(cache->keys(layer).nbytes() + cache->values(layer).nbytes());
        Worst worst;
        worst.see(static_cast<double>(std::abs(held - formula)), "bytes held");
        worst.see(static_cast<double>(std::abs(cache->bytes_reserved() - formula)), "bytes reported");
        ExactnessCheck check = judged(name, "memory formula = bytes held", worst, 0);
        if (check.passed) {
            check.where =
                fmt::format("2 x {} layers x {} KV heads x {} x {} positions x {} B = {} B", c.num_layers,
                            c.num_kv_heads, c.head_dim, capacity, c10::elementSize(model.dtype()), formula);
        }
        m_report.checks.push_back(std::move(check));
    }

    void splice() {
        const std::string name = "splice = fresh prefill";
        if (!m_pair->teacher || !m_pair->student) {
            m_report.checks.push_back(not_measured("pair", name, "one model is loaded"));
            return;
        }
        if (m_pair->bridge_file) {
            m_report.checks.push_back(not_measured(
                "pair", name, "bridge: teacher entries are mapped, and only near to the student's own"));
            return;
        }
        if (m_pair->geometry_difference) {
            m_report.checks.push_back(
                not_measured("pair", name, "rebuild mode: teacher entries are never copied"));
            return;
        }
        const auto length = static_cast<int64_t>(m_prompt.size());
        const int64_t steps = std::min<int64_t>(24, m_pair->context() - length);
        const std::vector<int32_t> text = text_of(length + steps);
        const auto prompt = std::span(text).first(static_cast<size_t>(length));
        const auto teacher = m_pair->teacher->make_cache(length + steps),
                   fresh = m_pair->teacher->make_cache(length + steps),
                   student = m_pair->student->make_cache(length + steps);
        (void)read(*m_pair->teacher, *teacher, prompt, Rows::none);
        student->adopt_prefix(*teacher, length);
        for (int64_t i = 0; i < steps; ++i)
            (void)decode(*m_pair->student, *student, text[static_cast<size_t>(length + i)], nullptr,
                         Origin::student);
        (void)read(*m_pair->teacher, *teacher, std::span(text).subspan(static_cast<size_t>(length)),
                   Rows::none);
        student->splice(*teacher, length, steps, 0, steps);
        (void)read(*m_pair->teacher, *fresh, text, Rows::none);
        Worst copies, columns;
        // The copy itself is of bits; the two teacher passes may round differently.
        see_columns(*student, *teacher, length + steps, "", copies);
        for (int64_t layer = 0; layer < student->num_layers(); ++layer) {
            const auto place = [&](const char* what) { return fmt::format("layer {}, {}", layer, what); };
            const auto own = [&](const at::Tensor& t) {
                return t.narrow(1, 0, length + steps).to(fresh->device());
            };
            columns.see(max_abs_difference(own(student->keys(layer)), own(fresh->keys(layer))), place("K"));
            columns.see(max_abs_difference(own(student->values(layer)), own(fresh->values(layer))),
                        place("V"));
        }
        m_report.checks.push_back(judged("pair", "splice = the teacher's columns", copies, 0));
        m_report.checks.push_back(judged("pair", name, columns, tolerance_of(*m_pair->teacher)));
    }

    void rewind() {
        RunConfig config = m_config;
        config.mode = m_pair->teacher && m_pair->student ? Mode::overfill
                      : m_pair->student                  ? Mode::student
                                                         : Mode::teacher;
        config.policy = preset_policy("periodic");
        config.policy.triggers[0].every = 7;
        config.given_text.clear();
        config.given_ids.clear();
        config.task = {};
        config.ignore_stop = true;
        config.shadow = false;
        config.capture.attention = false;
        config.max_tokens = static_cast<int32_t>(
            std::min<int64_t>(40, m_pair->context() - static_cast<int64_t>(m_prompt.size())));
        RunDriver driver({.pair = m_pair, .config = config, .execution = m_execution});
        driver.run();
        const auto first = driver.recording();
        ExactnessCheck check;
        check.subject = "pair";
        check.name = "rewind = fresh run";
        check.passed = true;
        for (const int64_t to : {config.max_tokens / 2, 0}) {
            driver.rewind(to);
            driver.run();
            if (const auto difference = first_difference(*first, *driver.recording())) {
                check.passed = false;
                check.max_abs = std::numeric_limits<double>::quiet_NaN();
                check.where = fmt::format("rewound to step {}: {}", to, *difference);
                break;
            }
        }
        m_report.checks.push_back(std::move(check));
    }

    std::shared_ptr<const ModelPair> m_pair;
    Execution m_execution;
    RunConfig m_config;
    const std::function<bool(const ExactnessReport&)>& m_progress;
    std::vector<int32_t> m_prompt;
    ExactnessReport m_report;
};

} // namespace

ExactnessReport check_exactness(const std::shared_ptr<const ModelPair>& pair, const RunConfig& config,
                                const ExactnessOptions& options,
                                const std::function<bool(const ExactnessReport&)>& progress,
                                Execution execution) {
    const c10::InferenceMode guard;
    check_run(config);
    if (!execution) execution = make_execution(config);
    const kernels::ExecutionScope scope(*execution);
    return Checker(pair, config, options, progress, execution).run();
}

} // namespace refreshlab
