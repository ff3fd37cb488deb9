#include "ui/tour/facts.h"

#include "engine/control/parameters.h"
#include "engine/fetch/published_models.h"
#include "engine/signals/nearest_name.h"
#include "engine/signals/registry.h"
#include "ui/base/format.h"
#include "ui/panels/panel.h"
#include "ui/scene/landscape/objective_words.h"
#include "ui/scene/landscape/staircases.h"
#include "ui/scene/series/series_set.h"
#include "ui/scene/text/step_marks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

namespace {

using Value = std::optional<FactValue>;

Value number(std::optional<double> value) {
    if (!value || !std::isfinite(*value)) return std::nullopt;
    return FactValue(*value);
}

const RefreshEvent* last_refresh(const ShellState& state) {
    const size_t count = state.ctx.marks.count(MarkLane::refresh);
    return count == 0 ? nullptr : &state.ctx.marks.refresh(count - 1);
}

const RunNumbers* numbers_of(const ShellState& state, std::optional<RunKey> key) {
    const RunSet::Run* run = key ? state.runs.find(*key) : nullptr;
    return run == nullptr ? nullptr : &run->metrics.numbers();
}

/// Numbers of the run that is looked at, and of the other one (the blink key's).
template <class Number>
Value of_run(const ShellState& state, bool other, Number get) {
    const RunNumbers* numbers = numbers_of(state, other ? state.runs.other() : state.runs.looked_at());
    return numbers == nullptr ? std::nullopt : number(get(*numbers));
}

/// Right or wrong tokens of a run's task.
Value verdicts(const ShellState& state, std::optional<RunKey> key, int64_t VerdictCount::*which) {
    const auto recording = key ? state.runs.recording(*key) : nullptr;
    if (!recording) return std::nullopt;
    const auto id = find_signal(recording->signals(), "task_score");
    if (!id) return std::nullopt;
    const VerdictCount count = count_verdicts(*recording, recording->steps(), *id);
    if (count.yes + count.no == 0 && recording->info().config.task.kind.empty()) return std::nullopt;
    return number(static_cast<double>(count.*which));
}

/// The shown landscape, judged as its panel judges it.
struct JudgedLandscape {
    const Landscape* landscape = nullptr;
    Objective objective = Objective::loss;
    explicit operator bool() const { return landscape != nullptr; }
    /// A loss as the panel's table says it, with its unit.
    [[nodiscard]] Value told(double loss, size_t refreshes) const {
        const double told = told_value(objective, teacher_value(*landscape, objective), loss,
                                       landscape->num_tokens(), static_cast<int64_t>(refreshes));
        return fmt::format("{} {}", told_number(objective, told), told_unit(objective));
    }
};

JudgedLandscape judged(const ShellState& state) {
    const UiContext& ctx = state.ctx;
    if (!ctx.landscape) return {};
    return {
        ctx.landscape.get(),
        shown_objective(ctx.views.landscape, ctx.usual_objective, ctx.landscape->info().values).objective};
}

Value told_policy(const ShellState& state) {
    const JudgedLandscape judged = ui::judged(state);
    if (!judged) return std::nullopt;
    const ShownStairs shown =
        stairs_of_policy(*judged.landscape, state.ctx.drafts.policy(), {}, judged.objective);
    return shown.there() ? judged.told(shown.stairs.loss, shown.stairs.refreshes.size()) : std::nullopt;
}

struct Fact {
    std::string_view name, help;
    Value (*value)(const ShellState&);
};

constexpr Fact facts[] = {
    {"steps", "Steps of the shown run.",
     [](const ShellState& s) { return number(static_cast<double>(s.ctx.steps)); }},
    {"state", "What the engine does: idle, loading, prefilling, running, paused, finished, failed.",
     [](const ShellState& s) -> Value { return std::string(to_string(s.ctx.status->state)); }},
    {"selected_step", "The selected step; 0: none, the window is live.",
     [](const ShellState& s) { return number(static_cast<double>(s.ctx.selection.step.value_or(0))); }},
    {"shown_step", "The step that panels show.",
     [](const ShellState& s) { return number(static_cast<double>(s.ctx.shown_step())); }},
    {"selected_head", "Layer and head that Attention enlarges: \"layer 3, head 1\".",
     [](const ShellState& s) -> Value {
         return fmt::format("layer {}, head {}", s.ctx.selection.layer, s.ctx.selection.head);
     }},
    {"refreshes", "Refreshes of the shown run.",
     [](const ShellState& s) { return number(static_cast<double>(s.ctx.marks.count(MarkLane::refresh))); }},
    {"refreshes_by_hand", "Those of them that somebody asked for.",
     [](const ShellState& s) {
         double count = 0;
         for (size_t i = 0; i < s.ctx.marks.count(MarkLane::refresh); ++i)
             count += s.ctx.marks.refresh(i).automatic ? 0 : 1;
         return number(count);
     }},
    {"last_refresh.step", "Step of the newest refresh.",
     [](const ShellState& s) -> Value {
         const RefreshEvent* event = last_refresh(s);
         return event ? number(static_cast<double>(event->step)) : std::nullopt;
     }},
    {"last_refresh.entries", "Positions that it rewrote.",
     [](const ShellState& s) -> Value {
         const RefreshEvent* event = last_refresh(s);
         return event ? number(static_cast<double>(event->spliced)) : std::nullopt;
     }},
    {"last_refresh.ms", "Milliseconds that it took.",
     [](const ShellState& s) -> Value {
         const RefreshEvent* event = last_refresh(s);
         return event ? number(static_cast<double>(event->teacher_ms + event->splice_ms + event->redraw_ms))
                      : std::nullopt;
     }},
    {"last_refresh.reason", "Why it came: \"Entropy\", \"by hand\".",
     [](const ShellState& s) -> Value {
         const RefreshEvent* event = last_refresh(s);
         return event ? Value(reason_label(s.ctx.signals(), event->hits)) : std::nullopt;
     }},
    {"right", "Right tokens of the task, of the shown run.",
     [](const ShellState& s) { return verdicts(s, s.runs.looked_at(), &VerdictCount::yes); }},
    {"wrong", "Wrong ones.",
     [](const ShellState& s) { return verdicts(s, s.runs.looked_at(), &VerdictCount::no); }},
    {"other.right", "Right tokens of the other run, the one that B goes to.",
     [](const ShellState& s) { return verdicts(s, s.runs.other(), &VerdictCount::yes); }},
    {"other.wrong", "Wrong ones of the other run.",
     [](const ShellState& s) { return verdicts(s, s.runs.other(), &VerdictCount::no); }},
    {"other.refreshes", "Refreshes of the other run.",
     [](const ShellState& s) {
         return of_run(s, true, [](const RunNumbers& n) { return std::optional<double>(n.refreshes); });
     }},
    {"mean_kl", "Mean KL of the run, nats, over the steps where it is known.",
     [](const ShellState& s) { return of_run(s, false, [](const RunNumbers& n) { return n.kl_nats; }); }},
    {"other.mean_kl", "The same of the other run.",
     [](const ShellState& s) { return of_run(s, true, [](const RunNumbers& n) { return n.kl_nats; }); }},
    {"acceptance", "Mean acceptance of the run: what share of the student's tokens the teacher would keep.",
     [](const ShellState& s) { return of_run(s, false, [](const RunNumbers& n) { return n.acceptance; }); }},
    {"added_percent", "Time of refreshes against everything else, percent.",
     [](const ShellState& s) {
         return of_run(s, false, [](const RunNumbers& n) { return n.added_percent; });
     }},
    // Not how many there are: where a new one takes the place of the oldest, that does not grow.
    {"runs", "Runs that the panel Runs has listed since the window was opened.",
     [](const ShellState& s) {
         RunKey newest = 0;
         for (const RunNode& run : s.runs.tree().runs())
             newest = std::max(newest, run.key);
         return number(static_cast<double>(newest));
     }},
    {"ticked", "Runs that are ticked for comparison.",
     [](const ShellState& s) { return number(static_cast<double>(s.runs.compared().size())); }},
    {"looked_at", "Name of the shown run.",
     [](const ShellState& s) -> Value {
         return s.runs.looked_at() ? Value(s.runs.name(*s.runs.looked_at())) : std::nullopt;
     }},
    {"other.key", "Number of the other run in the names of landmarks: \"runs/tick/{other.key}\".",
     [](const ShellState& s) -> Value {
         const auto other = s.runs.other();
         return other ? Value(fmt::to_string(*other)) : std::nullopt;
     }},
    {"policy", "Name of the refresh policy.",
     [](const ShellState& s) -> Value { return s.ctx.drafts.policy().name; }},
    {"coloured_by", "What colours the text.",
     [](const ShellState& s) -> Value { return s.ctx.views.text.coloured_by; }},
    {"layout", "The layout of the panels.", [](const ShellState& s) -> Value { return s.settings.layout; }},
    {"student_cache", "The cache policy of the student.",
     [](const ShellState& s) -> Value { return s.ctx.drafts.next_cache(CacheOwner::student).policy; }},
    {"landscape", "1: the run's landscape is there.",
     [](const ShellState& s) { return number(s.ctx.landscape ? 1 : 0); }},
    {"landscape.complete", "1: all of its rows are there.",
     [](const ShellState& s) { return number(s.ctx.landscape && s.ctx.landscape->complete() ? 1 : 0); }},
    {"landscape.count", "Refreshes of the best schedule that Landscape shows.",
     [](const ShellState& s) {
         return s.ctx.best_schedule ? number(static_cast<double>(s.ctx.best_schedule->steps.size()))
                                    : std::nullopt;
     }},
    {"landscape.none", "What the text loses without a refresh, as Landscape judges it: \"0.412 nats of KL\".",
     [](const ShellState& s) -> Value {
         const JudgedLandscape judged = ui::judged(s);
         return judged ? judged.told(value_without_refresh(*judged.landscape, judged.objective), 0)
                       : std::nullopt;
     }},
    {"landscape.policy", "The same with the refreshes of the policy.", told_policy},
    {"landscape.best", "The same with as many in the best places.",
     [](const ShellState& s) -> Value {
         const JudgedLandscape judged = ui::judged(s);
         if (!judged || !s.ctx.best_schedule) return std::nullopt;
         return judged.told(s.ctx.best_schedule->loss, s.ctx.best_schedule->steps.size());
     }},
    {"dialog", "Title of the open dialog; empty: none.",
     [](const ShellState& s) -> Value { return std::string(s.dialog_title()); }},
};

struct Family {
    std::string_view prefix, help;
    bool (*has)(std::string_view);
    Value (*value)(const ShellState&, std::string_view);
};

bool is_signal(std::string_view name) {
    return signal_id(name).has_value();
}

constexpr Family families[] = {
    {"parameter:", "Value of a parameter: \"parameter:entropy.threshold\".",
     [](std::string_view key) { return find_parameter(key) != nullptr; },
     [](const ShellState& s, std::string_view key) -> Value {
         if (const auto value = s.ctx.drafts.number(key)) return FactValue(*value);
         const auto text = s.ctx.drafts.value(key);
         return text ? Value(*text) : std::nullopt;
     }},
    {"plot:", "1: Signals plots the signal: \"plot:kl_nats\".", is_signal,
     [](const ShellState& s, std::string_view name) {
         return number(s.ctx.views.signals.of(name).shown ? 1 : 0);
     }},
    {"at:", "Value of a signal at the shown step: \"at:kl_nats\".", is_signal,
     [](const ShellState& s, std::string_view name) -> Value {
         const auto id = s.ctx.signal_id(name);
         if (!id || s.ctx.shown_step() < 1) return std::nullopt;
         return number(static_cast<double>(s.ctx.recording->signal(s.ctx.shown_step(), *id)));
     }},
    {"panel:", "1: the panel is open and in front of its tabs: \"panel:Landscape\".",
     [](std::string_view title) {
         return std::ranges::find(panel_kinds(), title, &PanelKind::title) != panel_kinds().end();
     },
     [](const ShellState& s, std::string_view title) {
         return number(std::ranges::find(s.drawn_panels, title) != s.drawn_panels.end() ? 1 : 0);
     }},
    {"fetched:", "1: a published model is on this machine: \"fetched:smollm2-135m\".",
     [](std::string_view name) { return find_published_model(name) != nullptr; },
     [](const ShellState& s, std::string_view name) {
         return number(is_fetched(*find_published_model(name), models_folder(s.ctx.host.assets())) ? 1 : 0);
     }},
    {"key:", "Key of an action, and behind a comma that of the first start: \"key:run.refresh_now, R\".",
     [](std::string_view words) { return words.find(", ") != std::string_view::npos; },
     [](const ShellState& s, std::string_view words) -> std::optional<FactValue> {
         const Action* const action = s.find_action(words.substr(0, words.find(", ")));
         return action == nullptr ? std::nullopt : std::optional<FactValue>(way_to(*action));
     }},
    {"done:", "How often an action was carried out: \"done:run.refresh_now\".",
     [](std::string_view) { return true; },
     [](const ShellState& s, std::string_view id) {
         const auto done = s.actions_done.find(id);
         return number(done == s.actions_done.end() ? 0 : static_cast<double>(done->second));
     }},
    {"said:", "How many lines of the log begin so: \"said:Figure written\".",
     [](std::string_view words) { return !words.empty(); },
     [](const ShellState& s, std::string_view words) {
         return number(static_cast<double>(std::ranges::count_if(
             s.ctx.toasts.lines(), [&](const auto& line) { return line.text.starts_with(words); })));
     }},
};

const Fact* find_fact(std::string_view name) {
    const auto found = std::ranges::find(facts, name, &Fact::name);
    return found == std::end(facts) ? nullptr : found;
}

const Family* find_family(std::string_view name) {
    const auto found =
        std::ranges::find_if(families, [&](const Family& family) { return name.starts_with(family.prefix); });
    return found == std::end(families) ? nullptr : found;
}

/// Calls plain(text) and braced(name) for the parts of a text. \return false: a brace is not closed
template <class Plain, class Braced>
bool split_text(std::string_view text, Plain plain, Braced braced) {
    while (!text.empty()) {
        const size_t open = std::min(text.find('{'), text.size());
        plain(text.substr(0, open));
        text.remove_prefix(open);
        if (text.empty()) break;
        const size_t close = text.find('}');
        if (close == std::string_view::npos) return false;
        braced(text.substr(1, close - 1));
        text.remove_prefix(close + 1);
    }
    return true;
}

} // namespace

std::string fact_text(const FactValue& value) {
    const double* const number = std::get_if<double>(&value);
    return number ? format_number(*number) : std::get<std::string>(value);
}

std::string fact_fault(std::string_view name) {
    if (find_fact(name) != nullptr) return {};
    if (const Family* family = find_family(name)) {
        const std::string_view rest = name.substr(family->prefix.size());
        if (family->has(rest)) return {};
        return fmt::format("\"{}\" names nothing that there is: {}", name, family->help);
    }
    std::vector<std::string_view> names;
    for (const Fact& known : facts)
        names.push_back(known.name);
    return fmt::format("there is no fact \"{}\"; {}", name, name_hint(name, names, "facts"));
}

std::vector<std::pair<std::string, std::string>> fact_names() {
    std::vector<std::pair<std::string, std::string>> names;
    for (const Fact& known : facts)
        names.emplace_back(known.name, known.help);
    for (const Family& family : families)
        names.emplace_back(std::string(family.prefix) + "...", family.help);
    return names;
}

std::optional<FactValue> fact(const ShellState& state, std::string_view name) {
    if (const Fact* known = find_fact(name)) return known->value(state);
    const Family& family = *find_family(name);
    return family.value(state, name.substr(family.prefix.size()));
}

std::string text_fault(std::string_view text) {
    std::string problem;
    const bool closed = split_text(
        text, [](std::string_view) {},
        [&](std::string_view name) {
            if (problem.empty()) problem = fact_fault(name);
        });
    return closed ? problem : "a { has no }";
}

std::string with_facts(const ShellState& state, std::string_view text) {
    std::string all;
    split_text(
        text, [&](std::string_view plain) { all += plain; },
        [&](std::string_view name) {
            const auto value = fact(state, name);
            all += value ? fact_text(*value) : "-";
        });
    return all;
}

} // namespace refreshlab::ui
