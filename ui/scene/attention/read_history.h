#pragma once

#include "engine/record/recording/recording.h"
#include "ui/scene/attention/attention_map.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// Which keys the decoding model's attention read at every step, from the recorded cache events: so an entry that was not read is
/// told from one whose weight is nothing.
/// Cost of update(): the new events. Memory: 8 B for every change of an entry in a layer and KV head.
class ReadHistory {
public:
    struct StepSpan {
        int64_t first = 0, last = 0;
        friend bool operator==(const StepSpan&, const StepSpan&) = default;
    };
    void reset(); ///< before another recording is shown
    void update(const Recording& recording);
    /// No entry was ever evicted or left unread.
    [[nodiscard]] bool all_read() const { return !m_any; }
    /// Why a key was not read at a step: "evicted at step 12", "held, but not read"; empty: it was read. An entry that left in that
    /// very step may have been read before: its weight tells.
    [[nodiscard]] std::string why_unread(int64_t layer, int64_t kv_head, int64_t position,
                                         int64_t step) const;
    /// The same without the words: in `ranges` come those steps, of first_step to last_step, whose queries read the key, ascending.
    /// Cost: the changes of the entry.
    void read_steps(int64_t layer, int64_t kv_head, int64_t position, int64_t first_step, int64_t last_step,
                    std::vector<StepSpan>& ranges) const;
    [[nodiscard]] bool is_unread(int64_t layer, int64_t kv_head, int64_t position, int64_t step) const;
    /// Of a query head.
    [[nodiscard]] int64_t kv_head_of(int64_t head) const { return head / m_group; }

private:
    struct Change {
        int32_t step = 0;
        CacheChange change = CacheChange::attended;
    };
    [[nodiscard]] std::span<const Change> changes(int64_t layer, int64_t kv_head, int64_t position) const;

    const Recording* m_recording = nullptr; ///< compared only
    size_t m_next = 0;
    int64_t m_layers = 0, m_kv_heads = 0, m_group = 1;
    bool m_any = false;
    std::vector<std::vector<std::vector<Change>>> m_changes; ///< [layers * kv_heads][position], by step
};

/// Gives a colour of its own to cells of one head whose weight is nothing, and none of whose keys was read.
/// \param colours  of map.cells(layer_index, head_index)
/// Cost: the keys of the window, the changes of their entries, and the texels whose keys were read.
void mark_unread(const ReadHistory& history, const AttentionMap& map, size_t layer_index, size_t head_index,
                 int64_t prompt_length, uint32_t colour, std::span<uint32_t> colours);

} // namespace refreshlab::ui
