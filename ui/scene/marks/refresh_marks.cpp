#include "ui/scene/marks/refresh_marks.h"

#include "ui/base/value_format.h"
#include "ui/scene/text/token_label.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

size_t first_refresh_from(const Recording& recording, int64_t step) {
    const auto& refreshes = recording.refreshes();
    size_t low = 0, high = refreshes.size();
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (refreshes[middle].step < step) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

RefreshMarks refreshes_in_sight(const Recording& recording, int64_t steps, double x_min, double x_max,
                                double left_px, double width_px) {
    RefreshMarks marks;
    if (!(x_max > x_min)) return marks;
    const auto& refreshes = recording.refreshes();
    const auto from = static_cast<int64_t>(std::floor(std::clamp(x_min, 0.0, 1e15)));
    for (size_t i = first_refresh_from(recording, from), n = refreshes.size(); i < n; ++i) {
        const auto x = static_cast<double>(refreshes[i].step);
        if (refreshes[i].step > steps || x > x_max) break;
        marks.events.push_back(i);
        marks.x_px.push_back(left_px + (x - x_min) / (x_max - x_min) * width_px);
    }
    return marks;
}

char marker_letter(const RefreshEvent& event) {
    return reason_letter(event.hits);
}

std::string step_caption(const Recording& recording, int64_t steps, int64_t step) {
    const TokenTable& tokens = recording.tokens();
    const int32_t chosen = token_chosen(recording, steps, step);
    const std::string next =
        chosen >= 0 ? ", chose " + token_label(tokens, chosen, 20) : std::string(", the last");
    if (step == 0) return "prefill" + next;
    return fmt::format("step {}: read {}{}", format_thousands(step),
                       token_label(tokens, token_read(recording, steps, step), 20), next);
}

} // namespace refreshlab::ui
