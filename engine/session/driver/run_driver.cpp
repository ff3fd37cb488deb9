#include "engine/session/driver/run_driver.h"

#include "engine/base/error.h"
#include "engine/record/export/export.h"
#include "engine/record/trace/trace_store.h"
#include "engine/session/pair/run_text.h"

#include <nlohmann/json.hpp>

#include <utility>

namespace refreshlab {

RunDriver::RunDriver(RunRequest request, const Prefilling& prefilling)
    : m_execution(request.execution ? std::move(request.execution) : make_execution(request.config))
    , m_session(std::make_unique<DecodeSession>(std::move(request.pair), std::move(request.config),
                                                prefilling, request.text.get(), m_execution,
                                                std::move(request.sources), std::move(request.cache_policy)))
    , m_steering(std::move(request.commands))
    , m_score(request.score)
    , m_trace(request.trace)
    , m_stepped(std::move(request.stepped))
    , m_refused(std::move(request.refused)) {
    if (m_trace != nullptr) m_trace->attach(recording());
    if (finished()) close();
}

RunDriver::~RunDriver() = default;

bool RunDriver::step() {
    while (!advance())
        if (finished()) return false;
    return true;
}

bool RunDriver::advance() {
    if (finished()) return false;
    if (!m_session->drafting()) apply_due();
    if (!m_session->advance()) return false;
    tell_trace();
    if (m_stepped) m_stepped();
    if (!finished()) return true;
    close();
    tell_trace();
    return true;
}

bool RunDriver::run(const std::function<Next()>& next) {
    while (true) {
        const Next wanted = next ? next() : Next::step;
        if (finished()) return true;
        if (wanted == Next::leave) return false;
        if (wanted == Next::stop) {
            stop();
        } else {
            step();
        }
    }
}

void RunDriver::stop() {
    if (finished()) return;
    m_session->stop();
    close();
    tell_trace();
}

void RunDriver::apply(const Command& command) {
    apply_command(*m_session, command);
    tell_trace();
}

void RunDriver::apply_due() {
    const int64_t step = recording()->steps() + 1;
    for (bool again = true; again;) {
        again = false;
        try {
            m_steering.apply_due(*m_session);
        } catch (const Error& why) {
            if (!m_refused) throw;
            m_refused(step, why);
            again = true; // the rest of this step's
        }
    }
}

void RunDriver::record_into(TraceStore& trace) {
    m_trace = &trace;
    m_trace->attach(recording());
}

void RunDriver::rewind(int64_t step, const Recording* as) {
    m_session->rewind(step, as);
    if (m_trace != nullptr) m_trace->attach(recording());
}

void RunDriver::steer(std::vector<TimedCommand> commands, std::function<void()> stepped,
                      std::function<void(int64_t, const Error&)> refused) {
    m_steering = Steering(std::move(commands));
    m_stepped = std::move(stepped);
    m_refused = std::move(refused);
}

nlohmann::json RunDriver::summary() const {
    return summary_json(*recording());
}

void RunDriver::close() {
    if (m_score) m_session->score();
}

void RunDriver::tell_trace() const {
    if (m_trace != nullptr) m_trace->notify();
}

} // namespace refreshlab
