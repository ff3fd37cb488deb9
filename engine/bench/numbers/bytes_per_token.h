#pragma once

#include <cstdint>

namespace refreshlab {
class LlamaModel;
}

namespace refreshlab::bench {

/// What a pass reads of a model at least (development/performance.md, section 2). Matrices as they are held: zero padding of odd
/// widths counts, norms and biases do not. A sublayer that a derived student leaves out is not read.
struct BytesPerToken {
    int64_t weights = 0; ///< W: all matrices once, the head once, the embedding table not again
    int64_t refresh = 0; ///< W_r: without the head and without the last layer's q, o and MLP
    int64_t kv = 0;      ///< K: 2 * layers * KV heads * head_dim * bytes of an element, for each cached token

    /// Of a decode step that reads `cached` columns.
    [[nodiscard]] double step(double cached) const {
        return static_cast<double>(weights) + static_cast<double>(kv) * cached;
    }
    /// Of a teacher pass over delta, which reads `cached` columns.
    [[nodiscard]] double refresh_pass(double cached) const {
        return static_cast<double>(refresh) + static_cast<double>(kv) * cached;
    }
    friend bool operator==(const BytesPerToken&, const BytesPerToken&) = default;
};
[[nodiscard]] BytesPerToken bytes_per_token(const LlamaModel& model);

/// Milliseconds that so many bytes take at least. \param gigabytes_per_second  decimal, above 0 (asserted)
[[nodiscard]] double floor_ms(double bytes, double gigabytes_per_second);

} // namespace refreshlab::bench
