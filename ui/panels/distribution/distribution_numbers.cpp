// Numbers beside the plots of the Distribution panel.
#include "engine/base/quantile.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/colour_bar.h"
#include "ui/draw/widgets.h"
#include "ui/panels/distribution/distribution_panel.h"
#include "ui/scene/series/distribution.h"

#include <fmt/format.h>

#include <algorithm>

namespace refreshlab::ui {
namespace {

void number_row(const UiContext& ctx, const std::string& label, const std::string& value,
                const std::string& help = {}) {
    ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
    ImGui::TextUnformatted(label.c_str());
    ImGui::PopStyleColor();
    if (!help.empty()) ImGui::SetItemTooltip("%s", help.c_str());
    ImGui::SameLine();
    text_right_aligned(value, content_right());
}

std::string percent(int64_t part, int64_t of) {
    return of > 0 ? format_number(100.0 * static_cast<double>(part) / static_cast<double>(of)) + " %" : "-";
}

} // namespace

void DistributionPanel::draw_numbers(UiContext& ctx, const Lines& lines) const {
    const SignalStatistics& s = m_statistics;
    const auto row = [&](const std::string& label, const std::string& value, const std::string& help = {}) {
        number_row(ctx, label, value, help);
    };
    row("steps", s.steps() > 0 ? fmt::format("{} to {}", format_thousands(s.first), format_thousands(s.last))
                               : "none");
    row("measured", fmt::format("{}, {}", format_thousands(s.measured()), percent(s.measured(), s.steps())));
    if (s.not_finite > 0) row("no finite number", format_thousands(s.not_finite));
    for (const ThresholdLine& line : lines) {
        if (line.trigger == ThresholdLine::of_cache) continue; // it compares each layer by itself
        const int64_t beyond = count_beyond(s.sorted, line.comparison, line.value);
        row(fmt::format("{} {}", to_string(line.comparison), format_value(line.value, info().unit)),
            fmt::format("{}, {}", format_thousands(beyond),
                        percent(beyond, static_cast<int64_t>(s.sorted.size()))),
            "Measured values beyond this trigger's threshold, and their share. How often the trigger looks, "
            "cool-down and budget are not counted here");
        ctx.landmarks.set_text([&] { return fmt::to_string(beyond); }, "distribution/beyond/{}",
                               line.trigger);
    }
    if (s.mean) {
        row(s.sd ? "mean ± sd" : "mean",
            s.sd ? fmt::format("{} ± {}", format_number(*s.mean), format_number(*s.sd))
                 : format_number(*s.mean));
        const auto at = [&](double q) { return format_number(quantile_of_sorted(s.sorted, q)); };
        row("median", at(0.5));
        row("90, 95, 99 %", fmt::format("{}, {}, {}", at(0.9), at(0.95), at(0.99)),
            "Percentiles, by linear interpolation between order statistics");
        row("smallest, largest",
            fmt::format("{}, {}", format_number(s.sorted.front()), format_number(s.sorted.back())));
    }
    row("refreshes",
        s.refreshes > 0 ? fmt::format("{}, {} ms", format_thousands(s.refreshes), format_number(s.refresh_ms))
                        : "none",
        "Those that landed in these steps, and their teacher passes, splices and redraws together");
    if (s.step_ms)
        row("a step", fmt::format("{} ms", format_number(*s.step_ms)), "Mean, everything included");
}

void DistributionPanel::draw_pair_numbers(UiContext& ctx, const Lines& lines, const Lines& others) const {
    const auto pairs = static_cast<int64_t>(m_pairs.x.size());
    number_row(ctx, "both measured", format_thousands(pairs), "Steps at which both signals are numbers");
    number_row(ctx, "correlation", m_pairs.correlation ? format_number(*m_pairs.correlation) : "-",
               "Pearson's r of the two signals over these steps");
    ctx.landmarks.set_text("distribution/pairs", fmt::to_string(pairs));
    const auto first_on = [](const Lines& all) {
        return std::ranges::find_if(all, [](const ThresholdLine& line) { return line.enabled; });
    };
    const auto x = first_on(lines), y = first_on(others);
    if (x != lines.end() && y != others.end()) {
        const int64_t beyond = count_beyond(m_pairs, x->comparison, x->value, y->comparison, y->value);
        number_row(ctx, "beyond both thresholds",
                   fmt::format("{}, {}", format_thousands(beyond), percent(beyond, pairs)),
                   "How often the triggers look, cool-down and budget are not counted here");
        ctx.landmarks.set_text("distribution/beyond_both", fmt::to_string(beyond));
    }
    if (pairs == 0) return;
    draw_fitting_colour_bar("##counts", pair_scale(ctx.theme), ImGui::GetFontSize() * 7, "steps");
}

} // namespace refreshlab::ui
