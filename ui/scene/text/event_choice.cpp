#include "ui/scene/text/event_choice.h"

#include <algorithm>

namespace refreshlab::ui {

std::string_view lane_key(MarkLane lane) {
    constexpr std::array<std::string_view, mark_lanes.size()> keys = {"refreshes", "held_back", "cuts",
                                                                      "changes", "notes"};
    return keys[static_cast<size_t>(lane)];
}

std::vector<std::string> hidden_lanes(const EventChoice& choice) {
    std::vector<std::string> keys;
    for (const MarkLane lane : mark_lanes)
        if (!choice.shows(lane)) keys.emplace_back(lane_key(lane));
    return keys;
}

EventChoice without_lanes(const std::vector<std::string>& keys) {
    EventChoice choice;
    for (const MarkLane lane : mark_lanes)
        choice.hidden[static_cast<size_t>(lane)] = std::ranges::find(keys, lane_key(lane)) != keys.end();
    return choice;
}

} // namespace refreshlab::ui
