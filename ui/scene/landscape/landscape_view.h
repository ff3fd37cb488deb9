#pragma once

#include "engine/landscape/objective.h"
#include "ui/scene/axes/auto_range.h"
#include "ui/scene/landscape/cell_colours.h"
#include "ui/scene/landscape/scope_grid.h"
#include "ui/scene/landscape/staircases.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// A part of loss against refreshes; losses are above the teacher's, in the objective's unit.
struct FrontierRange {
    ValueRange refreshes, loss;
    friend bool operator==(const FrontierRange&, const FrontierRange&) = default;
};

/// What a person has chosen to see of a landscape and of its frontier: on screen, on paper, and in the settings file (all but the
/// part of the frontier, which belongs to one text).
struct LandscapeView {
    CellChoice cells;
    std::optional<Objective> objective; ///< nothing: as the text asks for, default_objective()
    std::array<bool, num_stairs> stairs{true, true, true, true}; ///< drawn on the picture, by StairsOf
    std::optional<FrontierRange> frontier;                       ///< nothing: what fits (fitted_frontier())
    ScopeMeasure scope = ScopeMeasure::alone;                    ///< that cells of a scope map show
    [[nodiscard]] bool shows(StairsOf of) const { return stairs[static_cast<size_t>(of)]; }
    friend bool operator==(const LandscapeView&, const LandscapeView&) = default;
};

/// As a settings file has it. Names that this version does not know are left out.
struct StoredLandscapeView {
    std::string value; ///< key_of() of the cells' value; empty: the first
    StoredRanges ranges;
    std::vector<std::string> hidden; ///< "run", "policy", "blind", "best"
    std::string objective;           ///< its name; empty: as the text asks for
    std::string scope = {};          ///< key_of() of what a scope map shows
    friend bool operator==(const StoredLandscapeView&, const StoredLandscapeView&) = default;
};
[[nodiscard]] StoredLandscapeView stored(const LandscapeView& view);
[[nodiscard]] LandscapeView landscape_view(const StoredLandscapeView& stored);

} // namespace refreshlab::ui
