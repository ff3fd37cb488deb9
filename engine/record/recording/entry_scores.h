#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace refreshlab {

/// What a cache policy last gave the entries of the model that decodes when it chose among them: of what is gone, the number it went
/// with. Known while the program runs; no trace has it.
/// Written by the decode thread, or by the one that gets them of an engine elsewhere.
///
/// Threads  one writer, any readers.
/// Memory   8 B a position for every layer and KV head that has been chosen in.
class EntryScores {
public:
    struct Score {
        float value = 0;
        int32_t step = -1; ///< that chose; 0 = after the prompt
    };
    explicit EntryScores(int64_t planes)
        : m_planes(static_cast<size_t>(planes)) {}

    /// \param plane      layer * KV heads + KV head
    /// \param positions  of the scores, as many
    void set(int64_t plane, int64_t step, std::span<const int64_t> positions, std::span<const float> scores);
    /// Nothing where the policy has not chosen in that layer and KV head, or has no score for the entry.
    [[nodiscard]] std::optional<Score> at(int64_t plane, int64_t position) const;
    /// The scores that were given up to a step, in place of those that `to` has.
    void copy_up_to(int64_t step, EntryScores& to) const;

    /// Of all planes; step -1: none is known.
    [[nodiscard]] std::vector<Score> column(int64_t position) const;
    /// \param scores  of all planes, in the place of those that are known    (asserted)
    void put_column(int64_t position, std::span<const Score> scores);

    // Of a run whose scores are elsewhere and come a position at a time (engine/remote): a reader says which one it wants.
    void come_on_demand() { m_on_demand.store(true, std::memory_order_relaxed); }
    [[nodiscard]] bool on_demand() const { return m_on_demand.load(std::memory_order_relaxed); }
    void want(int64_t position) const { m_wanted.store(position, std::memory_order_relaxed); }
    [[nodiscard]] int64_t wanted() const {
        return m_wanted.load(std::memory_order_relaxed);
    } ///< -1: none yet
    /// at() has all that is known of this position, or it has come once.
    [[nodiscard]] bool here(int64_t position) const;

    /// Somebody looks: from now on scores are told at every step. What is told once, after the prompt, is told in any case.
    void ask() const { m_asked.store(true, std::memory_order_relaxed); }
    [[nodiscard]] bool asked() const { return m_asked.load(std::memory_order_relaxed); }

private:
    mutable std::mutex m_mutex;
    std::vector<std::vector<Score>> m_planes; ///< by position
    std::vector<bool> m_here;                 ///< positions that have come
    std::atomic<bool> m_on_demand = false;
    mutable std::atomic<bool> m_asked = false;
    mutable std::atomic<int64_t> m_wanted = -1;
};

} // namespace refreshlab
