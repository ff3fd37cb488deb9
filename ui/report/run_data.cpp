// What a report says of a run beside its steps: facts, marks, notes, settings.
#include "ui/report/run_data.h"

#include "engine/base/json_text.h"
#include "engine/base/shell_word.h"
#include "engine/control/derive/derive_spec.h"
#include "engine/control/parameters.h"
#include "engine/record/export/export.h"
#include "engine/record/runs/run_command.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/scene/policy/cache_words.h"
#include "ui/scene/policy/command_words.h"
#include "ui/scene/text/event_table.h"
#include "ui/scene/theme/run_colours.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <span>

namespace refreshlab::ui {

using nlohmann::json;

namespace {

std::string_view lane_name(MarkLane lane) {
    constexpr std::string_view names[] = {"refresh", "blocked", "cut", "change", "note"};
    return names[static_cast<size_t>(lane)];
}

json number_or_null(double value) {
    return std::isfinite(value) ? json(value) : json(nullptr);
}

std::string comparison_words(Comparison comparison) {
    std::string words(to_string(comparison));
    std::ranges::replace(words, '_', ' ');
    return words;
}

/// "entropy, changed: Entropy above 5 bits, cool-down 8 steps; at most 6 in 200 tokens"
std::string policy_words(const RefreshPolicy& policy, std::span<const Signal> signals) {
    std::string words = policy.name + (is_modified_preset(policy) ? ", changed" : "");
    std::string triggers;
    for (const Trigger& trigger : policy.triggers) {
        if (!trigger.enabled) continue;
        const auto id = find_signal(signals, trigger.signal);
        if (!triggers.empty()) triggers += policy.combine == Combine::any ? " or " : " and ";
        triggers += fmt::format("{} {} {}", id ? signals[*id].label : std::string_view(trigger.signal),
                                comparison_words(trigger.comparison),
                                format_value(trigger.threshold, id ? signals[*id].unit : ""));
        if (trigger.every > 1) triggers += fmt::format(", every {}", format_count(trigger.every, "step"));
        if (trigger.cooldown > 0)
            triggers += fmt::format(", cool-down {}", format_count(trigger.cooldown, "step"));
    }
    if (!policy.at.empty())
        triggers += fmt::format("{}{} scheduled", triggers.empty() ? "" : "; ", policy.at.size());
    if (!triggers.empty()) words += ": " + triggers;
    if (policy.budget.refreshes)
        words += fmt::format("; at most {} in {}", *policy.budget.refreshes,
                             format_count(policy.budget.per_tokens, "token"));
    return words;
}

/// Lines of the page's head.
json facts_of(const Recording& recording) {
    const RunInfo& info = recording.info();
    const RunConfig& config = info.config;
    json facts = json::array();
    const auto add = [&](std::string_view label, const std::string& text) {
        if (!text.empty()) facts.push_back({label, text});
    };
    const auto model = [](const std::string& path) {
        return path.empty() ? std::string() : shown_model(path);
    };
    add("Teacher", model(config.teacher_dir));
    add("Student", model(config.student_dir));
    add("Mode", config.mode == Mode::overfill
                    ? "overfill: the teacher reads the prompt, the student continues"
                : config.mode == Mode::teacher ? "the teacher alone"
                                               : "the student alone");
    add("Refresh policy",
        config.mode == Mode::overfill ? policy_words(config.policy, recording.signals()) : "");
    add("Cache policy", cache_words(cache_of(config, deciding_owner(config.mode))));
    add("Sampling",
        config.sampler.temperature == 0
            ? fmt::format("greedy, seed {}", config.seed)
            : fmt::format("temperature {}, seed {}", format_number(config.sampler.temperature), config.seed));
    add("Steps", fmt::format("{} after {} of the prompt", format_thousands(recording.steps()),
                             format_count(recording.prompt_length(), "token")));
    const auto end = recording.end();
    add("Ended by", end ? stop_text(end->stop_reason) : "no end is recorded");
    add("Recorded", info.started_at);
    std::string machine = info.device + ", " + info.dtype;
    if (!info.kernel_set.empty()) machine += ", kernels " + info.kernel_set;
    if (info.threads > 0) machine += fmt::format(", {}", format_count(info.threads, "thread"));
    add("Machine", machine);
    std::string versions;
    for (const auto& [name, version] : info.versions)
        versions += fmt::format("{}{} {}", versions.empty() ? "" : ", ", name, version);
    add("Versions", versions);
    add("About the pair", info.note);
    add("Run", info.id);
    return facts;
}

/// Every parameter of the run; those that differ from a run without options are marked.
json settings_of(const RunConfig& config) {
    const RunConfig plain;
    json settings = json::array();
    for (const Parameter& parameter : parameters()) {
        const auto value = parameter_value(config, parameter.key);
        if (!value) continue;
        const auto usual = parameter_value(plain, parameter.key);
        settings.push_back({{"key", parameter.key},
                            {"label", parameter.label},
                            {"value", *value},
                            {"unit", parameter.unit},
                            {"differs", usual != value}});
    }
    return settings;
}

json again_of(const Recording& recording, const std::string& trace) {
    const RunCommand command = run_command(recording);
    json files = json::array();
    for (const RunCommand::File& file : command.files)
        files.push_back({{"name", file.name}, {"text", file.text}});
    return {{"line", command.line},
            {"files", std::move(files)},
            {"lacks", command.lacks},
            {"replay",
             fmt::format("refreshlab run --replay {} --run {}", shell_word(trace), recording.info().id)}};
}

} // namespace

json lanes_data() {
    json lanes = json::array();
    for (const MarkLane lane : mark_lanes)
        lanes.push_back(
            {{"lane", lane_name(lane)}, {"one", lane_words(lane).one}, {"brief", lane_words(lane).brief}});
    return lanes;
}

json marks_data(const Recording& recording, const StepMarks& marks, PageColours& colours) {
    std::vector<std::pair<int64_t, json>> found;
    for (const MarkLane lane : {MarkLane::refresh, MarkLane::blocked, MarkLane::cut, MarkLane::change})
        for (size_t i = 0; i < marks.count(lane); ++i) {
            const EventRow row = event_row(recording, recording.steps(), marks, lane, i);
            const char letter = mark_letter(marks, lane, i);
            found.emplace_back(
                row.step,
                json{{"lane", lane_name(lane)},
                     {"step", row.step},
                     {"letter", letter == 0 ? "" : std::string(1, letter)},
                     {"colour", colours.of([&](const Theme& t) { return mark_colour(t, marks, lane, i); })},
                     {"reason",
                      lane == MarkLane::cut ? cut_words(recording.tokens(), marks.cut(i)) : row.reason},
                     {"value", row.value_text},
                     {"threshold", row.threshold_text},
                     {"spliced", number_or_null(row.spliced)},
                     {"ms", number_or_null(row.ms)},
                     {"read", row.token_read},
                     {"before", row.chosen_before},
                     {"after", row.chosen_after}});
        }
    std::ranges::stable_sort(found, {}, &std::pair<int64_t, json>::first);
    json all = json::array();
    for (auto& [step, mark] : found)
        all.push_back(std::move(mark));
    return all;
}

json notes_data(const StepMarks& marks, PageColours& colours) {
    json notes = json::array();
    for (size_t i = 0; i < marks.count(MarkLane::note); ++i) {
        const RunNotes::Seen& seen = marks.note(i);
        notes.push_back(
            {{"first", seen.note.first_step},
             {"last", seen.note.last_step},
             {"colour", colours.of([&](const Theme& theme) { return run_colour(theme, seen.note.colour); })},
             {"text", seen.note.text},
             {"made_at", seen.note.made_at},
             {"run", seen.owner ? json(seen.owner->run_id()) : json()}});
    }
    return notes;
}

json run_data(const ReportRun& run, const std::string& trace, PageColours& colours) {
    const std::shared_ptr<const Recording>& recording = run.recording;
    const RunInfo& info = recording->info();
    const StepMarks marks(recording);
    json summary = json::array();
    for (const SummaryLine& line : summary_lines(*recording))
        summary.push_back({line.label, line.value});
    return {{"id", info.id},
            {"name", run.label.name},
            {"models", pair_name(info.config.mode == Mode::student ? "" : info.config.teacher_dir,
                                 info.config.mode == Mode::teacher ? "" : info.config.student_dir)},
            {"policy", info.config.policy.name},
            {"parent", info.parent_id.empty() ? json() : json(info.parent_id)},
            {"fork_step", info.fork_step},
            {"steps", recording->steps()},
            {"prompt_tokens", recording->prompt_length()},
            {"prompt", info.config.prompt},
            {"rendered_prompt", info.rendered_prompt},
            {"facts", facts_of(*recording)},
            {"again", again_of(*recording, trace)},
            {"text", text_data(*recording)},
            {"signals", signals_data(recording, colours)},
            {"candidates", candidates_data(*recording)},
            {"lanes", lanes_data()},
            {"marks", marks_data(*recording, marks, colours)},
            {"notes", notes_data(marks, colours)},
            {"summary", std::move(summary)},
            {"settings", settings_of(info.config)},
            {"config", json_text(to_json(info.config), 1)}};
}

} // namespace refreshlab::ui
