#include "ui/scene/text/event_choice.h"

#include <algorithm>

namespace refreshlab::ui {

std::vector<std::string> hidden_lanes(const EventChoice& choice) {
    std::vector<std::string> keys;
    for (const MarkLane lane : mark_lanes)
        if (!choice.shows(lane)) keys.emplace_back(lane_words(lane).key);
    return keys;
}

EventChoice without_lanes(const std::vector<std::string>& keys) {
    EventChoice choice;
    for (const MarkLane lane : mark_lanes)
        choice.hidden[static_cast<size_t>(lane)] =
            std::ranges::find(keys, lane_words(lane).key) != keys.end();
    return choice;
}

} // namespace refreshlab::ui
