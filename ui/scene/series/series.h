#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace refreshlab::ui {

/// What is known of the values at steps first .. last (inclusive); non-finite ones are noted separately.
struct SeriesSummary {
    int32_t finite = 0;                                    ///< number of finite values
    int32_t first_t = 0, min_t = 0, max_t = 0, last_t = 0; ///< their steps; valid while finite > 0
    float first = 0, min = 0, max = 0, last = 0;
    float min_positive = 0; ///< smallest finite value above 0, for logarithmic axes; 0 = there is none
    bool has_nan = false, has_pos_inf = false, has_neg_inf = false; ///< measured, but not finite
    bool has_absent = false;                                        ///< some step was not measured

    [[nodiscard]] bool broken() const { return has_nan || has_pos_inf || has_neg_inf; }
    void add(int32_t t, float value);       ///< steps must come in ascending order
    void add(const SeriesSummary& later);   ///< of the steps that follow
    void widen(const SeriesSummary& other); ///< by the finite values of another series on the same axis
    friend bool operator==(const SeriesSummary&, const SeriesSummary&) = default;
};

/// Values of one signal at steps 1 .. size(), with summaries of aligned blocks of 4, 16, 64, ... steps, so that a plot of
/// any zoom costs O(pixels) and never O(steps). "Not measured" is absent() of the registry; NaN and infinity are values.
///
/// Threads  one (the UI thread).
/// Memory   4 bytes a step for the values and about 15 for the summaries.
class SignalSeries {
public:
    void append(float value); ///< of step size() + 1. Cost: one update per level
    /// A back-fill, 1 <= t <= size() (asserted). Cost: four blocks per level.
    void set(int64_t t, float value);
    void clear();

    [[nodiscard]] int64_t size() const { return static_cast<int64_t>(m_values.size()); }
    /// Raw, as recorded; 1 <= t <= size().
    [[nodiscard]] float at(int64_t t) const { return m_values[static_cast<size_t>(t - 1)]; }
    /// Steps outside 1 .. size() are left out. Cost O(log steps).
    [[nodiscard]] SeriesSummary summary(int64_t first, int64_t last) const;
    /// Nearest step <= t (>= t) with a finite value. Cost O(log steps).
    [[nodiscard]] std::optional<int64_t> finite_at_or_before(int64_t t) const;
    [[nodiscard]] std::optional<int64_t> finite_at_or_after(int64_t t) const;
    [[nodiscard]] bool any_measured() const; ///< some value is not absent

private:
    [[nodiscard]] size_t num_levels() const { return m_levels.size(); }
    [[nodiscard]] SeriesSummary block(size_t level, int64_t index) const; ///< level 0 = single steps

    std::vector<float> m_values;
    /// [level - 1][block]: blocks of 4^level steps; the last may be partial.
    std::vector<std::vector<SeriesSummary>> m_levels;
};

/// A series as it is drawn at one zoom. Runs of consecutive measured steps are joined by a line; across steps that were
/// not measured goes a thin stair; NaN and infinity break both.
struct PlotPath {
    std::vector<double> x, y;                        ///< polyline; y = NaN lifts the pen
    std::vector<double> stair_x, stair_y;            ///< corners of the stairs, NaN between two of them
    std::vector<double> marker_x, marker_y;          ///< measured steps without a measured neighbour
    std::vector<double> nan_x, pos_inf_x, neg_inf_x; ///< for the rug and the triangles at the edge
    std::vector<double> below_x; ///< of values that the axis cannot place (clip_to_axis of value_axis.h)
    int64_t column_steps = 1;    ///< steps per column; 1 = raw points
    void clear();
};

/// Steps per column for a plot that shows `steps_per_pixel`: 1 (raw) up to two points per pixel, else the largest of
/// 4^j, 2*4^j, 3*4^j that is not wider than a pixel. Columns begin at multiples of it, so a plot that follows the
/// newest step does not shimmer.
[[nodiscard]] int64_t column_steps(double steps_per_pixel);

/// M4 decimation: first, min, max and last finite value of each column (Jugel et al., VLDB 2014).
/// \param x_min, x_max  visible steps; the neighbours just outside are included, so that lines run out of the plot
/// \param width_px      of the plot, > 0
/// Cost O(width + log steps).
void decimate(const SignalSeries& series, double x_min, double x_max, double width_px, PlotPath& out);

/// Lower and upper envelope for a band or a filled area: per column its extreme, x at the column's middle; one entry per
/// step when raw. Columns without a finite value give NaN. Both outputs are cleared first.
void envelope(const SignalSeries& lower, const SignalSeries& upper, double x_min, double x_max,
              double width_px, std::vector<double>& x, std::vector<double>& low, std::vector<double>& high);

} // namespace refreshlab::ui
