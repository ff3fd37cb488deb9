#include "engine/base/error.h"
#include "engine/control/late_engine.h"
#include "engine/record/recording/recording.h"

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <variant>

namespace late_engine_test {

using namespace refreshlab;

/// Keeps what it is told.
class Told final : public EngineLink {
public:
    struct Log {
        std::mutex mutex;
        std::vector<Command> commands;
        std::function<void()> wake;
    };
    explicit Told(std::shared_ptr<Log> log)
        : m_log(std::move(log)) {}
    uint64_t send(Command command) override {
        const std::lock_guard lock(m_log->mutex);
        m_log->commands.push_back(std::move(command));
        return m_log->commands.size();
    }
    [[nodiscard]] std::shared_ptr<const EngineStatus> status() const override {
        auto status = std::make_shared<EngineStatus>();
        const std::lock_guard lock(m_log->mutex);
        status->state = EngineState::paused;
        status->answered = m_log->commands.size();
        return status;
    }
    [[nodiscard]] std::shared_ptr<const Recording> recording() const override { return nullptr; }
    void on_news(std::function<void()> wake) override {
        const std::lock_guard lock(m_log->mutex);
        m_log->wake = std::move(wake);
    }
    [[nodiscard]] RunOutlook outlook(const RunConfig& config) const override {
        RunOutlook outlook;
        outlook.note = config.prompt;
        return outlook;
    }

private:
    std::shared_ptr<Log> m_log;
};

/// Waits, with patience, for what another thread does.
template <class Condition>
bool until(const Condition& condition) {
    for (int i = 0; i < 4000 && !condition(); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return condition();
}

TEST_CASE("commands wait for a late engine in their order, with its tickets", "[control][late-engine]") {
    const auto log = std::make_shared<Told::Log>();
    std::promise<void> arrives;
    std::atomic<int> woken = 0;
    LateEngine late(
        [&, gate = arrives.get_future().share()] {
            gate.wait();
            return std::make_unique<Told>(log);
        },
        LateEngine::When::now);
    late.on_news([&] { ++woken; });
    CHECK(late.status()->state == EngineState::loading);
    CHECK(late.status()->message == "loading the engine");
    CHECK(late.send(command::StartRun{}) == 1);
    CHECK(late.send(command::SetParameter{"max_tokens", "77"}) == 2);
    CHECK(late.status()->applied.max_tokens == 77); // seen at once
    CHECK(late.status()->answered == 0);
    CHECK(late.status()->queued_commands == 2);
    CHECK(late.recording() == nullptr);
    auto outlook = std::async(std::launch::async, [&] {
        RunConfig config;
        config.prompt = "asked early";
        return late.outlook(config).note;
    });

    arrives.set_value();
    REQUIRE(until([&] { return late.status()->state == EngineState::paused; }));
    CHECK(outlook.get() == "asked early");
    CHECK(until([&] { return woken > 0; }));
    CHECK(late.send(command::Pause{}) == 3);
    CHECK(late.status()->answered == 3);
    REQUIRE(log->commands.size() == 3);
    CHECK(std::holds_alternative<command::StartRun>(log->commands[0]));
    CHECK(std::get<command::SetParameter>(log->commands[1]).value == "77");
    CHECK(std::holds_alternative<command::Pause>(log->commands[2]));
    REQUIRE(log->wake);
    const int before = woken;
    log->wake();
    CHECK(woken == before + 1);
}

TEST_CASE("where no engine comes, what needs one is refused and settings are taken",
          "[control][late-engine]") {
    LateEngine late(
        []() -> std::unique_ptr<EngineLink> { throw Error("loading the engine", "x.so", "is not there"); },
        LateEngine::When::now);
    REQUIRE(until([&] { return late.status()->state == EngineState::idle; }));
    CHECK(late.status()->errors == 0); // nobody asked for anything
    CHECK(late.status()->message == "no engine: traces only");
    RefreshPolicy policy = preset_policy("entropy");
    CHECK(late.send(command::SetPolicy{policy}) == 1);
    CHECK(late.send(command::SetPace{12}) == 2);
    CHECK(late.status()->answered == 2);
    CHECK(late.status()->errors == 0);
    CHECK(late.status()->applied.policy == policy);
    CHECK(late.status()->pace == 12);
    CHECK(late.send(command::StartRun{}) == 3);
    CHECK(late.status()->answered == 3);
    CHECK(late.status()->errors == 1);
    CHECK(late.status()->error == "loading the engine x.so: is not there");
    CHECK(late.send(command::SetParameter{"no.such", "1"}) == 4);
    CHECK(late.status()->errors == 2);
    for (int i = 0; i < 20; ++i)
        static_cast<void>(late.send(command::Resume{}));
    CHECK(late.status()->errors == 22);
    CHECK(late.status()->refusals.size() == EngineStatus::kept_refusals);
    const RunOutlook outlook = late.outlook({});
    CHECK(outlook.part == RunOutlook::Part::other);
    CHECK(outlook.problem == "loading the engine x.so: is not there");
}

TEST_CASE("commands that waited for an engine that does not come are refused", "[control][late-engine]") {
    std::promise<void> fails;
    LateEngine late(
        [gate = fails.get_future().share()]() -> std::unique_ptr<EngineLink> {
            gate.wait();
            throw Error("loading the engine", "x.so", "is not there");
        },
        LateEngine::When::now);
    static_cast<void>(late.send(command::StartRun{}));
    static_cast<void>(late.send(command::SetPace{5}));
    CHECK(late.status()->errors == 0);
    fails.set_value();
    REQUIRE(until([&] { return late.status()->answered == 2; }));
    CHECK(late.status()->errors == 1);
    CHECK(late.status()->queued_commands == 0);
}

TEST_CASE("an engine that is loaded when it is needed is not loaded for settings", "[control][late-engine]") {
    const auto log = std::make_shared<Told::Log>();
    std::atomic<int> made = 0;
    LateEngine late(
        [&] {
            ++made;
            return std::make_unique<Told>(log);
        },
        LateEngine::When::needed);
    CHECK(late.status()->state == EngineState::idle);
    CHECK(late.send(command::SetPolicy{preset_policy("entropy")}) == 1);
    CHECK(made == 0);
    CHECK(late.send(command::Step{1}) == 2);
    REQUIRE(until([&] { return late.status()->answered == 2; }));
    CHECK(made == 1);
    REQUIRE(log->commands.size() == 2);
    CHECK(std::holds_alternative<command::SetPolicy>(log->commands[0]));
}

} // namespace late_engine_test
