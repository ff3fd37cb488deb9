#pragma once

#include "engine/control/engine_link.h"
#include "engine/control/parameters.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// One owner per value: line, slider and typed entry edit the same draft of a parameter; a command carries it down; the
/// engine answers with the applied value (EngineStatus::applied). While they differ the value is "pending" and its tag
/// is drawn hollow. One undo entry per drag. No ImGui in here; UI thread only.
class Drafts {
public:
    /// Start of a frame: learns what the engine has applied.
    void begin_frame(const EngineStatus& status);

    /// Value to draw: the draft while one is pending or being dragged, else the applied value; nothing if the running
    /// configuration has no such parameter.
    [[nodiscard]] std::optional<std::string> value(std::string_view key) const;
    [[nodiscard]] std::optional<double> number(std::string_view key) const;
    [[nodiscard]] bool pending(std::string_view key) const;

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
    void set_policy(EngineLink& engine, const RefreshPolicy& policy);
    [[nodiscard]] RefreshPolicy policy() const; ///< pending draft or applied, pending parameter drafts included

    [[nodiscard]] bool can_undo() const { return m_next_undo > 0; }
    [[nodiscard]] bool can_redo() const { return m_next_undo < m_undo.size(); }
    [[nodiscard]] std::string undo_label() const; ///< "Entropy threshold 6 -> 5.2 bits"
    [[nodiscard]] std::string redo_label() const;
    void undo(EngineLink& engine);
    void redo(EngineLink& engine);

private:
    struct Undo {
        std::string key; ///< "" = policy
        std::string before, after;
        RefreshPolicy policy_before, policy_after;
    };
    void send(EngineLink& engine, const std::string& key, const std::string& value);
    void remember(Undo entry);

    RunConfig m_applied;
    uint64_t m_revision = 0;
    std::map<std::string, std::string, std::less<>> m_pending; ///< key -> value sent and not yet applied
    std::optional<RefreshPolicy> m_pending_policy;
    std::string m_edited, m_edited_before;
    std::vector<Undo> m_undo;
    size_t m_next_undo = 0;
};

} // namespace refreshlab::ui
