#include "engine/session/worker/session_worker.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/control/parameters.h"
#include "engine/landscape/landscape_store.h"
#include "engine/results/scope_map.h"
#include "engine/results/scope_map_store.h"
#include "engine/session/exactness/exactness.h"
#include "engine/session/readings/scope_readings.h"
#include "engine/session/worker/outlook.h"
#include "engine/session/worker/run_status.h"
#include "engine/session/worker/session_worker_impl.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <utility>
#include <variant>

namespace refreshlab {

void SessionWorker::Impl::publish() {
    now.queued_commands = queue.size();
    if (trace) now.trace_error = trace->error();
    now.recorded = trace && now.trace_error.empty();
    if (run)
        show_run(now, *run);
    else
        now.draft.reset();
    auto snapshot = std::make_shared<const EngineStatus>(now);
    {
        const std::lock_guard lock(mutex);
        published = std::move(snapshot);
        published_pair = pair;
    }
    const std::lock_guard lock(wake_mutex);
    if (wake) wake();
}

void SessionWorker::Impl::set_state(EngineState state, std::string message, double progress) {
    now.state = state;
    now.message = std::move(message);
    now.progress = progress;
    publish();
}

void SessionWorker::Impl::report(const std::string& error) {
    show_refusal(now, error);
    publish();
}

void SessionWorker::Impl::publish_recording() {
    const auto recording = run->recording();
    const std::lock_guard lock(mutex);
    published_recording = recording;
}

void SessionWorker::Impl::hold() {
    running = false;
    if (now.state == EngineState::running) now.state = EngineState::paused;
}

void SessionWorker::Impl::check(const ExactnessOptions& options) {
    hold();
    const auto done = [this] {
        spent_stop = newest_stop.load(); // a Stop that came meanwhile meant the check
        now.checking = false;
        now.message.clear();
        now.progress = 0;
    };
    const auto show = [this](const ExactnessReport& report) {
        now.exactness = std::make_shared<ExactnessReport>(report);
        now.checking = report.progress < 1;
        now.message = "checking exactness";
        now.progress = report.progress;
        publish();
        return goes_on();
    };
    try {
        static_cast<void>(check_exactness(pair, run->session().config(), options, show, run->execution()));
    } catch (...) {
        done();
        throw;
    }
    done();
}

void SessionWorker::Impl::begin_scopes(const command::ComputeScope& asked) {
    const Recording& recording = *run->recording();
    const RunConfig& config = recording.info().config;
    if (!config.student_cache.is_full() || !config.teacher_cache.is_full())
        throw Error("measuring where refreshes pay", "with a cache policy",
                    "it is about caches that keep everything", "take a run without one");
    ScopeMapRequest request;
    request.prompt_ids = recording.info().prompt_ids;
    request.tokens = recording.token_ids();
    request.boundaries = scope_boundaries(recording, asked.every);
    request.horizon = asked.horizon;
    request.blocks = asked.blocks;
    request.keep = asked.keep;
    auto begun = std::make_unique<ScopeMapComputation>(pair, std::move(request), run->execution());
    hold();
    scopes = std::move(begun);
    ScopeState state{.run_id = recording.info().id, .map = {}, .computing = true};
    if (now.scope && now.scope->run_id == state.run_id)
        state.map = now.scope->map; // stays if this one is ended
    now.scope = std::make_shared<ScopeState>(std::move(state));
    scopes_told = Clock::now();
}

void SessionWorker::Impl::step_scopes() {
    constexpr auto tell_every = std::chrono::milliseconds(50);
    const bool more = scopes->step();
    if (more && Clock::now() - scopes_told < tell_every) return;
    ScopeState state = *now.scope;
    const ScopeMapProgress& progress = scopes->progress();
    state.rows_done = progress.rows_done;
    state.rows = progress.rows;
    state.taken = progress.taken;
    state.share = progress.share;
    if (!more) {
        state.map = std::make_shared<const ScopeMap>(scopes->take_map());
        state.computing = false;
        scopes.reset();
        store_scopes(state);
    }
    now.scope = std::make_shared<ScopeState>(std::move(state));
    scopes_told = Clock::now();
    publish();
}

/// The map goes into the trace beside its run.
void SessionWorker::Impl::store_scopes(const ScopeState& state) {
    if (!trace || !trace->error().empty()) return;
    trace->flush();
    try {
        store_scope_map(trace_path, state.run_id, *state.map);
    } catch (const Error& e) {
        report(e.what()); // the map itself is there
    }
}

/// An unfinished map is not kept.
void SessionWorker::Impl::drop_scopes() {
    scopes.reset();
    if (!now.scope || !now.scope->computing) return;
    ScopeState state = *now.scope;
    state.computing = false;
    now.scope = std::make_shared<ScopeState>(std::move(state));
}

void SessionWorker::Impl::begin_landscape(const command::ComputeLandscape& asked) {
    const Recording& recording = *run->recording();
    if (recording.info().config.mode != Mode::overfill) // though both models may be loaded
        throw Error("computing a landscape", {},
                    "it takes a teacher and a student, and this run has one model",
                    "start one in mode overfill");
    LandscapeRequest request = landscape_request(recording, recording.info().config);
    request.rows_at_once = LandscapeRequest::rows_beside_a_window;
    request.values = landscape_values(asked.values);
    request.every = asked.every;
    std::shared_ptr<const Landscape> known = now.landscape ? now.landscape->landscape : nullptr;
    const bool goes_on = known && now.landscape->run_id == recording.info().id &&
                         known->info().tokens == request.tokens && known->info().values == request.values;
    if (!goes_on) known = nullptr;
    auto begun =
        std::make_unique<LandscapeComputation>(pair, std::move(request), run->execution(), known, available);
    hold();
    landscape = std::move(begun);
    landscape_began = landscape_stored = Clock::now();
    landscape_rows_stored = 0;
    now.landscape = std::make_shared<LandscapeState>(
        LandscapeState{.run_id = recording.info().id, .landscape = known, .computing = true});
}

/// What has been computed as a new snapshot.
void SessionWorker::Impl::tell_landscape() {
    LandscapeState state = *now.landscape;
    const LandscapeProgress& progress = landscape->progress();
    state.landscape = progress.landscape;
    state.cells_done = progress.cells_done;
    state.cells = progress.cells;
    state.seconds = std::chrono::duration<double>(Clock::now() - landscape_began).count();
    now.landscape = std::make_shared<LandscapeState>(std::move(state));
    landscape_told = Clock::now();
}

/// New rows go into the trace beside their run.
void SessionWorker::Impl::store_rows() {
    const auto known = now.landscape->landscape;
    landscape_stored = Clock::now();
    if (!trace || !trace->error().empty() || !known || known->rows().size() == landscape_rows_stored) return;
    trace->flush();
    landscape_rows_stored = known->rows().size();
    try {
        store_landscape(trace_path, now.landscape->run_id, *known);
    } catch (const Error& e) {
        report(e.what()); // the landscape itself is there
    }
}

void SessionWorker::Impl::step_landscape() {
    constexpr auto tell_every = std::chrono::milliseconds(50);
    constexpr auto store_every = std::chrono::seconds(5);
    const bool more = landscape->step();
    if (!more) return end_landscape();
    const bool news = landscape->progress().landscape != now.landscape->landscape;
    if (news || Clock::now() - landscape_told > tell_every) {
        tell_landscape();
        publish();
    }
    if (Clock::now() - landscape_stored > store_every) store_rows();
}

/// Nothing more is computed; the rows that were published stay.
void SessionWorker::Impl::drop_landscape() {
    landscape.reset();
    if (!now.landscape || !now.landscape->computing) return;
    LandscapeState state = *now.landscape;
    state.computing = false;
    now.landscape = std::make_shared<LandscapeState>(std::move(state));
}

void SessionWorker::Impl::end_landscape() {
    if (!landscape) return;
    tell_landscape();
    drop_landscape();
    store_rows();
    publish();
}

namespace {

/// The run moves, or the models are wanted for something else.
bool ends_landscape(const Command& command) {
    return std::holds_alternative<command::StartRun>(command) ||
           std::holds_alternative<command::Branch>(command) ||
           std::holds_alternative<command::Resume>(command) ||
           std::holds_alternative<command::Step>(command) || std::holds_alternative<command::Stop>(command) ||
           std::holds_alternative<command::Rewind>(command) ||
           std::holds_alternative<command::CheckExactness>(command) ||
           std::holds_alternative<command::ComputeLandscape>(command) ||
           std::holds_alternative<command::ComputeScope>(command);
}

/// The text is another one then, or the models are wanted for something else.
bool ends_scopes(const Command& command) {
    return std::holds_alternative<command::StartRun>(command) ||
           std::holds_alternative<command::Branch>(command) ||
           std::holds_alternative<command::Rewind>(command) ||
           std::holds_alternative<command::Stop>(command) ||
           std::holds_alternative<command::ComputeLandscape>(command) ||
           std::holds_alternative<command::ComputeScope>(command);
}

} // namespace

void SessionWorker::Impl::handle(const Command& command) {
    const bool computing = landscape || scopes;
    if (ends_landscape(command)) end_landscape();
    if (ends_scopes(command)) drop_scopes();
    if (computing && std::holds_alternative<command::Stop>(command)) return; // it meant what was computed
    const auto need_run = [this](const char* doing) {
        if (!run) throw Error(doing, {}, "there is no run yet", "start one first");
    };
    const auto go = [&](int64_t steps) {
        need_run("running");
        if (run->finished()) throw Error("running", {}, "the run has ended", "rewind it or start a new one");
        if (scopes)
            throw Error("running", {}, "the scopes of this text are being measured",
                        "wait for the map, or cancel it in Landscape > Scope");
        running = true;
        steps_left = steps;
        now.state = EngineState::running;
    };
    std::visit(
        [&](const auto& c) {
            using C = std::decay_t<decltype(c)>;
            if constexpr (std::is_same_v<C, command::StartRun>) {
                start_run(with_saved_prompt(c.config), c.paused);
            } else if constexpr (std::is_same_v<C, command::Branch>) {
                branch(c);
                if (c.goes_on) go(0);
            } else if constexpr (std::is_same_v<C, command::Pause>) {
                hold();
            } else if constexpr (std::is_same_v<C, command::Resume>) {
                go(0);
            } else if constexpr (std::is_same_v<C, command::Step>) {
                if (c.steps < 1) throw Error("stepping", std::to_string(c.steps), "must be at least 1 step");
                go(c.steps);
            } else if constexpr (std::is_same_v<C, command::Stop>) {
                if (handling <= spent_stop) return;
                need_run("stopping");
                run->stop();
                running = false;
                now.state = EngineState::finished;
            } else if constexpr (std::is_same_v<C, command::Rewind>) {
                need_run("rewinding");
                run->rewind(c.step);
                publish_recording();
                running = false;
                now.state = EngineState::paused;
            } else if constexpr (std::is_same_v<C, command::CheckExactness>) {
                need_run("checking exactness");
                check(c.options);
            } else if constexpr (std::is_same_v<C, command::ComputeLandscape>) {
                need_run("computing a landscape");
                begin_landscape(c);
            } else if constexpr (std::is_same_v<C, command::ComputeScope>) {
                need_run("measuring where refreshes pay");
                begin_scopes(c);
            } else if constexpr (std::is_same_v<C, command::SetPace>) {
                due += (now.pace > 0 ? -period() : Clock::duration{});
                now.pace = c.tokens_per_second > 0 ? std::max(c.tokens_per_second, command::slowest_pace) : 0;
                due += (now.pace > 0 ? period() : Clock::duration{});
            } else if constexpr (std::is_same_v<C, command::RequestAttention>) {
                need_run("reading attention");
                run->apply(c);
            } else if constexpr (std::is_same_v<C, command::SavePromptCache>) {
                need_run("saving the prompt's cache");
                run->session().save_prompt_cache(c.path, c.exact ? CacheForm::exact : CacheForm::four_bits);
            } else if constexpr (std::is_same_v<C, command::FullStepNow>) {
                need_run("asking for a full step");
                run->apply(c);
            } else if constexpr (std::is_same_v<C, command::GiveTokens>) {
                need_run("giving tokens");
                run->apply(c);
            } else if constexpr (!std::is_same_v<C, command::RefreshNow>) {
                // Without a run, settings are those that the next one will start with.
                if (run) {
                    run->apply(c);
                } else if constexpr (std::is_same_v<C, command::SetParameter>) {
                    set_parameter(now.applied, c.key, c.value);
                } else {
                    check_policy(c.policy, "the policy");
                    now.applied.policy = c.policy;
                }
            } else {
                need_run("refreshing");
                run->apply(c);
                due = Clock::now(); // a slow pace does not hold it back
            }
        },
        command);
}

SessionWorker::Impl::Clock::duration SessionWorker::Impl::period() const {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1 / now.pace));
}

/// The next command, or nothing: then it is time for a step, or the queue was closed.
std::optional<CommandQueue::Taken> SessionWorker::Impl::next_command() {
    if (landscape || scopes) return queue.try_pop();
    if (!running) return queue.wait_pop();
    // A draft keeps the pace token by token; what stays of it comes at once.
    if (now.pace <= 0 || steps_left > 0 || run->session().settled()) return queue.try_pop();
    return queue.wait_pop_until(due);
}

void SessionWorker::Impl::make_step() {
    if (now.pace > 0 && !run->session().settled()) {
        // Small delays are made up for; after a long one (a pause) the next steps do not hurry.
        const Clock::time_point began = Clock::now();
        due = (began - due > period() ? began : due) + period();
    }
    if (!run->advance()) return publish(); // a token of a draft
    show_speed(now, *run->recording());
    if (run->finished()) {
        running = false;
        now.state = EngineState::finished;
    } else if (steps_left > 0 && --steps_left == 0) {
        running = false;
        now.state = EngineState::paused;
    }
    publish();
}

void SessionWorker::Impl::loop() {
    const c10::InferenceMode inference; // per thread
    while (true) {
        std::optional<CommandQueue::Taken> taken = next_command();
        if (closing) {
            landscape.reset();
            scopes.reset();
        }
        if (!taken && !running && !landscape && !scopes) break; // closed
        // Each error is handled here, once: a command that could not be carried out (refused, cancelled, too large) is
        // reported and the run stays as it was; a failing step, or a device or program at fault, ends the run: its
        // recording stays readable, and the next StartRun begins afresh.
        const bool of_text = !taken && (landscape || scopes), is_step = !taken && !of_text;
        std::string problem;
        bool refused = false;
        try {
            if (taken) {
                handling = taken->ticket;
                handle(taken->command);
                now.answered = taken->ticket;
                publish();
            } else if (landscape) {
                step_landscape();
            } else if (scopes) {
                step_scopes();
            } else {
                make_step();
            }
            continue;
        } catch (const Error& e) {
            problem = e.what();
            refused = true;
        } catch (const std::bad_alloc&) {
            problem = what_failed();
            const bool starts = taken && (std::holds_alternative<command::StartRun>(taken->command) ||
                                          std::holds_alternative<command::Branch>(taken->command));
            refused = of_text || starts; // the run before it stands
        } catch (...) {
            problem = what_failed();
        }
        std::replace(problem.begin(), problem.end(), '\n', ' ');
        if (of_text) {
            drop_landscape();
            drop_scopes();
        }
        if (is_step || !refused) {
            running = false;
            drop_landscape();
            drop_scopes();
            run.reset();
            pair.reset(); // weights on a faulted device are of no use
            now.state = EngineState::failed;
            now.message = problem;
        }
        if (taken)
            now.answered = taken->ticket; // though with a refusal: a draft that waits for it can stop waiting
        report(problem);
    }
    if (trace) trace->flush();
}

SessionWorker::SessionWorker(std::optional<std::filesystem::path> trace, MemoryQuery available,
                             std::function<void()> prefilled)
    : m_impl(std::make_unique<Impl>()) {
    m_impl->available = std::move(available);
    m_impl->prefilled = std::move(prefilled);
    if (trace) {
        m_impl->trace = TraceStore::create(*trace); // an unwritable path is the caller's error, at once
        m_impl->trace_path = *trace;
    }
    m_impl->thread = std::thread([this] { m_impl->loop(); });
}

SessionWorker::~SessionWorker() {
    m_impl->closing = true;
    m_impl->queue.push(command::Pause{});
    m_impl->queue.close();
    m_impl->thread.join();
}

void SessionWorker::Impl::note_stop(uint64_t ticket) {
    uint64_t known = newest_stop.load();
    while (known < ticket && !newest_stop.compare_exchange_weak(known, ticket)) {
    }
}

uint64_t SessionWorker::send(Command command) {
    const bool stops = std::holds_alternative<command::Stop>(command);
    const uint64_t ticket = m_impl->queue.push(std::move(command));
    if (stops) m_impl->note_stop(ticket); // what is under way gives up at its next progress
    return ticket;
}

std::shared_ptr<const EngineStatus> SessionWorker::status() const {
    const std::lock_guard lock(m_impl->mutex);
    return m_impl->published;
}

std::shared_ptr<const Recording> SessionWorker::recording() const {
    const std::lock_guard lock(m_impl->mutex);
    return m_impl->published_recording;
}

RunOutlook SessionWorker::outlook(const RunConfig& config) const {
    std::shared_ptr<const ModelPair> loaded;
    {
        const std::lock_guard lock(m_impl->mutex);
        loaded = m_impl->published_pair.lock();
    }
    return run_outlook(config, loaded, m_impl->available);
}

void SessionWorker::on_news(std::function<void()> wake) {
    const std::lock_guard lock(m_impl->wake_mutex);
    m_impl->wake = std::move(wake);
}

} // namespace refreshlab
