#pragma once

#include "engine/session/decode/decode_session.h"
#include "engine/session/decode/steering.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace refreshlab {

class Error;
class TraceStore;

/// What a run is asked for with: models, configuration, commands, trace.
struct RunRequest {
    std::shared_ptr<const ModelPair> pair;
    RunConfig config;
    std::shared_ptr<const RunText> text = {}; ///< feed exactly these ids; null: made from the configuration
    Execution execution = {};                 ///< null: make_execution(config)
    std::vector<TimedCommand> commands = {};  ///< each is applied at its step
    SignalSources sources = {}; ///< signals that whoever asks measures in the run, each of this run alone
    TensorPolicyFactory cache_policy =
        {}; ///< of a policy from outside that the configuration names (engine/policies/outside_policy.h)
    bool score = true;           ///< the closing pass after the last step
    TraceStore* trace = nullptr; ///< the run is recorded there from its first step; outlives the driver
    /// Called after every step: the trace has been told of it, and the closing pass has not begun. So the text is shown
    /// without waiting for that pass.
    std::function<void()> stepped = {};
    /// A command that the run refused; the run goes on with the next. Without this, the refusal is thrown.
    std::function<void(int64_t step, const Error& why)> refused = {};
};

/// One run from its start to its end, with all that belongs to every run: commands at their steps, the closing pass as soon
/// as it has ended, a trace that is told of each change. `run`, replays, sweeps, studies, checks and the window's
/// worker run sessions through this, so none of them can forget a part.
///
/// Threads  one; the execution context of the request works for it.
class RunDriver {
public:
    using Prefilling = std::function<bool(double fraction)>;

    /// Starts the run: prefill, first token. A run that ends with its first token gets its closing pass at once. Throws
    /// as DecodeSession does, also Error "cancelled".
    explicit RunDriver(RunRequest request, const Prefilling& prefilling = {});
    ~RunDriver();
    RunDriver(const RunDriver&) = delete;
    RunDriver& operator=(const RunDriver&) = delete;

    /// The commands that are due, then one step; after the last one the closing pass. False, and nothing happens, when the
    /// run is finished. Throws the refusal of a command, unless the request has `refused`.
    bool step();

    /// A part of a step: DecodeSession::advance(). \return whether a record came
    bool advance();

    enum class Next : uint8_t {
        step, ///< go on
        stop, ///< end the run here, as stop() does
        leave ///< return; the run is left as it is
    };
    /// Steps until the run has ended. \param next  asked before every step and once after the last; absent: goes on.
    /// \return whether the run has ended
    bool run(const std::function<Next()>& next = {});

    /// Ends the run here (stop_reason cancelled), with its closing pass. Nothing if it has ended.
    void stop();
    /// Applies a command from the next step on (refresh_now, set_parameter, set_policy, request_attention), logged.
    /// Throws what DecodeSession::apply() throws.
    void apply(const Command& command);
    /// The request's commands that come before the next step; step() does this by itself.
    void apply_due();
    /// From now on into this trace; the request had none.
    void record_into(TraceStore& trace);
    /// DecodeSession::rewind(): goes on as a branch, with a recording of its own, in the same trace.
    void rewind(int64_t step, const Recording* as = nullptr);
    /// From here on these commands, each at its step, and who is told, in place of those of the request.
    void steer(std::vector<TimedCommand> commands, std::function<void()> stepped = {},
               std::function<void(int64_t step, const Error& why)> refused = {});

    [[nodiscard]] const DecodeSession& session() const { return *m_session; }
    [[nodiscard]] const Execution& execution() const { return m_execution; } ///< not null
    [[nodiscard]] bool finished() const { return m_session->finished(); }
    [[nodiscard]] std::shared_ptr<Recording> recording() const { return m_session->recording(); }
    /// Commands of the request whose step has not come.
    [[nodiscard]] size_t commands_left() const { return m_steering.left(); }
    [[nodiscard]] nlohmann::json summary() const; ///< summary_json() of the recording

private:
    void close();
    void tell_trace() const;

    Execution m_execution;
    std::unique_ptr<DecodeSession> m_session;
    Steering m_steering;
    bool m_score;
    TraceStore* m_trace;
    std::function<void()> m_stepped;
    std::function<void(int64_t, const Error&)> m_refused;
};

} // namespace refreshlab
