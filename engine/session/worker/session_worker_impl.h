#pragma once

// Shared by the files of the worker.
#include "engine/control/command_queue.h"
#include "engine/model/prompt_cache.h"
#include "engine/record/trace/trace_store.h"
#include "engine/session/driver/run_driver.h"
#include "engine/session/landscape/compute_landscape.h"
#include "engine/session/readings/scope_readings.h"
#include "engine/session/worker/session_worker.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace refreshlab {

struct SessionWorker::Impl {
    // --- shared; the mutex protects the three pointers, held for a copy ---
    mutable std::mutex mutex;
    std::shared_ptr<const EngineStatus> published = std::make_shared<EngineStatus>();
    std::shared_ptr<const Recording> published_recording;
    std::weak_ptr<const ModelPair>
        published_pair;    ///< weak: it must not hold weights that the thread gives up
    std::mutex wake_mutex; ///< held while `wake` is called, so that on_news() can take it away for good
    std::function<void()> wake;
    CommandQueue queue;
    MemoryQuery available;
    std::function<void()> prefilled; ///< see the constructor
    // Ticket of the newest Stop, and the destructor's word: written by any thread, read by the progress callbacks of a start
    // or a check that is under way.
    std::atomic<uint64_t> newest_stop{0};
    std::atomic<bool> closing{false};

    // --- decode thread only ---
    std::unique_ptr<TraceStore> trace;
    std::filesystem::path trace_path;
    std::shared_ptr<const ModelPair> pair;
    std::unique_ptr<RunDriver> run;
    EngineStatus now;
    bool running = false;
    int64_t steps_left = 0; ///< of a Step command; 0 = until paused
    uint64_t handling = 0;  ///< ticket of the command that is being carried out
    uint64_t spent_stop =
        0; ///< this Stop and those before it have given up a start or a check, and end no run
    using Clock = std::chrono::steady_clock;
    Clock::time_point due{};                         ///< of the next step, where the run has a pace
    std::unique_ptr<LandscapeComputation> landscape; ///< under way; null: none is
    Clock::time_point landscape_began{}, landscape_told{}, landscape_stored{};
    size_t landscape_rows_stored = 0;
    std::unique_ptr<ScopeMapComputation> scopes; ///< under way; null: none is
    Clock::time_point scopes_told{};
    std::thread thread;

    void loop();
    [[nodiscard]] std::optional<CommandQueue::Taken> next_command();
    [[nodiscard]] Clock::duration period() const;
    void handle(const Command& command);
    void start_run(const RunConfig& config, bool paused);
    void branch(const command::Branch& asked);
    void begin_run(const RunConfig& config, bool paused, const command::RecordedRun* made_again);
    [[nodiscard]] std::unique_ptr<RunDriver> make_driver(const PreparedRun& next, const RunConfig& config);
    [[nodiscard]] std::unique_ptr<RunDriver> make_again(const PreparedRun& next,
                                                        const command::RecordedRun& asked);
    void make_room(PreparedRun& next);
    void check(const ExactnessOptions& options);
    /// No Stop has come since the command that is being carried out, and nobody closes the worker.
    [[nodiscard]] bool goes_on() const { return newest_stop.load() <= handling && !closing.load(); }
    void note_stop(uint64_t ticket);
    void make_step();
    void hold(); ///< no further step by itself
    void begin_scopes(const command::ComputeScope& asked);
    void step_scopes();
    void store_scopes(const ScopeState& state);
    void drop_scopes();
    void begin_landscape(const command::ComputeLandscape& asked);
    void step_landscape();
    void end_landscape();
    void drop_landscape();
    void tell_landscape();
    void store_rows();
    void publish_recording();
    void set_state(EngineState state, std::string message = {}, double progress = 0);
    void publish();
    void report(const std::string& error);
};

} // namespace refreshlab
