#pragma once

#include "engine/model/forward/captures.h"
#include "engine/record/recording/step_record.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace refreshlab {

/// What a forward shows of one query's attention, as the recording keeps it (IEEE half).
class AttentionRowsCapture final : public AttentionCapture {
public:
    /// As AttentionCapture.
    AttentionRowsCapture(const ModelConfig& config, std::vector<int32_t> layers, int64_t position);
    /// What keeping them took, of the forward's time.
    [[nodiscard]] double ms() const { return m_ms; }
    /// Once, and only where all layers were seen (asserted).
    [[nodiscard]] std::shared_ptr<const AttentionRows> take(int64_t step, bool teacher);

private:
    void keep(size_t index, std::span<const float> row) override;

    std::shared_ptr<AttentionRows> m_rows;
    double m_ms = 0;
};

} // namespace refreshlab
