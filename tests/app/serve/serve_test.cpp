// The program as a server, driven by a window's link and by a client in Python.
#include "engine/base/error.h"
#include "engine/control/parameters.h"
#include "engine/record/trace/trace_store.h"
#include "engine/remote/remote_engine.h"
#include "tests/app/serve/processes.h"
#include "tests/engine/remote/fake_engine.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace serve_test {

namespace fs = std::filesystem;
using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

remote::RemoteEngine::Options to(const std::string& address) {
    remote::RemoteEngine::Options options;
    options.server = remote::parse_endpoint(address, "--connect");
    options.name = "a test";
    return options;
}

/// And everything of the run has come.
bool finished(const EngineStatus& s) {
    return s.state == EngineState::finished && s.link->rows_to_come == 0;
}

} // namespace

TEST_CASE("runs of a server are the same here, there and in its trace: refreshes, rewinds, drafts",
          "[serve]") {
    Folder folder;
    Server server({"--listen", "127.0.0.1:0", "--record", (folder / "traces").string()});
    std::vector<std::shared_ptr<const Recording>> here;
    {
        remote::RemoteEngine link(to(server.address));
        LinkWatcher watch(link);
        REQUIRE(watch.until([](const EngineStatus& s) { return !s.applied.teacher_dir.empty(); }));
        CHECK(link.status()->link->record.find("serve-") != std::string::npos);
        CHECK(!link.status()->recorded);
        RunConfig config = link.status()->applied; // models of the server
        config.prompt = "Write a chronicle of 3 companies.";
        config.max_tokens = 40;
        config.policy = preset_policy("entropy");
        set_parameter(config, "entropy.threshold", "2");
        set_parameter(config, "entropy.every", "1");
        config.threads = 2;
        const RunOutlook outlook = link.outlook(config);
        CHECK(outlook.part == RunOutlook::Part::none);
        CHECK(outlook.prompt_tokens > 0);
        uint64_t ticket = link.send(command::StartRun{config});
        REQUIRE(watch.until([&](const EngineStatus& s) { return s.answered >= ticket && finished(s); }));
        here.push_back(link.recording());
        ticket = link.send(command::Rewind{20});
        link.send(command::SetParameter{"entropy.threshold", "2"});
        link.send(command::RefreshNow{});
        link.send(command::Resume{});
        REQUIRE(watch.until([&](const EngineStatus& s) {
            return s.answered >= ticket && finished(s) && link.recording() != here.back();
        }));
        here.push_back(link.recording());
        config.policy = preset_policy("speculative");
        ticket = link.send(command::StartRun{config});
        REQUIRE(watch.until([&](const EngineStatus& s) { return s.answered >= ticket && finished(s); }));
        here.push_back(link.recording());
        CHECK(here.back()->drafts().size() > 0);
        link.send(command::SetParameter{"no.such", "1"});
        REQUIRE(watch.until([](const EngineStatus& s) { return s.errors == 1; }));
    }
    CHECK(server.end(SIGTERM) == 128 + SIGTERM);
    const auto there = load_trace(only_file(folder / "traces"));
    REQUIRE(there.size() == here.size());
    for (size_t i = 0; i < here.size(); ++i) {
        CAPTURE(i);
        const auto difference = first_difference(*there[i], *here[i]);
        INFO(difference.value_or(""));
        CHECK(!difference);
        CHECK(here[i]->info().id == there[i]->info().id);
        CHECK(here[i]->info().parent_id == there[i]->info().parent_id);
    }
    CHECK(here[0]->refreshes().size() > 0);
    CHECK(here[1]->info().parent_id == here[0]->info().id);
}

TEST_CASE("a client in Python drives a run", "[serve]") {
    Folder folder;
    Server server({"--listen", "127.0.0.1:0", "--record", (folder / "traces").string()});
    Process client({RL_PYTHON, RL_SOURCE_DIR "/tests/app/serve/link_client.py", server.address, "30"});
    const std::string said = client.line();
    REQUIRE(client.end(0) == 0);
    const json told = json::parse(said);
    CHECK(server.end(SIGINT) == 128 + SIGINT);
    const auto there = load_trace(only_file(folder / "traces"));
    REQUIRE(there.size() == 1);
    const Recording& run = *there[0];
    CHECK(told.at("run") == run.info().id);
    CHECK(told.at("steps") == run.steps());
    CHECK(told.at("tokens").get<std::vector<int32_t>>() == run.token_ids());
    CHECK(told.at("refreshes") == run.refreshes().size());
    CHECK(told.at("commands") == run.commands().size());
    CHECK(told.at("stop_reason") == run.end()->stop_reason);
    CHECK(told.at("text").get<std::string>().size() > 20);
}

TEST_CASE("a server that is killed is missed, and one that comes after it is found", "[serve]") {
    Folder folder;
    const std::string where = (folder / "socket").string();
    auto server = std::make_unique<Server>(std::vector<std::string>{"--unix", where});
    remote::RemoteEngine link(to("unix:" + where));
    LinkWatcher watch(link);
    CHECK(server->end(SIGKILL) == 128 + SIGKILL);
    REQUIRE(watch.until([](const EngineStatus& s) { return !s.link->connected; }));
    server =
        std::make_unique<Server>(std::vector<std::string>{"--unix", where}); // over the socket that was left
    REQUIRE(watch.until([](const EngineStatus& s) { return s.link->connected; }));
    CHECK_THAT(link.status()->link->problem, ContainsSubstring("started anew"));
}

TEST_CASE("bad options of a server and of a window that connects are one line", "[serve]") {
    Folder folder;
    const auto refused = [&](std::vector<std::string> arguments, const std::string& part, int status = 2) {
        const std::string err = (folder / "err").string();
        std::string command = RL_BUILD_DIR "/refreshlab";
        for (const std::string& argument : arguments)
            command += " '" + argument + "'";
        const int ended = std::system((command + " > /dev/null 2> '" + err + "' < /dev/null").c_str());
        std::ifstream in(err);
        std::stringstream text;
        text << in.rdbuf();
        INFO(text.str());
        CHECK(WEXITSTATUS(ended) == status);
        CHECK(text.str().find(part) != std::string::npos);
        CHECK(std::ranges::count(text.str(), '\n') == 1);
    };
    refused({"serve", "--listen", "0.0.0.0:0"}, "needs a token");
    refused({"serve", "--listen", "nowhere"}, "nowhere");
    refused({"serve", "--listen", "127.0.0.1:x"}, "no port");
    refused({"serve", "--unix", "/nowhere/at/all"}, "listening on");
    refused({"serve", "--token-file", (folder / "none").string()}, "no token");
    std::ofstream(folder / "file") << "x";
    refused({"serve", "--record", (folder / "file").string()}, "no folder");
    const std::string picture = (folder / "a.png").string();
    refused({"gui", "--connect", "unix:/nowhere/at/all", "--screenshot", picture}, "no server listens there",
            1);
    Server server({"--listen", "127.0.0.1:0"});
    refused({"gui", "--connect", server.address, "--screenshot", picture, "--teacher", "x", "--student", "y"},
            "no prompt is given");
    refused({"gui", "--connect", server.address, "--screenshot", picture, "--prompt", "x", "--teacher",
             "no-such"},
            "no-such");
    refused({"gui", "--connect", "127.0.0.1:x", "--screenshot", picture}, "--connect");
    refused({"gui", "--connect", "127.0.0.1:1", "--screenshot", picture, "--there", "x"}, "--connect ssh://");
    refused({"gui", "--connect", "ssh://a b", "--screenshot", picture}, "is no address");
    refused({"serve", "--models", "/nowhere/at/all"}, "is no folder");
    refused({"gui", "--connect", "127.0.0.1:1", "--screenshot", picture, "--record", picture + ".rlt"},
            "the engine is the server's");
}

TEST_CASE("a picture of a server's run: of one that is started, and of one that is there", "[serve]") {
    Folder folder;
    Server server({"--listen", "127.0.0.1:0"});
    const auto takes = [&](std::vector<std::string> more, const std::string& name) {
        std::vector<std::string> words{
            RL_BUILD_DIR "/refreshlab", "gui",    "--connect", server.address, "--screenshot",
            (folder / name).string(),   "--size", "800x600"};
        words.insert(words.end(), more.begin(), more.end());
        Process gui(words);
        CHECK(gui.end(0) == 0);
        CHECK(fs::file_size(folder / name) > 10'000);
    };
    takes({"--prompt", "Write a chronicle of 2 companies.", "--max-tokens", "30", "--threads", "1"},
          "started.png");
    remote::RemoteEngine link(to(server.address));
    LinkWatcher watch(link);
    REQUIRE(watch.until([](const EngineStatus& s) { return finished(s); }));
    REQUIRE(watch.until([&](const EngineStatus&) { return link.recording() && link.recording()->end(); }));
    const auto before = link.recording()->info().id;
    takes({}, "there.png");
    CHECK(link.recording()->info().id == before); // nobody has started another
}

} // namespace serve_test
