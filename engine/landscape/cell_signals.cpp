#include "engine/landscape/cell_signals.h"

#include "engine/base/check.h"
#include "engine/signals/registry.h"

#include <algorithm>

namespace refreshlab {

std::string cell_source(std::string_view signal) {
    if (signal == "steps_since_refresh") return {};
    if (signal == "kl_mean_nats" || signal == "last_kl_nats") return "kl_nats";
    if (signal == "last_drift") return "drift";
    return std::string(signal);
}

bool tells(std::span<const std::string> values, std::string_view signal) {
    const std::string source = cell_source(signal);
    return source.empty() || std::ranges::find(values, source) != values.end();
}

float delta_drift(const Landscape& landscape, int64_t row, int64_t first, int64_t last) {
    const auto value = landscape.value_index("drift");
    RL_ASSERT(value.has_value() && first <= last);
    double sum = 0;
    for (int64_t step = first; step <= last; ++step)
        sum += static_cast<double>(landscape.cell(*value, row, step));
    return static_cast<float>(sum / static_cast<double>(last - first + 1));
}

float signal_at(const Landscape& landscape, std::string_view signal, int64_t j, int64_t step,
                std::optional<int64_t> before) {
    RL_ASSERT(signal != "kl_mean_nats" && j < step);
    if (signal == "steps_since_refresh") return static_cast<float>(step - j);
    const auto value = landscape.value_index(cell_source(signal));
    RL_ASSERT(value.has_value());
    if (signal == "last_kl_nats") return before ? landscape.cell(*value, *before, j) : absent();
    if (signal == "last_drift") return before ? delta_drift(landscape, *before, *before + 1, j) : absent();
    return landscape.cell(*value, j, step);
}

std::optional<int64_t> usual_row_before(const Landscape& landscape, int64_t j, int64_t step) {
    if (j == 0) return std::nullopt;
    return landscape.row_at_or_below(std::clamp<int64_t>(2 * j - step, 0, j - 1));
}

} // namespace refreshlab
