#pragma once

#include "ui/draw/plot/threshold_drag.h"
#include "ui/panels/panel.h"
#include "ui/scene/axes/value_axis.h"
#include "ui/scene/maps/colour_maps.h"
#include "ui/scene/policy/thresholds.h"
#include "ui/scene/series/distribution.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

/// Histogram of one signal with the thresholds of its triggers in it, and its numbers: over the whole run, or over the
/// steps that the plots show. Against another signal it is one of two dimensions, with the thresholds of both.
class DistributionPanel final : public Panel {
public:
    [[nodiscard]] std::string_view title() const override { return "Distribution"; }
    void recording_changed(UiContext&) override { m_known = {}; }
    void draw(UiContext& ctx) override;

private:
    /// What the statistics were worked out for.
    struct Known {
        const Recording* recording = nullptr;
        size_t signal = 0, other = max_signals, back_fills = 0;
        int64_t steps = 0, first = 0, last = 0;
        friend bool operator==(const Known&, const Known&) = default;
    };
    using Lines = std::vector<ThresholdLine>;

    [[nodiscard]] const Signal& info() const { return m_table[m_signal]; }
    [[nodiscard]] const Signal& other() const { return m_table[*m_other]; } ///< only where there is one
    void find_signals(const UiContext& ctx);
    void draw_choice(UiContext& ctx);
    static void draw_range_choice(DistributionView& view, float width);
    void draw_other_choice(DistributionView& view);
    void update(UiContext& ctx);
    // distribution_plots.cpp
    [[nodiscard]] bool begin_plot(const char* id, ImVec2 size) const;
    static void end_plot();
    static void set_up_ticks(const ValueAxis& axis, float height, bool whole);
    [[nodiscard]] static bool finish_plot(UiContext& ctx, const char* empty, bool on_line);
    void draw_plot(UiContext& ctx, const Lines& lines, ImVec2 size);
    void draw_pairs(UiContext& ctx, const Lines& lines, const Lines& others, ImVec2 size);
    void fit(const UiContext& ctx, ValueAxis& axis, const Signal& signal, const Histogram& bins,
             const Lines& lines) const;
    void hover(const Histogram& bins) const;
    void hover_pairs() const;
    [[nodiscard]] ColourScale pair_scale(const Theme& theme) const;
    /// Where the bars stand: a logarithmic scale has no 0, and a count of 1 must have a height.
    [[nodiscard]] double bottom() const { return m_log ? 0.5 : 0; }
    // distribution_thresholds.cpp
    bool draw_lines(UiContext& ctx, const Signal& signal, const Lines& lines, ValueAxis& axis, bool along_x);
    // distribution_numbers.cpp
    void draw_numbers(UiContext& ctx, const Lines& lines) const;
    void draw_pair_numbers(UiContext& ctx, const Lines& lines, const Lines& others) const;

    std::span<const Signal> m_table;       ///< of the shown run; set anew in every frame
    size_t m_signal = 0;                   ///< in the table; set anew in every frame, as is m_other
    bool m_in_sight = false, m_log = true; ///< of this frame
    Known m_known;
    double m_when = 0;
    SignalStatistics m_statistics;
    ThresholdDrag m_drag;
    ValueAxis m_axis; ///< of the values, from left to right

    std::optional<size_t> m_other; ///< the signal of the second dimension
    SignalPairs m_pairs;
    PairHistogram m_cells;
    std::array<int, 2> m_cells_for{}; ///< columns and rows that m_cells was made for; 0: to be made
    ValueAxis m_other_axis;           ///< from below upward
};

} // namespace refreshlab::ui
