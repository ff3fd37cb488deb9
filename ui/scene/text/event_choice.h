#pragma once

#include "ui/base/table_view.h"
#include "ui/scene/text/step_marks.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

/// What the table of events shows: which lanes, which columns, in which order.
struct EventChoice {
    std::array<bool, mark_lanes.size()> hidden{};
    TableView table = {}; ///< columns by event_column_keys()
    [[nodiscard]] bool shows(MarkLane lane) const { return !hidden[static_cast<size_t>(lane)]; }
    friend bool operator==(const EventChoice&, const EventChoice&) = default;
};

/// Keys of lane_words(): in the settings file.
[[nodiscard]] std::vector<std::string> hidden_lanes(const EventChoice& choice);
/// Names that this version does not know are passed over.
[[nodiscard]] EventChoice without_lanes(const std::vector<std::string>& keys);

} // namespace refreshlab::ui
