#pragma once

#include "engine/model/forward.h"
#include "kernels/decode/device_decoder.h"

namespace refreshlab {

/// What a step's kernels are asked about the token's row, and what their answers come to: numbers of a row that stays on the device.
class DeviceAsk {
public:
    /// \param in  of a step; outlives this \param vocab  of its row
    DeviceAsk(const StepInputs& in, int64_t vocab);

    /// They answer RowAsk; else it is read off the row afterwards, and a token is drawn from it.
    [[nodiscard]] bool answers() const { return m_answers; }
    void put_into(kernels::DeviceStep& step) const;
    /// Of a step that answers: the summary, and the token as far as the answers have it.
    void read(const kernels::DeviceAnswers& answers, StepOutputs& out) const;

private:
    [[nodiscard]] std::optional<Drawn> drawn(const kernels::DeviceAnswers& answers,
                                             const kernels::RowStatistics& statistics) const;

    const StepInputs& m_in;
    int64_t m_vocab;
    bool m_answers;
    std::optional<DrawNeeds> m_needs; ///< nothing: no draw, or one that needs the row
    int64_t m_top_k = 0;              ///< for the summary
    int64_t m_keys = 0;               ///< and for the draw
};

} // namespace refreshlab
