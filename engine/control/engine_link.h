#pragma once

#include "engine/control/command.h"
#include "engine/control/derive/derive_spec.h"
#include "engine/control/run_outlook.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab {

class Landscape;
class Recording;
struct ScopeMap;

enum class EngineState : uint8_t { idle, loading, prefilling, running, paused, finished, failed };
[[nodiscard]] const char* to_string(EngineState s);

/// What a person must always see about a model.
struct ModelSummary {
    std::string name, dir, device, dtype;
    int64_t hidden = 0, intermediate = 0;
    int64_t parameters = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, vocab_size = 0,
            max_position = 0;
    int64_t weight_bytes = 0;
    bool mc_calibrated = false; ///< declares a dropout it was trained with
};

/// One line of the pair check: a field of teacher and student side by side.
struct PairFact {
    std::string name, teacher, student;
    enum class Verdict : uint8_t {
        equal,   ///< must be equal and is
        differs, ///< must be equal for a splice and is not
        free,    ///< may differ
    } verdict = Verdict::equal;
};

/// The newest landscape of the engine (engine/landscape/landscape.h): of a run's text, and how far it is.
struct LandscapeState {
    std::string run_id;                         ///< of the run whose text it is of
    std::shared_ptr<const Landscape> landscape; ///< the rows so far; null before the first
    bool computing = false;
    int64_t cells_done = 0, cells = 0; ///< of those that this computation makes; 0 while the teacher reads
    double seconds = 0;                ///< spent on them
};

/// The newest scope map of the engine (engine/results/scope_map.h), and how far the one that is measured is.
struct ScopeState {
    std::string run_id;                  ///< of the run whose text it is of
    std::shared_ptr<const ScopeMap> map; ///< whole; null: none yet
    bool computing = false;
    /// Of the map; 0 while the teacher reads. The greedy order comes after it.
    int64_t rows_done = 0, rows = 0;
    int64_t taken = 0; ///< KV heads of the greedy order so far
    double share = 0;  ///< of the gain that they keep
};

/// A draft that goes on (OnFire::verify): tokens that the student has drawn and the teacher has not judged. They are no steps of the run: after the
/// judgment they become steps, or a DraftEvent of the recording has them as rejected. Texts: Recording::tokens().
struct OpenDraft {
    struct Token {
        int32_t id = -1;
        /// Under the student's raw row that it was drawn from, and the entropy of that row.
        float logprob = 0, entropy_bits = 0;
        friend bool operator==(const Token&, const Token&) = default;
    };
    std::string run_id;
    int64_t first_token = 0; ///< tokens[i] is y_{first_token + i}, if it stays
    std::vector<Token> tokens;
};

/// How the connection to an engine of another process is (engine/remote).
struct RemoteLink {
    std::string server = {}; ///< address
    std::string host = {};   ///< name of its machine
    bool connected = true;
    std::string problem = {};  ///< why not, or what else a person must know of the connection; one line
    bool driving = true;       ///< commands of this window are taken; else those of another
    std::string driver = {};   ///< who drives, as it calls itself; empty: nobody
    int64_t viewers = 1;       ///< connected windows and clients
    std::string record = {};   ///< trace on the server that runs go into; empty: none
    int64_t rows_to_come = 0;  ///< attention rows and drift maps of the run that this side has not
    int64_t bytes_to_come = 0; ///< of these rows
    int64_t notes_to_send = 0; ///< changes of notes that were made here and are not on the server
    friend bool operator==(const RemoteLink&, const RemoteLink&) = default;
};

/// What an engine of another process offers to a window: nothing else of its machine is to be seen.
struct LinkOffers {
    struct Model {
        std::string name = {}, path = {}; ///< the path is that machine's
        friend bool operator==(const Model&, const Model&) = default;
    };
    struct File {
        std::string name = {};    ///< of a trace, without a folder
        int64_t bytes = 0;        ///< so far: a run that goes on makes it longer
        std::string changed = {}; ///< "2026-07-30 14:02", time of that machine
        friend bool operator==(const File&, const File&) = default;
    };
    /// A file there that a configuration names by its path.
    struct Part {
        enum class Kind : uint8_t {
            almanac,     ///< TaskConfig::almanac
            gate,        ///< of a cache policy
            prompt_cache ///< RunConfig::prompt_cache
        } kind = Kind::almanac;
        std::string name = {}, path = {};
        friend bool operator==(const Part&, const Part&) = default;
    };
    std::vector<Model> models = {};
    std::vector<File> files = {}; ///< traces, the newest first
    std::vector<Part> parts = {};
    std::string problem = {}; ///< why nothing is known; empty: all is
};

/// One consistent snapshot of the decode thread's state, replaced as a whole after each step.
struct EngineStatus {
    EngineState state = EngineState::idle;
    std::string message; ///< progress ("loading teacher") or the error that led to `failed`
    double progress = 0; ///< 0..1 while loading or prefilling
    /// Ticket of the newest command that was answered, that is, applied or refused. Every earlier command has been
    /// answered too, or a later one of the same kind has taken its place.
    uint64_t answered = 0;
    RunConfig applied;                   ///< configuration as the engine uses it now
    ModelSummary teacher, student;       ///< empty names while nothing is loaded
    std::vector<PairFact> pair;          ///< of the loaded pair; empty with one model
    std::optional<DerivedFacts> derived; ///< of a student that was made of the teacher's weights
    /// The KV geometries differ: nothing is copied between the caches, a refresh recomputes the student's own columns.
    bool rebuild_mode = false;
    std::string note;             ///< what a person must know about the pair ("rebuild mode: ...")
    double pace = 0;              ///< command::SetPace in force; 0 = as fast as it goes
    double tokens_per_second = 0; ///< decode TPS over the last ~64 tokens; 0 while unknown
    double prefill_ms = 0, ttft_ms = 0;
    size_t queued_commands = 0;
    int64_t cache_bytes_used = 0, cache_bytes_reserved = 0; ///< both models
    std::string
        stop_reason; ///< once finished: max_tokens | given_end | stop_token | context_limit | cancelled
    /// Of the newest exactness check, growing while it goes on; null before the first.
    std::shared_ptr<const ExactnessReport> exactness;
    bool checking = false;                           ///< one is under way: message and progress are its own
    std::shared_ptr<const LandscapeState> landscape; ///< null before the first
    std::shared_ptr<const ScopeState> scope;         ///< null before the first
    std::shared_ptr<const OpenDraft> draft;          ///< null: no draft goes on
    std::string error;   ///< the newest command that could not be carried out, one line
    uint64_t errors = 0; ///< how many there were: a rise means `error` is news
    /// The newest of them in order, at most kept_refusals; the last is `error`. One refusal often causes others (a
    /// start that failed, then steps of a run that is not there). A reader who looks late must still see the cause
    /// first.
    std::vector<std::string> refusals;
    static constexpr size_t kept_refusals = 8;
    bool recorded = false;               ///< runs go into a trace file while they grow
    std::string trace_error;             ///< recording to disk has stopped because of this
    std::optional<RemoteLink> link = {}; ///< nothing: the engine is in this process
};

/// What the window knows of the engine: commands go down, status and recording come up. The engine is a thread in this process
/// (SessionWorker) or at the other end of a connection (engine/remote).
class EngineLink {
public:
    virtual ~EngineLink() = default;
    /// Any thread; never blocks for a step.
    /// \return the command's ticket, which EngineStatus::answered will reach; tickets rise with every command. 0: the
    /// engine is closing and dropped the command.
    virtual uint64_t send(Command command) = 0;
    /// Any thread; cheap.
    [[nodiscard]] virtual std::shared_ptr<const EngineStatus> status() const = 0;
    /// The current run (a rewind or a new run replaces it); null before the first. Any thread; cheap.
    [[nodiscard]] virtual std::shared_ptr<const Recording> recording() const = 0;
    /// Sets the callback that the decode thread calls when there is news, at most once until the UI has taken it (see
    /// development/ui.md, 6). Set it before the first command. Once on_news() has returned, the former callback neither
    /// runs nor will be called again. A callback must not call on_news() itself.
    virtual void on_news(std::function<void()> wake) = 0;
    /// What a start of this configuration would meet. Any thread, several at once; takes as long as reading a tokenizer does, so
    /// a window asks beside its frames. Changes nothing, throws nothing.
    [[nodiscard]] virtual RunOutlook outlook(const RunConfig& config) const = 0;
    /// From now on commands of this link are taken, in place of another window's. Any thread. Of an engine in this process: nothing.
    virtual void take_wheel() {}
    /// Models and traces of an engine of another process. Any thread; waits for its answer, so a window asks beside its frames.
    [[nodiscard]] virtual LinkOffers offers() const { return {}; }
    /// Fetches one of LinkOffers::files, as it is at this moment. Any thread, one file at a time; waits until it is here.
    /// \param to     is replaced once all of it has come; until then `to`.part grows
    ///        A part that a former call has left goes on where the bytes there are the same; so does one whose connection was lost
    ///        on the way, once it is back
    /// \param go_on  asked while it comes, with the share that is here; false: leave it, and nothing stays
    /// Throws Error: no such file there, no connection, a disk that is full.
    virtual void fetch_file(const std::string& name, const std::filesystem::path& to,
                            const std::function<bool(double share)>& go_on) const;
    /// What is looked at comes first where a link has not carried everything: the rows of this position, the scores that a reader of the
    /// run wants (EntryScores::want). Any thread; cheap, for every frame. Of an engine in this process: nothing.
    virtual void look_at(const Recording& run, int64_t position) {
        static_cast<void>(run);
        static_cast<void>(position);
    }
};

} // namespace refreshlab
