#include "ui/figure/signals/signals_model.h"

#include "engine/base/error.h"
#include "engine/text/utf8.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/figure/kinds/kinds.h"
#include "ui/scene/series/rejected_series.h"
#include "ui/scene/text/markers.h"
#include "ui/scene/text/rug.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace refreshlab::ui {

SignalsModel::Plot SignalsModel::plot_of(const SignalPlots& wanted, std::string_view name) const {
    Plot plot;
    const PlotChoice& choice = wanted.of(name);
    for (size_t run = 0; run < runs.size(); ++run) {
        const Recording& recording = *runs[run].recording;
        const auto id = recording.signal_id(name);
        if (!id) continue;
        plot.signal = recording.signals()[*id];
        Curve curve{.run = run, .series = {}, .band_low = {}, .band_high = {}};
        SeriesSet set;
        set.begin_frame(runs[run].recording, steps[run]);
        plot.pick = plot.signal.layered ? choice.layers : LayerPick{};
        plot.strip =
            plot.pick.strip && runs.size() == 1; // curves of several runs can be told apart, strips not
        plot.pick.strip = false;
        curve.series = set.series(*id, plot.pick);
        if (wanted.rejected && RejectedSeries::is_kept(name)) {
            RejectedSeries gone;
            gone.update(recording, name);
            if (gone.any()) curve.rejected = gone.series();
        }
        if (const auto* band = set.band(*id)) {
            curve.band_low = band->low;
            curve.band_high = band->high;
        }
        if (runs.size() == 1 && !plot.strip)
            plot.thresholds = threshold_stair(marks[run].changes(), steps[run], name, plot.pick);
        plot.curves.push_back(std::move(curve));
    }
    plot.scale = choice.scale;
    plot.title = with_unit(plot.signal.label, plot.signal.unit);
    return plot;
}

SignalsModel::SignalsModel(const FigureRequest& request, bool differences)
    : runs(request.runs) {
    if (differences && runs.size() < 2)
        throw Error("drawing a figure", "--panel compare", "needs two runs or more",
                    "give more traces, or --run");
    if (request.notes && runs.size() > 1)
        throw Error("drawing a figure", "--notes", "notes are shown of one run");
    int64_t longest = 0;
    for (size_t run = 0; run < runs.size(); ++run) {
        steps.push_back(runs[run].recording->steps());
        marks.emplace_back().update(runs[run].recording, steps[run]);
        if (steps[run] > steps[static_cast<size_t>(longest)]) longest = static_cast<int64_t>(run);
    }
    const Recording& first = *runs[static_cast<size_t>(longest)].recording;
    range = steps_of(request, first);
    vocab = first.info().vocab_size;
    SignalPlots wanted = request.views.signals;
    if (!request.right_axis.empty()) {
        if (!first.signal_id(request.right_axis))
            throw Error("drawing a figure", "--right",
                        fmt::format("the run has no signal \"{}\"", visible_text(request.right_axis, 60)));
        wanted.choose(request.right_axis).shown = true;
    }
    for (const std::string& name : shown_signals(wanted)) {
        Plot plot = plot_of(wanted, name);
        const bool measured =
            std::ranges::any_of(plot.curves, [](const Curve& curve) { return curve.series.any_measured(); });
        if (measured)
            plots.push_back(std::move(plot));
        else if (request.all_signals || name == request.right_axis)
            throw Error("drawing a figure", name == request.right_axis ? "--right" : "--signals",
                        fmt::format("{} was not measured in this run", name));
    }
    // As the window orders them: by the run's table of signals.
    std::ranges::sort(
        plots, {}, [&](const Plot& plot) { return first.signal_id(plot.signal.name).value_or(max_signals); });
    if (plots.empty()) throw Error("drawing a figure", "--signals", "the run has none of these signals");
    if (!request.right_axis.empty()) {
        const auto host = std::ranges::find_if(
            plots, [&](const Plot& plot) { return plot.signal.name != request.right_axis && !plot.strip; });
        if (host == plots.end())
            throw Error("drawing a figure", "--right", "there is no plot of another signal to stand beside",
                        "name one with --signals");
        put_beside(wanted, request.right_axis, host->signal.name);
    }
    if (differences)
        add_differences();
    else
        pair_axes(wanted);
    if (drawn == 0) drawn = plots.size();
    if (runs.size() == 1 && request.notes) notes = NoteList(marks.front(), range);
    if (runs.size() == 1) rug = marks_of(0, MarkLane::refresh, {0, 0, 1, 1}).index.size() >= many_refreshes;
}

/// Signals with an axis on the right go to the end, and their hosts know them.
void SignalsModel::pair_axes(const SignalPlots& wanted) {
    std::vector<Signal> table;
    for (const Plot& plot : plots)
        table.push_back(plot.signal);
    std::vector<Plot> left, right;
    for (const PlotPair& pair : plot_pairs(wanted, table)) {
        Plot& host = left.emplace_back(std::move(plots[pair.left]));
        if (!pair.right) continue;
        host.right = right.size(); // counted from the first of the right ones so far
        right.push_back(std::move(plots[*pair.right]));
    }
    drawn = left.size();
    for (Plot& plot : left)
        if (plot.right) *plot.right += drawn;
    plots = std::move(left);
    std::ranges::move(right, std::back_inserter(plots));
}

/// After each plot one of the other runs minus the first, where both have a value.
void SignalsModel::add_differences() {
    std::vector<Plot> with_differences;
    for (Plot& plot : plots) {
        Plot difference{.signal = plot.signal,
                        .title = plot.title + ", difference to the first",
                        .pick = plot.pick,
                        .scale = AxisScale::linear,
                        .difference = true,
                        .curves = {},
                        .thresholds = {},
                        .right = {}};
        for (const Curve& curve : plot.curves) {
            const Curve& base = plot.curves.front();
            if (&curve == &base) continue;
            Curve minus{.run = curve.run, .series = {}, .band_low = {}, .band_high = {}};
            for (int64_t t = 1; t <= std::min(curve.series.size(), base.series.size()); ++t) {
                const float a = curve.series.at(t), b = base.series.at(t);
                minus.series.append(is_absent(a) || is_absent(b) ? absent() : a - b);
            }
            difference.curves.push_back(std::move(minus));
        }
        with_differences.push_back(std::move(plot));
        if (!difference.curves.empty()) with_differences.push_back(std::move(difference));
    }
    plots = std::move(with_differences);
}

ValueAxis SignalsModel::axis_of(const Plot& plot, double height) const {
    SeriesSummary seen;
    for (const Curve& curve : plot.curves) {
        seen.add(curve.series.summary(range.first, range.last));
        for (const auto& band : {&curve.band_low, &curve.band_high})
            if (*band) seen.add((*band)->summary(range.first, range.last));
        if (curve.rejected) seen.widen(curve.rejected->summary(range.first, range.last));
    }
    std::vector<double> thresholds;
    for (const ThresholdSpan& span : plot.thresholds)
        thresholds.push_back(span.value);
    ValueAxis axis;
    ValueRange usual = usual_range(plot.signal, vocab);
    if (plot.difference) usual = {-0.01, 0.01};
    fit_axis(axis, plot.scale, seen, thresholds, usual);
    if (!plot.difference) clear_floor(axis, usual, 1.5 / std::max(height, 10.0));
    return axis;
}

LaneMarks SignalsModel::marks_of(size_t run, MarkLane lane, const FigureRect& plot) const {
    const StepScale steps_here = steps_over(plot);
    LaneMarks seen =
        marks[run].in_sight(lane, steps_here.x_min, steps_here.x_max, steps_here.left, steps_here.width);
    // A change at the right edge is felt by a step that is not shown.
    while (!seen.index.empty() && marks[run].step(lane, seen.index.back()) > range.last) {
        seen.index.pop_back();
        seen.x_px.pop_back();
    }
    return seen;
}

bool SignalsModel::has(MarkLane lane) const {
    return runs.size() == 1 && !marks_of(0, lane, {0, 0, 1, 1}).index.empty();
}

std::string SignalsModel::changes_at(int64_t step) const {
    std::string all;
    const StepMarks& of = marks.front();
    for (size_t i = of.first_from(MarkLane::change, step); i < of.count(MarkLane::change); ++i) {
        if (of.change(i).step != step) break;
        all += (all.empty() ? "" : "; ") + of.change(i).words;
    }
    return all;
}

DataTable SignalsModel::table() const {
    DataTable table;
    table.columns.emplace_back("step");
    std::vector<const SignalSeries*> columns;
    for (const Plot& plot : plots) {
        for (const Curve& curve : plot.curves) {
            std::string name(plot.signal.name);
            if (plot.difference) name += "_minus_first";
            if (runs.size() > 1) name = runs[curve.run].name + ": " + name;
            table.columns.push_back(name);
            columns.push_back(&curve.series);
            if (!curve.rejected) continue;
            table.columns.push_back(name + "_rejected");
            columns.push_back(&*curve.rejected);
        }
    }
    const bool one = runs.size() == 1;
    const Recording& first = *runs.front().recording;
    if (one)
        table.columns.insert(table.columns.end(),
                             {"refreshed", "reason", "held_back", "draft_cut", "changes"});
    if (!notes.empty()) table.columns.emplace_back("notes");
    std::vector<size_t> strips; // ids
    for (const Plot& plot : plots)
        if (plot.strip) strips.push_back(*first.signal_id(plot.signal.name));
    for (const size_t id : strips)
        for (int64_t layer = 0; layer < first.info().layers; ++layer)
            table.columns.push_back(fmt::format("{}_layer{}", first.signals()[id].name, layer));
    for (int64_t t = range.first; t <= range.last; ++t) {
        std::vector<std::string> row{fmt::format("{}", t)};
        for (const SignalSeries* series : columns)
            row.push_back(t <= series->size() ? cell_text(series->at(t)) : std::string());
        if (one) {
            const RefreshEvent* event = first.refresh_at(t);
            row.emplace_back(event ? "1" : "0");
            row.emplace_back(event ? std::string(1, reason_letter(event->hits)) : std::string());
            const auto blocked = marks.front().at(MarkLane::blocked, t);
            row.emplace_back(blocked ? limit_words(marks.front().blocked(*blocked)) : std::string_view());
            const auto cut = marks.front().at(MarkLane::cut, t);
            row.push_back(cut ? cut_words(first.tokens(), marks.front().cut(*cut)) : std::string());
            row.push_back(changes_at(t));
        }
        if (!notes.empty()) row.push_back(notes.at(t));
        for (const size_t id : strips) {
            const auto values = first.layer_values(t, id);
            for (size_t layer = 0; layer < static_cast<size_t>(first.info().layers); ++layer)
                row.push_back(layer < values.size() ? cell_text(values[layer]) : std::string());
        }
        table.rows.push_back(std::move(row));
    }
    return table;
}

} // namespace refreshlab::ui
