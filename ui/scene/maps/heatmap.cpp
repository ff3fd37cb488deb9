#include "ui/scene/maps/heatmap.h"

#include "engine/record/recording/step_record.h"
#include "engine/signals/registry.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>

namespace refreshlab::ui {
namespace {

constexpr size_t half_patterns = 0x8000;       // non-negative halves
constexpr HalfCell nan_difference = INT16_MAX; // above twice the bits of 1

struct HalfTables {
    std::array<float, half_patterns> value{}, log10{};
    HalfTables() {
        for (size_t bits = 0; bits < half_patterns; ++bits) {
            value[bits] = half_to_float(static_cast<uint16_t>(bits));
            log10[bits] = std::log10(value[bits]);
        }
    }
};

const HalfTables& half_tables() {
    static const auto tables = std::make_unique<HalfTables>(); // 256 KiB, once
    return *tables;
}

HalfCell to_cell(uint16_t half) {
    return half == 0x8000U ? HalfCell{0} : static_cast<HalfCell>(half);
}

} // namespace

int64_t reduction_factor(int64_t cells, int64_t texels) {
    texels = std::max<int64_t>(texels, 1);
    return std::max<int64_t>(1, reduced_size(cells, texels));
}

void merge_max(std::span<const uint16_t> weights, int64_t factor, std::span<HalfCell> out) {
    const auto n = static_cast<int64_t>(weights.size());
    if (factor < 1 || static_cast<int64_t>(out.size()) < reduced_size(n, factor))
        throw std::invalid_argument("merge_max: no room for the reduced row");
    for (int64_t block = 0; block * factor < n; ++block) {
        const auto first = static_cast<size_t>(block * factor);
        const auto keys = static_cast<size_t>(std::min(n - block * factor, factor));
        HalfCell& top = out[static_cast<size_t>(block)];
        top = std::max(top, largest(weights.subspan(first, keys)));
    }
}

HalfCell largest(std::span<const uint16_t> weights) {
    // A growing run reads some million weights for each new step: 16 running maxima at a time, which the compiler keeps in
    // registers.
    constexpr size_t lanes = 16;
    std::array<HalfCell, lanes> tops;
    tops.fill(no_cell);
    size_t i = 0;
    for (; i + lanes <= weights.size(); i += lanes)
        for (size_t lane = 0; lane < lanes; ++lane)
            tops[lane] = std::max(tops[lane], to_cell(weights[i + lane]));
    HalfCell top = *std::ranges::max_element(tops);
    for (; i < weights.size(); ++i)
        top = std::max(top, to_cell(weights[i]));
    return top;
}

double cell_value(HalfCell cell) {
    if (cell < 0) return std::numeric_limits<double>::quiet_NaN();
    return static_cast<double>(half_tables().value[static_cast<size_t>(cell)]);
}

void colour_cells(std::span<const HalfCell> cells, const ColourScale& scale, std::span<uint32_t> rgba) {
    if (cells.size() != rgba.size()) throw std::invalid_argument("colour_cells: sizes differ");
    const HalfTables& tables = half_tables();
    const bool log = scale.log && scale.min > 0 && scale.max > scale.min;
    const auto& table = log ? tables.log10 : tables.value;
    const auto low = static_cast<float>(log ? std::log10(scale.min) : scale.min);
    const auto high = static_cast<float>(log ? std::log10(scale.max) : scale.max);
    const auto last = static_cast<float>(scale.map.size() - 1);
    const float stretch = high > low ? last / (high - low) : 0.0F;
    for (size_t i = 0; i < cells.size(); ++i) {
        if (cells[i] < 0) {
            rgba[i] = 0;
            continue;
        }
        const float value = table[static_cast<size_t>(cells[i])];
        if (std::isnan(value)) {
            rgba[i] = nan_colour;
            continue;
        }
        // log10(0) is minus infinity; with an empty range its product with 0 is NaN, which max() turns into 0.
        const float place = std::min(last, std::max(0.0F, (value - low) * stretch));
        rgba[i] = scale.map[static_cast<size_t>(place + 0.5F)];
    }
}

HalfCell difference_cell(float difference) {
    if (std::isnan(difference)) return nan_difference;
    const auto amount = static_cast<HalfCell>(float_to_half(std::min(std::abs(difference), 1.0F)));
    return static_cast<HalfCell>(2 * amount + (difference < 0 && amount > 0 ? 1 : 0));
}

double difference_value(HalfCell cell) {
    if (cell < 0 || cell == nan_difference) return std::numeric_limits<double>::quiet_NaN();
    const double amount = cell_value(static_cast<HalfCell>(cell / 2));
    return cell % 2 != 0 ? -amount : amount;
}

void colour_differences(std::span<const HalfCell> cells, const ColourScale& scale, std::span<uint32_t> rgba) {
    if (cells.size() != rgba.size()) throw std::invalid_argument("colour_differences: sizes differ");
    // A scale is slow and large maps have few different cells: each is coloured once.
    constexpr size_t worth_it = 4096;
    std::vector<uint32_t> known(cells.size() > worth_it ? size_t{INT16_MAX} + 1 : 0, 0U); // 0 = not yet
    for (size_t i = 0; i < cells.size(); ++i) {
        if (cells[i] < 0) {
            rgba[i] = 0U;
            continue;
        }
        uint32_t own = 0;
        uint32_t& colour = known.empty() ? own : known[static_cast<size_t>(cells[i])];
        if (colour == 0) colour = scale(difference_value(cells[i]));
        rgba[i] = colour;
    }
}

std::vector<float> reduce_columns_max(std::span<const float> values, int64_t rows, int64_t columns,
                                      int64_t factor) {
    if (factor < 1 || static_cast<int64_t>(values.size()) != rows * columns)
        throw std::invalid_argument("reduce_columns_max: not rows * columns values");
    const int64_t reduced = reduced_size(columns, factor);
    std::vector<float> out(static_cast<size_t>(rows * reduced), absent());
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < columns; ++column) {
            const float v = values[static_cast<size_t>(row * columns + column)];
            float& top = out[static_cast<size_t>(row * reduced + column / factor)];
            if (is_absent(v) || (std::isnan(top) && !is_absent(top))) continue;
            if (is_absent(top) || std::isnan(v) || v > top) top = v;
        }
    }
    return out;
}

void colour_values(std::span<const float> values, const ColourScale& scale, std::span<uint32_t> rgba) {
    if (values.size() != rgba.size()) throw std::invalid_argument("colour_values: sizes differ");
    for (size_t i = 0; i < values.size(); ++i)
        rgba[i] = is_absent(values[i]) ? 0U : scale(static_cast<double>(values[i]));
}

std::vector<int64_t> whole_ticks(int64_t first, int64_t last, int64_t at_most) {
    std::vector<int64_t> ticks;
    if (last <= first || at_most < 1) return ticks;
    int64_t step = 1;
    for (int64_t power = 1;; power *= 10) {
        bool found = false;
        for (const int64_t digit : {1, 2, 5}) {
            step = digit * power;
            if ((last - first) / step + 1 <= at_most) {
                found = true;
                break;
            }
        }
        if (found) break;
    }
    for (int64_t tick = first >= 0 ? (first + step - 1) / step * step : -(-first / step) * step; tick < last;
         tick += step)
        ticks.push_back(tick);
    return ticks;
}

} // namespace refreshlab::ui
