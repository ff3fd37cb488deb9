#include "engine/remote/row_receiver.h"
#include "engine/remote/row_sender.h"
#include "engine/remote/wire.h"
#include "tests/engine/record/random_recording.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <optional>
#include <random>
#include <thread>

namespace rows_test {

using namespace refreshlab;
using namespace refreshlab::remote;
using namespace refreshlab::test;
using nlohmann::json;

namespace {

/// A sender and a receiver with nothing but bytes between them.
struct Ends {
    std::optional<RowSender> sender{std::in_place};
    RowReceiver receiver;

    bool tell_rows() { return tell(sender->next()); }
    bool tell_attention(int64_t bytes) {
        const bool some = tell(sender->next_heavy(bytes));
        sender->heavy_has_come();
        return some;
    }
    void tell_everything() {
        while (tell_rows() || tell_attention(1 << 20)) {
        }
    }
    /// The connection is cut: what was on its way is gone, the sender as well.
    /// \param runs  of the engine
    void connect_again(const std::vector<std::shared_ptr<const Recording>>& runs) {
        sender.emplace();
        json state = receiver.state();
        json resumed;
        if (!state.is_null()) resumed = sender->resume(runs, from_bytes(to_bytes(state)));
        receiver.begin_connection(from_bytes(to_bytes(resumed)));
        sender->tell(runs.back());
    }

private:
    bool tell(const json& message) {
        if (message.is_null()) return false;
        receiver.take(from_bytes(to_bytes(message)));
        return true;
    }
};

void check_equal(const Recording& here, const Recording& there) {
    const auto difference = first_difference(there, here);
    INFO(difference.value_or(""));
    CHECK(!difference);
    CHECK(here.info().id == there.info().id);
    CHECK(here.info().parent_id == there.info().parent_id);
    CHECK(here.info().fork_step == there.info().fork_step);
    REQUIRE(here.steps() == there.steps());
    for (int64_t t = 1; t <= here.steps(); ++t) {
        CHECK(here.step(t).arrival_ms == there.step(t).arrival_ms);
        CHECK(here.step(t).part_ms == there.step(t).part_ms);
        const int32_t id = here.step(t).token_id;
        CHECK(here.tokens().token_bytes(id) == there.tokens().token_bytes(id));
        CHECK(here.tokens().is_special(id) == there.tokens().is_special(id));
    }
    CHECK(here.attention_bytes().kept == there.attention_bytes().kept);
}

} // namespace

TEST_CASE("a recording is the same on the other side, bit for bit, while it grows and after rewinds",
          "[remote]") {
    for (uint32_t round = 0; round < 12; ++round) {
        CAPTURE(round);
        Grower grower(seed(round));
        std::mt19937 random(seed(100 + round));
        Ends ends;
        std::shared_ptr<Recording> live = grower.start(round % 3 == 0 ? 0 : 256);
        std::vector<std::shared_ptr<const Recording>> runs{live};
        ends.sender->tell(live);
        for (int i = 0; i < 60; ++i) {
            switch (random() % 8) {
            case 0: // a rewind, or another run
                if (!live->end() && random() % 2 == 0) live->set_end({"cancelled", 5, {}, {}});
                live = random() % 4 == 0
                           ? grower.start()
                           : live->fork(
                                 static_cast<int64_t>(random() % static_cast<uint64_t>(live->steps() + 1)),
                                 std::to_string(round) + "-" + std::to_string(i));
                if (runs.back()->info().id == live->info().id) break; // the same id: no run of an engine
                runs.push_back(live);
                if (random() % 4 != 0)
                    ends.sender->tell(live); // else it is away, and comes back
                else
                    ends.connect_again(runs);
                break;
            case 1:
                ends.tell_rows();
                break;
            case 2:
                ends.tell_attention(1);
                break;
            case 3:
                ends.tell_everything();
                break;
            case 4:
                ends.connect_again(runs);
                break;
            default:
                if (!live->end()) grower.grow(*live, static_cast<int64_t>(random() % 30));
            }
        }
        if (!live->end()) grower.finish(*live, random() % 2 == 0);
        ends.tell_everything();
        REQUIRE(ends.receiver.recording());
        check_equal(*ends.receiver.recording(), *live);
    }
}

TEST_CASE("every run of an engine comes to its end before the next one begins", "[remote]") {
    Grower grower(seed(7));
    Ends ends;
    auto first = grower.start();
    ends.sender->tell(first);
    grower.grow(*first, 10);
    ends.tell_rows();
    const auto here = ends.receiver.recording();
    grower.grow(*first, 200);
    const auto branch = first->fork(150, "branch");
    grower.grow(*branch, 90);
    ends.sender->tell(branch);
    while (ends.tell_rows()) {
    }
    CHECK(here->steps() == 210);
    CHECK(here->drifts().size() == first->drifts().size());
    const auto there = ends.receiver.recording();
    REQUIRE(there->info().parent_id == here->info().id);
    CHECK(there->steps() == 240);
    CHECK(&there->step(10) == &here->step(10)); // shared, as where it comes from
    while (ends.tell_attention(1 << 20)) {
    }
    check_equal(*there, *branch);
}

TEST_CASE("what is looked at comes first, then the newest", "[remote]") {
    Grower grower(seed(8));
    Ends ends;
    auto live = grower.start();
    ends.sender->tell(live);
    grower.grow(*live, 50);
    while (ends.tell_rows()) {
    }
    const auto all = live->attention_rows();
    REQUIRE(all.size() > 8);
    CHECK(ends.sender->heavy_to_come().rows >= static_cast<int64_t>(all.size()));
    const int64_t looked_at = all[2]->position;
    ends.sender->look_at(looked_at);
    ends.tell_attention(1);
    const auto& here = *ends.receiver.recording();
    for (const auto& rows : here.attention_rows())
        CHECK(rows->position == looked_at);
    const size_t of_it = here.attention_rows().size();
    REQUIRE(of_it > 0);
    while (here.attention_rows().size() == of_it) // drift maps come before the other rows
        REQUIRE(ends.tell_attention(1));
    CHECK(here.attention(all.back()->position, all.back()->teacher));
    CHECK(!here.attention(all[0]->position, all[0]->teacher));
    while (ends.tell_attention(1)) {
    }
    CHECK(ends.sender->heavy_to_come() == RowSender::ToCome{});
    check_equal(here, *live);
}

TEST_CASE("values of drift maps come behind the steps: of the step that is looked at first, then the newest",
          "[remote]") {
    Grower grower(seed(15));
    Ends ends;
    auto live = grower.start();
    ends.sender->tell(live);
    while (live->drifts().size() < 6)
        grower.grow(*live, 10);
    while (ends.tell_rows()) {
    }
    const auto here = ends.receiver.recording();
    const auto has = [](const Recording& run) {
        std::vector<size_t> places;
        for (size_t n = 0; n < run.drifts().size(); ++n)
            if (run.drift(n)->has_values()) places.push_back(n);
        return places;
    };
    REQUIRE(here->drifts().size() == live->drifts().size());
    const size_t newest = live->drifts().size() - 1;
    for (size_t n = 0; n <= newest; ++n)
        CHECK(here->drifts()[n]->step == live->drifts()[n]->step); // where something was measured is known
    const size_t before = has(*here).size(); // maps of no columns have no values to wait for
    ends.sender->look_at(live->prompt_length() + live->drifts()[2]->step - 1);
    const uint64_t fills = here->drift_fills();
    ends.tell_attention(1);
    // What is looked at and has a value: rows of that position, then the map of that step.
    while (here->drift_fills() == fills)
        REQUIRE(ends.tell_attention(1));
    CHECK(here->drift(2)->has_values());
    CHECK(has(*here).size() <= before + 1);

    // A branch of a run whose maps have not come gets them itself, also behind a cut.
    auto branch = live->fork(live->steps(), "branch");
    ends.sender->tell(branch);
    while (ends.tell_rows()) {
    }
    const auto twig = ends.receiver.recording();
    REQUIRE(twig != here);
    CHECK(twig->drift(2)->has_values());
    ends.tell_attention(1);
    ends.connect_again({live, branch});
    ends.tell_everything();
    check_equal(*twig, *branch);
    CHECK(has(*twig).size() == live->drifts().size());
}

TEST_CASE("what comes at the moment in which a branch begins is told again, and does no harm", "[remote]") {
    Grower grower(seed(16));
    Ends ends;
    auto live = grower.start();
    ends.sender->tell(live);
    while (live->drifts().size() < 3)
        grower.grow(*live, 10);
    while (ends.tell_rows()) {
    }
    const json heavy = ends.sender->next_heavy(1 << 20); // the sender does not know yet that it has come
    ends.receiver.take(from_bytes(to_bytes(heavy)));
    CHECK(ends.sender->heavy_to_come().rows > 0);
    auto branch = live->fork(live->steps(), "branch");
    ends.sender->tell(branch);
    ends.tell_everything();
    check_equal(*ends.receiver.recording(), *branch);
    CHECK(ends.sender->heavy_to_come() == RowSender::ToCome{});
}

TEST_CASE("after a cut only what is missing is asked for", "[remote]") {
    Grower grower(seed(9));
    Ends ends;
    auto live = grower.start();
    ends.sender->tell(live);
    grower.grow(*live, 100);
    ends.tell_everything();
    const auto here = ends.receiver.recording();
    static_cast<void>(ends.sender->next()); // and something is lost on its way
    grower.grow(*live, 1);
    static_cast<void>(ends.sender->next());
    ends.connect_again({live});
    grower.grow(*live, 5);
    const json rows = ends.sender->next();
    CHECK(rows.at("tables").at("steps").size() == 6);
    CHECK(!rows.at("tables").contains("runs"));
    ends.receiver.take(rows);
    ends.tell_everything();
    CHECK(ends.receiver.recording() == here); // the same object goes on
    check_equal(*here, *live);
    SECTION("a state that is none of the recording's begins it anew") {
        json state = ends.receiver.state();
        state["upto"]["steps"] = 1'000'000;
        RowSender other;
        const std::vector<std::shared_ptr<const Recording>> runs{live};
        CHECK(other.resume(runs, state).is_null());
        state = ends.receiver.state();
        state["upto"]["open_student"] = {123456, 1};
        CHECK(other.resume(runs, state).is_null());
        ends.sender.emplace();
        ends.receiver.begin_connection(nullptr);
        ends.sender->tell(live);
        ends.tell_everything();
        CHECK(ends.receiver.recording() != here);
        check_equal(*ends.receiver.recording(), *live);
    }
}

TEST_CASE("runs that came to be behind a cut come after it, and branches share with their parents here",
          "[remote]") {
    Grower grower(seed(14));
    Ends ends;
    auto first = grower.start();
    ends.sender->tell(first);
    grower.grow(*first, 120);
    ends.tell_rows(); // 64 steps of it, and the connection is cut
    const auto here = ends.receiver.recording();
    REQUIRE(here->steps() == 64);
    std::vector<std::shared_ptr<Recording>> all;
    std::vector<std::shared_ptr<const Recording>> runs{first};
    const auto branch = [&](const std::shared_ptr<Recording>& from, int64_t step, const char* id) {
        all.push_back(from->fork(step, id));
        grower.grow(*all.back(), 30);
        runs.push_back(all.back());
        return all.back();
    };
    const auto beside = branch(first, 90, "a branch of what had not come");
    const auto twig = branch(beside, 100, "a branch of it");
    const auto back = branch(first, 40, "a branch of the first again");
    ends.connect_again(runs);
    std::vector<std::shared_ptr<const Recording>> came;
    const auto take = [&] {
        ends.tell_everything();
        came.push_back(ends.receiver.recording());
    };
    for (json rows = ends.sender->next(); !rows.is_null(); rows = ends.sender->next()) {
        ends.receiver.take(from_bytes(to_bytes(rows)));
        for (const auto& run : ends.receiver.begun())
            came.push_back(run);
    }
    REQUIRE(came.size() == 3);
    CHECK(here->steps() == 120);
    for (size_t i = 0; i < came.size(); ++i) {
        CHECK(came[i]->info().id == runs[i + 1]->info().id);
        CHECK(came[i]->steps() == runs[i + 1]->steps());
    }
    CHECK(&came[0]->step(60) == &here->step(60)); // whole chunks are shared
    CHECK(&came[1]->step(95) == &came[0]->step(95));
    CHECK(&came[2]->step(15) == &here->step(15));
    ends.tell_everything();
    check_equal(*ends.receiver.recording(), *back);

    // Whole runs are parents after another cut as well, also those that are not the newest.
    const auto late = branch(twig, 110, "a branch of one before");
    ends.connect_again(runs);
    take();
    CHECK(came.back()->info().id == late->info().id);
    CHECK(&came.back()->step(95) == &came[0]->step(95));
    check_equal(*came.back(), *late);
}

TEST_CASE("a recording comes over while another thread extends it", "[remote]") {
    Grower grower(seed(10));
    auto live = grower.start();
    Ends ends;
    ends.sender->tell(live);
    std::atomic<bool> done = false;
    std::thread decode([&] {
        for (int i = 0; i < 400; ++i)
            grower.grow(*live, 1);
        grower.finish(*live);
        done = true;
    });
    while (!done) {
        ends.tell_rows();
        ends.tell_attention(4096);
    }
    decode.join();
    ends.tell_everything();
    check_equal(*ends.receiver.recording(), *live);
}

TEST_CASE("a landscape comes row by row", "[remote]") {
    LandscapeInfo info;
    info.prompt_ids = {1, 2, 3};
    info.tokens = {4, 5, 6, 7, 8, 9};
    info.values = {"logprob", "entropy_bits"};
    info.teacher_logprob = {-1, -2, -3, -4, -5, -6};
    auto landscape = std::make_shared<Landscape>(info);
    const auto row = [&](int64_t j) {
        auto made = std::make_shared<LandscapeRow>();
        made->row = j;
        for (int v = 0; v < 2; ++v)
            made->planes.emplace_back(static_cast<size_t>(landscape->num_steps() - j),
                                      static_cast<float>(j) + 0.5F * static_cast<float>(v));
        return made;
    };
    Ends ends;
    LandscapeState state{.run_id = "run", .landscape = landscape};
    const auto tell = [&](int64_t bytes) {
        const json message = ends.sender->next_landscape(state, bytes);
        if (message.is_null()) return false;
        ends.receiver.take(from_bytes(to_bytes(message)));
        return true;
    };
    landscape->put_row(row(0));
    landscape->put_row(row(2));
    CHECK(tell(1)); // one row at a time
    CHECK(ends.receiver.landscape()->rows() == std::vector<int64_t>{0});
    CHECK(tell(1));
    CHECK(!tell(1));
    auto finer = std::make_shared<Landscape>(*landscape);
    finer->put_row(row(1));
    state.landscape = finer;
    CHECK(tell(1 << 20));
    CHECK(!tell(1 << 20));
    const auto& here = ends.receiver.landscape();
    CHECK(ends.receiver.landscape_run() == "run");
    CHECK(here->info() == info);
    CHECK(here->rows() == std::vector<int64_t>{0, 1, 2});
    for (const int64_t j : here->rows())
        CHECK(here->row(j)->planes == finer->row(j)->planes);
    info.tokens.push_back(10);
    info.teacher_logprob.push_back(-7);
    state.landscape = std::make_shared<Landscape>(info);
    CHECK(tell(1));
    CHECK(ends.receiver.landscape()->rows().empty());
}

TEST_CASE("damaged rows end in a ProtocolError, and the next connection begins well", "[remote]") {
    Grower grower(seed(11));
    std::mt19937 random(seed(12));
    auto live = grower.start();
    grower.grow(*live, 30);
    int refused = 0;
    for (int i = 0; i < 200; ++i) {
        RowSender sender;
        sender.tell(live);
        Bytes bytes = to_bytes(sender.next());
        for (uint32_t change = 1 + random() % 3; change > 0; --change)
            bytes[random() % bytes.size()] ^= static_cast<uint8_t>(1U << (random() % 8));
        RowReceiver receiver;
        try {
            receiver.take(from_bytes(bytes));
        } catch (const ProtocolError&) {
            ++refused;
        }
        if (i % 50 != 0) continue;
        RowSender again;
        again.tell(live);
        receiver.begin_connection(nullptr);
        for (json rows = again.next(); !rows.is_null(); rows = again.next())
            receiver.take(rows);
        for (json rows = again.next_heavy(1 << 30); !rows.is_null(); rows = again.next_heavy(1 << 30))
            receiver.take(rows);
        check_equal(*receiver.recording(), *live);
    }
    CHECK(refused > 30);
}

TEST_CASE("rows that came twice are refused, and the next connection begins well", "[remote]") {
    Grower grower(seed(14));
    auto live = grower.start();
    grower.grow(*live, 3);
    RowSender sender;
    sender.tell(live);
    const json good = sender.next();
    json twice = good;
    json& rows = twice.at("tables").at("steps");
    rows.push_back(rows.at(0));
    RowReceiver receiver;
    REQUIRE_THROWS_AS(receiver.take(twice), ProtocolError);
    receiver.begin_connection(nullptr);
    receiver.take(good);
    REQUIRE(receiver.recording()->steps() == 3);
}

TEST_CASE("encodings of what a run tells, in bytes and microseconds a step", "[.measure]") {
    Grower grower(seed(13));
    RowSender sender;
    auto live = grower.start();
    sender.tell(live);
    std::vector<json> messages;
    constexpr int steps = 400;
    for (int i = 0; i < steps; ++i) {
        grower.grow(*live, 1);
        for (json rows = sender.next(); !rows.is_null(); rows = sender.next())
            messages.push_back(std::move(rows));
    }
    const auto measure = [&](const char* name, auto encode, auto decode) {
        using Clock = std::chrono::steady_clock;
        size_t bytes = 0;
        auto began = Clock::now();
        std::vector<Bytes> encoded;
        for (const json& message : messages) {
            encoded.push_back(encode(message));
            bytes += encoded.back().size();
        }
        const double write = std::chrono::duration<double, std::micro>(Clock::now() - began).count() / steps;
        began = Clock::now();
        for (const Bytes& message : encoded)
            static_cast<void>(decode(message));
        const double read = std::chrono::duration<double, std::micro>(Clock::now() - began).count() / steps;
        fmt::print("{}: {} B a step, {:.0f} us to write, {:.0f} us to read\n", name, bytes / steps, write,
                   read);
    };
    measure(
        "CBOR", [](const json& m) { return json::to_cbor(m); },
        [](const Bytes& b) { return json::from_cbor(b); });
    measure(
        "MessagePack", [](const json& m) { return json::to_msgpack(m); },
        [](const Bytes& b) { return json::from_msgpack(b); });
    measure(
        "UBJSON", [](const json& m) { return json::to_ubjson(m); },
        [](const Bytes& b) { return json::from_ubjson(b); });
    measure(
        "BSON", [](const json& m) { return json::to_bson(m); },
        [](const Bytes& b) { return json::from_bson(b); });
    const auto began = std::chrono::steady_clock::now();
    RowSender again;
    RowReceiver receiver;
    again.tell(live);
    for (json rows = again.next(); !rows.is_null(); rows = again.next())
        receiver.take(rows);
    fmt::print("rows made and put into a recording: {:.0f} us a step\n",
               std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count() /
                   steps);
}

} // namespace rows_test
