#pragma once

#include "engine/record/notes/run_notes.h"
#include "engine/record/recording/recording.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace refreshlab::remote {

/// The notes of a server's runs as its clients name them: a note has a key, which is the same for all of them and stays with it when it
/// is erased and comes back. A client that makes a note makes its key.
///
/// Threads  one; the notes themselves may change on any
class SharedNotes {
public:
    /// \param changed  a note of a run has changed. Any thread, behind a mutex: it may not ask anything here
    explicit SharedNotes(std::function<void()> changed);
    ~SharedNotes();
    SharedNotes(const SharedNotes&) = delete;
    SharedNotes& operator=(const SharedNotes&) = delete;

    /// Of a run that is known already: the recording takes the place of its former one.
    void add(const std::shared_ptr<const Recording>& run);
    /// Forgets the runs that are to be kept no more.
    void keep(const std::function<bool(const std::string& run_id)>& kept);
    [[nodiscard]] bool knows(const std::string& run_id) const { return m_runs.contains(run_id); }

    /// The note with this key is that one now; nothing: it goes. \return false: there is no such run
    /// Throws Error{bad_input} for a note_fault().
    bool change(const std::string& run_id, const std::string& key, std::optional<StepNote> note);

    /// By key. \param alone  with the notes of the runs that it comes from, as far as it sees them: its reader has not these runs
    [[nodiscard]] std::map<std::string, StepNote> notes(const std::string& run_id, bool alone);
    /// Differs whenever notes() may.
    [[nodiscard]] uint64_t revision(const std::string& run_id, bool alone) const;

private:
    struct Place {
        std::shared_ptr<RunNotes> owner;
        int64_t id = 0;
    };
    struct Run {
        std::shared_ptr<RunNotes> notes;
        uint64_t listener = 0;
    };
    void remove(const std::string& run_id);
    [[nodiscard]] const std::string& key_of(const std::shared_ptr<RunNotes>& owner, int64_t id);

    const std::function<void()> m_changed;
    std::map<std::string, Run> m_runs;     ///< by id
    std::map<std::string, Place> m_places; ///< by key
    std::map<std::pair<const RunNotes*, int64_t>, std::string> m_keys;
    uint64_t m_next_key = 1;
};

/// What one client has not been told yet of the notes of its runs, and of its own changes.
///
/// Threads  that of the SharedNotes
class NoteSender {
public:
    /// The client has this run: its notes are told from now on, all of them at first. \param alone  SharedNotes::notes()
    void begin(const std::string& run_id, bool alone);
    /// The client's change with this number was carried out, or `problem` says why not.
    /// \param key  of the note in that run. The client hears what the note then is, also where others had changed it back meanwhile: until
    ///             its change is taken it keeps its own
    void answer(uint64_t number, const std::string& run_id, const std::string& key, std::string problem);
    /// {"run", "whole", "notes": {KEY: note}, "gone": [KEY], "taken", "problem"}, without what there is not; null: nothing is new.
    [[nodiscard]] nlohmann::json next(SharedNotes& notes);

private:
    struct Told {
        bool alone = false;
        std::optional<uint64_t> revision; ///< nothing: not told at all
        std::map<std::string, StepNote> notes;
        std::set<std::string> taken; ///< keys of the client's changes since
    };
    std::map<std::string, Told> m_runs;
    uint64_t m_taken = 0, m_told_taken = 0;
    std::string m_problem;
};

} // namespace refreshlab::remote
