#include "ui/scene/landscape/cell_colours.h"

#include "engine/base/quantile.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

namespace {

constexpr double share_inside = 0.95, least_inside = 0.85, means = 3; ///< where an end is, see cell_colours()

/// A step of round numbers, some hundred to a range: ends that are multiples of it read well, and stay while rows arrive.
double round_step(double span) {
    constexpr double steps = 100;
    return drag_quantum(span, steps);
}
double up_to(double value, double step) {
    return round_to(std::ceil(value / step - 1e-9) * step, step);
}

ValueRange even(ValueRange range) {
    const double end = std::max(std::abs(range.min), std::abs(range.max));
    return {-end, end};
}

ValueRange automatic(const CellValue& value, const CellSpread& spread) {
    // All cells alike; or nearly all are 0 but for rounding, which must not be seen as if it meant something.
    const ValueRange all = spread.extent();
    const double largest = std::max(std::abs(all.min), std::abs(all.max)),
                 least_span = std::max(largest / 1000, 1e-6);
    if (is_signed(value)) {
        const double end = std::max({std::min(spread.size_at(share_inside), means * spread.mean_size()),
                                     spread.size_at(least_inside), least_span});
        const double rounded = up_to(end, round_step(end));
        return {-rounded, rounded};
    }
    double low = spread.at(1 - share_inside);
    if (value.kind != CellValue::Kind::signal) low = std::min(low, 0.0); // of a loss 0 is the floor
    const double high = std::max({std::min(spread.at(share_inside), low + means * (spread.mean() - low)),
                                  spread.at(least_inside), low + least_span});
    const double step = round_step(high - low);
    return {-up_to(-low, step), up_to(high, step)};
}

/// Mean of sorted values, those outside brought to [low, high].
double clipped_mean(const std::vector<double>& sorted, double low, double high) {
    double sum = 0;
    for (const double value : sorted)
        sum += std::clamp(value, low, high);
    return sum / static_cast<double>(sorted.size());
}

} // namespace

CellSpread::CellSpread(std::vector<float> sample, ValueRange extent)
    : m_values(sample.begin(), sample.end())
    , m_extent(extent) {
    std::ranges::sort(m_values);
    m_sizes.reserve(m_values.size());
    for (const double value : m_values)
        m_sizes.push_back(std::abs(value));
    std::ranges::sort(m_sizes);
    if (!any()) return;
    m_mean = clipped_mean(m_values, at(1 - share_inside), at(share_inside));
    m_mean_size = clipped_mean(m_sizes, 0, size_at(share_inside));
}

double CellSpread::at(double share) const {
    return any() ? quantile_of_sorted(m_values, share) : 0;
}

double CellSpread::size_at(double share) const {
    return any() ? quantile_of_sorted(m_sizes, share) : 0;
}

double CellSpread::within(ValueRange range) const {
    if (!any()) return 1;
    const auto first = std::ranges::lower_bound(m_values, range.min),
               last = std::ranges::upper_bound(m_values, range.max);
    return static_cast<double>(std::max<std::ptrdiff_t>(last - first, 0)) /
           static_cast<double>(m_values.size());
}

CellColours cell_colours(const CellValue& value, const CellSpread& spread,
                         const std::optional<ValueRange>& own) {
    CellColours colours;
    colours.has_signs = is_signed(value);
    colours.own = own && is_usable(*own);
    if (colours.own)
        colours.range = colours.has_signs ? even(*own) : *own;
    else
        colours.range = automatic(value, spread);
    colours.within = spread.within(colours.range);
    colours.below = spread.any() && spread.extent().min < colours.range.min;
    colours.above = spread.any() && spread.extent().max > colours.range.max;
    return colours;
}

std::string words_of(const CellColours& colours) {
    const bool all = !colours.below && !colours.above;
    const std::string share =
        all ? "all" : fmt::format("{:.0f} % of", std::floor(100 * std::min(colours.within, 0.999) + 1e-9));
    const ValueRange& range = colours.range;
    return colours.has_signs ? fmt::format("{} cells within ±{}", share, format_number(range.max))
                             : fmt::format("{} cells within {} to {}", share, format_number(range.min),
                                           format_number(range.max));
}

std::string key_of(const CellValue& value) {
    const std::string of = value.objective == Objective::loss ? "" : std::string(to_string(value.objective));
    switch (value.kind) {
    case CellValue::Kind::above_teacher:
        return of.empty() ? "loss_above_teacher" : of;
    case CellValue::Kind::loss:
        return "loss";
    case CellValue::Kind::gain:
        return of.empty() ? "gain" : of + "_gain";
    case CellValue::Kind::signal:
        break;
    }
    return value.signal;
}

std::optional<CellValue> cell_value_of(std::string_view key) {
    if (key.empty()) return std::nullopt;
    for (const auto kind : {CellValue::Kind::above_teacher, CellValue::Kind::loss, CellValue::Kind::gain})
        if (key_of({kind, {}}) == key) return CellValue{kind, {}};
    return CellValue{CellValue::Kind::signal, std::string(key)};
}

CellValue CellChoice::under(Objective objective) const {
    CellValue shown = value;
    const bool judged = value.kind == CellValue::Kind::above_teacher || value.kind == CellValue::Kind::gain;
    shown.objective = judged ? objective : Objective::loss;
    return shown;
}

std::optional<ValueRange> CellChoice::own_range(Objective objective) const {
    return ui::own_range(ranges, key_of(under(objective)));
}

void CellChoice::set_own_range(Objective objective, const std::optional<ValueRange>& range) {
    ui::set_own_range(ranges, key_of(under(objective)), range);
}

} // namespace refreshlab::ui
