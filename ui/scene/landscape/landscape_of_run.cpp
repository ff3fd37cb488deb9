#include "ui/scene/landscape/landscape_of_run.h"

#include "engine/record/recording/step_record.h"
#include "engine/signals/registry.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace refreshlab::ui {

namespace {

/// y_1 .. y_n that the first `steps` records have chosen.
std::vector<int32_t> text_of(const Recording& recording, int64_t steps) {
    std::vector<int32_t> text;
    for (int64_t t = 1, n = std::min(recording.num_tokens(), steps + 1); t <= n; ++t)
        text.push_back(recording.token(t));
    return text;
}

/// First token at which two texts part; the shorter's length where they do not.
size_t common(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
    return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

} // namespace

std::string pair_key(const RunConfig& config) {
    return fmt::format("{}|{}|{}|{}|{}|{}", config.teacher_dir, config.student_dir, config.device,
                       config.teacher_device, config.student_device, to_string(config.dtype));
}

void KnownLandscapes::keep(const std::string& run_id, std::shared_ptr<const Landscape> landscape,
                           const std::shared_ptr<const Recording>& run) {
    if (!landscape) return;
    Entry& entry = m_entries[run_id];
    if (run && run->info().id == run_id) {
        entry.pair = pair_key(run->info().config);
        if (!entry.written_by) entry.written_by = std::make_shared<const RunConfig>(run->info().config);
    }
    if (entry.landscape == landscape) return;
    entry.landscape = std::move(landscape);
    entry.change = ++m_changes;
    constexpr size_t most = 4; // up to hundreds of megabytes each
    while (m_entries.size() > most)
        m_entries.erase(
            std::ranges::min_element(m_entries, {}, [](const auto& known) { return known.second.change; }));
}

std::shared_ptr<const Landscape> KnownLandscapes::of(const std::shared_ptr<const Recording>& recording,
                                                     int64_t steps) {
    if (!recording || m_entries.empty()) return nullptr;
    if (m_recording.lock() == recording && m_steps == steps && m_asked_changes == m_changes) return m_answer;
    m_recording = recording;
    m_steps = steps;
    m_asked_changes = m_changes;
    m_answer = nullptr;
    m_why_none.clear();
    const std::vector<int32_t> text = text_of(*recording, steps);
    const std::string pair = pair_key(recording->info().config);
    std::tuple<bool, size_t, uint64_t> best{};
    for (const auto& [id, entry] : m_entries) {
        const LandscapeInfo& info = entry.landscape->info();
        if (info.prompt_ids != recording->info().prompt_ids) {
            if (m_why_none.empty()) m_why_none = "The landscape that is here is of another prompt.";
            continue;
        }
        const size_t same = common(text, info.tokens);
        if (same < std::min(text.size(), info.tokens.size())) {
            m_why_none = fmt::format(
                "The landscape that is here is of another text: it parts from this run's at token {}.",
                format_thousands(static_cast<int64_t>(same) + 1));
            continue;
        }
        if (entry.pair != pair && id != recording->info().id) {
            m_why_none = "The landscape that is here was computed with another pair of models.";
            continue;
        }
        // Its own before all others, then the one that covers the most, then the newest.
        const std::tuple rank(id == recording->info().id, info.tokens.size(), entry.change);
        if (m_answer && rank < best) continue;
        m_answer = entry.landscape;
        m_usual =
            default_objective(entry.written_by ? *entry.written_by : recording->info().config, info.values);
        best = rank;
    }
    if (m_answer) m_why_none.clear();
    return m_answer;
}

std::shared_ptr<const Landscape> KnownLandscapes::to_save(const Recording& recording) const {
    const auto own = m_entries.find(recording.info().id);
    if (own != m_entries.end()) return own->second.landscape;
    const std::vector<int32_t> text = recording.token_ids();
    for (const auto& [id, entry] : m_entries) {
        const LandscapeInfo& info = entry.landscape->info();
        if (info.prompt_ids == recording.info().prompt_ids && info.tokens.size() <= text.size() &&
            common(text, info.tokens) == info.tokens.size() &&
            entry.pair == pair_key(recording.info().config))
            return entry.landscape;
    }
    return nullptr;
}

LandscapeCost landscape_cost(const Recording& recording, int64_t steps, const EngineStatus& status) {
    LandscapeCost cost;
    cost.tokens = std::min(recording.num_tokens(), steps + 1);
    const int64_t rows = std::max<int64_t>(cost.tokens - 1, 0);
    cost.cells = rows * (rows + 1) / 2;
    const auto values = static_cast<int64_t>(default_landscape_values().size());
    const ModelSummary& student = status.student;
    const int64_t element = student.dtype == "f32" ? 4 : 2;
    constexpr int64_t rows_at_once = 16; // LandscapeRequest
    const int64_t column = 2 * student.layers * student.kv_heads * student.head_dim * element;
    cost.bytes = cost.cells * values * 4 + std::min(rows_at_once, rows) * rows * column +
                 rows * student.vocab_size * 4 + 2 * (recording.prompt_length() + steps) * column;
    std::vector<float> ms;
    for (int64_t t = 1; t <= steps; ++t) {
        const float one = recording.step(t).part_ms[static_cast<size_t>(Part::model)];
        if (std::isfinite(one) && one > 0) ms.push_back(one);
    }
    if (!ms.empty()) {
        const auto middle = ms.begin() + static_cast<std::ptrdiff_t>(ms.size() / 2);
        std::ranges::nth_element(ms, middle);
        cost.most_seconds = static_cast<double>(cost.cells) * static_cast<double>(*middle) / 1000;
    }
    return cost;
}

std::string why_not_computed(const Recording* recording, int64_t steps, const EngineStatus& status,
                             bool of_engine) {
    if (recording == nullptr || steps == 0) return "There is no text yet: start a run";
    if (!of_engine)
        return "This run comes from a file and its models are not loaded: `refreshlab landscape FILE` "
               "computes it";
    const RunConfig& config = recording->info().config;
    if (!config.student_cache.is_full() || !config.teacher_cache.is_full())
        return "It is about caches that keep everything, and this run has a cache policy";
    if (recording->num_tokens() < 2)
        return "The text has one token, and a landscape needs two at least: make more steps";
    if (config.mode != Mode::overfill)
        return "It takes a teacher and a student: start a run in mode overfill";
    if (status.rebuild_mode)
        return "The pair runs in rebuild mode: nothing is copied, so a refresh changes nothing";
    if (status.checking) return "The exactness check is under way";
    if (status.scope && status.scope->computing) return "Scopes are being measured";
    switch (status.state) {
    case EngineState::idle:
    case EngineState::loading:
    case EngineState::prefilling:
        return "The models are still loading";
    case EngineState::failed:
        return "The engine has failed: start again";
    case EngineState::running:
        return "The text still grows: pause the run";
    default:
        return {};
    }
}

std::string why_no_scope_map(const Recording* recording, int64_t steps, const EngineStatus& status,
                             bool of_engine) {
    if (recording != nullptr && steps > 0 && !of_engine)
        return "This run comes from a file and its models are not loaded: `refreshlab scope FILE` "
               "measures it";
    return why_not_computed(recording, steps, status, of_engine);
}

RunConfig reading_run(const RunConfig& config, const std::vector<int32_t>& tokens, RefreshPolicy policy) {
    RunConfig run = config;
    run.mode = Mode::overfill; // a teacher's run has a landscape too, from the command line
    run.given_text.clear();
    run.given_ids = tokens;
    run.max_tokens = static_cast<int32_t>(tokens.size());
    run.policy = std::move(policy);
    return run;
}

namespace {

/// Mean cost of the text in a recording whose drafts begin at its refreshes; NaN where a value is missing.
double recorded_loss(const Recording& recording, int64_t num_tokens, Objective objective) {
    const size_t signal = require_signal(value_of(objective), "a measured run");
    const auto& events = recording.refreshes();
    size_t next = 0;
    DraftRun draft;
    double sum = 0;
    for (int64_t step = 1; step < num_tokens; ++step) {
        for (; next < events.size() && events[next].step < step; ++next)
            draft = {};
        // A token's own probability stands in the record that fed it, all else in the row that predicts it.
        const auto value =
            static_cast<double>(recording.signal(objective == Objective::loss ? step + 1 : step, signal));
        sum += objective == Objective::loss            ? -value
               : objective == Objective::kl            ? value
               : objective == Objective::tokens_a_pass ? (std::isnan(value) ? value : -draft.next(value))
                                                       : 1 - value;
    }
    return sum / static_cast<double>(num_tokens - 1);
}

} // namespace

std::optional<MeasuredRun> measure_run(const Landscape& landscape, const Recording& recording,
                                       int64_t steps) {
    const std::vector<int32_t>& text = landscape.info().tokens;
    if (steps < landscape.num_tokens()) return std::nullopt;
    for (int64_t t = 1; t <= landscape.num_tokens(); ++t)
        if (recording.token(t) != text[static_cast<size_t>(t - 1)]) return std::nullopt;
    MeasuredRun run;
    run.run_id = recording.info().id;
    run.policy = recording.info().config.policy.name;
    run.back_fills = recording.back_fills().size(); // before the values: what comes meanwhile is read again
    for (const Objective objective : objectives)
        run.losses[static_cast<size_t>(objective)] =
            recorded_loss(recording, landscape.num_tokens(), objective);
    if (std::isnan(run.loss(Objective::loss))) return std::nullopt;
    const auto& events = recording.refreshes();
    for (size_t i = 0, n = events.size(); i < n; ++i)
        run.refreshes += events[i].step < landscape.num_steps() ? 1 : 0;
    return run;
}

} // namespace refreshlab::ui
