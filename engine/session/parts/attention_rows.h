#pragma once

#include "engine/model/forward/captures.h"
#include "engine/record/recording/step_record.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace refreshlab {

/// What a forward shows of one query's attention, as the recording keeps it (IEEE half, of every key or in bins). A decode step writes it there
/// itself.
class AttentionRowsCapture final : public AttentionCapture {
public:
    /// As AttentionCapture. \param bins  most numbers of a head's row; 0: every key
    AttentionRowsCapture(const ModelConfig& config, std::vector<int32_t> layers, int64_t position,
                         int64_t bins);
    /// What their memory took, and keeping those that the forward did not write itself.
    [[nodiscard]] double ms() const { return m_ms; }
    /// Once, and only where all layers were seen (asserted).
    [[nodiscard]] std::shared_ptr<const AttentionRows> take(int64_t step, bool teacher);

private:
    void keep(size_t index, std::span<const float> row) override;
    [[nodiscard]] uint16_t* halves_of(size_t index) const override { return row_of(index).data(); }
    [[nodiscard]] int64_t bins() const override { return m_bins; }
    [[nodiscard]] std::span<uint16_t> row_of(size_t index) const;

    std::shared_ptr<AttentionRows> m_rows;
    int64_t m_bins;
    double m_ms = 0;
};

} // namespace refreshlab
