#include "engine/record/trace/trace_store.h"
#include "engine/remote/engine_server.h"
#include "engine/remote/kept_runs.h"
#include "engine/remote/note_json.h"
#include "engine/remote/note_receiver.h"
#include "engine/remote/note_sender.h"
#include "engine/remote/remote_engine.h"
#include "engine/remote/wire.h"
#include "tests/engine/record/random_recording.h"
#include "tests/engine/remote/fake_engine.h"
#include "tests/engine/remote/proxy.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>

#include <deque>
#include <random>
#include <set>

namespace notes_test {

using namespace refreshlab;
using namespace refreshlab::remote;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

StepNote note(int64_t step, std::string text) {
    return {.first_step = step, .last_step = step, .text = std::move(text), .made_at = {}};
}

/// What a person sees of a run's notes, whatever ids they have.
std::multiset<std::string> contents(const RunNotes& notes) {
    std::multiset<std::string> all;
    for (const RunNotes::Seen& seen : notes.seen())
        all.insert(note_json(seen.note).dump());
    return all;
}

/// A client of a SharedNotes, with bytes on their way for as long as the test wants.
struct Client {
    Client(SharedNotes& notes, const Recording& run, std::string name)
        : shared(notes)
        , recording(std::make_shared<Recording>(run.info(), run.token_table()))
        , receiver(std::move(name), [] {}) {
        receiver.add(recording);
        connect();
    }
    void connect() { // what was on its way is gone
        up.clear();
        down.clear();
        sender = {};
        sender.begin(recording->info().id, false);
        receiver.begin_connection();
    }
    void send() {
        for (const json& change : receiver.changes())
            up.push_back(to_bytes(change));
    }
    void arrive_there() {
        if (up.empty()) return;
        const json change = from_bytes(up.front());
        up.pop_front();
        CHECK(shared.change(change.at("run"), change.at("key"), note_of(change.at("note"))));
        sender.answer(change.at("number"), change.at("run"), change.at("key"), {});
    }
    void tell() {
        if (const json message = sender.next(shared); !message.is_null()) down.push_back(to_bytes(message));
    }
    void arrive_here() {
        if (down.empty()) return;
        CHECK(receiver.take(from_bytes(down.front())).empty());
        down.pop_front();
    }
    SharedNotes& shared;
    std::shared_ptr<Recording> recording;
    NoteReceiver receiver;
    NoteSender sender;
    std::deque<Bytes> up, down;
};

void change_something(RunNotes& notes, std::mt19937& random, int round) {
    const auto own = notes.own();
    const std::string text = fmt::format("{} of {}", random() % 5, round);
    if (own.empty() || random() % 3 == 0) {
        notes.add(note(1 + static_cast<int64_t>(random() % 9), text));
        return;
    }
    StepNote changed = own[random() % own.size()];
    if (random() % 3 == 0) {
        notes.erase(changed.id);
        if (random() % 2 == 0) notes.put(changed); // and undone
        return;
    }
    changed.text = text;
    notes.put(changed);
}

EngineServer::Options listening() {
    EngineServer::Options options;
    options.listen = parse_endpoint("127.0.0.1:0", "--listen");
    return options;
}

RemoteEngine::Options to(const Endpoint& server, const std::string& name) {
    RemoteEngine::Options options;
    options.server = server;
    options.name = name;
    return options;
}

} // namespace

TEST_CASE("whatever several change, and wherever connections are cut, all have the same notes in the end",
          "[remote]") {
    for (uint32_t round = 0; round < 20; ++round) {
        CAPTURE(round);
        Grower grower(seed(round));
        std::mt19937 random(seed(100 + round));
        const auto run = grower.start();
        SharedNotes shared([] {});
        shared.add(run);
        run->notes()->add(note(1, "there from the beginning"));
        Client ada(shared, *run, "ada"), bob(shared, *run, "bob");
        for (int i = 0; i < 400; ++i) {
            Client& client = random() % 2 == 0 ? ada : bob;
            switch (random() % 12) {
            case 0:
                change_something(*client.recording->notes(), random, i);
                break;
            case 1:
                if (random() % 4 == 0) change_something(*run->notes(), random, i); // a window there
                break;
            case 2:
                if (random() % 8 == 0) client.connect();
                break;
            case 3:
            case 4:
                client.send();
                break;
            case 5:
            case 6:
                client.arrive_there();
                break;
            case 7:
            case 8:
                client.tell();
                break;
            default:
                client.arrive_here();
            }
        }
        for (int i = 0; i < 200; ++i)
            for (Client* client : {&ada, &bob}) {
                client->send();
                client->arrive_there();
                client->tell();
                client->arrive_here();
            }
        CHECK(ada.receiver.waiting() == 0);
        CHECK(bob.receiver.waiting() == 0);
        CHECK(contents(*ada.recording->notes()) == contents(*run->notes()));
        CHECK(contents(*bob.recording->notes()) == contents(*run->notes()));
    }
}

TEST_CASE("a window that has a branch without its parent sees the parent's notes, and changes them there",
          "[remote]") {
    Grower grower(seed(1));
    const auto parent = grower.start();
    grower.grow(*parent, 20);
    const auto branch = parent->fork(10, "branch");
    SharedNotes shared([] {});
    shared.add(branch);
    StepNote over = note(8, "over the fork");
    over.last_step = 15;
    const int64_t id = parent->notes()->add(over);
    parent->notes()->add(note(12, "beyond it"));
    Client ada(shared, *branch, "ada");
    ada.sender.begin("branch", true);
    const auto exchange = [&] {
        ada.send();
        ada.arrive_there();
        ada.tell();
        ada.arrive_here();
    };
    exchange();
    auto seen = ada.recording->notes()->own();
    REQUIRE(seen.size() == 1);
    CHECK(seen[0].last_step == 10);
    seen[0].text = "changed";
    ada.recording->notes()->put(seen[0]);
    exchange();
    CHECK(parent->notes()->find(id)->text == "changed");
    CHECK(parent->notes()->find(id)->last_step == 15); // no shorter than it was
    CHECK(branch->notes()->own().empty());
    seen[0].last_step = 9;
    ada.recording->notes()->put(seen[0]);
    exchange();
    CHECK(parent->notes()->find(id)->last_step == 9);
    ada.recording->notes()->erase(seen[0].id);
    exchange();
    CHECK(!parent->notes()->find(id));
}

TEST_CASE("notes of connected windows stand on the server, in its trace and in other windows", "[remote]") {
    FakeEngine engine;
    Grower grower(seed(2));
    auto live = grower.start();
    grower.grow(*live, 20);
    engine.show(live);
    TemporaryFolder folder;
    auto store = TraceStore::create(folder / "there.rlt");
    store->attach(live);
    EngineServer server(engine, listening());
    SlowLink slow(server.endpoint(), {});
    RemoteEngine ada(to(slow.endpoint(), "ada")), bob(to(server.endpoint(), "bob"));
    LinkWatcher watch_ada(ada), watch_bob(bob);
    REQUIRE(watch_ada.until_has(*live));
    REQUIRE(watch_bob.until_has(*live));
    const auto here = ada.recording()->notes(), there = bob.recording()->notes();
    const auto equal = [&] {
        return contents(*here) == contents(*live->notes()) && contents(*there) == contents(*live->notes());
    };
    const auto settled = [&](size_t count) {
        return watch_bob.until([&](const EngineStatus&) { return there->own().size() == count; }) &&
               watch_ada.until([&](const EngineStatus& s) {
                   return s.link->notes_to_send == 0 && here->own().size() == count;
               });
    };
    const int64_t id = here->add(note(5, "seen by ada"));
    REQUIRE(settled(1));
    CHECK(equal());
    there->add(note(7, "seen by bob, who does not drive"));
    REQUIRE(settled(2));
    CHECK(equal());

    slow.refuse(true);
    slow.cut_after(0);
    REQUIRE(watch_ada.until([](const EngineStatus& s) { return !s.link->connected; }));
    StepNote changed = *here->find(id);
    changed.text = "changed while away";
    here->put(changed);
    here->add(note(9, "made while away"));
    here->erase(here->own()[1].id); // bob's
    const int64_t gone = here->add(note(11, "made and gone"));
    REQUIRE(watch_ada.until([](const EngineStatus& s) { return s.link->notes_to_send > 0; }));
    here->erase(gone);
    there->add(note(13, "of bob meanwhile"));
    REQUIRE(watch_bob.until([&](const EngineStatus&) { return live->notes()->own().size() == 3; }));
    slow.refuse(false);
    REQUIRE(settled(3));
    REQUIRE(
        watch_ada.until([&](const EngineStatus&) { return contents(*here) == contents(*live->notes()); }));
    REQUIRE(
        watch_bob.until([&](const EngineStatus&) { return contents(*there) == contents(*live->notes()); }));
    const auto texts = live->notes()->own();
    CHECK(texts[0].text == "changed while away");
    CHECK(texts[1].text == "made while away");
    CHECK(texts[2].text == "of bob meanwhile");

    store.reset();
    CHECK(contents(*load_trace(folder / "there.rlt").at(0)->notes()) == contents(*here));
}

TEST_CASE("a run that was left keeps its notes on the server; of one that is gone the window keeps them",
          "[remote]") {
    FakeEngine engine, another;
    Grower grower(seed(3));
    auto first = grower.start();
    grower.grow(*first, 20);
    engine.show(first);
    std::optional<EngineServer> server;
    server.emplace(engine, listening());
    RemoteEngine ada(to(server->endpoint(), "ada"));
    LinkWatcher watch(ada);
    REQUIRE(watch.until_has(*first));
    const auto here = ada.recording();
    auto branch = first->fork(10, "branch");
    grower.grow(*branch, 5);
    engine.show(branch);
    REQUIRE(watch.until_has(*branch));
    here->notes()->add(note(4, "of the run that was left"));
    REQUIRE(watch.until([&](const EngineStatus&) { return first->notes()->own().size() == 1; }));
    CHECK(ada.recording()->notes()->seen().size() == 1); // seen by the branch as well
    CHECK(ada.recording()->notes()->own().empty());

    // Another server at the same place, whose engine has other runs.
    const std::string where = to_string(server->endpoint());
    auto other = grower.start();
    grower.grow(*other, 5);
    another.show(other);
    server.reset();
    REQUIRE(watch.until([](const EngineStatus& s) { return !s.link->connected; }));
    here->notes()->add(note(6, "made meanwhile"));
    EngineServer::Options options;
    options.listen = parse_endpoint(where, "--listen");
    server.emplace(another, options);
    REQUIRE(watch.until([](const EngineStatus& s) { return s.link->connected && s.errors > 0; }));
    CHECK_THAT(ada.status()->error, ContainsSubstring("no more"));
    CHECK(here->notes()->own().size() == 2);
    REQUIRE(watch.until([](const EngineStatus& s) { return s.link->notes_to_send == 0; }));
}

TEST_CASE("an engine's runs are kept, the newest forty of them", "[remote]") {
    Grower grower(seed(4));
    KeptRuns kept;
    CHECK(!kept.see(nullptr));
    const auto first = grower.start();
    CHECK(kept.see(first));
    CHECK(!kept.see(first));
    grower.grow(*first, 3);
    std::vector<std::shared_ptr<Recording>> all;
    for (int i = 0; i < 50; ++i) {
        all.push_back(first->fork(2, fmt::format("{}", i)));
        CHECK(kept.see(all.back()));
    }
    CHECK(kept.runs().size() == KeptRuns::most_runs);
    CHECK(kept.runs().back() == all.back());
    CHECK(!kept.find("0"));
    CHECK(kept.find("49") == all.back());
    CHECK(kept.see(all[20])); // a start was given up: the one before is the engine's again
    CHECK(kept.runs().back() == all[20]);
    CHECK(kept.runs().size() == KeptRuns::most_runs);
}

} // namespace notes_test
