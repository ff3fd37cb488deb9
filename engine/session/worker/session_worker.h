#pragma once

#include "engine/control/command_queue.h"
#include "engine/control/engine_link.h"
#include "engine/model/memory_estimate.h"

#include <filesystem>
#include <memory>
#include <optional>

namespace refreshlab {

/// The decode thread: owns models, caches, device context and the current session, applies commands between steps,
/// publishes status and recording. An exception in it becomes state `failed` with its message: the recording stays
/// readable, and the next StartRun starts again.
/// Memory    every StartRun is compared with what its devices have left. The run that stands keeps its caches, and the
///           models that the next one does not use, until the next one stands. Where they must make room, they are
///           given up first. Then the recording stays, and a start that fails nevertheless ends in state `failed`.
/// Stop      ends the run. A Stop during a start or a check cancels that instead, and the run that stands stays. If the
///           start has finished meanwhile, the Stop ends the new run.
/// Landscape  computed a forward at a time while the run stands, so commands do not wait for it. Its rows go into the trace, where
///           there is one, now and then and at its end.
/// Shutdown  ~SessionWorker(): queue closed, the step in flight finishes, trace flushed, thread joined.
class SessionWorker final : public EngineLink {
public:
    /// \param trace  when given, every run is recorded into this file from its first step
    /// \param available  asked before every run; another answer than the device's is for tests
    /// \param prefilled  for tests: called on the decode thread when a start has looked for a Stop for the last time, and the
    ///                   status still says `prefilling`
    explicit SessionWorker(std::optional<std::filesystem::path> trace = {},
                           MemoryQuery available = device_memory_available,
                           std::function<void()> prefilled = {});
    ~SessionWorker() override;
    uint64_t send(Command command) override;
    [[nodiscard]] std::shared_ptr<const EngineStatus> status() const override;
    [[nodiscard]] std::shared_ptr<const Recording> recording() const override;
    void on_news(std::function<void()> wake) override;
    [[nodiscard]] RunOutlook outlook(const RunConfig& config) const override;

private:
    struct Impl;
    std::unique_ptr<Impl> m_impl;
};

} // namespace refreshlab
