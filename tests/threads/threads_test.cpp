// The threads of the program at once, without a model: one that edits drafts and reads (the window's), one that applies
// commands and records (the decode thread's), and the writer of the trace. Made for ThreadSanitizer (scripts/tsan.sh).
#include "engine/control/command_queue.h"
#include "engine/control/engine_link.h"
#include "engine/control/parameters.h"
#include "engine/record/trace/trace_store.h"
#include "tests/engine/record/random_recording.h"
#include "tests/support/seed.h"
#if REFRESHLAB_UI
#include "ui/scene/policy/drafts.h"
#endif

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

constexpr const char* key = "entropy.threshold";

/// An engine whose steps are random records: everything of a decode thread but the decoding.
class RecordingEngine final : public EngineLink {
public:
    explicit RecordingEngine(const std::filesystem::path& trace)
        : m_grower(test::seed(11))
        , m_recording(m_grower.start())
        , m_trace(TraceStore::create(trace)) {
        EngineStatus first;
        first.state = EngineState::running;
        first.applied.policy = preset_policy("entropy");
        m_status = std::make_shared<EngineStatus>(first);
        m_trace->attach(m_recording);
        m_thread = std::thread([this] { decode(); });
    }
    ~RecordingEngine() override { finish(); }
    RecordingEngine(const RecordingEngine&) = delete;
    RecordingEngine& operator=(const RecordingEngine&) = delete;

    uint64_t send(Command command) override { return m_queue.push(std::move(command)); }
    std::shared_ptr<const EngineStatus> status() const override {
        const std::lock_guard lock(m_mutex);
        return m_status;
    }
    std::shared_ptr<const Recording> recording() const override { return m_recording; }
    void on_news(std::function<void()>) override {}
    [[nodiscard]] RunOutlook outlook(const RunConfig&) const override { return {}; }

    /// What was sent is applied, then the run and its file are closed.
    void finish() {
        m_queue.close();
        if (m_thread.joinable()) m_thread.join();
    }
    [[nodiscard]] const std::vector<double>& applied() const { return m_applied; } ///< after finish()
    [[nodiscard]] std::string trace_error() const { return m_trace->error(); }

private:
    void decode() {
        while (const auto taken = m_queue.wait_pop()) {
            auto next = std::make_shared<EngineStatus>(*status());
            if (const auto* set = std::get_if<command::SetParameter>(&taken->command)) {
                set_parameter(next->applied, set->key, set->value);
                m_applied.push_back(next->applied.policy.triggers.at(0).threshold);
            }
            m_grower.grow(*m_recording, 1);
            m_trace->notify();
            next->answered = taken->ticket;
            const std::lock_guard lock(m_mutex);
            m_status = std::move(next);
        }
        m_grower.finish(*m_recording);
        m_trace->notify();
        m_trace->flush();
    }

    CommandQueue m_queue;
    Grower m_grower;                        // the decode thread's
    std::shared_ptr<Recording> m_recording; // written by the decode thread, read by all
    std::unique_ptr<TraceStore> m_trace;    // told by the decode thread
    std::vector<double> m_applied;          // the decode thread's until it has ended
    mutable std::mutex m_mutex;             // of m_status; held to copy a pointer
    std::shared_ptr<const EngineStatus> m_status;
    std::thread m_thread;
};

/// What a panel reads in a frame.
int64_t look_at(const Recording& recording) {
    int64_t seen = 0;
    const int64_t steps = recording.steps();
    for (int64_t t = std::max<int64_t>(1, steps - 20); t <= steps; ++t) {
        seen += recording.step(t).token_id >= 0 ? 1 : 0;
        for (size_t signal = 0; signal < 4; ++signal)
            seen += is_absent(recording.signal(t, signal)) ? 0 : 1;
    }
    for (size_t i = 0, n = recording.cache_entries().size(); i < n; ++i) {
        const CacheEntry& entry = recording.cache_entries()[i];
        if (entry.change != CacheChange::appended) continue;
        // Single appends are one growing row, which a reader may see half grown.
        const CacheEvent newest = entry.event(entry.steps() - 1);
        CHECK(newest.bytes == std::vector<int64_t>{64 * (newest.positions.at(0).first + 1)});
    }
    return seen + static_cast<int64_t>(recording.refreshes().size() + recording.token_ids().size());
}

} // namespace

TEST_CASE("drafts, commands, records and the trace go on at once, and every one arrives", "[threads]") {
    const TemporaryFolder folder;
    RecordingEngine engine(folder / "run.rlt");
    constexpr int edits = 400;
    int64_t seen = 0;
    double last = 0;
#if REFRESHLAB_UI
    ui::Drafts drafts;
    drafts.begin_frame(*engine.status());
    drafts.begin_edit(key);
    for (int i = 0; i < edits; ++i) {
        last = 1 + 0.01 * i;
        drafts.edit(engine, key, last);
        CHECK(drafts.number(key) == last); // at once, whatever the engine has applied so far
        drafts.begin_frame(*engine.status());
        seen += look_at(*engine.recording());
    }
    drafts.commit(key);
#else
    for (int i = 0; i < edits; ++i) {
        last = 1 + 0.01 * i;
        engine.send(command::SetParameter{key, std::to_string(last)});
        seen += look_at(*engine.recording());
    }
#endif
    engine.finish();
    CHECK(seen > 0);
    REQUIRE_FALSE(engine.applied().empty());
    CHECK(engine.applied().size() <= edits); // of waiting values the newest takes the place of the others
    CHECK(std::is_sorted(engine.applied().begin(), engine.applied().end()));
    CHECK(std::abs(engine.applied().back() - last) < 1e-5);
#if REFRESHLAB_UI
    drafts.begin_frame(*engine.status());
    CHECK_FALSE(drafts.pending(key));
    CHECK(drafts.number(key) == last);
#endif
    CHECK(engine.trace_error().empty());
    const auto loaded = load_trace(folder / "run.rlt");
    REQUIRE(loaded.size() == 1);
    CHECK(loaded[0]->steps() == engine.recording()->steps());
    CHECK_FALSE(first_difference(*loaded[0], *engine.recording()));
}

TEST_CASE("a trace is read while it is written, each time as far as whole steps go", "[threads]") {
    const TemporaryFolder folder;
    RecordingEngine engine(folder / "run.rlt");
    std::atomic<bool> done{false}; // set when everything has been sent
    std::thread writer([&] {
        for (int i = 0; i < 300; ++i)
            engine.send(command::Step{1}); // steps are never coalesced
        done = true;
    });
    int64_t before = 0;
    int rounds = 0;
    while (!done || rounds < 5) {
        const auto runs = load_trace(folder / "run.rlt");
        if (!runs.empty()) {
            const int64_t steps = runs[0]->steps();
            CHECK(steps >= before);
            before = steps;
        }
        ++rounds;
    }
    writer.join();
    engine.finish();
    const auto runs = load_trace(folder / "run.rlt");
    REQUIRE(runs.size() == 1);
    CHECK(runs[0]->steps() >= 300);
    CHECK_FALSE(first_difference(*runs[0], *engine.recording()));
}
