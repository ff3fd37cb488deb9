#include "engine/remote/connection.h"
#include "engine/remote/engine_server.h"
#include "engine/remote/remote_engine.h"
#include "tests/engine/record/random_recording.h"
#include "tests/engine/remote/fake_engine.h"
#include "tests/engine/remote/proxy.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>

#include <random>

namespace server_test {

using namespace refreshlab;
using namespace refreshlab::remote;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

constexpr const char* anywhere = "127.0.0.1:0";

EngineServer::Options listening(const std::string& on = anywhere) {
    EngineServer::Options options;
    options.listen = parse_endpoint(on, "--listen");
    return options;
}

RemoteEngine::Options to(const Endpoint& server, const std::string& name = "ada@laptop") {
    RemoteEngine::Options options;
    options.server = server;
    options.name = name;
    return options;
}

/// A socket that says what a test says, and reads until the other side ends.
std::string say_and_listen(const Endpoint& server, const Bytes& bytes) {
    asio::io_context io;
    asio::ip::tcp::socket socket(io);
    socket.connect({asio::ip::make_address("127.0.0.1"), server.port});
    asio::error_code error;
    asio::write(socket, asio::buffer(bytes), error);
    socket.shutdown(asio::ip::tcp::socket::shutdown_send, error);
    std::string answer;
    std::array<char, 4096> piece{};
    while (true) {
        const size_t count = socket.read_some(asio::buffer(piece), error);
        if (error) return answer;
        answer.append(piece.data(), count);
    }
}

} // namespace

TEST_CASE("a window steers an engine through a socket as one of its own process", "[remote]") {
    FakeEngine engine;
    Grower grower(seed(1));
    auto live = grower.start();
    grower.grow(*live, 20);
    engine.publish([](EngineStatus& s) {
        s.state = EngineState::paused;
        s.applied.teacher_dir = "models/teacher";
    });
    engine.show(live);
    TemporaryFolder folder;
    const bool local = GENERATE(false, true);
    EngineServer server(engine, listening(local ? "unix:" + (folder / "socket").string() : anywhere));
    RemoteEngine link(to(server.endpoint()));
    LinkWatcher watch(link);
    REQUIRE(watch.until_has(*live));
    REQUIRE(watch.until([](const EngineStatus& s) { return s.state == EngineState::paused; }));
    CHECK(link.status()->applied.teacher_dir == "models/teacher");
    CHECK(link.status()->link->connected);
    CHECK(link.status()->link->driving);

    const uint64_t first = link.send(command::Resume{});
    const uint64_t second = link.send(command::SetParameter{"entropy.threshold", "2.5"});
    CHECK(second == first + 1);
    const auto commands = engine.commands(2);
    CHECK(std::holds_alternative<command::Resume>(commands.at(0)));
    CHECK(to_json(commands.at(1)) == to_json(command::SetParameter{"entropy.threshold", "2.5"}));
    CHECK(link.status()->answered == 0);
    engine.publish([](EngineStatus& s) { s.answered = 1; });
    REQUIRE(watch.until([&](const EngineStatus& s) { return s.answered == first; }));
    engine.publish([](EngineStatus& s) {
        s.answered = 2;
        s.error = "no such threshold";
        s.errors = 1;
        s.refusals = {s.error};
    });
    REQUIRE(watch.until([&](const EngineStatus& s) { return s.answered == second && s.errors == 1; }));
    CHECK(link.status()->refusals == std::vector<std::string>{"no such threshold"});

    RunConfig config;
    config.prompt = "a prompt";
    CHECK(link.outlook(config).note == "of a prompt");

    const auto here = link.recording();
    grower.grow(*live, 30);
    engine.tell();
    REQUIRE(watch.until_has(*live));
    CHECK(link.recording() == here);
    auto branch = live->fork(35, "a branch");
    grower.grow(*branch, 10);
    engine.show(branch);
    REQUIRE(watch.until_has(*branch));
    CHECK(&link.recording()->step(3) == &here->step(3)); // a branch shares with its parent here as there
}

TEST_CASE("several look and one drives; the wheel is taken, and who had it is told", "[remote]") {
    FakeEngine engine;
    EngineServer server(engine, listening());
    RemoteEngine ada(to(server.endpoint(), "ada"));
    LinkWatcher watch_ada(ada);
    REQUIRE(
        watch_ada.until([](const EngineStatus& s) { return s.link->driving && s.link->driver == "ada"; }));
    RemoteEngine bob(to(server.endpoint(), "bob"));
    LinkWatcher watch_bob(bob);
    REQUIRE(watch_bob.until([](const EngineStatus& s) { return !s.link->driving && s.link->viewers == 2; }));
    const uint64_t refused = bob.send(command::Step{2});
    REQUIRE(watch_bob.until([&](const EngineStatus& s) { return s.answered >= refused && s.errors == 1; }));
    CHECK_THAT(bob.status()->error, ContainsSubstring("ada drives this engine"));
    // A window says its pace when it opens: that of one that only looks is no error.
    const uint64_t pace = bob.send(command::SetPace{20});
    REQUIRE(watch_bob.until([&](const EngineStatus& s) { return s.answered >= pace; }));
    CHECK(bob.status()->errors == 1);
    bob.take_wheel();
    REQUIRE(watch_bob.until([](const EngineStatus& s) { return s.link->driving; }));
    REQUIRE(
        watch_ada.until([](const EngineStatus& s) { return !s.link->driving && s.link->driver == "bob"; }));
    static_cast<void>(bob.send(command::Step{3}));
    const auto commands = engine.commands(1);
    REQUIRE(commands.size() == 1);
    CHECK(std::get<command::Step>(commands[0]).steps == 3);
}

TEST_CASE("a connection that is cut anywhere comes back and asks for what is missing", "[remote]") {
    FakeEngine engine;
    Grower grower(seed(2));
    std::mt19937 random(seed(3));
    auto live = grower.start();
    grower.grow(*live, 50);
    engine.show(live);
    EngineServer server(engine, listening());
    SlowLink slow(server.endpoint(), {});
    RemoteEngine link(to(slow.endpoint()));
    LinkWatcher watch(link);
    REQUIRE(watch.until_has(*live));
    const auto here = link.recording();
    for (int round = 0; round < 4; ++round) {
        CAPTURE(round);
        slow.cut_after(1 + random() % 30'000);
        for (int i = 0; i < 20; ++i) {
            grower.grow(*live, 5);
            engine.tell();
        }
        REQUIRE(watch.until_has(*live));
        CHECK(link.recording() == here);
    }
    slow.refuse(true);
    slow.cut_after(0);
    REQUIRE(watch.until([](const EngineStatus& s) { return !s.link->connected; }));
    CHECK(!link.status()->link->problem.empty());
    CHECK(link.recording() == here);
    const uint64_t lost = link.send(command::Step{1});
    REQUIRE(watch.until([&](const EngineStatus& s) { return s.answered >= lost && s.errors > 0; }));
    CHECK_THAT(link.status()->error, ContainsSubstring("no connection"));
    RunOutlook outlook = link.outlook({});
    CHECK_THAT(outlook.problem, ContainsSubstring("no connection"));
    const uint64_t before = slow.bytes_from_server();
    slow.refuse(false);
    REQUIRE(watch.until([](const EngineStatus& s) { return s.link->connected && s.link->problem.empty(); }));
    grower.grow(*live, 1);
    engine.tell();
    REQUIRE(watch.until_has(*live));
    CHECK(link.recording() == here);
    CHECK(slow.bytes_from_server() - before < 40'000); // not the run again
}

TEST_CASE("branches that others make while a window is away share steps with their run in it", "[remote]") {
    FakeEngine engine;
    Grower grower(seed(8));
    auto live = grower.start();
    grower.grow(*live, 70);
    engine.show(live);
    EngineServer server(engine, listening());
    SlowLink slow(server.endpoint(), {});
    RemoteEngine link(to(slow.endpoint()));
    LinkWatcher watch(link);
    REQUIRE(watch.until_has(*live));
    const auto here = link.recording();
    slow.refuse(true);
    slow.cut_after(0);
    REQUIRE(watch.until([](const EngineStatus& s) { return !s.link->connected; }));
    RemoteEngine bob(to(server.endpoint(), "bob"));
    LinkWatcher watch_bob(bob);
    grower.grow(*live, 30);
    auto branch = live->fork(90, "of bob");
    grower.grow(*branch, 10);
    engine.show(branch);
    REQUIRE(watch_bob.until_has(*branch));
    auto twig = branch->fork(95, "of bob too");
    grower.grow(*twig, 10);
    engine.show(twig);
    REQUIRE(watch_bob.until_has(*twig));
    slow.refuse(false);
    REQUIRE(watch.until_has(*twig));
    CHECK(here->steps() == 100); // its own run came to its end
    CHECK(&link.recording()->step(60) == &here->step(60));
    CHECK(link.recording()->info().parent_id == "of bob");
}

TEST_CASE("a server that was started anew is recognised, and nothing here is lost", "[remote]") {
    TemporaryFolder folder;
    const std::string where = "unix:" + (folder / "socket").string();
    Grower grower(seed(4));
    auto first = grower.start(), second = grower.start();
    grower.grow(*first, 30);
    grower.grow(*second, 10);
    FakeEngine engine, another;
    engine.show(first);
    auto server = std::make_unique<EngineServer>(engine, listening(where));
    RemoteEngine link(to(server->endpoint()));
    LinkWatcher watch(link);
    REQUIRE(watch.until_has(*first));
    const auto here = link.recording();
    server.reset();
    REQUIRE(watch.until([](const EngineStatus& s) { return !s.link->connected; }));
    server = std::make_unique<EngineServer>(another, listening(where));
    REQUIRE(watch.until([](const EngineStatus& s) { return s.link->connected; }));
    CHECK_THAT(link.status()->link->problem, ContainsSubstring("started anew"));
    CHECK(link.recording() == here);
    another.show(second);
    REQUIRE(watch.until_has(*second));
    CHECK(!first_difference(*here, *first));
}

TEST_CASE("who is not let in is told why", "[remote]") {
    FakeEngine engine;
    EngineServer::Options options = listening();
    options.token = "open sesame";
    EngineServer server(engine, options);
    RemoteEngine::Options wrong = to(server.endpoint());
    CHECK_THROWS_WITH(RemoteEngine(wrong), ContainsSubstring("the token is not that of this server"));
    RemoteEngine::Options right = to(server.endpoint());
    right.token = options.token;
    CHECK_NOTHROW(RemoteEngine(right));

    options.listen = parse_endpoint("0.0.0.0:0", "--listen");
    CHECK_NOTHROW(EngineServer(engine, options));
    options.token.clear();
    CHECK_THROWS_WITH(EngineServer(engine, options), ContainsSubstring("needs a token"));
    options.listen = server.endpoint();
    CHECK_THROWS_WITH(EngineServer(engine, options), ContainsSubstring("in use"));
    RemoteEngine::Options nobody = to(parse_endpoint("unix:/nowhere/at/all", "--connect"));
    CHECK_THROWS_WITH(RemoteEngine(nobody), ContainsSubstring("no server listens there"));
}

TEST_CASE("another version of the protocol is named on both sides", "[remote]") {
    FakeEngine engine;
    EngineServer server(engine, listening());
    const std::string answer = say_and_listen(server.endpoint(), preamble(protocol_version + 1));
    const Bytes ours = preamble();
    CHECK(answer.starts_with(std::string(ours.begin(), ours.end()))); // so that it can say so too

    asio::io_context io;
    asio::ip::tcp::acceptor foreign(io, {asio::ip::make_address("127.0.0.1"), 0});
    std::thread thread([&] {
        auto socket = foreign.accept();
        asio::write(socket, asio::buffer(preamble(protocol_version + 41)));
        asio::error_code ignored;
        std::array<char, 256> piece{};
        while (!ignored)
            socket.read_some(asio::buffer(piece), ignored);
    });
    RemoteEngine::Options options =
        to({.host = "127.0.0.1", .port = foreign.local_endpoint().port(), .path = {}});
    CHECK_THROWS_WITH(RemoteEngine(options),
                      ContainsSubstring(fmt::format("speaks version {}", protocol_version + 41)) &&
                          ContainsSubstring(fmt::format("this program version {}", protocol_version)) &&
                          ContainsSubstring("the same RefreshLab") &&
                          ContainsSubstring("start `refreshlab serve` of this RefreshLab there"));
    thread.join();
}

TEST_CASE("bad bytes end their own connection and nothing else", "[remote]") {
    FakeEngine engine;
    Grower grower(seed(5));
    auto live = grower.start();
    grower.grow(*live, 10);
    engine.show(live);
    EngineServer server(engine, listening());
    RemoteEngine link(to(server.endpoint()));
    LinkWatcher watch(link);
    REQUIRE(watch.until_has(*live));
    std::mt19937 random(seed(6));
    const json hello = {{"type", "hello"}, {"name", "x"}, {"key", "y"}};
    const std::vector<json> messages = {
        {{"type", "command"}, {"ticket", 1}, {"command", {{"command", "step"}}}},
        {{"type", "command"}, {"ticket", 2}, {"command", {{"command", "no such"}}}},
        {{"type", "outlook_asked"}, {"id", 1}, {"config", {{"seed", "x"}}}},
        {{"type", "look"}, {"position", 3}},
        {{"type", "wheel"}, {"x", json::array({1, 2})}},
        {{"type", "note"},
         {"number", 1},
         {"run", live->info().id},
         {"key", "k"},
         {"note", {3, 4, 1, "text", ""}}},
        {{"type", "note"},
         {"number", 2},
         {"run", live->info().id},
         {"key", "k"},
         {"note", {-3, 4, 99, "\xFF", ""}}},
        {{"type", "note"}, {"number", 3}, {"run", "none"}, {"key", "k"}, {"note", nullptr}},
        {{"type", "look_score"}, {"run", live->info().id}, {"position", INT64_MAX}},
        {{"type", "file_asked"}, {"id", 1}, {"name", "x.rlt"}, {"have", -5}, {"digest", 3}},
        {{"type", "bye"}},
        {{"type", 7}}};
    for (int i = 0; i < 150; ++i) {
        Bytes bytes = preamble();
        const auto add = [&](const json& message) {
            const Bytes more = frame(Channel::messages, to_bytes(message));
            bytes.insert(bytes.end(), more.begin(), more.end());
        };
        add(hello);
        for (int n = 0; n < 3; ++n)
            add(messages[random() % messages.size()]);
        if (i % 10 != 0)
            for (uint32_t change = 1 + random() % 4; change > 0; --change)
                bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
        static_cast<void>(say_and_listen(server.endpoint(), bytes));
    }
    grower.grow(*live, 10);
    engine.tell();
    CHECK(watch.until_has(*live));
    CHECK(link.status()->link->connected);
}

TEST_CASE("a link of 1 Mbit/s and 200 ms keeps thresholds live", "[.measure]") {
    FakeEngine engine;
    Grower grower(seed(7));
    auto live = grower.start();
    engine.show(live);
    EngineServer server(engine, listening());
    SlowLink slow(server.endpoint(), {.bytes_per_s = 125'000, .delay = std::chrono::milliseconds(100)});
    RemoteEngine link(to(slow.endpoint()));
    LinkWatcher watch(link);
    std::atomic<bool> done = false;
    std::mutex mutex; // the recording's writer
    std::thread decode([&] {
        while (!done) {
            {
                const std::lock_guard lock(mutex);
                grower.grow(*live, 1);
                auto rows = std::make_shared<AttentionRows>(); // as large as a run keeps them
                rows->position = live->prompt_length() + live->steps() - 1;
                rows->step = live->steps();
                rows->heads = 4;
                rows->keys = rows->position + 1;
                rows->layers = {0, 2};
                for (int64_t i = 0; i < 2 * rows->heads * rows->stride(); ++i)
                    rows->weights.push_back(static_cast<uint16_t>(i));
                live->add_attention(rows);
            }
            engine.tell();
            std::this_thread::sleep_for(std::chrono::milliseconds(50)); // 20 tokens a second
        }
    });
    using Clock = std::chrono::steady_clock;
    std::vector<double> up, round_trip, lag;
    std::this_thread::sleep_for(std::chrono::seconds(5));
    for (size_t i = 0; i < 40; ++i) {
        const auto began = Clock::now();
        const uint64_t ticket = link.send(command::SetParameter{"entropy.threshold", std::to_string(i)});
        static_cast<void>(engine.commands(i + 1));
        up.push_back(std::chrono::duration<double, std::milli>(Clock::now() - began).count());
        engine.publish([&](EngineStatus& s) { s.answered = i + 1; });
        REQUIRE(watch.until([&](const EngineStatus& s) { return s.answered >= ticket; }));
        round_trip.push_back(std::chrono::duration<double, std::milli>(Clock::now() - began).count());
        lag.push_back(static_cast<double>(live->steps() - link.recording()->steps()));
    }
    done = true;
    decode.join();
    for (auto* values : {&up, &round_trip, &lag})
        std::ranges::sort(*values);
    const auto line = [](const std::vector<double>& v) {
        return fmt::format("median {:.0f}, 90 % {:.0f}, most {:.0f}", v[v.size() / 2], v[v.size() * 9 / 10],
                           v.back());
    };
    fmt::print("command at the engine, ms: {}\nanswer here, ms: {}\nsteps behind: {}\n", line(up),
               line(round_trip), line(lag));
    fmt::print("{} steps, {} B from the server; attention rows to come: {}\n", live->steps(),
               slow.bytes_from_server(), link.status()->link->rows_to_come);
    CHECK(round_trip.back() < 2000);
}

} // namespace server_test
