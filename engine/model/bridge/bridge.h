#pragma once

#include "engine/cache/kv_cache.h"
#include "engine/model/llama_model.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace refreshlab {

/// What of the teacher's entries a map reads.
enum class BridgeInputs : uint8_t {
    both, ///< keys and values make keys, and keys and values make values
    own,  ///< keys make keys, values make values
};
[[nodiscard]] std::string_view to_string(BridgeInputs inputs);

/// A linear map of the teacher's entries to entries of a student with another KV geometry and the same tokenizer: of each student's layer
/// and position
///     k_S = A_k x + b_k,  v_S = A_v x + b_v,
/// x the teacher's entries of that position in the layers `from`. Keys are taken and given as they stand before RoPE: they are turned back
/// by the teacher's frequencies, and forth by the student's. A column depends on the teacher's column of its position and on nothing else.
/// Definition: reference/refresh.md, section 13. Source: the linear case of Cache-to-Cache (Fu et al. 2025), which learns an MLP and a gate.
struct Bridge {
    /// x: keys of all layers of `from`, one after the other, each [kv_heads * head_dim]; then values in the same order. With
    /// BridgeInputs::own the keys' map has the first half, the values' the second.
    struct Layer {
        std::vector<int64_t> from;           ///< teacher's layers, ascending
        at::Tensor key_weight, value_weight; ///< [student's kv_heads * head_dim, inputs], fp32
        at::Tensor key_bias, value_bias;     ///< [student's kv_heads * head_dim], fp32
    };
    BridgeInputs inputs = BridgeInputs::both;
    std::vector<Layer> layers; ///< the student's

    [[nodiscard]] int64_t bytes() const; ///< of weights and biases
    [[nodiscard]] Bridge on(at::Device device) const;
};

/// Columns [first, first + n) of one layer as rows, keys before RoPE: [n, kv_heads * head_dim], fp32 on the cache's device. Exact to the
/// rounding of one rotation. The cache is dense and of this model                                                            (asserted)
struct EntryRows {
    at::Tensor keys, values;
};
[[nodiscard]] EntryRows entry_rows(const LlamaModel& model, const KvCache& cache, int64_t layer,
                                   int64_t first, int64_t n);

/// What the maps of a layer read of columns [first, first + n) of the teacher's cache: rows for the keys' and for the values' map, [n, inputs],
/// fp32 on that cache's device.
[[nodiscard]] EntryRows bridge_inputs(const Bridge& bridge, const Bridge::Layer& layer,
                                      const LlamaModel& teacher, const KvCache& cache, int64_t first,
                                      int64_t n);

/// The teacher's entries as the student can read them: a cache of the student's geometry, dtype and device, which follows the teacher's.
///
/// Exact    a column has the same bits however many are mapped together, and after a rewind (on the CPU; elsewhere to rounding).
/// Memory   the student's columns once more.
/// Threads  one, that of the caches.
class BridgedCache {
public:
    /// All outlive this. \param capacity  of the teacher's cache
    BridgedCache(const Bridge& bridge, const LlamaModel& teacher, const LlamaModel& student,
                 int64_t capacity);

    /// Maps what `teacher` holds beyond cache().length(), with its origins. \pre  the columns before are those that were mapped
    void follow(const KvCache& teacher);
    /// Forgets positions >= length.
    void truncate(int64_t length);
    [[nodiscard]] const KvCache& cache() const { return *m_cache; }
    [[nodiscard]] std::unique_ptr<KvCache> take() { return std::move(m_cache); } ///< it follows no more

private:
    const Bridge& m_bridge;
    const LlamaModel &m_teacher, &m_student;
    std::unique_ptr<KvCache> m_cache;
};

} // namespace refreshlab
