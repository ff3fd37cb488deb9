#pragma once

#include "engine/base/entry_selection.h"
#include "engine/model/llama_model.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace refreshlab {

class KvCache;
class TeacherText;

/// What of delta is the teacher's in one layer: halves of some KV heads, at some positions.
struct LayerTake {
    std::vector<uint8_t> heads; ///< [kv_heads], 1 = the teacher's
    EntryHalves halves;
    std::vector<uint8_t> positions; ///< [delta], 1 = the teacher's
};
/// The entries of delta that are the teacher's, layer by layer.
using Take = std::vector<LayerTake>;

/// Nothing of a delta, or all of it: to be changed layer by layer.
[[nodiscard]] Take take_nothing(const ModelConfig& config, int64_t delta);
[[nodiscard]] Take take_everything(const ModelConfig& config, int64_t delta);

/// One refresh on a given text: what the student loses over the tokens behind it when some entries of delta are the teacher's and the others its
/// own. Before it the student stands as after a whole refresh at the boundary in front.
///
/// Exact    the rows of many takes go through the student together, each layer with the columns that its take wants: the teacher's, the student's,
///          or a set in which the two are mixed KV head by KV head (AttentionInputs::tails). On the CPU a row has the bits of a session's record
///          that reads the text with that scope.
/// Threads  one; under the ExecutionScope of the caller.
class RefreshReadings {
public:
    /// Reads delta with the student. All outlive this; no other scratch columns stand in the cache.
    /// \param cache    holds the teacher's columns of prompt and text, and room for scratch()
    /// \param begin    the boundary in front; 0: the prompt
    /// \param horizon  tokens behind the boundary; boundary + horizon <= text.steps()                          (asserted)
    RefreshReadings(const LlamaModel& student, const TeacherText& text, KvCache& cache, int64_t begin,
                    int64_t boundary, int64_t horizon);
    ~RefreshReadings();
    RefreshReadings(const RefreshReadings&) = delete;
    RefreshReadings& operator=(const RefreshReadings&) = delete;

    /// The student's cache with the teacher's columns of a text and room for readings of refreshes of at most `longest` positions.
    [[nodiscard]] static std::unique_ptr<KvCache>
    make_cache(const LlamaModel& student, const TeacherText& text, int64_t longest, int64_t horizon);

    /// Loss over the tokens behind the refresh, nats a token, of as many of the takes as fit into a forward: the first ones, one at least.
    [[nodiscard]] std::vector<double> some_losses(std::span<const Take> takes);
    /// ... of all of them.
    [[nodiscard]] std::vector<double> losses(std::span<const Take> takes);
    [[nodiscard]] int64_t delta() const { return m_boundary - m_begin; }

private:
    using SetKey = std::pair<std::vector<uint8_t>, std::pair<bool, bool>>;

    [[nodiscard]] static SetKey key_of(const LayerTake& take);
    /// Sets of mixed columns that stand side by side.
    [[nodiscard]] static int64_t most_sets(const ModelConfig& config) { return config.num_layers + 32; }
    void read_delta();
    [[nodiscard]] size_t fitting(std::span<const Take> takes);
    [[nodiscard]] int64_t mix(const SetKey& key);
    [[nodiscard]] int64_t column(const LayerTake& take, int64_t i) const;
    [[nodiscard]] std::vector<double> read(std::span<const Take> takes);

    const LlamaModel& m_student;
    const TeacherText& m_text;
    KvCache& m_cache;
    int64_t m_prompt, m_begin, m_boundary, m_horizon;
    int64_t m_shared;                 ///< the teacher's columns; the student's of delta stand behind them
    std::map<SetKey, int64_t> m_sets; ///< first column of each
};

} // namespace refreshlab
