#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

inline constexpr uint32_t note_colours = 8;                 ///< a note's colour is an index below it
inline constexpr size_t longest_note = size_t{1} << 20;     ///< bytes
inline constexpr int64_t last_note_step = int64_t{1} << 40; ///< no run has so many

/// What a person wrote beside steps of a run. Plain data.
struct StepNote {
    int64_t id = 0; ///< within its run and this process; RunNotes gives it, from 1
    int64_t first_step = 1,
            last_step = 1; ///< 1 <= first_step <= last_step; the run may not have made them yet
    uint32_t colour = 0;   ///< < note_colours
    std::string text;      ///< as clean_note_text() gives it; empty: a bookmark
    std::string made_at;   ///< ISO 8601, UTC
    friend bool operator==(const StepNote&, const StepNote&) = default;
};

/// A text of several lines as windows and files can show it: well-formed UTF-8, lines end with \n, tabs stay, other controls become
/// spaces, what is no character U+FFFD; no white space at its end. Cleaning a clean text changes nothing.
[[nodiscard]] std::string clean_note_text(std::string_view typed);
/// What is wrong with a note's steps, colour, text or length, as a sentence's end; empty: nothing.
[[nodiscard]] std::string note_fault(const StepNote& note);
/// "step 5", "steps 5 to 9".
[[nodiscard]] std::string note_place(const StepNote& note);

/// The notes of one run: what may change beside its append-only log. Those of a recording are shared by all who hold it.
///
/// Threads  any. A mutex guards the notes and is held for a look-up or a copy; listeners are called on the thread that changes
///          something, behind that mutex.
class RunNotes {
public:
    explicit RunNotes(std::string run_id)
        : m_run_id(std::move(run_id)) {}
    RunNotes(const RunNotes&) = delete;
    RunNotes& operator=(const RunNotes&) = delete;

    [[nodiscard]] const std::string& run_id() const { return m_run_id; }
    /// Gives the note an id of its own. The text is cleaned; a note without a time gets the present one.
    /// Throws Error{bad_input} for a note_fault(). \return the id
    int64_t add(StepNote note);
    /// The note with note.id is this one now, also where it was erased. Throws as add() does.
    void put(StepNote note);
    bool erase(int64_t id); ///< \return false where there is none
    /// The note with this id becomes `to` (nothing: it goes) where it is `from` now; else nothing happens: somebody else has changed it.
    /// Throws as add() does. \return whether it was `from`
    bool change(int64_t id, const std::optional<StepNote>& from, std::optional<StepNote> to);
    [[nodiscard]] std::optional<StepNote> find(int64_t id) const;
    /// By first step, then id.
    [[nodiscard]] std::vector<StepNote> own() const;

    /// A note as this run shows it. One that begins on a step that the run shares with its parent is the parent's.
    struct Seen {
        StepNote note;                   ///< its last step is the fork's at most
        std::shared_ptr<RunNotes> owner; ///< who has it; null: these notes themselves
    };
    /// Own notes and those of the runs that this one comes from, as far as their steps are shared. By first step, then age of the run.
    [[nodiscard]] std::vector<Seen> seen() const;
    /// This run shares steps [1, fork_step] with another. Called before others hold these notes. \param parent  not null, not a
    /// descendant of this (the caller sees to it)
    void descend_from(std::shared_ptr<RunNotes> parent, int64_t fork_step);

    /// Rises with every change of own notes.
    [[nodiscard]] uint64_t revision() const;
    /// Differs whenever seen() may.
    [[nodiscard]] uint64_t seen_revision() const;

    /// Called after every change of own notes until unlisten() returns. A listener may not listen or unlisten.
    uint64_t listen(std::function<void()> listener);
    void unlisten(uint64_t key);

private:
    void tell();

    const std::string m_run_id;
    mutable std::mutex m_mutex; ///< protects what follows; taken before the parent's, never after
    std::map<int64_t, StepNote> m_notes;
    int64_t m_next_id = 1;
    uint64_t m_revision = 0;
    std::shared_ptr<RunNotes> m_parent;
    int64_t m_fork_step = 0;

    std::mutex m_telling; ///< held while listeners are called; taken without m_mutex
    std::map<uint64_t, std::function<void()>> m_listeners;
    uint64_t m_next_listener = 1;
};

} // namespace refreshlab
