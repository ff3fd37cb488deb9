#include "engine/signals/layer_values.h"

#include "engine/signals/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace refreshlab {

namespace {

constexpr std::array<std::string_view, 4> names = {"mean", "max", "min", "layer"};

} // namespace

std::string_view to_string(Reduction reduction) {
    return names[static_cast<size_t>(reduction)];
}

std::optional<Reduction> reduction_from_string(std::string_view name) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) return std::nullopt;
    return static_cast<Reduction>(found - names.begin());
}

void LayerValues::set(size_t signal, std::span<const float> values) {
    const auto old = std::ranges::find(m_entries, signal, &Entry::signal);
    if (old != m_entries.end() && old->count == values.size()) {
        std::ranges::copy(values, m_values.begin() + static_cast<std::ptrdiff_t>(old->first));
        return;
    }
    if (old != m_entries.end()) m_entries.erase(old); // its numbers stay unused until clear(): a step has few
    if (values.empty()) return;
    m_entries.push_back({signal, m_values.size(), values.size()});
    m_values.insert(m_values.end(), values.begin(), values.end());
}

std::span<const float> LayerValues::find(size_t signal) const {
    const auto entry = std::ranges::find(m_entries, signal, &Entry::signal);
    return entry == m_entries.end() ? std::span<const float>() : values(*entry);
}

std::span<const float> LayerValues::values(const Entry& entry) const {
    return std::span(m_values).subspan(entry.first, entry.count);
}

void LayerValues::clear() {
    m_entries.clear();
    m_values.clear();
}

float layer_mean(std::span<const float> values) {
    double sum = 0;
    int64_t count = 0;
    for (const float value : values) {
        if (is_absent(value)) continue;
        sum += static_cast<double>(value);
        ++count;
    }
    if (count == 0) return absent();
    const double mean = sum / static_cast<double>(count);
    // A measured NaN must not carry the payload of absent().
    return std::isnan(mean) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(mean);
}

float reduce_layers(std::span<const float> values, Reduction reduction, int32_t layer) {
    if (reduction == Reduction::mean) return layer_mean(values);
    if (reduction == Reduction::layer)
        return layer >= 0 && static_cast<size_t>(layer) < values.size() ? values[static_cast<size_t>(layer)]
                                                                        : absent();
    float result = absent();
    for (const float value : values) {
        if (is_absent(value)) continue;
        if (std::isnan(value)) return std::numeric_limits<float>::quiet_NaN();
        const bool better = reduction == Reduction::max ? value > result : value < result;
        if (is_absent(result) || better) result = value;
    }
    return result;
}

std::string reduced_name(std::string_view signal, Reduction reduction, int32_t layer) {
    if (reduction == Reduction::mean) return std::string(signal);
    if (reduction == Reduction::layer) return fmt::format("{}.layer{}", signal, layer);
    return fmt::format("{}.{}", signal, to_string(reduction));
}

} // namespace refreshlab
