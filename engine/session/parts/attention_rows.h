#pragma once

#include "engine/model/forward/captures.h"
#include "engine/record/recording/attention_rows.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace refreshlab {

/// How much is kept of one query's attention. Bins are made by whoever makes a row, so that less comes from a GPU; a limit in bytes looks at
/// whole rows, for the strongest keys are told apart. So rows in bins are kept as they come.
struct AttentionLimits {
    int64_t bins = 0; ///< most numbers of a head's row (CaptureConfig::attention_bins); 0: every key
    int64_t bytes =
        0; ///< most of all rows together (CaptureConfig::attention_bytes, attention_layout()); 0: no limit
};

/// What a forward shows of one query's attention, as the recording keeps it (AttentionRows). A decode step writes halves here itself.
class AttentionRowsCapture final : public AttentionCapture {
public:
    /// As AttentionCapture.
    AttentionRowsCapture(const ModelConfig& config, std::vector<int32_t> layers, int64_t position,
                         AttentionLimits limits);
    /// What their memory took, keeping those that the forward did not write itself, and their bins.
    [[nodiscard]] double ms() const { return m_ms; }
    /// Once, and only where all layers were seen (asserted). Cost of a limit in bytes: about 4 ns a head and key, shared by the threads.
    [[nodiscard]] std::shared_ptr<const AttentionRows> take(int64_t step, bool teacher);

private:
    void keep(size_t index, std::span<const float> row) override;
    [[nodiscard]] uint16_t* halves_of(size_t index) const override { return row_of(index).data(); }
    [[nodiscard]] int64_t bins() const override { return m_limits.bins; }
    [[nodiscard]] std::span<uint16_t> row_of(size_t index) const;

    [[nodiscard]] std::shared_ptr<AttentionRows> compacted() const;

    std::shared_ptr<AttentionRows> m_rows;
    AttentionLimits m_limits;
    int64_t m_width; ///< keys of a bin of those that come
    double m_ms = 0;
};

} // namespace refreshlab
