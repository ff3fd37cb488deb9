// The runs of a window: what becomes of the engine's recordings, which are looked at and compared, and their numbers.
#include "engine/control/command.h"
#include "engine/policies/cache_policy_config.h"
#include "tests/support/made_run.h"
#include "tests/support/seed.h"
#include "ui/scene/runs/note_rows.h"
#include "ui/scene/runs/run_difference.h"
#include "ui/scene/runs/run_rows.h"
#include "ui/scene/runs/run_set.h"
#include "ui/scene/series/series_set.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace run_set_test {

using namespace refreshlab;
using namespace refreshlab::ui;

namespace {

std::shared_ptr<Recording> new_run(const std::string& id, int64_t prompt_length = 5) {
    RunInfo info = test::made_info(prompt_length, id);
    info.vocab_size = 60;
    info.config.policy = preset_policy("entropy");
    return test::made_run(info);
}

void add_step(Recording& run, int32_t next = 1, float entropy = absent()) {
    StepRecord r = test::next_record(run, next);
    r.signals[*run.signal_id("entropy_bits")] = entropy;
    run.append(r);
}

std::shared_ptr<Recording> run_of(const std::string& id, int64_t steps, int64_t prompt_length = 5) {
    auto run = new_run(id, prompt_length);
    for (int64_t t = 0; t < steps; ++t)
        add_step(*run, 1, 1);
    return run;
}

} // namespace

TEST_CASE("the engine's runs stay in the set, each once", "[runs]") {
    RunSet set;
    set.update(nullptr);
    CHECK_FALSE(set.looked_at());
    auto first = run_of("first", 10);
    set.update(first);
    const RunKey a = *set.live();
    CHECK(set.looked_at() == a);
    CHECK(set.away() == nullptr);
    CHECK_FALSE(set.other());
    CHECK(set.name(a) == "Run 1");
    // Rewound to its newest step it is the same run.
    auto on = first->fork(10, "on");
    add_step(*on);
    set.update(on);
    CHECK(set.live() == a);
    CHECK(set.recording(a) == on);
    CHECK(set.tree().runs().size() == 1);
    // Rewound further it is a branch; one that was left before it had a step of its own is forgotten.
    const auto nothing = on->fork(8, "nothing");
    set.update(nothing);
    CHECK(set.tree().runs().size() == 2);
    auto branch = nothing->fork(4, "branch");
    set.update(branch);
    CHECK(set.tree().runs().size() == 2);
    add_step(*branch);
    set.update(branch);
    const RunKey b = *set.live();
    CHECK(b != a);
    CHECK(set.tree().find(b)->parent == a);
    CHECK(set.tree().find(b)->fork_step == 4);
    CHECK(set.tree().find(b)->steps == 5);
    CHECK(set.tree().find(b)->standing == RunStanding::live);
    CHECK(set.tree().find(a)->standing == RunStanding::left);
    // B goes to the one that was left, and back.
    CHECK(set.other() == a);
    set.look_at(a);
    CHECK(set.take_flip());
    CHECK_FALSE(set.take_flip());
    CHECK(set.away() == on);
    CHECK(set.other() == b);
    // With a signal more it is the same run, seen as before; the live run's recording is the engine's.
    const auto more = on->with_signals({});
    REQUIRE(more != on);
    set.put_recording(a, more);
    CHECK(set.away() == more);
    CHECK(set.take_flip());
    CHECK(set.tree().find(a)->steps == on->steps());
    set.put_recording(b, more);
    CHECK(set.recording(b) == branch);
    set.put_recording(a, on);
    CHECK(set.take_flip());
    // Another run starts: what is looked at stays.
    auto next = run_of("next", 3);
    set.update(next);
    CHECK(set.away() == on);
    set.look_live();
    CHECK(set.looked_at() == set.live());
    CHECK(set.recording(*set.live()) == next);
    CHECK(set.tree().rows().size() == 3);
    CHECK_FALSE(set.remove(*set.live()));
    CHECK(set.remove(a));
    CHECK(set.tree().rows().size() == 2);
    CHECK_FALSE(set.tree().find(b)->parent);
}

TEST_CASE("what a file has more comes into the list, and the newest is looked at where it was before",
          "[runs]") {
    RunSet set;
    set.update(run_of("live", 3));
    const auto one = run_of("one", 4), two = run_of("two", 2);
    const auto nobody = [](const Recording&) { return false; };
    set.add_file(std::vector{one, two}, std::string("file"));
    const RunKey second = *set.looked_at();
    REQUIRE(set.recording(second) == two);
    CHECK(set.grow_file(std::vector{one, two}, "file", {}, nobody, true).empty());
    // The newest has grown: the same run, seen as before; one that a person has something in stays.
    const auto longer = run_of("two", 5);
    CHECK(set.grow_file(
                 std::vector{one, longer}, "file", {}, [](const Recording&) { return true; }, true)
              .empty());
    CHECK_FALSE(set.take_flip());
    CHECK(set.grow_file(std::vector{one, longer}, "file", {}, nobody, true) == std::vector{longer});
    CHECK(set.take_flip());
    CHECK(set.looked_at() == second);
    CHECK(set.away() == longer);
    CHECK(set.tree().find(second)->steps == 5);
    // Another run, first without a step.
    const auto begun = run_of("three", 0), three = run_of("three", 1);
    CHECK(set.grow_file(std::vector{one, longer, begun}, "file", {}, nobody, true).empty());
    CHECK(set.grow_file(std::vector{one, longer, three}, "file", {}, nobody, false) == std::vector{three});
    CHECK(set.looked_at() == second);
    CHECK(set.tree().runs().size() == 4);
    const auto four = run_of("four", 1);
    CHECK(set.grow_file(std::vector{one, longer, three, four}, "file", {}, nobody, true).size() == 1);
    CHECK(set.looked_at() == second); // the newest was not looked at
    set.look_at(std::ranges::max_element(set.tree().runs(), {}, &RunNode::key)->key);
    REQUIRE(set.away() == four);
    const auto five = run_of("five", 1);
    CHECK(set.grow_file(std::vector{one, longer, three, four, five}, "file", {}, nobody, true).size() == 1);
    CHECK(set.away() == five);
}

TEST_CASE("a run that was made again and left without a new step stays", "[runs]") {
    RunSet set;
    const auto first = run_of("first", 10);
    set.update(first);
    const RunKey a = *set.live();
    set.update(run_of("second", 4));
    // The engine has the first one again, all of it; then a third run begins.
    const auto again = first->fork(10, "again");
    set.update(again);
    CHECK(set.live() == a);
    set.update(run_of("third", 2));
    REQUIRE(set.find(a) != nullptr);
    CHECK(set.recording(a) == again);
    CHECK(set.tree().runs().size() == 3);
}

TEST_CASE("of many runs the oldest go, but none that a person holds on to", "[runs]") {
    RunSet set;
    const auto make = [&](int i) {
        const auto run = run_of("run" + std::to_string(i), 2);
        set.update(run);
        return *set.live();
    };
    const RunKey named = make(0), ticked = make(1), plain = make(2);
    set.rename(named, "keep me");
    set.tick(ticked, true);
    for (int i = 3; i < 80; ++i)
        static_cast<void>(make(i));
    CHECK(set.tree().runs().size() == RunSet::most_kept);
    CHECK(set.find(named));
    CHECK(set.find(ticked));
    CHECK_FALSE(set.find(plain));
    CHECK(set.name(named) == "keep me");
    CHECK(set.name(*set.live()) == "Run 80");
    // The demonstration that begins again leaves nothing.
    set.forget_live_when_left();
    const RunKey demonstration = *set.live();
    static_cast<void>(make(100));
    CHECK_FALSE(set.find(demonstration));
}

TEST_CASE("runs of a file come with their tree, and once", "[runs]") {
    auto root = run_of("root", 9);
    auto branch = root->fork(5, "branch");
    branch->add_command({6, to_json(Command(command::GiveTokens{{}, " blue"})).dump()});
    add_step(*branch, 7);
    add_step(*branch, 8);
    RunSet set;
    const auto live = run_of("live", 4);
    set.update(live);
    const std::vector<std::shared_ptr<Recording>> file = {root, branch};
    set.add_file(file, "a.rlt");
    CHECK(set.away() == branch);
    CHECK_FALSE(set.take_flip()); // a file is seen from its beginning
    const RunNode& node = *set.tree().find(*set.looked_at());
    CHECK(node.name == "a.rlt, run 2");
    CHECK(node.standing == RunStanding::file);
    CHECK(set.tree().find(*node.parent)->name == "a.rlt, run 1");
    CHECK(node.change == "given by hand: \" blue\"");
    const RunKey key = node.key;
    set.add_file(file, "again.rlt");
    CHECK(set.tree().runs().size() == 3);
    CHECK(set.looked_at() == key);
    set.look_live();
    CHECK(set.away() == nullptr);
    CHECK(set.other() == key);
}

TEST_CASE("ticked runs are compared with the one that is looked at", "[runs]") {
    RunSet set;
    std::vector<RunKey> keys;
    for (const int64_t prompt : {5, 9, 7}) {
        set.update(run_of("p" + std::to_string(prompt), 6, prompt));
        keys.push_back(*set.live());
    }
    CHECK(set.compared().empty());
    set.tick(keys[0], true);
    set.tick(keys[1], true);
    CHECK(set.compared() == std::vector{keys[0], keys[1]});
    CHECK(set.other() == keys[0]);
    set.look_at(keys[0]);
    CHECK(set.compared() == std::vector{keys[1]});
    CHECK(set.other() == keys[1]); // to and fro between the two
    set.look_at(keys[1]);
    CHECK(set.other() == keys[0]);
    CHECK(set.shift_of(keys[0]) == 0);
    set.by_position = true; // the prompts are 9 and 5 long
    CHECK(set.shift_of(keys[0]) == -4);
    CHECK(set.shift_of(keys[2]) == -2);
    set.untick_all();
    CHECK(set.compared().empty());
    CHECK(set.other() == keys[0]); // looked at before
}

TEST_CASE("what changed is said in words", "[runs]") {
    const auto base = new_run("base");
    CHECK(what_changed(*base, nullptr) == "policy " + base->info().config.policy.name);
    RunInfo info = base->info();
    info.id = "other";
    info.config.seed = 7;
    info.config.policy = preset_policy("none");
    const Recording other(info, test::letters());
    const std::string words = what_changed(other, base.get());
    CHECK(words.find("7") != std::string::npos);
    CHECK(words.find("policy " + info.config.policy.name) != std::string::npos);
    CHECK(what_changed(*base, base.get()).empty());
    // Another cache policy is told once, and its parameters are none of the run before.
    RunInfo held = base->info();
    held.id = "held";
    held.config.student_cache = cache_policy_defaults("h2o", "a test");
    const Recording evicting(held, test::letters());
    CHECK(what_changed(evicting, base.get()).find("H2O") != std::string::npos);
    CHECK_FALSE(what_changed(*base, &evicting).empty());
}

TEST_CASE("numbers of a run follow its steps and what is filled in later", "[runs]") {
    const uint32_t seed = test::seed(505);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> value(0, 9);
    const auto run = new_run("numbers");
    const size_t kl = *run->signal_id("kl_nats"), entropy = *run->signal_id("entropy_bits");
    RunMetrics metrics;
    metrics.update(*run, 0);
    CHECK_FALSE(metrics.numbers().entropy_bits);
    for (int round = 0; round < 40; ++round) {
        for (int i = 0; i < 5; ++i)
            add_step(*run, 1, round == 7 ? std::numeric_limits<float>::quiet_NaN() : value(random));
        if (round % 3 == 0) {
            const std::vector<float> filled = {value(random), absent(), value(random)};
            run->back_fill(kl, run->steps() - 4 - (round > 10 ? 20 : 0), filled);
        }
        metrics.update(*run, run->steps() - (round % 2)); // the frame's snapshot may be behind
    }
    metrics.update(*run, run->steps());
    const auto mean = [&](size_t id) {
        double sum = 0;
        int64_t count = 0;
        for (int64_t t = 1; t <= run->steps(); ++t) {
            const float v = run->signal(t, id);
            if (is_absent(v) || !std::isfinite(v)) continue;
            sum += static_cast<double>(v);
            ++count;
        }
        return sum / static_cast<double>(count);
    };
    using Catch::Matchers::WithinAbs;
    CHECK_THAT(*metrics.numbers().entropy_bits, WithinAbs(mean(entropy), 1e-9));
    CHECK_THAT(*metrics.numbers().kl_nats, WithinAbs(mean(kl), 1e-9));
    CHECK_FALSE(metrics.numbers().acceptance);
    CHECK_FALSE(metrics.numbers().teacher_ppl);
    RunEnd end;
    end.teacher_ppl = 12.5;
    run->set_end(end);
    metrics.update(*run, run->steps());
    CHECK(metrics.numbers().teacher_ppl == 12.5);
}

TEST_CASE("rows sort by a number, unknown ones last", "[runs]") {
    RunSet set;
    std::vector<RunKey> keys;
    for (const float entropy : {3.0F, absent(), 1.0F}) {
        const auto run = new_run("e" + std::to_string(keys.size()));
        add_step(*run, 1, entropy);
        set.update(run);
        keys.push_back(*set.live());
    }
    const auto order = [&](const char* wanted) {
        TableView view;
        view.set_order(wanted);
        std::vector<RunKey> sorted;
        for (const RunTree::Row& row : run_rows(set, view))
            sorted.push_back(row.key);
        return sorted;
    };
    CHECK(order("") == keys);
    CHECK(order("a column of tomorrow") == keys);
    CHECK(order("entropy_bits") == std::vector{keys[2], keys[0], keys[1]});
    CHECK(order("-entropy_bits") == std::vector{keys[0], keys[2], keys[1]});
    CHECK(order("-name") == std::vector{keys[2], keys[1], keys[0]});
}

TEST_CASE("a difference is that of the values, however they come", "[runs]") {
    const uint32_t seed = test::seed(606);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> value(-2, 2);
    const auto maybe = [&] { return random() % 5 == 0 ? absent() : value(random); };
    for (const int64_t shift : {0, 4, -3}) {
        const auto a = new_run("a"), b = new_run("b");
        const size_t id = *a->signal_id("entropy_bits");
        DifferenceSeries difference;
        for (int round = 0; round < 60; ++round) {
            for (uint32_t n = random() % 4; n > 0; --n)
                add_step(*a, 1, maybe());
            for (uint32_t n = random() % 4; n > 0; --n)
                add_step(*b, 1, maybe());
            for (const auto& run : {a, b})
                if (run->steps() > 6 && random() % 4 == 0)
                    run->back_fill(id, run->steps() - 5, std::vector<float>{value(random), value(random)});
            difference.update({a, a->steps(), id}, {b, b->steps(), id}, {}, shift);
            REQUIRE(difference.series().size() == a->steps());
            for (int64_t t = 1; t <= a->steps(); ++t) {
                const int64_t there = t - shift;
                const float x = a->signal(t, id),
                            y = there >= 1 && there <= b->steps() ? b->signal(there, id) : absent();
                const float have = difference.series().at(t);
                REQUIRE(is_absent(have) == (is_absent(x) || is_absent(y)));
                if (!is_absent(have)) REQUIRE(have == y - x);
            }
        }
        CHECK(difference.largest() > 0);
    }
}

TEST_CASE("the first differing token is found, and only then later ones", "[runs]") {
    const auto a = new_run("a");
    for (int32_t t = 0; t < 30; ++t)
        add_step(*a, t);
    const auto b = a->fork(12, "b");
    TokenDifference difference;
    difference.update(a, b, 12);
    CHECK_FALSE(difference.first());
    CHECK(difference.compared() == 13); // y_1 .. y_13
    for (int32_t t = 12; t < 20; ++t)
        add_step(*b, t == 14 || t == 17 ? 50 : t);
    difference.update(a, b, 12);
    CHECK(difference.first() == 16); // step 15 chose y_16
    CHECK(difference.differing() == 2);
    CHECK(difference.compared() == 21);
    CHECK(difference.differs(16));
    CHECK_FALSE(difference.differs(17));
    CHECK(difference.differs(19));
    CHECK_FALSE(difference.differs(25)); // the other one has no such token
    TokenDifference whole;
    whole.update(a, b);
    CHECK(whole.first() == difference.first());
    CHECK(whole.differing() == 2);
}

TEST_CASE("a word more in one of two runs leaves what follows equal", "[runs]") {
    const auto a = new_run("a");
    for (int32_t t = 0; t < 40; ++t)
        add_step(*a, t);
    const auto b = a->fork(12, "b");
    TokenDifference difference;
    for (int32_t t = 12; t < 39; ++t) {
        if (t == 20) add_step(*b, 55);
        add_step(*b, t);
        difference.update(a, b, 12);
    }
    using Side = TokenDifference::Side;
    CHECK(difference.first() == 22); // step 21 chose y_22: 20 in one, 55 in the other
    CHECK(difference.differing() == 1);
    for (int64_t t = 1; t <= 40; ++t) {
        INFO("token " << t);
        CHECK(difference.differs(t) == (t == 22)); // where they part both are marked
        CHECK(difference.differs(t, Side::second) == (t == 22));
    }
    CHECK(difference.in_its_place(10, Side::second) == 10);
    CHECK(difference.in_its_place(30, Side::second) == 29);
    CHECK(difference.in_its_place(30) == 31);
    CHECK_FALSE(difference.in_its_place(41)); // the other one has ended
    CHECK_FALSE(difference.in_its_place(0));
}

TEST_CASE("what was expected of a run stays beside what came of it", "[runs]") {
    RunSet set;
    auto first = new_run("first");
    const size_t entropy = *first->signal_id("entropy_bits");
    for (int64_t t = 1; t <= 30; ++t)
        add_step(*first, 1, t % 10 == 0 ? 5.0F : 1.0F);
    set.update(first);
    RunConfig config = first->info().config;
    config.policy.triggers.at(0).threshold = 4;
    config.policy.triggers.at(0).every = 1;
    config.policy.triggers.at(0).cooldown = 0;
    set.expect(estimate_run(first, first->steps(), config, "Run 1"));
    // Another run begins in its place: the estimate is not about that one.
    const auto other = run_of("other", 2);
    set.update(other);
    CHECK_FALSE(set.find(*set.live())->estimate);
    // A branch has its parent's policy, and is not the run that was asked for either.
    RunInfo info = first->info();
    info.id = "verified";
    info.config = config;
    const auto verified = test::made_run(info);
    set.update(verified);
    const RunSet::Run* run = set.find(*set.live());
    REQUIRE(run->estimate);
    CHECK(run->estimate->expected.fires == std::vector<int64_t>{10, 20, 30});
    for (int64_t t = 1; t <= 8; ++t) {
        StepRecord r = test::next_record(*verified);
        r.signals[entropy] = 1;
        r.part_ms[static_cast<size_t>(Part::model)] = 10;
        r.part_ms[static_cast<size_t>(Part::teacher_pass)] = t == 4 ? 16 : 0;
        verified->append(r);
    }
    set.update(verified);
    CHECK(run->metrics.numbers().added_percent == 20);
    CHECK(outcome_text(*run->estimate, run->metrics.numbers()) ==
          "Estimated on 30 steps of Run 1: 3 refreshes\nIt has in 8 steps: 0 refreshes, +20 % time");
    // It is taken once.
    const auto again = test::made_run(info);
    set.update(run_of("between", 1));
    set.update(again);
    CHECK(set.find(*set.live())->estimate); // the same run by its id
    info.id = "second";
    set.update(test::made_run(info));
    CHECK_FALSE(set.find(*set.live())->estimate);
}

TEST_CASE("notes of all runs are listed once, found by words and sorted", "[runs][notes]") {
    const auto write = [](Recording& run, int64_t first, int64_t last, const char* words) {
        StepNote note;
        note.first_step = first;
        note.last_step = last;
        note.text = words;
        note.made_at = fmt::format("2026-01-02T03:04:{:02}Z", 10 - first);
        run.notes()->add(note);
    };
    RunSet set;
    const auto root = run_of("root", 12);
    const auto branch = root->fork(5, "branch");
    add_step(*branch);
    write(*root, 3, 9, "Loses the names");
    write(*root, 8, 8, "behind the fork");
    write(*branch, 6, 6, "keeps the names");
    set.add_file(std::vector{root, branch}, "file");
    const auto words_of = [](const std::vector<NoteRow>& rows) {
        std::vector<std::string> words;
        for (const NoteRow& row : rows)
            words.push_back(row.note.text);
        return words;
    };
    using Words = std::vector<std::string>;
    std::vector<NoteRow> rows = note_rows(set);
    CHECK(words_of(rows) == Words{"Loses the names", "behind the fork", "keeps the names"});
    CHECK(rows[0].note.last_step == 9); // whole, though the branch shows it up to the fork
    CHECK(shows_note(*branch, rows[0]));
    CHECK(!shows_note(*branch, rows[1]));
    CHECK(shows_note(*root, rows[1]));
    CHECK(!shows_note(*root, rows[2]));
    CHECK(note_has(rows[0], "NAMES"));
    CHECK(note_has(rows[0], "steps 3 to 9"));
    CHECK(note_has(rows[2], set.name(rows[2].run)));
    CHECK(!note_has(rows[1], "names"));
    CHECK(note_has(rows[1], ""));
    sort_notes(rows, NoteColumn::words, false);
    CHECK(words_of(rows) == Words{"behind the fork", "keeps the names", "Loses the names"});
    sort_notes(rows, NoteColumn::steps, true);
    CHECK(words_of(rows) == Words{"behind the fork", "keeps the names", "Loses the names"});
    sort_notes(rows, NoteColumn::written, false);
    CHECK(words_of(rows) == Words{"behind the fork", "keeps the names", "Loses the names"});
    sort_notes(rows, NoteColumn::run, true);
    CHECK(words_of(rows).front() == "keeps the names");
    CHECK(notes_csv({rows[1]}).starts_with("first_step,last_step,run,written,note\n8,8,"));
    // What may change the list changes its key.
    NoteRowsKey key = note_rows_key(set);
    write(*branch, 2, 2, "of shared steps");
    CHECK(note_rows_key(set) != key);
    key = note_rows_key(set);
    set.rename(rows[0].run, "another name");
    CHECK(note_rows_key(set) != key);
    // A run that is taken out leaves those that its branch shows.
    const RunKey of_root = set.tree().find_id("root")->key;
    REQUIRE(set.remove(of_root));
    rows = note_rows(set);
    CHECK(words_of(rows) == Words{"of shared steps", "keeps the names", "Loses the names"});
    CHECK(rows[2].owner == root->notes());
    CHECK(rows[2].note.last_step == 9);
}

} // namespace run_set_test
