#pragma once

#include "engine/record/recording/recording.h"
#include "ui/scene/runs/token_alignment.h"
#include "ui/scene/series/layer_pick.h"
#include "ui/scene/series/series.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace refreshlab::ui {

/// What one run's signal is above another's at each step, as a series with a pyramid: so a strip of any zoom costs O(pixels). Kept
/// up to date while either run grows or is filled in later. Absent where one of the two is, or where no difference is finite.
class DifferenceSeries {
public:
    /// At step t of `base`: other(t - shift) - base(t), under the pick. Another pair, signal, pick or shift begins anew.
    /// Cost: O(new values).
    struct Side {
        std::shared_ptr<const Recording> recording;
        int64_t steps = 0;
        size_t signal = 0; ///< id in this recording
    };
    void update(const Side& base, const Side& other, LayerPick pick = {}, int64_t shift = 0);
    [[nodiscard]] const SignalSeries& series() const { return m_series; }
    /// The largest size of a difference so far; 0 while there is none.
    [[nodiscard]] double largest() const;

private:
    [[nodiscard]] float value(int64_t t) const;
    void read_fills(const Side& side, size_t& next, int64_t shift);

    Side m_base, m_other;
    LayerPick m_pick;
    int64_t m_shift = 0;
    size_t m_base_fill = 0, m_other_fill = 0;
    SignalSeries m_series;
};

/// Where two runs choose other tokens. Up to the first one y_t of one stands beside y_t of the other; from there on the texts are
/// aligned, so that a word more in one of them does not make all that follows differ.
class TokenDifference {
public:
    /// Cost: that of TokenAlignment. \param shared  steps that are known to be the same, because both come from one run
    void update(const std::shared_ptr<const Recording>& a, const std::shared_ptr<const Recording>& b,
                int64_t shared = 0);
    /// The first t whose y_t differ; nothing while they agree as far as both go.
    [[nodiscard]] std::optional<int64_t> first() const { return m_first; }
    [[nodiscard]] int64_t compared() const { return m_compared; } ///< tokens that both have
    /// Tokens that are other, more, or fewer: edits that make one text of the other.
    [[nodiscard]] int64_t differing() const { return m_alignment.edits(); }
    using Side = TokenAlignment::Side;
    /// Whether y_t of that run (the first: `a`) has no equal in the other; the first ones that differ always do. False where the other
    /// text has ended.
    [[nodiscard]] bool differs(int64_t t, Side side = Side::first) const;
    /// Which token the other text has in the place of this one's y_t; nothing: none.
    [[nodiscard]] std::optional<int64_t> in_its_place(int64_t t, Side side = Side::first) const;

private:
    std::shared_ptr<const Recording> m_a, m_b;
    std::optional<int64_t> m_first;
    int64_t m_compared = 0;
    TokenAlignment m_alignment; ///< of the tokens from m_first on
};

} // namespace refreshlab::ui
