#pragma once

#include "kernels/decode/decode_plan.h"
#include "kernels/decode/launch_shapes.h"
#include "kernels/shared/activation.h"
#include "kernels/shared/row_accumulators.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace refreshlab::kernels {

/// A matrix [outputs, inputs] on a device and its bias, of the model's type; null where there is none.
struct DeviceMatrix {
    const void* data = nullptr;
    const void* bias = nullptr;
    int64_t outputs = 0, inputs = 0;
    MatrixForm form = MatrixForm::numbers;
};

/// Which of the cache's rotations a layer turns queries and keys by.
enum class LayerRope : uint8_t { none, global, local };

/// A model as a decoder reads it: pointers of its device, which outlive the decoder. Widths are those held (zero padding included). What
/// engine/model/model_config.h says of the fields with its names holds here.
struct DeviceModel {
    struct Layer {
        /// Of what attention and the MLP read, and of what they add to the residual: [hidden] or null.
        const void *input_norm = nullptr, *post_norm = nullptr, *o_norm = nullptr, *down_norm = nullptr;
        const void *q_norm = nullptr,
                   *k_norm = nullptr; ///< [head_dim], of all heads with qk_norm_whole; or null
        /// q and o: no data where the layer's attention is left out; gate, up, down: where it has no MLP. Matrices that one launch
        /// multiplies, q, k and v, or gate and up, have one form.
        DeviceMatrix q, k, v, o, gate, up, down;
        /// With it the MLP is routed experts, and gate, up and down are theirs, of equal widths, without biases. The router is in numbers; gate and up of all
        /// experts have one form, and so has down of all.
        DeviceMatrix router;
        struct Expert {
            DeviceMatrix gate, up, down;
        };
        std::vector<Expert> experts{};
        int64_t window = 0; ///< sliding window; 0 = all
        LayerRope rope = LayerRope::global;
    };
    WeightType type{}; ///< of the cache's entries and of all weights but matrices in blocks
    int64_t hidden = 0, width = 0, ffn = 0; ///< width: the true hidden width, by which norms divide
    int64_t heads = 0, kv_heads = 0, head_dim = 0, vocab = 0;
    /// Channels of a head that turn, in pairs (i, i + turned / 2), a multiple of 8; the others stay. 0: all turn.
    int64_t turned = 0;
    double norm_eps = 0, norm_offset = 0;
    double embedding_scale = 1, query_scale = 1, attention_cap = 0, logit_cap = 0;
    bool qk_norm_whole = false;
    decode::ExpertShape experts;
    bool experts_normalised = true; ///< a row's shares add up to 1; else they are those among all experts
    Activation activation = Activation::silu;
    DeviceMatrix embedding;           ///< [vocab or more, hidden]
    const void* final_norm = nullptr; ///< [hidden]
    DeviceMatrix head;                ///< [vocab, hidden]
    std::vector<Layer> layers;
};

/// A model's widths, for plans and for memory. \param rows, capacity  of a step or a pass
[[nodiscard]] inline decode::DecodeShape shape_of(const DeviceModel& model, int64_t rows, int64_t capacity) {
    decode::DecodeShape shape;
    shape.hidden = model.hidden;
    shape.ffn = model.ffn;
    shape.layers = std::ssize(model.layers);
    shape.heads = model.heads;
    shape.kv_heads = model.kv_heads;
    shape.head_dim = model.head_dim;
    shape.vocab = model.vocab;
    shape.type = model.type;
    shape.qk_norm_whole = model.qk_norm_whole;
    shape.experts = model.experts;
    for (const DeviceModel::Layer& layer : model.layers)
        shape.branch_norms = shape.branch_norms || layer.o_norm != nullptr || layer.down_norm != nullptr;
    shape.rows = rows;
    shape.capacity = capacity;
    return shape;
}

/// An entry of a KV head's list: in which row of its layer's pool the key and the value of a position stand.
struct ListEntry {
    int32_t position = 0, column = 0;
};
/// A row of a pool that nobody holds any more: addresses of its key and of its value.
struct LeavingRow {
    void *key = nullptr, *value = nullptr;
};
/// Rows of one layer that lists name.
struct DevicePool {
    void *k = nullptr, *v = nullptr; ///< [rows, head_dim], of the model's type
    int64_t rows = 0;
    bool operator==(const DevicePool&) const = default;
};

/// The cache that a step reads and writes, and its tables of rotations.
struct DeviceCache {
    void *k = nullptr, *v = nullptr; ///< dense: [layers, kv_heads, capacity, head_dim], of the model's type
    int64_t capacity = 0;            ///< positions
    const float *cos = nullptr, *sin = nullptr;             ///< [capacity, DeviceModel::turned / 2]
    const float *local_cos = nullptr, *local_sin = nullptr; ///< the same of layers with LayerRope::local
    std::vector<DevicePool> pools{}; ///< [layers]; empty: dense. Else a step has `lists`
    int64_t list_capacity = 0;       ///< entries that the longest list may have, the step's own included
    [[nodiscard]] bool listed() const { return !pools.empty(); }
    /// Null: nothing turns.
    [[nodiscard]] const float* cos_of(LayerRope rope) const {
        return rope == LayerRope::none ? nullptr : rope == LayerRope::local ? local_cos : cos;
    }
    [[nodiscard]] const float* sin_of(LayerRope rope) const {
        return rope == LayerRope::none ? nullptr : rope == LayerRope::local ? local_sin : sin;
    }
    /// What a KV head may read in a layer.
    [[nodiscard]] int64_t entries() const { return listed() ? list_capacity : capacity; }
    bool operator==(const DeviceCache&) const = default;
};

/// What a step changes of the lists that the decoder keeps on the device, one for each plane (KV head of a layer, layer by layer), and
/// which rows leave their pools before it. The last entry of each list is the step's own afterwards, and its row is written by the step.
struct DeviceLists {
    uint64_t cache = 0;   ///< whose lists they are: a number that no other cache has
    uint64_t version = 0; ///< of the lists after these changes
    /// Entries of plane i are [offsets[i], offsets[i + 1]): the whole list, or edits of it by position, ascending, none twice. An edit puts
    /// in an entry, moves it, or (column -1) takes it away. Of a plane at most decode::most_plane_edits, of all most_list_edits() (asserted).
    bool whole = true;
    std::span<const int32_t> offsets{}; ///< [planes + 1]
    std::span<const ListEntry> entries{};
    std::span<const LeavingRow> leaving{}; ///< at most decode::most_list_edits() (asserted); none twice
};

inline constexpr int64_t most_answer_keys = 64;

/// What the host is told of row 0 of a step, in memory that the device writes and the host reads.
struct DeviceAnswers {
    shared::SoftmaxSums sums;
    uint64_t keys[most_answer_keys] =
        {};                ///< the largest logits as kernels/shared/top_k.h has them, largest first
    float asked_logit = 0; ///< of DeviceStep::asked
    /// With a temperature T: sum of e^((z - max z) / T) over finite logits, and the token at DeviceStep::share of it, -1 where none was asked for or no
    /// logit is finite, and its logit.
    double total = 0;
    int32_t drawn = -1;
    float drawn_logit = 0;
    uint64_t sequence = 0; ///< of the step; written last
};

/// Attention of a step's row 0 in one layer that the host wants to see, after the softmax and before dropout: [heads, position + 1] by
/// position, 0 at what it does not read. Through lists, as fp32 alone (asserted): [heads, list_capacity], number i of a head belongs to entry i of
/// its KV head's list; what stands behind the list is not written. In bins (kernels/shared/attention_bins.h) halves are their sums by position,
/// [heads, bins of position + 1], through lists too.
struct AttentionTap {
    int64_t layer = 0;
    bool halves = false, floats = false; ///< as IEEE halves, as fp32
    int64_t bins =
        0; ///< most numbers of a head's row of halves; 0: every key. The same in all taps of halves (asserted)
    bool operator==(const AttentionTap&) const = default;
};

/// One step: what it feeds, and where its rows go.
struct DeviceStep {
    int32_t token = 0;
    int64_t position = 0; ///< the cache holds [0, position); the step writes column `position`
    int64_t rows = 1;     ///< 1 + N MC rows, which read the same columns, have dropout and write nothing
    uint64_t seed = 0;
    float dropout = 0; ///< probability, of rows from 1 on
    bool drop_attention = false, drop_attention_output = false, drop_mlp_output = false;
    float* logits = nullptr; ///< [rows, vocab]; null: they stay with the decoder
    bool answers = false;    ///< statistics of row 0 are wanted, or attention rows
    int64_t top_k = 0;       ///< and its so many largest logits: 0 .. most_answer_keys, not above vocab
    int32_t asked = -1;      ///< and the logit of this token; -1: of none
    double temperature = 0;  ///< > 0: and the sum of weights at this temperature
    double share =
        -1; ///< in [0, 1): and the token at which the weights, by id, reach this share of their sum
    std::span<const AttentionTap> taps{}; ///< not without answers
    bool entropies = false; ///< of the attention of row 0 in all layers, before dropout; not without answers
    const DeviceLists* lists =
        nullptr; ///< of a cache with pools; null: dense. Not without answers (asserted)
};

inline constexpr int64_t most_pass_rows = 512;

/// A pass of several tokens at positions first, first + 1, ...: a chunk of a prefill, or the delta of a refresh.
struct DevicePass {
    std::span<const int32_t> tokens; ///< 1 .. most_pass_rows
    int64_t first = 0;               ///< the cache holds [0, first); the pass writes [first, first + tokens)
    enum class Rows : uint8_t {
        none, ///< skips the head, and what follows the last layer's keys and values
        last,
        all,
    } rows = Rows::all;
    float* logits = nullptr; ///< [rows, vocab]; null with none
};

/// Runs decode steps on a device: the launches of kernels/cuda/decode, captured into a graph once for every cache, number of rows
/// and dropout, so that a step is one copy of 56 bytes to the device, one graph, and one copy of the rows where somebody wants them. Through lists
/// the graph edits them first, from memory of the host.
///
/// Waits    step() puts the work behind what `stream` has been given, and waits for nothing; where whole lists are uploaded, for their copy
/// Threads  one at a time
class DeviceDecoder {
public:
    DeviceDecoder() = default;
    DeviceDecoder(const DeviceDecoder&) = delete;
    DeviceDecoder& operator=(const DeviceDecoder&) = delete;
    virtual ~DeviceDecoder() = default;

    /// \param stream  a cudaStream_t; the default stream may be it
    /// Throws DeviceFailure (kernels/shared/device_failure.h) with CUDA's words; the decoder is of no use afterwards.
    virtual void step(const DeviceCache& cache, const DeviceStep& step, void* stream) = 0;
    /// A pass of many rows, by tensor cores where the weights have 16 bits (kernels/cuda/rows); as step().
    virtual void extend(const DeviceCache& cache, const DevicePass& pass, void* stream) = 0;
    /// Rows [0, rows) of the last step to `to`, [rows, vocab], on its device; before the next call.
    virtual void copy_logits(float* to, int64_t rows, void* stream) = 0;
    /// Waits until the answers of the last step are there, which must have asked for some: by looking at memory, without a wait for
    /// the device. Throws when the device has failed meanwhile.
    [[nodiscard]] virtual const DeviceAnswers& wait_for_answers() = 0;
    /// After wait_for_answers(), until the next step: the row of tap `index` in the form that it asked for; null: it did not.
    [[nodiscard]] virtual const uint16_t* halves(size_t index) const = 0;
    [[nodiscard]] virtual const float* floats(size_t index) const = 0;

    /// After wait_for_answers(), until the next step: entropies in bits [layers, heads], 0 in layers whose attention is left out; null: nobody asked.
    [[nodiscard]] virtual const float* entropies() const = 0;

    /// The device has the lists of this cache in this version, with room for `list_capacity` entries each: edits of them are enough.
    [[nodiscard]] virtual bool holds_lists(uint64_t cache, uint64_t version, int64_t list_capacity) const = 0;
    /// After wait_for_answers(), until the next step: the rows that left, [leaving, 2, head_dim] of the model's type, key and value.
    [[nodiscard]] virtual const void* left_rows() const = 0;
};

/// Makes decoders of one build: of kernels/cuda for a device (cuda::make_decoder), or for the suites' machine on the host.
using MakeDecoder = std::unique_ptr<DeviceDecoder> (*)(const DeviceModel& model);

} // namespace refreshlab::kernels
