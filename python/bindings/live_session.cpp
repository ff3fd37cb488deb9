#include "python/bindings/live_session.h"

#include "engine/base/error.h"
#include "engine/control/cache_choice.h"
#include "engine/policies/outside_policy.h"
#include "engine/record/runs/rebuild.h"
#include "engine/session/driver/replay.h"
#include "engine/session/pair/run_text.h"

#include <fmt/format.h>

#include <utility>

namespace refreshlab::python {

namespace {

SignalSources sources_of(const LiveSession::Signals& signals) {
    return {signals.begin(), signals.end()};
}

TensorPolicyFactory factory_of(const LiveSession::Policy& policy) {
    return policy ? policy->factory() : TensorPolicyFactory();
}

/// What of the run's models is not in the pair is read.
PreparedRun prepared(const LoadedPair& pair, const RunConfig& config, std::shared_ptr<const RunText> text,
                     const GoesOn& goes_on) {
    PreparedRun run = prepare_run(config, pair.pair, device_memory_available, std::move(text));
    require_memory(run.memory);
    load_models(run, config, [&](double, const std::string&) { return goes_on(); });
    return run;
}

} // namespace

std::shared_ptr<LoadedPair> open_pair(const RunConfig& config, const GoesOn& goes_on) {
    PreparedRun run = prepare_run(config);
    // Weights alone must fit: a session asks for its caches, which are mostly far shorter than the context.
    const RunText shortest{{"", {0}, 0}, {}};
    RunConfig short_run = config;
    short_run.max_tokens = 1;
    require_memory(memory_of_run(short_run, *run.text_side, &shortest));
    load_models(run, config, [&](double, const std::string&) { return goes_on(); });
    return std::make_shared<LoadedPair>(LoadedPair{run.pair, config});
}

LiveSession::LiveSession(const LoadedPair& pair, const RunConfig& config, Signals signals, Policy policy,
                         const std::filesystem::path& record, const GoesOn& goes_on)
    : m_signals(std::move(signals))
    , m_policy(std::move(policy)) {
    check_run(config);
    begin_trace(record);
    PreparedRun run = prepared(pair, config, {}, goes_on);
    m_models = run.pair;
    m_driver = std::make_unique<RunDriver>(RunRequest{.pair = run.pair,
                                                      .config = config,
                                                      .text = run.text,
                                                      .execution = run.execution,
                                                      .sources = sources_of(m_signals),
                                                      .cache_policy = factory_of(m_policy),
                                                      .trace = m_trace.get()},
                                           [&](double) { return goes_on(); });
}

LiveSession::LiveSession(const LoadedPair& pair, const Recording& recorded, int64_t step, int32_t max_tokens,
                         Signals signals, Policy policy, const std::filesystem::path& record,
                         const GoesOn& goes_on)
    : m_signals(std::move(signals))
    , m_policy(std::move(policy)) {
    if (step < 0 || step > newest_reached(recorded))
        throw Error("branching", fmt::format("step {}", step),
                    fmt::format("the run can be left after steps 0 to {}", newest_reached(recorded)));
    command::RecordedRun rebuild = rebuild_of(recorded, step);
    if (max_tokens > 0) {
        if (max_tokens <= step)
            throw Error("branching", fmt::format("step {}", step),
                        fmt::format("{} tokens end the run before the next step", max_tokens),
                        "max_tokens takes a larger number");
        rebuild.config.max_tokens = max_tokens;
    }
    const std::string& recorded_policy = deciding_cache(rebuild.config).policy;
    if (m_policy && outside_policy_name(recorded_policy) != m_policy->name())
        throw Error("branching", fmt::format("cache policy {}", m_policy->name()),
                    fmt::format("the run was made with {}", outside_policy_name(recorded_policy)));
    RunConfig models = rebuild.config;
    models.teacher_dir = rebuild.config.teacher_dir = pair.config.teacher_dir;
    models.student_dir = rebuild.config.student_dir = pair.config.student_dir;
    models.kernels = KernelSet::automatic; // a recorded set may be another processor's
    begin_trace(record);
    const PreparedRun run = prepared(
        pair, models,
        std::make_shared<const RunText>(RunText{{rebuild.rendered_prompt, rebuild.prompt_ids, 0}, {}}),
        goes_on);
    m_models = run.pair;
    m_driver = make_again(
                   rebuild, run.pair, [&](int64_t) { return goes_on(); }, &recorded, sources_of(m_signals),
                   factory_of(m_policy))
                   .driver;
    if (m_trace) m_driver->record_into(*m_trace);
}

LiveSession::~LiveSession() {
    m_driver.reset(); // before the trace that it tells
}

void LiveSession::begin_trace(const std::filesystem::path& record) {
    if (record.empty()) return;
    m_record = record;
    m_trace = TraceStore::create(record);
}

RunDriver& LiveSession::driver() {
    if (!m_driver)
        throw Error("using a session", {}, "it is closed",
                    "its recording stays; pair.session() makes a new one");
    return *m_driver;
}

int64_t LiveSession::step() {
    const Turns::Turn turn(m_turns);
    RunDriver& run = driver();
    try {
        const bool made = run.step();
        tell();
        return made ? run.recording()->steps() : 0;
    } catch (...) { // a device or memory: nobody knows what the caches hold
        give_up_run();
        throw;
    }
}

void LiveSession::apply(const Command& command) {
    const Turns::Turn turn(m_turns);
    driver().apply(command);
    tell();
}

void LiveSession::rewind(int64_t step) {
    const Turns::Turn turn(m_turns);
    const auto newest = newest_reached(*driver().recording());
    if (step < 0 || step > newest)
        throw Error("rewinding", fmt::format("step {}", step),
                    fmt::format("the run can go back to steps 0 to {}", newest));
    driver().rewind(step);
    tell();
}

void LiveSession::stop() {
    const Turns::Turn turn(m_turns);
    driver().stop();
    tell();
}

void LiveSession::watch(Watcher watcher) {
    std::optional<Turns::Turn> turn;
    if (watcher) turn.emplace(m_turns); // taking one away waits for no step
    {
        const std::lock_guard lock(m_watcher_mutex);
        m_watcher = std::move(watcher);
    }
    if (turn) tell();
}

/// In a turn.
void LiveSession::tell() {
    const std::lock_guard lock(m_watcher_mutex);
    if (m_watcher) m_watcher(m_driver.get(), m_trace.get());
}

Error LiveSession::lost(const std::string& problem) const {
    return {"recording to", m_record.string(), problem, "the run itself went on; recording.save() writes it",
            ErrorKind::failure};
}

void LiveSession::flush() {
    const Turns::Turn turn(m_turns);
    if (!m_trace) return;
    m_trace->flush();
    if (const std::string problem = m_trace->error(); !problem.empty()) throw lost(problem);
}

void LiveSession::give_up_run() {
    if (!m_driver) return;
    m_recording = m_driver->recording();
    m_driver.reset();
    m_models.reset();
    m_hold.open(); // who waits there is told that it is closed
    tell();
}

void LiveSession::close() {
    const Turns::Turn turn(m_turns);
    give_up_run();
    const auto trace = std::move(m_trace); // is ended, whatever comes
    m_trace = nullptr;
    if (!trace) return;
    trace->flush();
    if (const std::string problem = trace->error(); !problem.empty()) throw lost(problem);
}

std::shared_ptr<Recording> LiveSession::recording() {
    const Turns::Turn turn(m_turns);
    return m_driver ? m_driver->recording() : m_recording;
}

std::shared_ptr<const ModelPair> LiveSession::models() {
    const Turns::Turn turn(m_turns);
    return m_models;
}

RunConfig LiveSession::config() {
    return look([](const DecodeSession& session) { return session.config(); });
}

bool LiveSession::finished() {
    const Turns::Turn turn(m_turns);
    return !m_driver || m_driver->finished();
}

} // namespace refreshlab::python
