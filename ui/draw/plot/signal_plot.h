#pragma once

#include "ui/context/context.h"
#include "ui/draw/plot/run_overlays.h"
#include "ui/draw/plot/threshold_drag.h"
#include "ui/scene/axes/auto_range.h"
#include "ui/scene/axes/value_axis.h"
#include "ui/scene/maps/colour_maps.h"
#include "ui/scene/maps/layer_strip.h"
#include "ui/scene/policy/empty_hint.h"
#include "ui/scene/policy/live_changes.h"
#include "ui/scene/policy/thresholds.h"
#include "ui/scene/policy/what_if_preview.h"
#include "ui/scene/runs/run_difference.h"
#include "ui/scene/series/rejected_series.h"
#include "ui/scene/series/series_set.h"
#include "ui/scene/text/markers.h"
#include "ui/scene/text/tip_place.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// What the stacked plots of one frame share.
struct PlotStack {
    SeriesSet& series;
    WhatIfPreview& preview;
    ThresholdDrag& drag;
    bool fit = false;             ///< y ranges go back to automatic
    float left = 0, width = 0;    ///< of the plot areas, pixels; set by the plots
    float bottom = 0;             ///< of the lowest plot so far
    double last_label = 0;        ///< of the x axis, a step: after it stands the axis' name
    float gutter = 0;             ///< least width of the y labels: every threshold's tag fits beside them
    float right_gutter = 0;       ///< the same of axes on the right; 0 while no plot has one
    bool pressed_on_line = false; ///< this press belongs to a threshold line
    std::optional<MarkerGroup> hovered_marks = {}; ///< refresh line under the mouse
    RunOverlays* overlays = nullptr;               ///< ticked runs; null: a stack that shows none
    TipBox tips = {}; ///< all plots together, as in the last frame: tooltips keep off its middle
};

/// One plot of the Signals panel: header line with the value at the shown step, the curve, its band, its threshold
/// lines. Drawn with ImPlot; its decisions are in files without ImGui (ui/scene).
///
/// Another signal may have its axis on the right: it is a SignalPlot as well, which draws nothing by itself while it is the guest of one.
class SignalPlot {
public:
    /// Before anything else in every frame that shows this plot.
    /// \param signal  id in the table of the shown run
    void begin_frame(UiContext& ctx, size_t signal);
    /// After begin_frame() of both: for this frame `guest` has its axis on the right of this plot.
    void set_guest(SignalPlot& guest);
    [[nodiscard]] SignalPlot* guest() const { return m_guest; }  ///< null: there is none
    [[nodiscard]] const Signal& info() const { return *m_info; } ///< until the end of the frame
    /// Lines of the number that is plotted: a trigger on another number of the layers has its line on another plot.
    [[nodiscard]] std::vector<ThresholdLine> threshold_lines_here(const UiContext& ctx) const;
    /// Something to show: a value, or at least a threshold.
    [[nodiscard]] bool has_data(SeriesSet& series) const {
        return series.series(m_signal, m_pick).any_measured() || (m_guest && m_guest->has_data(series));
    }
    /// This line is being moved, or was moved after the engine's run had ended: then what it would have done stands there, and the
    /// way to run again with it.
    [[nodiscard]] bool asks_what_if(const UiContext& ctx, const ThresholdLine& line) const;
    [[nodiscard]] static float header_height();
    /// \param height  of header and plot together
    void draw(UiContext& ctx, PlotStack& stack, float height, bool x_labels);
    /// For a signal without a value, where room is short: one line with the header and what would fill the plot.
    void draw_folded(UiContext& ctx, PlotStack& stack);
    [[nodiscard]] bool wants_hiding() const { return m_hide; }
    void forget_run(); ///< another recording: ranges start anew

private:
    struct Frame; ///< of one plot in one frame
    using Lines = std::vector<ThresholdLine>;

    void fit_values(const UiContext& ctx, PlotStack& stack, const Lines& lines, float height);
    struct ValueLabels; ///< what the labels of a y axis must know
    static int label(double value, char* buffer, int size, void* labels);
    void set_up_axes(UiContext& ctx, PlotStack& stack, Frame& f, float height);
    void set_up_values(UiContext& ctx, ValueLabels& labels, float& gutter, float height, bool moves);
    void advance_axis(const UiContext& ctx, PlotStack& stack, const Lines& lines, float height);
    void draw_contents(UiContext& ctx, PlotStack& stack, const Lines& lines, const Lines& right_lines);
    [[nodiscard]] bool over_labels(ImVec2 mouse) const;
    void move_view(UiContext& ctx, const Frame& f);
    // signal_plot_header.cpp
    void draw_header(UiContext& ctx, PlotStack& stack, const Lines& lines);
    float draw_reading(UiContext& ctx, PlotStack& stack, ImVec2 at, float right);
    void draw_what_if(UiContext& ctx, PlotStack& stack, const ThresholdLine& moved, ImVec2 at, float x,
                      float right);
    [[nodiscard]] float draw_run_again(UiContext& ctx, const ThresholdLine& moved, ImVec2 at, float right);
    void draw_notes(UiContext& ctx, const Lines& lines, ImVec2 at, float x, float right);
    [[nodiscard]] EmptyHint hint(const UiContext& ctx) const;
    void draw_empty_hint(UiContext& ctx);
    // signal_plot_curve.cpp
    void draw_curve(UiContext& ctx, PlotStack& stack, double width_px);
    [[nodiscard]] bool shows_rejected(const UiContext& ctx) const;
    void draw_rejected(UiContext& ctx, const PlotStack& stack, double width_px);
    void draw_band(UiContext& ctx, const SeriesSet::Band& band, double width_px);
    void draw_path(Colour colour, float weight);
    void draw_placeless(UiContext& ctx, Colour colour);
    // signal_plot_overlays.cpp
    [[nodiscard]] Colour curve_colour(const UiContext& ctx, const PlotStack& stack) const;
    [[nodiscard]] SeriesSummary seen_of_all(const UiContext& ctx, PlotStack& stack) const;
    void draw_overlays(UiContext& ctx, PlotStack& stack, double width_px);
    [[nodiscard]] size_t num_strips(PlotStack& stack, float height) const;
    void draw_strips(UiContext& ctx, PlotStack& stack, ImVec2 at, size_t strips);
    [[nodiscard]] static float strip_height();
    void strip_tooltip_of(UiContext& ctx, const DifferenceSeries& difference, const RunOverlay& run,
                          double per_px, float left);
    // signal_plot_layers.cpp
    void draw_strip(UiContext& ctx, double width_px);
    void draw_strip_range(UiContext& ctx, ImVec2 at, float x, float right);
    void draw_refresh_lines(UiContext& ctx, PlotStack& stack);
    void draw_step_lines(UiContext& ctx);
    void draw_ring(UiContext& ctx, const PlotStack& stack);
    // signal_plot_threshold.cpp
    void draw_thresholds(UiContext& ctx, PlotStack& stack, const Lines& lines);
    void draw_present(const UiContext& ctx, float y, Colour colour, float thickness);
    [[nodiscard]] bool draw_stair(UiContext& ctx, const ThresholdLine& line, Colour colour);
    void drag_threshold(UiContext& ctx, PlotStack& stack, const ThresholdLine& line, double y, bool held);
    [[nodiscard]] float tag_y(const ThresholdLine& line) const;
    void hold_tags(UiContext& ctx, const PlotStack& stack, const Lines& lines);
    void draw_tags(UiContext& ctx, const Lines& lines);
    [[nodiscard]] float tag_left(float width) const;
    void draw_prediction(UiContext& ctx, PlotStack& stack, const ThresholdLine& line);
    // signal_plot_mouse.cpp
    void handle_mouse(UiContext& ctx, PlotStack& stack);
    bool zoom_by_box(UiContext& ctx, bool hovered); ///< true: it was a click of the right button, not a drag
    void draw_zoom_box(UiContext& ctx);
    void draw_menu(UiContext& ctx, const PlotStack& stack, const Lines& lines);
    void draw_threshold_menu(UiContext& ctx, const Lines& lines);
    void draw_axis_menu(UiContext& ctx);
    void draw_copy_item(UiContext& ctx, const PlotStack& stack);
    void draw_right_menu(UiContext& ctx, const PlotStack& stack);
    void strip_tooltip(const UiContext& ctx, const PlotStack& stack, int64_t step,
                       double layer) const; // signal_plot_layers.cpp

    size_t m_signal = 0;            ///< of this frame's run
    const Signal* m_info = nullptr; ///< the same
    LayerPick m_pick;               ///< of this frame; the default unless the signal is layered
    LayerStrip m_strip;
    ColourScale m_strip_scale;
    std::vector<uint32_t> m_strip_pixels;
    uint64_t m_strip_drawn = 0;    ///< revision of the pixels
    uint64_t m_strip_colours = 0;  ///< of the strip, that they were made of
    SignalPlot* m_guest = nullptr; ///< of this frame
    bool m_on_right = false;       ///< this is the guest of another plot
    bool m_locked = false, m_hide = false;
    bool m_auto_y = true;
    ValueAxis m_axis;
    ThresholdStair m_stair;
    bool m_held = false;    ///< a line of this plot is under the button
    bool m_on_line = false; ///< the mouse is on a line of this plot, which hides it from the plot
    static constexpr size_t none = static_cast<size_t>(-1);
    size_t m_tag_held = none, m_tag_hovered = none; ///< lines whose tag is under the button, under the mouse
    float m_tag_grip = 0;                           ///< pixels from the tag's middle to where it was taken
    double m_grow_up = 0,
           m_grow_down = 0;  ///< shares of the height by which a drag beyond the edge widens the range
    int64_t m_menu_step = 0; ///< under the mouse when the menu was opened
    std::optional<double> m_box_from;    ///< step where a drag with the right button began
    std::optional<ValueRange> m_zoom_to; ///< steps that it ended with: shown after this frame's plot
    float m_wheel = 0;                   ///< turned while the mouse was on a threshold line
    bool m_pressed = false;              ///< the button went down on this plot, beside its lines
    TimeView m_view_at_press;
    std::optional<int64_t> m_selection_before_click;
    Landmarks::Box m_box;      ///< plot area of the last frame
    float m_header_button = 0; ///< width kept free at the right end of the header
    PlotPath m_path;
    std::map<RunKey, DifferenceSeries> m_differences; ///< of ticked runs, against the one that is looked at
    std::vector<double> m_band_x, m_band_low, m_band_high;
    RejectedSeries m_rejected; ///< of the run that is looked at, where they are shown
};

/// Width of a threshold's tag left of the plot, pixels at the present font.
[[nodiscard]] float threshold_tag_width(double value);

} // namespace refreshlab::ui
