#include "python/bindings/session_link.h"

#include "engine/base/error.h"
#include "engine/model/prompt_cache.h"
#include "engine/record/recording/recording.h"
#include "engine/session/worker/run_status.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

namespace refreshlab::python {

namespace {

/// How long the link's thread sleeps at most while there is something to look for beside commands.
constexpr std::chrono::milliseconds look_every{100};

/// Of an exception's traceback the last line: its type and what it says.
std::string last_line(const nb::python_error& error) {
    std::string text = error.what();
    while (!text.empty() && text.back() == '\n')
        text.pop_back();
    return text.substr(text.find_last_of('\n') + 1);
}

constexpr const char* not_here = "this run is a session of Python";

} // namespace

SessionLink::SessionLink(std::shared_ptr<LiveSession> session, bool drives)
    : m_session(std::move(session))
    , m_drives(drives) {
    const auto models = m_session->models();
    m_recording = m_session->recording();
    if (!models) throw Error("opening a session to a window", {}, "it is closed");
    show_start(m_now, *models, m_recording->info());
    if (!m_drives) m_now.note += (m_now.note.empty() ? "" : "; ") + std::string("Python makes the steps");
    if (m_drives) m_session->hold().close();
    m_session->watch([this](const RunDriver* run, const TraceStore* trace) { see(run, trace); });
    m_thread = std::thread([this] { loop(); });
}

SessionLink::~SessionLink() {
    m_session->watch({});
    m_closing = true;
    m_queue.close();
    m_thread.join();
    m_session->hold().set_pace(0);
    m_session->hold().open();
}

uint64_t SessionLink::send(Command command) {
    return m_queue.push(std::move(command));
}

std::shared_ptr<const EngineStatus> SessionLink::status() const {
    const std::lock_guard lock(m_mutex);
    return m_published;
}

std::shared_ptr<const Recording> SessionLink::recording() const {
    const std::lock_guard lock(m_mutex);
    return m_recording;
}

void SessionLink::on_news(std::function<void()> wake) {
    const std::lock_guard lock(m_wake_mutex);
    m_wake = std::move(wake);
}

RunOutlook SessionLink::outlook(const RunConfig&) const {
    RunOutlook outlook;
    outlook.part = RunOutlook::Part::other;
    outlook.problem = std::string(not_here) + ": pair.session() there starts another";
    return outlook;
}

void SessionLink::ask_for_somebody(std::function<bool()> somebody) {
    const std::lock_guard lock(m_mutex);
    m_somebody = std::move(somebody);
}

bool SessionLink::ended() const {
    return m_now.state == EngineState::finished || !m_session_open;
}

void SessionLink::wake() {
    const std::lock_guard lock(m_wake_mutex);
    if (m_wake) m_wake();
}

void SessionLink::publish() {
    if (m_now.state != EngineState::failed && !ended())
        m_now.state = m_session->hold().closed() ? EngineState::paused : EngineState::running;
    m_now.pace = m_session->hold().pace();
    m_now.queued_commands = m_queue.size();
    m_published = std::make_shared<const EngineStatus>(m_now);
}

void SessionLink::see(const RunDriver* run, const TraceStore* trace) {
    {
        const std::lock_guard lock(m_mutex);
        if (run != nullptr) {
            m_recording = run->recording();
            show_run(m_now, *run);
            show_speed(m_now, *m_recording);
            m_now.state = run->finished() ? EngineState::finished : EngineState::running;
            m_now.trace_error = trace != nullptr ? trace->error() : std::string();
            m_now.recorded = trace != nullptr && m_now.trace_error.empty();
        } else {
            m_session_open = false;
            m_now.draft.reset();
            m_now.recorded = false;
            if (m_now.state != EngineState::finished) m_now.state = EngineState::paused;
            m_now.note = "the session was closed in Python";
        }
        publish();
    }
    wake();
}

void SessionLink::refuse(const std::string& why) {
    {
        const std::lock_guard lock(m_mutex);
        show_refusal(m_now, why);
        publish();
    }
    wake();
}

void SessionLink::require_open() const {
    const std::lock_guard lock(m_mutex);
    if (!m_session_open)
        throw Error("steering the run", {}, "its session was closed in Python", "what was recorded stays");
}

void SessionLink::branch(const command::Branch& asked) {
    const auto standing = recording();
    if (asked.recorded || asked.run_id != standing->info().id)
        throw Error("branching", asked.run_id,
                    std::string(not_here) + ", and another run than the one that stands",
                    "session.branch() there makes it again");
    m_session->rewind(asked.step);
    m_session->hold().close();
    for (const command::Branch::Change& change : asked.changes)
        std::visit([&](const auto& c) { m_session->apply(c); }, change);
    if (asked.goes_on) m_session->hold().open();
}

void SessionLink::handle(const Command& command) {
    require_open();
    Hold& hold = m_session->hold();
    const auto require_steps_left = [&] {
        if (m_session->finished())
            throw Error("running", {}, "the run has ended", "rewind it, or start another in Python");
    };
    std::visit(
        [&](const auto& c) {
            using C = std::decay_t<decltype(c)>;
            if constexpr (std::is_same_v<C, command::Pause>) {
                hold.close();
            } else if constexpr (std::is_same_v<C, command::Resume>) {
                require_steps_left();
                hold.open();
            } else if constexpr (std::is_same_v<C, command::Step>) {
                if (c.steps < 1) throw Error("stepping", std::to_string(c.steps), "must be at least 1 step");
                require_steps_left();
                hold.close(c.steps);
            } else if constexpr (std::is_same_v<C, command::Stop>) {
                m_session->stop();
                hold.open();
            } else if constexpr (std::is_same_v<C, command::Rewind>) {
                m_session->rewind(c.step);
                hold.close();
            } else if constexpr (std::is_same_v<C, command::SetPace>) {
                hold.set_pace(c.tokens_per_second > 0 ? std::max(c.tokens_per_second, command::slowest_pace)
                                                      : 0);
            } else if constexpr (std::is_same_v<C, command::Branch>) {
                branch(c);
            } else if constexpr (std::is_same_v<C, command::SavePromptCache>) {
                m_session->look([&](const DecodeSession& session) {
                    session.save_prompt_cache(c.path, c.exact ? CacheForm::exact : CacheForm::four_bits);
                });
            } else if constexpr (std::is_same_v<C, command::StartRun>) {
                throw Error("starting a run", {}, not_here, "pair.session() there starts another");
            } else if constexpr (std::is_same_v<C, command::CheckExactness>) {
                throw Error("checking exactness", {}, not_here,
                            "refreshlab check does it for a configuration");
            } else if constexpr (std::is_same_v<C, command::ComputeLandscape>) {
                throw Error("computing a landscape", {}, not_here,
                            "refreshlab.landscape(session.recording, pair=pair) there computes it");
            } else if constexpr (std::is_same_v<C, command::ComputeScope>) {
                throw Error("measuring where refreshes pay", {}, not_here,
                            "save the run, and open its trace");
            } else {
                m_session->apply(c);
                if constexpr (std::is_same_v<C, command::RefreshNow>) hold.hurry();
            }
        },
        command);
}

/// Where the link drives. A problem holds the run, and is told once.
void SessionLink::make_step() {
    m_session->step();
    std::string said;
    {
        const nb::gil_scoped_acquire interpreter;
        for (const auto& signal : m_session->signals())
            if (const auto error = signal->take_error(); error && said.empty())
                said = signal->name() + ": " + last_line(*error);
    }
    if (said.empty()) return;
    m_session->hold().close();
    refuse(said);
}

void SessionLink::loop() {
    const c10::InferenceMode inference; // per thread
    Hold& hold = m_session->hold();
    while (true) {
        bool makes_steps = false, held = false;
        {
            const std::lock_guard lock(m_mutex);
            held = hold.closed() || hold.pace() > 0;
            makes_steps = m_drives && !ended() && !hold.closed();
        }
        // A command comes before a step, and a paced step is waited for in short pieces, so that commands do not wait for it.
        auto taken = makes_steps ? m_queue.try_pop()
                     : held      ? m_queue.wait_pop_until(Hold::Clock::now() + look_every)
                                 : m_queue.wait_pop();
        if (m_closing) return;
        std::string problem;
        try {
            if (taken) {
                handle(taken->command);
            } else if (makes_steps) {
                constexpr std::chrono::milliseconds wait_for_time{5};
                if (hold.pass(wait_for_time)) make_step();
            } else if (held && !m_drives) {
                const std::function<bool()> somebody = [&] {
                    const std::lock_guard lock(m_mutex);
                    return m_somebody;
                }();
                if (somebody && !somebody()) { // a window that went while it held the run
                    hold.set_pace(0);
                    hold.open();
                }
                continue;
            }
        } catch (const Error& e) {
            problem = e.what();
        } catch (const nb::python_error& e) { // of a cache policy
            problem = last_line(e);
        } catch (...) {
            problem = what_failed();
        }
        if (!problem.empty()) {
            {
                const std::lock_guard lock(m_mutex);
                if (!m_session_open && !taken) { // by the step
                    m_now.state = EngineState::failed;
                    m_now.message = problem;
                }
            }
            refuse(problem);
        }
        if (taken) {
            {
                const std::lock_guard lock(m_mutex);
                m_now.answered = taken->ticket;
                publish();
            }
            wake();
        }
    }
}

} // namespace refreshlab::python
