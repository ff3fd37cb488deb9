#pragma once

#include "engine/record/recording/recording.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace refreshlab::ui {

/// How much the query of one step read each position: one head's row, or the mean of all heads that were recorded. Kept until
/// another row is asked for. Threads: the UI thread. Cost of an update that changes something: heads x positions.
class ReadWeights {
public:
    /// \param query  absolute position of the query
    /// \param head   layer and head; nothing: the mean over all. A layer that was not recorded: no weights
    /// \return whether there are weights
    bool update(const Recording& recording, int64_t query, std::optional<std::pair<int32_t, int32_t>> head);
    /// By absolute position, as far as the query; empty where there are none.
    [[nodiscard]] const std::vector<float>& weights() const { return m_weights; }
    /// The largest but that of position 0, which takes most of many heads (development/ui.md, 4); 0 where there is none.
    [[nodiscard]] float largest() const { return m_largest; }

private:
    std::shared_ptr<const AttentionRows> m_rows;
    std::optional<std::pair<int32_t, int32_t>> m_head;
    std::vector<float> m_weights;
    float m_largest = 0;
};

} // namespace refreshlab::ui
