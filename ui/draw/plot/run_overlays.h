#pragma once

#include "ui/base/colour.h"
#include "ui/context/context.h"
#include "ui/draw/tooltips.h"
#include "ui/scene/runs/run_set.h"
#include "ui/scene/series/series_set.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// A ticked run, as the plots of one frame lay it over the one that is looked at.
struct RunOverlay {
    RunKey key = 0;
    std::string name;
    Colour colour = 0;
    std::shared_ptr<const Recording> recording;
    int64_t steps = 0;
    int64_t shift = 0; ///< steps to the right
    SeriesSet* series = nullptr;
};

/// The ticked runs of the Signals panel with their series, which stay as long as their run is ticked.
class RunOverlays {
public:
    void begin_frame(UiContext& ctx);
    [[nodiscard]] std::vector<RunOverlay>& runs() { return m_runs; }
    /// Colour of the run that is looked at, while others lie over it; nothing: its curves have their signals' colours.
    [[nodiscard]] std::optional<Colour> own_colour() const { return m_own; }
    /// What a tooltip at this step of the run that is looked at says of each: at most four. Empty where no run is ticked.
    [[nodiscard]] std::vector<TipColumn> columns_at(const UiContext& ctx, int64_t step) const;
    /// One line: which colour is which run, and by what they are laid over each other. Draws nothing where no run is ticked.
    void draw_legend(UiContext& ctx);

private:
    std::map<RunKey, SeriesSet> m_series;
    std::vector<RunOverlay> m_runs;
    std::optional<Colour> m_own;
};

} // namespace refreshlab::ui
