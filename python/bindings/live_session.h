#pragma once

#include "engine/base/error.h"
#include "engine/record/trace/trace_store.h"
#include "engine/session/driver/run_driver.h"
#include "python/bindings/hold.h"
#include "python/bindings/python_policy.h"
#include "python/bindings/python_signal.h"
#include "python/bindings/turns.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::python {

/// A pair that is loaded, and the configuration that it was loaded with: what a session of it begins from.
struct LoadedPair {
    std::shared_ptr<const ModelPair> pair; ///< not null
    RunConfig config;                      ///< models, devices, dtype, threads; no prompt
};

/// Asked while models are read, a prompt is read or a run is made again; false ends that with Error "cancelled".
using GoesOn = std::function<bool()>;

/// Reads the models of a configuration. Throws Error.
[[nodiscard]] std::shared_ptr<LoadedPair> open_pair(const RunConfig& config, const GoesOn& goes_on);

/// A run with all that belongs to it, for threads of Python that take turns.
///
/// Threads  any; each call waits for its turn. The interpreter's lock must not be held: a signal written in Python takes it.
class LiveSession {
public:
    using Signals = std::vector<std::shared_ptr<PythonSignal>>;
    using Policy =
        std::shared_ptr<PythonPolicy>; ///< the cache policy of the decoder; null: one of the engine

    /// Prefill and first token. Throws Error.
    /// \param record  trace to be written; empty: none
    LiveSession(const LoadedPair& pair, const RunConfig& config, Signals signals, Policy policy,
                const std::filesystem::path& record, const GoesOn& goes_on);
    /// A recorded run again as after step `step`, going on as a branch of it. Throws Error.
    /// \param max_tokens  0: as recorded
    LiveSession(const LoadedPair& pair, const Recording& recorded, int64_t step, int32_t max_tokens,
                Signals signals, Policy policy, const std::filesystem::path& record, const GoesOn& goes_on);
    ~LiveSession();
    LiveSession(const LiveSession&) = delete;
    LiveSession& operator=(const LiveSession&) = delete;

    /// One step. \return its number; 0 where the run has ended. Whatever it throws, a device or memory is at fault: the session is closed then,
    /// but for its trace
    int64_t step();
    void apply(const Command& command);
    void rewind(int64_t step);
    void stop();
    /// What is recorded is in the file when this returns. Throws Error{failure} where it could not be written.
    void flush();
    /// Flushes, and gives up caches and models; the recording stays. Throws as flush(), after that.
    void close();

    /// Called at the end of each turn in which the run has changed, on the thread of that turn.
    /// \param run    null: the session is closed
    /// \param trace  null: it is not recorded to disk
    using Watcher = std::function<void(const RunDriver* run, const TraceStore* trace)>;
    /// It is called once now. When this has returned, the former watcher is not called any more. {}: nobody watches.
    void watch(Watcher watcher);
    /// Whoever makes steps passes it before each: a window pauses with it.
    [[nodiscard]] Hold& hold() { return m_hold; }
    /// The thread that asks is at work in a step, in code of Python's.
    [[nodiscard]] bool in_own_turn() const { return m_turns.mine(); }

    [[nodiscard]] std::shared_ptr<Recording> recording();
    [[nodiscard]] std::shared_ptr<const ModelPair> models(); ///< null: the session is closed
    [[nodiscard]] RunConfig config();
    [[nodiscard]] bool finished();
    [[nodiscard]] const Signals& signals() const { return m_signals; }          ///< never changes
    [[nodiscard]] const PythonPolicy* policy() const { return m_policy.get(); } ///< the same

    /// Something about the session between two steps. Throws Error where it is closed.
    template <class Look>
    auto look(const Look& look) {
        const Turns::Turn turn(m_turns);
        return look(driver().session());
    }

private:
    [[nodiscard]] RunDriver& driver();
    void give_up_run(); ///< its recording stays
    void tell();
    [[nodiscard]] Error lost(const std::string& problem) const;
    void begin_trace(const std::filesystem::path& record);

    Turns m_turns;
    Hold m_hold;
    std::mutex m_watcher_mutex; ///< held while the watcher is called
    Watcher m_watcher;
    std::shared_ptr<const ModelPair> m_models; ///< null: closed
    Signals m_signals;
    Policy m_policy;
    std::filesystem::path m_record;
    std::unique_ptr<TraceStore> m_trace;    ///< null: not recorded; outlives the driver
    std::unique_ptr<RunDriver> m_driver;    ///< null: closed
    std::shared_ptr<Recording> m_recording; ///< of a closed session
};

} // namespace refreshlab::python
