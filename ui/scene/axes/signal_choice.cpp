#include "ui/scene/axes/signal_choice.h"

namespace refreshlab::ui {

SignalPlots first_signal_plots() {
    SignalPlots plots;
    for (const auto name : {"entropy_bits", "kl_nats", "mc_variance"})
        if (const auto id = signal_id(name)) plots.shown[*id] = true;
    return plots;
}

std::vector<size_t> plotted_signals(const SignalPlots& plots) {
    std::vector<size_t> ids;
    for (size_t id = 0; id < signals().size(); ++id)
        if (plots.shown[id]) ids.push_back(id);
    return ids;
}

std::map<std::string, std::string> changed_axes(const SignalPlots& plots) {
    std::map<std::string, std::string> axes;
    for (size_t id = 0; id < signals().size(); ++id)
        if (plots.scale[id] != AxisScale::linear)
            axes.emplace(signals()[id].name, to_string(plots.scale[id]));
    return axes;
}

void set_axes(SignalPlots& plots, const std::map<std::string, std::string>& axes) {
    plots.scale.fill(AxisScale::linear);
    for (const auto& [name, scale] : axes) {
        const auto id = signal_id(name);
        const auto known = parse_axis_scale(scale);
        if (!id || !known || (*known == AxisScale::log && !can_be_logarithmic(name))) continue;
        plots.scale[*id] = *known;
    }
}

} // namespace refreshlab::ui
