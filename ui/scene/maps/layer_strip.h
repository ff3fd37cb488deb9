#pragma once

#include "engine/record/recording/recording.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace refreshlab::ui {

/// A layered signal as an image of layers by columns of steps: what a plot of steps in sight draws as a heat strip. A column
/// is a block of column_steps() steps, aligned as in decimate(), and holds each layer's largest value, because a mean would
/// hide a spike. Columns that stay in sight are kept; a new step costs its own column.
/// Threads  one (the UI thread).
class LayerStrip {
public:
    /// \param steps         of the frame's snapshot, <= recording->steps()
    /// \param x_min, x_max  steps in sight
    /// \param width_px      of the plot, > 0
    void update(const std::shared_ptr<const Recording>& recording, size_t signal, int64_t steps, double x_min,
                double x_max, double width_px);
    void clear();

    [[nodiscard]] int64_t layers() const { return m_layers; }
    [[nodiscard]] int64_t columns() const { return m_end - m_first; } ///< 0: nothing in sight
    [[nodiscard]] int64_t steps_per_column() const { return m_width; }
    /// First step of the first column.
    [[nodiscard]] int64_t first_step() const { return m_first * m_width + 1; }
    /// absent() where no step of the column measured the layer; NaN where one of them is NaN.
    [[nodiscard]] float at(int64_t layer, int64_t column) const {
        return m_values[static_cast<size_t>(column * m_layers + layer)];
    }
    /// Of the finite values here.
    [[nodiscard]] float lowest() const { return m_lowest; }
    [[nodiscard]] float highest() const { return m_highest; }
    [[nodiscard]] bool any() const { return m_any; } ///< there is a finite value
    /// Rises when a value has changed.
    [[nodiscard]] uint64_t revision() const { return m_revision; }

private:
    void fill_column(int64_t column, std::span<float> out) const;
    void find_range();

    std::shared_ptr<const Recording> m_recording;
    size_t m_signal = 0;
    int64_t m_steps = 0, m_layers = 0, m_width = 1;
    int64_t m_first = 0, m_end = 0; ///< columns here, by number from step 1 on
    std::vector<float> m_values;    ///< [columns, layers]
    float m_lowest = 0, m_highest = 0;
    bool m_any = false;
    uint64_t m_revision = 0;
};

} // namespace refreshlab::ui
