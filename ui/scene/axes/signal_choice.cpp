#include "ui/scene/axes/signal_choice.h"

#include "engine/base/error.h"
#include "engine/control/cache_choice.h"
#include "engine/policies/cache_gate.h"
#include "engine/signals/published.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>

namespace refreshlab::ui {

const PlotChoice& SignalPlots::of(std::string_view signal) const {
    static const PlotChoice defaults;
    const auto found = m_choices.find(signal);
    return found != m_choices.end() ? found->second : defaults;
}

PlotChoice& SignalPlots::choose(std::string_view signal) {
    return m_choices.try_emplace(std::string(signal)).first->second;
}

SignalPlots first_signal_plots() {
    SignalPlots plots;
    for (const auto name : {"entropy_bits", "kl_nats", "mc_variance"})
        plots.choose(name).shown = true;
    return plots;
}

std::vector<size_t> plotted_signals(const SignalPlots& plots, std::span<const Signal> table) {
    std::vector<size_t> ids;
    for (size_t id = 0; id < table.size(); ++id)
        if (plots.of(table[id].name).shown) ids.push_back(id);
    return ids;
}

std::vector<PlotPair> plot_pairs(const SignalPlots& plots, std::span<const Signal> table) {
    std::vector<PlotPair> pairs;
    std::vector<size_t> guests;
    const auto strip = [&](size_t id) { return table[id].layered && plots.of(table[id].name).layers.strip; };
    for (const size_t id : plotted_signals(plots, table)) {
        if (plots.of(table[id].name).beside.empty() || strip(id))
            pairs.push_back({id, {}});
        else
            guests.push_back(id);
    }
    for (const size_t id : guests) {
        const std::string& beside = plots.of(table[id].name).beside;
        const auto host = std::ranges::find_if(pairs, [&](const PlotPair& pair) {
            return table[pair.left].name == beside && !pair.right && !strip(pair.left);
        });
        if (host != pairs.end())
            host->right = id;
        else
            pairs.push_back({id, {}});
    }
    std::ranges::sort(pairs, {}, &PlotPair::left);
    return pairs;
}

void put_beside(SignalPlots& plots, std::string_view signal, std::string_view host) {
    PlotChoice& choice = plots.choose(signal);
    choice.shown = true;
    if (host.empty() || host == signal) {
        choice.beside.clear();
        return;
    }
    // Neither can be in two places: who was beside the host, and who was beside this one, have their own plots again.
    for (const auto& [name, other] : plots.all())
        if (other.beside == host || other.beside == signal) plots.choose(name).beside.clear();
    PlotChoice& place = plots.choose(host);
    place.shown = true;
    place.beside.clear();
    plots.choose(signal).beside = host;
}

std::vector<std::string> shown_signals(const SignalPlots& plots) {
    std::vector<std::string> names;
    for (const auto& [name, plot] : plots.all())
        if (plot.shown) names.push_back(name);
    return names;
}

void set_shown(SignalPlots& plots, std::span<const std::string> names) {
    for (const std::string& name : shown_signals(plots))
        plots.choose(name).shown = false;
    for (const std::string& name : names)
        if (is_signal_name(name)) plots.choose(name).shown = true;
}

namespace {

/// One signal of a list: "kl_nats", "attention_entropy_bits.max".
std::string_view parse_plot(SignalPlots& plots, std::string_view item, const std::string& option) {
    const size_t dot = std::min(item.find('.'), item.size());
    const std::string_view name = item.substr(0, dot);
    if (!is_signal_name(name))
        throw Error("reading", option, "'" + visible_text(item, 60) + "' is no name of a signal");
    PlotChoice& choice = plots.choose(name);
    choice.shown = true;
    if (dot == item.size()) return name;
    std::string pick(item.substr(dot + 1));
    if (pick.starts_with("layer")) pick.insert(5, 1, ' '); // "layer3" as in reasons and tables
    const auto known = parse_layer_pick(pick);
    const auto id = signal_id(name);
    if (!known || (id && !signals()[*id].layered))
        throw Error("reading", option,
                    id && !signals()[*id].layered
                        ? fmt::format("{} has no values of layers", name)
                        : fmt::format("'{}' is none of max, min, mean, layerN, strip",
                                      visible_text(item.substr(dot + 1), 60)));
    choice.layers = *known;
    return name;
}

} // namespace

SignalPlots parse_plots(std::string_view list, const std::string& option) {
    SignalPlots plots;
    while (!list.empty()) {
        const size_t comma = std::min(list.find(','), list.size());
        const std::string_view item = list.substr(0, comma);
        list.remove_prefix(std::min(comma + 1, list.size()));
        const size_t plus = std::min(item.find('+'), item.size());
        const std::string_view left = parse_plot(plots, item.substr(0, plus), option);
        if (plus == item.size()) continue;
        if (item.find('+', plus + 1) != std::string_view::npos)
            throw Error("reading", option, "'" + visible_text(item, 60) + "': a plot has two axes, not more");
        const std::string_view right = parse_plot(plots, item.substr(plus + 1), option);
        if (left == right)
            throw Error("reading", option, "'" + visible_text(item, 60) + "' names one signal twice");
        put_beside(plots, right, left);
    }
    if (plots.all().empty()) throw Error("reading", option, "names no signal");
    return plots;
}

std::vector<PlottedSignal> plotted_columns(const SignalPlots& plots, const Recording& recording) {
    std::vector<PlottedSignal> columns;
    for (const size_t id : plotted_signals(plots, recording.signals())) {
        const Signal& signal = recording.signals()[id];
        const LayerPick pick =
            signal.layered ? within(plots.of(signal.name).layers, recording.info().layers) : LayerPick();
        if (!pick.strip) {
            columns.push_back({id, pick.reduction, pick.layer});
            continue;
        }
        for (int32_t layer = 0; layer < static_cast<int32_t>(recording.info().layers); ++layer)
            columns.push_back({id, Reduction::layer, layer});
    }
    return columns;
}

std::map<std::string, std::string> changed_axes(const SignalPlots& plots) {
    std::map<std::string, std::string> axes;
    for (const auto& [name, plot] : plots.all())
        if (plot.scale != AxisScale::linear) axes.emplace(name, to_string(plot.scale));
    return axes;
}

void set_axes(SignalPlots& plots, const std::map<std::string, std::string>& axes) {
    for (const auto& [name, scale] : changed_axes(plots))
        plots.choose(name).scale = AxisScale::linear;
    for (const auto& [name, scale] : axes) {
        const auto known = parse_axis_scale(scale);
        if (!is_signal_name(name) || !known)
            continue; // a run may publish a signal that the registry does not know
        const auto id = signal_id(name);
        if (id && *known == AxisScale::log && !can_be_logarithmic(signals()[*id])) continue;
        plots.choose(name).scale = *known;
    }
}

std::map<std::string, std::string> changed_sides(const SignalPlots& plots) {
    std::map<std::string, std::string> sides;
    for (const auto& [name, plot] : plots.all())
        if (!plot.beside.empty()) sides.emplace(name, plot.beside);
    return sides;
}

void set_sides(SignalPlots& plots, const std::map<std::string, std::string>& sides) {
    for (const auto& [name, host] : changed_sides(plots))
        plots.choose(name).beside.clear();
    for (const auto& [name, host] : sides)
        if (is_signal_name(name) && is_signal_name(host) && name != host) plots.choose(name).beside = host;
}

std::map<std::string, std::string> changed_layers(const SignalPlots& plots) {
    std::map<std::string, std::string> layers;
    for (const auto& [name, plot] : plots.all())
        if (plot.layers != LayerPick()) layers.emplace(name, to_string(plot.layers));
    return layers;
}

void set_layers(SignalPlots& plots, const std::map<std::string, std::string>& layers) {
    for (const auto& [name, text] : changed_layers(plots))
        plots.choose(name).layers = {};
    for (const auto& [name, text] : layers) {
        const auto pick = parse_layer_pick(text);
        if (is_signal_name(name) && pick) plots.choose(name).layers = *pick;
    }
}

void show_gate_signals(SignalPlots& plots, const Recording& recording) {
    const CacheGate* gate = find_cache_gate(deciding_cache(recording.info().config).policy);
    if (gate == nullptr) return;
    for (const std::string_view signal : {gate->signal, gate->decided}) {
        if (plots.all().contains(signal)) continue;
        PlotChoice& choice = plots.choose(signal);
        choice.shown = true;
        choice.layers.strip = signal == gate->decided;
    }
}

} // namespace refreshlab::ui
