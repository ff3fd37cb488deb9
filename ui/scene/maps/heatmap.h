#pragma once

#include "ui/scene/maps/colour_maps.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace refreshlab::ui {

/// Cells of a heatmap of attention weights: the bits of a non-negative IEEE half, which have the order of the numbers,
/// with infinity and NaN on top. So a maximum of weights is a maximum of integers. Two negative values mean "nothing
/// here" and are below every weight.
using HalfCell = int16_t;
inline constexpr HalfCell no_cell = INT16_MIN;         ///< outside: a key after its query
inline constexpr HalfCell absent_cell = INT16_MIN + 1; ///< exists, but was not recorded

/// Smallest f with ceil(cells / f) <= texels. Blocks begin at multiples of f, so a growing map does not move until its
/// factor changes.
[[nodiscard]] int64_t reduction_factor(int64_t cells, int64_t texels);
[[nodiscard]] constexpr int64_t reduced_size(int64_t cells, int64_t factor) {
    return (cells + factor - 1) / factor;
}

/// out[i] = max(out[i], weights[i * factor .. (i + 1) * factor)): attention is sparse, a mean would hide it. Negative
/// zero counts as zero.
/// \param out  at least reduced_size(weights.size(), factor)                                              (asserted)
void merge_max(std::span<const uint16_t> weights, int64_t factor, std::span<HalfCell> out);
[[nodiscard]] HalfCell largest(std::span<const uint16_t> weights); ///< no_cell when there are none
[[nodiscard]] double cell_value(HalfCell cell);                    ///< NaN for the two markers as well

/// The difference of two weights as a cell: twice the bits of the half nearest to its amount, and 1 more where it is below
/// zero; so a maximum of such cells is the difference of the largest amount. Amounts beyond 1 count as 1; NaN wins.
[[nodiscard]] HalfCell difference_cell(float difference);
[[nodiscard]] double difference_value(HalfCell cell); ///< NaN for the two markers as well
/// colour_cells() for cells of difference_cell().
void colour_differences(std::span<const HalfCell> cells, const ColourScale& scale, std::span<uint32_t> rgba);

/// RGBA of cells under a scale; no_cell and absent_cell become transparent: the background shows.
/// \param rgba  same size as cells                                                                        (asserted)
void colour_cells(std::span<const HalfCell> cells, const ColourScale& scale, std::span<uint32_t> rgba);

/// Float maps (drift): NaN with the payload of absent() is transparent, another NaN the colour of NaN.
/// Maximum over blocks of `factor` columns per row: NaN wins, absent loses.
[[nodiscard]] std::vector<float> reduce_columns_max(std::span<const float> values, int64_t rows,
                                                    int64_t columns, int64_t factor);
void colour_values(std::span<const float> values, const ColourScale& scale, std::span<uint32_t> rgba);

/// Round tick positions for an axis of whole numbers [first, last): 1, 2 or 5 times a power of ten apart, no more than
/// fit.
[[nodiscard]] std::vector<int64_t> whole_ticks(int64_t first, int64_t last, int64_t at_most);

} // namespace refreshlab::ui
