#pragma once

#include "engine/record/recording/recording.h"
#include "ui/scene/series/layer_pick.h"
#include "ui/scene/series/series.h"

#include <cstddef>
#include <map>
#include <memory>
#include <utility>

namespace refreshlab::ui {

/// What a plot with this pick shows at step t, 1 <= t <= steps(): absent() where it was not measured. A strip has the mean.
[[nodiscard]] float picked_value(const Recording& recording, int64_t t, size_t signal, LayerPick pick);

/// Steps of [1, steps] whose signal says yes (at least 0.5) and no.
struct VerdictCount {
    int64_t yes = 0, no = 0;
};
/// Of a signal that says yes or no, such as task_score. Cost: one look at every step.
[[nodiscard]] VerdictCount count_verdicts(const Recording& recording, int64_t steps, size_t signal);

/// The signals of one recording as series with pyramids, each built when first asked for and then kept up to date:
/// new steps are appended, back-filled ranges are read again. Cost of a frame: O(new values).
/// Threads  the UI thread.
class SeriesSet {
public:
    /// Start of a frame. Another recording than before drops everything.
    /// \param steps  of the frame's snapshot, <= recording->steps()
    void begin_frame(std::shared_ptr<const Recording> recording, int64_t steps);

    /// \param pick  of a layered signal: which number of its layers. A strip has the series of the mean.
    [[nodiscard]] const SignalSeries& series(size_t signal, LayerPick pick = {});
    /// Mean - sd and mean + sd of a signal that has a band (Signal::band); null for the others.
    struct Band {
        SignalSeries low, high;
    };
    [[nodiscard]] const Band* band(size_t signal);
    /// What a plot of steps [x_min, x_max] shows, the signal's band included.
    [[nodiscard]] SeriesSummary seen(size_t signal, double x_min, double x_max, LayerPick pick = {});
    /// The recorded value; absent() outside of the run.
    [[nodiscard]] float value(int64_t step, size_t signal, LayerPick pick = {}) const;

private:
    struct Entry {
        SignalSeries series;
        size_t next_back_fill = 0; ///< entries of Recording::back_fills() that were worked in
        std::unique_ptr<Band> band;
        size_t next_band_fill = 0;
    };
    std::shared_ptr<const Recording> m_recording;
    int64_t m_steps = 0;
    std::map<std::pair<size_t, LayerPick>, Entry> m_entries;
};

} // namespace refreshlab::ui
