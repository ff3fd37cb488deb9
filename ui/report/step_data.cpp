// What a report has for every step: tokens, signals, candidates.
#include "ui/base/format.h"
#include "ui/report/run_data.h"
#include "ui/scene/axes/signal_choice.h"
#include "ui/scene/policy/live_changes.h"
#include "ui/scene/text/text_layout.h"
#include "ui/scene/text/token_label.h"
#include "ui/scene/views/coloured_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdlib>

namespace refreshlab::ui {

using nlohmann::json;

namespace {

json number_of(float value) {
    if (is_absent(value)) return nullptr;
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    return short_double(value);
}

/// What the fragments of a token show.
json pieces_of(const TextLayout& layout, size_t token) {
    using Kind = TextLayout::Kind;
    std::string plain;
    json pairs = json::array();
    const auto settle = [&] {
        if (!plain.empty()) pairs.insert(pairs.end(), {"", plain});
        plain.clear();
    };
    const TextLayout::Range range = layout.token(token);
    for (size_t i = range.first; i < range.last; ++i) {
        const TextLayout::Fragment& f = layout.fragments()[i];
        plain.append(static_cast<size_t>(std::lround(f.gap)), ' ');
        if (f.kind != Kind::escape && f.kind != Kind::special) {
            plain += layout.text(f);
            continue;
        }
        settle();
        pairs.insert(pairs.end(),
                     {f.kind == Kind::special ? "special" : "escape", std::string(layout.text(f))});
    }
    if (pairs.empty()) return plain;
    settle();
    return pairs;
}

std::string_view about_name(SignalAbout about) {
    return about == SignalAbout::token        ? "token"
           : about == SignalAbout::next_token ? "next_token"
                                              : "session";
}

json threshold_data(const LiveChanges& changes, const Recording& recording, std::string_view signal) {
    json spans = json::array();
    for (const ThresholdSpan& span : threshold_stair(changes, recording.steps(), signal, {}))
        spans.push_back({span.first, span.last, span.value});
    return spans;
}

} // namespace

double short_double(float value) {
    return std::strtod(fmt::format("{}", value).c_str(), nullptr);
}

json text_data(const Recording& recording) {
    const std::vector<int32_t> ids = recording.token_ids();
    // One line, so that nothing is wrapped here; a gap is then the number of its spaces.
    constexpr float endless = 1e9F;
    TextLayout layout;
    layout.reset({.width = endless, .space = 1, .newline = "\n", .dot = " "},
                 [](std::string_view) { return 0.0F; });
    std::string producers;
    json pieces = json::array();
    for (size_t i = 0; i < ids.size(); ++i) {
        layout.append(recording.tokens().token_bytes(ids[i]), recording.tokens().is_special(ids[i]));
        const Producer producer =
            i == 0 ? recording.info().first_producer : recording.step(static_cast<int64_t>(i)).next_producer;
        producers += producer == Producer::teacher ? 't' : 's';
        pieces.push_back(pieces_of(layout, i));
    }
    return {{"ids", ids}, {"producers", producers}, {"pieces", std::move(pieces)}};
}

json signals_data(const std::shared_ptr<const Recording>& recording, PageColours& colours) {
    const int64_t steps = recording->steps();
    SignalPlots plots = first_signal_plots();
    show_gate_signals(plots, *recording);
    LiveChanges changes;
    changes.update(*recording);
    ColouredText text;
    json all = json::array();
    for (size_t id = 0; id < recording->signals().size(); ++id) {
        const Signal& signal = recording->signals()[id];
        json values = json::array();
        bool measured = false;
        for (int64_t t = 1; t <= steps; ++t) {
            const float value = recording->signal(t, id);
            measured = measured || !is_absent(value);
            values.push_back(number_of(value));
        }
        if (!measured) continue;
        TextView view;
        view.coloured_by = signal.name;
        text.update(recording, steps, view, {});
        const ValueRange usual = usual_range(signal, recording->info().vocab_size);
        json thresholds = threshold_data(changes, *recording, signal.name);
        const bool decides = !thresholds.empty();
        const Verdicts* verdicts = verdicts_of(signal.name);
        all.push_back({{"name", signal.name},
                       {"label", std::string(signal.label) + (signal.layered ? ", mean of the layers" : "")},
                       {"unit", shown_unit(signal.unit)},
                       {"help", signal.description},
                       {"about", about_name(signal.about)},
                       {"colour", colours.of([&](const Theme& theme) { return theme.signal(signal.name); })},
                       {"scale", json::array({text.range().min, text.range().max})},
                       {"usual", json::array({usual.min, usual.max})},
                       {"verdicts", verdicts ? json::array({verdicts->yes, verdicts->no, verdicts->neither})
                                             : json(nullptr)},
                       {"plotted", plots.of(signal.name).shown || decides},
                       {"thresholds", std::move(thresholds)},
                       {"values", std::move(values)}});
    }
    return all;
}

json candidates_data(const Recording& recording) {
    json rows = json::array(), labels = json::object();
    const auto label = [&](int32_t id) {
        const std::string key = fmt::format("{}", id);
        if (id >= 0 && !labels.contains(key)) labels[key] = token_label(recording.tokens(), id);
    };
    for (int64_t t = 1; t <= recording.steps(); ++t) {
        const StepRecord& record = recording.step(t);
        json row = json::array();
        for (size_t k = 0; k < record.top_k; ++k) {
            row.insert(row.end(), {json(record.top_ids[k]), number_of(record.top_probs[k])});
            label(record.top_ids[k]);
        }
        rows.push_back(std::move(row));
        label(record.token_id);
    }
    for (const int32_t id : recording.token_ids())
        label(id);
    return {{"rows", std::move(rows)}, {"labels", std::move(labels)}};
}

} // namespace refreshlab::ui
