#pragma once

#include "engine/record/notes/run_notes.h"
#include "engine/record/recording/recording.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::remote {

/// Keeps the notes of runs here and on a server the same. What a person changes here goes there; without a connection it waits. Of two
/// changes of one note at the same time the one that the server takes last stays, on both sides.
///
/// Threads  one; the notes themselves may change on any
class NoteReceiver {
public:
    /// \param name     begins the keys of notes that are made here: no other client has it
    /// \param changed  a note of a run has changed: look_for_changes() finds it. Any thread; it may not ask anything here
    NoteReceiver(std::string name, std::function<void()> changed);
    ~NoteReceiver();
    NoteReceiver(const NoteReceiver&) = delete;
    NoteReceiver& operator=(const NoteReceiver&) = delete;

    /// A run of the server, which has no notes here yet. One with a known id takes the place of the former recording.
    void add(const std::shared_ptr<const Recording>& run);
    /// The server tells all runs anew. What waits stays.
    void forget_runs();

    void begin_connection();
    /// What was changed here is kept, to be sent later.
    void look_for_changes();
    /// {"number", "run", "key", "note"} of each change that was not sent in this connection.
    [[nodiscard]] std::vector<nlohmann::json> changes();
    /// A message of NoteSender::next(). Throws nlohmann::json::exception, and Error for what is no note.
    /// \return why a change was refused; mostly empty
    std::string take(const nlohmann::json& message);
    /// Changes that the server has not taken.
    [[nodiscard]] size_t waiting() const { return m_waiting.size(); }

private:
    struct Run {
        std::shared_ptr<RunNotes> notes;
        uint64_t listener = 0;
        std::optional<uint64_t> revision;      ///< that was looked at
        std::map<int64_t, std::string> keys;   ///< by id, also of erased notes
        std::map<std::string, int64_t> ids;    ///< the reverse
        std::map<std::string, StepNote> known; ///< as it was looked at, or put here, last
    };
    struct Change {
        std::optional<StepNote> note;
        uint64_t number = 0; ///< 0: not sent
    };
    void put(const std::string& run_id, Run& run, const std::string& key,
             const std::optional<StepNote>& note);

    const std::string m_name;
    const std::function<void()> m_changed;
    std::map<std::string, Run> m_runs;                               ///< by id
    std::map<std::pair<std::string, std::string>, Change> m_waiting; ///< by run and key
    uint64_t m_last_number = 0, m_last_key = 0;
};

} // namespace refreshlab::remote
