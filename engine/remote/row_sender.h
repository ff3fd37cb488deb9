#pragma once

#include "engine/control/engine_link.h"
#include "engine/landscape/landscape.h"
#include "engine/record/recording/recording.h"
#include "engine/record/trace/write/trace_rows.h"
#include "engine/record/trace/write/trace_writer.h"
#include "engine/remote/row_tables.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::remote {

/// Tells two attention rows of one position apart (FNV-1a of all that they hold).
[[nodiscard]] uint64_t fingerprint(const AttentionRows& rows);

/// What one client has not been told yet of the runs of an engine, a message at a time. A message has at most steps_at_once steps, so
/// that a long run comes in pieces that a person sees grow.
///
/// Threads  one; the recordings may grow on another
/// Errors   SqlError
class RowSender {
public:
    static constexpr int64_t steps_at_once = 64;

    RowSender();

    /// The engine's recording now. What is left of those before comes first.
    void tell(const std::shared_ptr<const Recording>& recording);
    /// Goes on where a client says that it stands (RowReceiver::state()): with the rest of its run, then with the runs that came after it.
    /// A branch of a run that the client has whole shares steps with it.
    /// \param runs  of the engine, in the order in which they came; the last one is told at last
    /// \return {"run", "number", "vocabulary", "others": [{"run", "number", "vocabulary"}, ...]}: what the client's runs are called now;
    ///         null where this is no state of one of them: the engine's run is told from its beginning then
    [[nodiscard]] nlohmann::json resume(std::span<const std::shared_ptr<const Recording>> runs,
                                        const nlohmann::json& state);
    /// What the client knows of runs: those that it has said, and those that were begun since.
    [[nodiscard]] const std::vector<std::string>& runs_told() const { return m_told; }

    /// {"runs", "tables", "upto"}: everything but attention rows and values of drift maps; null where nothing is new.
    [[nodiscard]] nlohmann::json next();
    /// {"runs", "tables"}: attention rows and drift maps of the present run that the client lacks, at least one and no more once they have
    /// so many bytes; null where there is none. What is looked at comes first, then drift maps, then rows, the newest before the others.
    [[nodiscard]] nlohmann::json next_heavy(int64_t bytes);
    /// The client has all that next_heavy() has given so far. Until then a branch, which the client makes of its own rows, may come
    /// before them, and is told these once more.
    void heavy_has_come();
    struct ToCome {
        int64_t rows = 0, bytes = 0;
        friend bool operator==(const ToCome&, const ToCome&) = default;
    };
    /// What next_heavy() has to give yet, and what it gave that has not come.
    [[nodiscard]] ToCome heavy_to_come();
    void look_at(int64_t position) { m_looked_at = position; }

    /// {"landscape", "tables"}: rows of a landscape that the client lacks, as next_heavy().
    [[nodiscard]] nlohmann::json next_landscape(const LandscapeState& state, int64_t bytes);

private:
    using Key = std::pair<int64_t, bool>; ///< position, teacher
    using Rows = std::shared_ptr<const AttentionRows>;

    void begin(const std::shared_ptr<const Recording>& recording);
    [[nodiscard]] nlohmann::json go_on_with(const std::shared_ptr<const Recording>& recording,
                                            const trace::WrittenUpTo& upto);
    /// Brings m_missing and m_dropped up to date.
    void look_for_attention();
    [[nodiscard]] nlohmann::json position_json() const;

    RowTables m_tables;
    trace::TraceWriter m_writer;
    trace::TraceRows m_rows;
    std::shared_ptr<const Recording> m_recording;
    std::deque<std::shared_ptr<const Recording>> m_next; ///< to be told after it, in this order
    std::vector<std::string> m_told;                     ///< ids of runs, in the order in which they began
    size_t m_drifts = 0; ///< of m_recording that are told, with or without values

    /// What a client has of a run: attention rows, and the drift maps of which it has no values.
    struct Has {
        std::map<Key, std::weak_ptr<const AttentionRows>> rows = {};
        std::set<size_t> no_drift = {};
    };
    Has m_has;                        ///< of m_recording
    std::map<std::string, Has> m_had; ///< of runs before it, by id
    std::vector<size_t> m_drifts_on_the_way;
    ToCome m_going; ///< of both
    std::vector<Key> m_on_the_way;
    std::vector<Rows> m_missing; ///< by position
    std::vector<Key> m_dropped;
    size_t m_seen_changes = SIZE_MAX;
    int64_t m_seen_steps = -1;
    std::optional<int64_t> m_looked_at;

    std::shared_ptr<const Landscape>
        m_landscape; ///< that m_landscape_rows are of, or one that it has grown from
    std::string m_landscape_run;
    std::set<int64_t> m_landscape_rows; ///< told
};

} // namespace refreshlab::remote
