#pragma once

#include "engine/control/engine_link.h"
#include "engine/control/parameters.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// Whose cache policy.
enum class CacheOwner : uint8_t { teacher, student };

/// What a card of the policy edits of its trigger. A key is made from nothing else, so no card can offer a field that drafts do
/// not know.
enum class TriggerField : uint8_t {
    threshold,  ///< a number, in the range of the parameter list where that has it
    every,      ///< tokens
    cooldown,   ///< tokens
    enabled,    ///< "true" or "false"
    comparison, ///< "above", ...
    layers, ///< of a layered signal what is compared: "mean", "max", "min", "layer 3" (to_string of a LayerPick)
    layer, ///< the number of the one layer; present where it is one
};
constexpr size_t num_trigger_fields = 7;
/// Key of one field of the policy's trigger `index`: "trigger/1/threshold".
[[nodiscard]] std::string trigger_key(size_t index, TriggerField field);

/// One owner per value: line, slider and typed entry edit the same draft of a parameter. A command carries it to the
/// engine, which answers with the applied value (EngineStatus::applied). While the two differ, the value is "pending"
/// and its tag is drawn hollow. One undo entry per drag. No ImGui in here; UI thread only.
///
/// Keys  those of engine/control/parameters.h ("sampler.temperature"), which travel as SetParameter, and besides them
///       "trigger/<index>/<field>" (TriggerField): a field of one card of the policy, which travels as SetPolicy. Every
///       trigger has such keys, whatever its signal; trigger_key() makes them. A parameter key that names the same number
///       ("entropy.threshold") shows the same draft.
///
/// The draft is the applied configuration with the edits that are still under way. Their order is the one in which the
/// engine's queue will apply them (a later edit of a key replaces the earlier one and goes to the end, as in
/// CommandQueue).
class Drafts {
public:
    /// Start of a frame: learns what the engine has applied.
    void begin_frame(const EngineStatus& status);

    /// Value to draw: the draft while one is pending or being dragged, else the applied value; nothing if the running
    /// configuration has no such parameter.
    [[nodiscard]] std::optional<std::string> value(std::string_view key) const;
    /// The same as a number; nothing where the value is no number ("none", "redraw"). Booleans are 0 and 1.
    [[nodiscard]] std::optional<double> number(std::string_view key) const;
    [[nodiscard]] bool pending(std::string_view key) const;
    /// What the engine works with now, for a tag beside a pending value.
    [[nodiscard]] std::optional<std::string> applied_value(std::string_view key) const;

    /// A drag: begin_edit once, then edit() every frame (each sends SetParameter, which coalesces), then commit() or
    /// cancel() (Esc: the value before begin_edit returns). An edit() without begin_edit is a commit by itself.
    /// Throws Error{bad_input} from the parameter's check; nothing is sent then.
    void begin_edit(std::string_view key);
    void edit(EngineLink& engine, std::string_view key, std::string_view value);
    void edit(EngineLink& engine, std::string_view key, double value);
    void commit(std::string_view key);
    void cancel(EngineLink& engine);
    [[nodiscard]] const std::string& edited_key() const { return m_edited; } ///< "" when nothing is held

    /// Whole-policy changes (preset chosen, card added or removed): also one undo entry.
    /// Throws Error{bad_input} from check_policy; nothing is sent then.
    void set_policy(EngineLink& engine, const RefreshPolicy& policy);
    [[nodiscard]] RefreshPolicy
    policy() const; ///< pending draft or applied, pending parameter drafts included
    [[nodiscard]] bool policy_pending() const { return !(m_draft.policy == m_applied.policy); }
    /// The whole configuration as it will be once everything sent has been applied.
    [[nodiscard]] const RunConfig& config() const { return m_draft; }

    // --- cache policies: what a method does not call live waits for the next run ---
    /// As the next run would have it: what waits, else the draft.
    [[nodiscard]] const CachePolicyConfig& next_cache(CacheOwner owner) const;
    /// Something waits for the next run.
    [[nodiscard]] bool cache_waits(CacheOwner owner) const { return waiting_cache(owner).has_value(); }
    /// One undo entry; nothing waits any more where it equals the draft.
    void set_next_cache(CacheOwner owner, const CachePolicyConfig& cache);
    /// config() with all that waits.
    [[nodiscard]] RunConfig next_run() const;

    /// A change of another kind, made already, takes its place among these: what is chosen to be seen.
    /// \param words  behind "Undo" in the menu  \param move  back (true) and forth again
    void join_history(std::string words, std::function<void(bool back)> move);

    [[nodiscard]] bool can_undo() const { return m_next_undo > 0; }
    [[nodiscard]] bool can_redo() const { return m_next_undo < m_undo.size(); }
    [[nodiscard]] std::string
    undo_label() const; ///< "Entropy threshold 6 -> 5.2 bits"; "" when there is nothing
    [[nodiscard]] std::string redo_label() const;
    /// Both throw Error{bad_input} when the present run refuses the value (another policy since); the entry is dropped.
    void undo(EngineLink& engine);
    void redo(EngineLink& engine);

private:
    struct Undo {
        std::string key; ///< "" = policy
        std::string before, after;
        RefreshPolicy policy_before, policy_after;
        /// Of a cache policy of the next run.
        struct NextCache {
            CacheOwner owner = CacheOwner::student;
            CachePolicyConfig before, after;
        };
        std::optional<NextCache> cache = {};
        std::string words = {}; ///< of a change of another kind
        std::function<void(bool back)> move = {};
    };
    /// One edit that was sent and is not yet known to be applied.
    struct Sent {
        std::string key; ///< "" = policy
        std::string value;
        RefreshPolicy policy;
        uint64_t ticket = 0; ///< of its command
    };
    void send(EngineLink& engine, const std::string& key, const std::string& value);
    void send_policy(EngineLink& engine, const RefreshPolicy& policy);
    void enqueue(Sent sent);
    void rebuild_draft();
    [[nodiscard]] std::optional<CachePolicyConfig>& waiting_cache(CacheOwner owner) {
        return owner == CacheOwner::teacher ? m_next_teacher : m_next_student;
    }
    [[nodiscard]] const std::optional<CachePolicyConfig>& waiting_cache(CacheOwner owner) const {
        return owner == CacheOwner::teacher ? m_next_teacher : m_next_student;
    }
    void let_wait(CacheOwner owner, const CachePolicyConfig& cache);
    void follow_live(std::string_view key);
    void remember(Undo entry);
    void move_in_history(EngineLink& engine, size_t entry, bool back);
    [[nodiscard]] static std::string label(const Undo& entry);

    RunConfig m_applied, m_draft;
    std::optional<CachePolicyConfig> m_next_teacher, m_next_student; ///< where they differ from the draft
    std::vector<Sent> m_sent;                                        ///< in the order of the engine's queue
    std::string m_edited, m_edited_before;
    RefreshPolicy m_edited_policy_before;
    std::vector<Undo> m_undo;
    size_t m_next_undo = 0;
};

/// Value of a key, the trigger/... keys included; nothing if the configuration has no such thing.
[[nodiscard]] std::optional<std::string> draft_value(const RunConfig& config, std::string_view key);
/// Sets it. Throws Error{bad_input}.
void set_draft_value(RunConfig& config, std::string_view key, std::string_view value);

} // namespace refreshlab::ui
