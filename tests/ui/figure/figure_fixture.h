#pragma once

// What the suites of figures share: a run that is made up, the file of a request, and what stands in it.
#include "engine/signals/registry.h"
#include "tests/support/made_run.h"
#include "tests/ui/figure/svg_points.h"
#include "tests/ui/maps/heatmap_recording.h"
#include "ui/figure/figure_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <regex>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::test {

inline const std::filesystem::path assets = RL_SOURCE_DIR "/assets";

inline const ui::FigureFonts& fonts() {
    static const ui::FigureFonts all(assets);
    return all;
}

/// Entropy at step t is value(t); a refresh by entropy at each of the given steps.
inline std::shared_ptr<Recording> run_of(int64_t steps, const std::function<float(int64_t)>& value,
                                         const std::vector<int64_t>& refreshes = {}) {
    RunInfo info = made_info(4);
    info.config.seed = 7;
    info.config.teacher_dir = "/models/large";
    info.config.student_dir = "/models/small";
    info.config.policy = preset_policy("entropy");
    info.config.prompt = "Why <is> the \"sky\" & blue?";
    info.layers = 2;
    info.heads = 3;
    info.vocab_size = 26;
    info.started_at = "2026-01-02T03:04:05Z";
    const auto recording = made_run(info);
    const size_t entropy = signal_id("entropy_bits").value();
    for (int64_t t = 1; t <= steps; ++t) {
        if (std::ranges::find(refreshes, t) != refreshes.end()) {
            RefreshEvent event;
            event.step = event.fired_step = t;
            event.hits = {
                {.trigger = 0, .signal = "entropy_bits", .value = 6.5, .threshold = 6, .letter = 'E'}};
            event.spliced = t;
            event.teacher_ms = 3;
            event.splice_ms = 1;
            recording->add_refresh(event);
        }
        StepRecord record = next_record(*recording, static_cast<int32_t>((t + 1) % 26));
        record.signals[entropy] = value(t);
        record.part_ms[0] = 2;
        recording->append(record);
    }
    return recording;
}

inline ui::FigureRequest request_of(std::shared_ptr<const Recording> run,
                                    const std::string& panel = "signals") {
    ui::FigureRequest request;
    request.panel = panel;
    request.runs.push_back({std::move(run), "the run"});
    request.views.signals = ui::parse_plots("entropy_bits", "--signals");
    return request;
}

inline ui::FigureStyle paper() {
    return ui::load_figure_style(assets, "paper");
}

inline std::string file_of(const ui::FigureRequest& request, ui::FigureFormat format,
                           const ui::FigureSize& size = {}) {
    return ui::render_figure(*ui::make_figure(request), paper(), size, format,
                             ui::figure_origin(request, "refreshlab figure"), fonts());
}

inline std::vector<std::string> all_matches(const std::string& text, const std::string& pattern) {
    const std::regex expression(pattern);
    std::vector<std::string> found;
    for (std::sregex_iterator it(text.begin(), text.end(), expression), end; it != end; ++it)
        found.push_back((*it)[1]);
    return found;
}

/// What stands in a group of an SVG file, groups in it included; empty where there is none.
inline std::string group_of(const std::string& svg, const std::string& id) {
    const size_t begin = svg.find("<g id=\"" + id + "\">");
    if (begin == std::string::npos) return {};
    int depth = 0;
    for (size_t at = begin; at < svg.size(); ++at) {
        if (svg.compare(at, 3, "<g ") == 0) ++depth;
        if (svg.compare(at, 4, "</g>") == 0 && --depth == 0) return svg.substr(begin, at - begin);
    }
    return svg.substr(begin);
}

/// "#rrggbb", as SVG files have it.
inline std::string hex_of(uint32_t colour) {
    return fmt::format("#{:02x}{:02x}{:02x}", colour & 0xFFU, colour >> 8U & 0xFFU, colour >> 16U & 0xFFU);
}

/// A filled rectangle of an SVG file.
struct SvgBox {
    double x = 0, y = 0, width = 0, height = 0;
    std::string fill;
};
inline std::vector<SvgBox> boxes_of(const std::string& svg) {
    const std::regex expression("<rect x=\"([-0-9.]+)\" y=\"([-0-9.]+)\" width=\"([0-9.]+)\" "
                                "height=\"([0-9.]+)\" fill=\"(#[0-9a-fA-F]+)\"");
    std::vector<SvgBox> found;
    for (std::sregex_iterator it(svg.begin(), svg.end(), expression), end; it != end; ++it) {
        std::string fill = (*it)[5];
        std::ranges::transform(fill, fill.begin(), [](unsigned char c) { return std::tolower(c); });
        found.push_back(
            {std::stod((*it)[1]), std::stod((*it)[2]), std::stod((*it)[3]), std::stod((*it)[4]), fill});
    }
    return found;
}

} // namespace refreshlab::test
