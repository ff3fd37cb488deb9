#pragma once

#include "engine/landscape/objective.h"
#include "ui/scene/attention/read_weights.h"
#include "ui/scene/axes/auto_range.h"
#include "ui/scene/series/series_set.h"
#include "ui/scene/text/text_view.h"
#include "ui/scene/text/token_colours.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace refreshlab::ui {

/// What colours a text beside its run: the selection, and what the landscape says.
struct ColourSources {
    std::span<const float> gains;           ///< by step (gains_along()); empty: not known
    int64_t step = 0;                       ///< the shown one, whose reading of the tokens before it colours
    std::pair<int32_t, int32_t> head{0, 0}; ///< the chosen layer and head
    Objective gains_of = Objective::loss;   ///< what the gains are of
};

/// In which colour tokens are drawn, and on which ground.
class TokenPaint {
public:
    /// Cost: 256 mixtures where one of them is another than before.
    void mix(uint32_t hue, uint32_t background, uint32_t ink);
    [[nodiscard]] const TokenColours& colours() const { return m_colours; } ///< of a scale
    [[nodiscard]] const TokenColours::Entry& verdict(bool yes) const { return yes ? m_yes : m_no; }

private:
    TokenColours m_colours;
    TokenColours::Entry m_yes{}, m_no{};
};

/// How one token looks.
struct TokenLook {
    uint32_t background = 0; ///< 0 = none
    uint32_t ink = 0;
    uint32_t underline = 0; ///< 0 = none
    bool struck = false;    ///< wrong is wrong without colours too
};

/// The tokens of one run as a view colours them: a value for each, and one scale for all of them, which is that of the whole run so
/// far whatever part of it is drawn. The panel and the figure draw this.
/// Threads  one.
/// Cost of update(): the new steps; of attention the heads of one row, when another one is shown; of gains all steps.
class ColouredText {
public:
    enum class By : uint8_t {
        nothing, ///< the run has no such signal
        signal,
        gain,
        attention,
    };

    void forget(); ///< before another recording is shown
    /// \param recording  null: nothing is coloured  \param steps  of the frame's snapshot
    void update(const std::shared_ptr<const Recording>& recording, int64_t steps, const TextView& view,
                const ColourSources& sources);

    [[nodiscard]] By by() const { return m_by; }
    [[nodiscard]] const Signal* signal() const { return m_signal; } ///< null unless By::signal
    [[nodiscard]] const Verdicts* verdicts() const {
        return m_verdicts;
    } ///< of a signal that says yes or no; else null
    /// A person's own; else from 0, where a refresh is worth nothing, to the largest gain; from 0 to the most that one position was
    /// given, the first left out, on which many heads rest; of a signal all values of the run, rounded outward.
    [[nodiscard]] ValueRange range() const { return m_range; }
    [[nodiscard]] bool own_range() const { return m_own; }
    /// What own ranges are of: the signal, or what else colours.
    [[nodiscard]] const std::string& range_of() const { return m_range_of; }
    [[nodiscard]] ValueRange all_values() const { return m_all; } ///< that the automatic range is of
    [[nodiscard]] bool below() const { return m_all.min < m_range.min; }
    [[nodiscard]] bool above() const { return m_all.max > m_range.max; }
    [[nodiscard]] std::string label() const; ///< "Entropy", "Read by step 12, layer 3 head 5"
    [[nodiscard]] std::string unit() const;
    /// Words of a yes or no: "120 right, 14 wrong". Cost: one look at every step.
    [[nodiscard]] std::string counted() const;

    /// Of y_token, from 1: known when it was chosen, or about the token itself; absent() where there is none.
    [[nodiscard]] float value(int64_t token) const;
    /// The same of another run's token, on the same scale: signals alone.
    [[nodiscard]] float value_of(const Recording& other, int64_t steps, int64_t token) const;
    /// Of a position of the prompt: only what is read has one.
    [[nodiscard]] float prompt_value(int64_t position) const;
    /// The row of the shown step is there; of signals and gains true.
    [[nodiscard]] bool known() const { return m_by != By::attention || !m_read.weights().empty(); }
    /// The run's signals as series.
    [[nodiscard]] SeriesSet& series() { return m_series; }

    [[nodiscard]] TokenLook look(const TokenPaint& paint, float value) const;

private:
    /// What colours, and the range of all its values.
    void choose(const std::shared_ptr<const Recording>& recording, const TextView& view,
                const ColourSources& sources);

    std::shared_ptr<const Recording> m_recording;
    int64_t m_steps = 0, m_step = 0;
    By m_by = By::nothing;
    const Signal* m_signal = nullptr;
    size_t m_id = 0; ///< of the signal
    const Verdicts* m_verdicts = nullptr;
    ValueRange m_range, m_all;
    bool m_own = false; ///< a person chose m_range
    std::string m_range_of;
    SeriesSet m_series;
    std::span<const float> m_gains; ///< of the caller, until the next update()
    Objective m_gains_of = Objective::loss;
    ReadWeights m_read;
    std::optional<std::pair<int32_t, int32_t>> m_head; ///< of attention; nothing: the mean of all
};

} // namespace refreshlab::ui
