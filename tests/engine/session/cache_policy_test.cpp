// Every cache policy of the registry in sessions on tiny random models: a new one is tested by being registered.
#include "engine/base/error.h"
#include "engine/cache/kv_cache.h"
#include "engine/control/parameters.h"
#include "engine/record/recording/cache_state.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/decode/steering.h"
#include "engine/session/driver/replay.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/engine/session/trail.h"
#include "tests/support/share.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace cache_policy_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr int32_t tokens = 40;

const std::shared_ptr<const ModelPair>& pair_of_two() {
    static const auto pair = tiny_pair(11, 12, {.layers = 3}, {.layers = 3});
    return pair;
}

RunConfig run_of(Mode mode) {
    RunConfig config = tiny_run(tokens);
    config.prompt = "Once upon a time a fox and a crow lived by the river, and every morning the crow sang "
                    "of the mill, the "
                    "bridge and the seven hills, while the fox counted boats.";
    config.mode = mode;
    return config;
}

/// The policy with budgets of `entries`, and parameters that let it act within a short run.
CachePolicyConfig small(std::string_view name, int64_t entries) {
    CachePolicyConfig policy = cache_policy_defaults(name, "a test");
    const auto set = [&](const char* key, double value) {
        if (const auto found = policy.values.find(key); found != policy.values.end()) found->second = value;
    };
    set("budget", static_cast<double>(entries));
    set("partial", static_cast<double>(entries));
    set("window", 4);
    set("page", 4);
    set("dense_layers", 1);
    set("interval", 8);
    set("check_every", 3);
    set("spread", 4);
    const bool off = entries >= tokens + 60; // longer than every run here
    set("residual", off ? 320 : 32);
    if (name == "arkv") // layers of a random model are much alike
        for (const char* tau : {"tau1", "tau2", "tau3"})
            set(tau, 0.05);
    set("pseudo_tokens", 6);
    set("episode_window", 6);
    set("block", 20);
    set("last_tokens", 4);
    set("chunk", 16);
    set("stabilizers", 6);
    if (off) set("dropped", 0);
    set("theta", off ? 0 : 0.03);
    set("cluster", 2);
    set("pairs", 1);
    set("choose", 1); // the best of attention_gate
    set("limit", off ? 1 : 0.2);
    set("margin", off ? 1e6 : 4);
    set("coarse_share", off ? 1 : 0.5);
    set("fine_share", off ? 1 : 0.2);
    set("layers_per_cache", off ? 1 : 2);
    return policy;
}

RunConfig with(RunConfig config, const CachePolicyConfig& policy) {
    if (find_cache_method(policy.policy)->given_text) {
        config.given_text =
            " One day the fox said to the crow that the seven hills were too far away, and the "
            "crow flew over the river to look at the mill and at the bridge and at the boats "
            "that the fox had counted so often, and it came back in the evening with a song.";
    }
    (config.mode == Mode::teacher ? config.teacher_cache : config.student_cache) = policy;
    return config;
}

const KvCache& cache_of(const DecodeSession& session) {
    return session.config().mode == Mode::teacher ? *session.teacher_cache() : *session.student_cache();
}

void finish(DecodeSession& session) {
    while (session.step()) {
    }
}

size_t signal_id(const Recording& recording, std::string_view name) {
    const auto all = recording.signals();
    const auto found = std::ranges::find(all, name, &Signal::name);
    REQUIRE(found != all.end());
    return static_cast<size_t>(found - all.begin());
}

bool encodes(const CacheMethod& method) {
    return method.name == "think" || method.name == "kivi" || method.name == "mikv" ||
           method.name == "turbo_quant" || method.name == "arkv";
}

/// Bytes of a cache whose entries all stay, by the methods' definitions: fp32, parameters of small().
int64_t encoded_bytes(const CacheMethod& method, const KvCache& cache, int64_t prompt) {
    const int64_t n = cache.length(), d = cache.head_dim();
    int64_t head = 0;
    if (method.name == "think") { // keys of the prompt but the newest 4 lose 40 % of their channels
        const int64_t kept = d - 2 * d / 5, coded = prompt - 4;
        head = coded * kept * 4 + (d + 7) / 8 + (n - coded) * d * 4 + n * d * 4;
    } else if (method.name == "arkv") { // 1 B a number instead of 4, and a scale for each of the two rows
        const int64_t coded = cache.metadata_bytes() / 8;
        int64_t held = 0;
        for (int64_t layer = 0; layer < cache.num_layers(); ++layer)
            for (int64_t i = 0; i < cache.num_kv_heads(); ++i)
                held += std::ssize(cache.held(layer, i));
        return held * 2 * d * 4 - coded * (2 * d * 3 - 8);
    } else if (method.name == "mikv") { // 4 bits, all but 12; a scale and a minimum for 32 numbers
        head = (n - 12) * (2 * ((4 * d + 7) / 8) + 2 * ((d + 31) / 32) * 4) + 12 * 2 * d * 4;
    } else if (method.name == "turbo_quant") { // 4 bits, residual 32: keys have 3 and a sketch
        int64_t padded = 1;
        while (padded < d)
            padded *= 2;
        head =
            (n - 32) * ((3 * padded + 7) / 8 + (d + 7) / 8 + 4 + (4 * padded + 7) / 8 + 2) + 32 * 2 * d * 4;
    } else { // 2 bits and residual 32: keys in blocks of 32 tokens, values but the newest 32
        const int64_t keys = n - n % 32, values = n - 32, at_once = prompt - 32;
        head = keys * d / 4 + keys / 32 * d * 4 + (n - keys) * d * 4;
        // Values: those of the prompt in one row of bits, then a token at a time in whole bytes.
        head += (2 * at_once * d + 7) / 8 + (values - at_once) * ((2 * d + 7) / 8);
        head += values * ((d + 31) / 32 * 4) + 32 * d * 4;
    }
    return head * cache.num_layers() * cache.num_kv_heads();
}

/// Positions and bits of all that is held.
bool same_contents(const KvCache& a, const KvCache& b) {
    for (int64_t layer = 0; layer < a.num_layers(); ++layer) {
        for (int64_t head = 0; head < a.num_kv_heads(); ++head) {
            const auto held = a.held(layer, head);
            if (!std::ranges::equal(held, b.held(layer, head))) return false;
            if (!at::equal(a.read(layer, head, held), b.read(layer, head, held))) return false;
        }
    }
    return a.bytes_used() == b.bytes_used();
}

/// What a refresh leaves of the entries of generated tokens: the teacher's, but for what was merged, and to rounding where it is
/// encoded.
void check_spliced(const DecodeSession& session, const CacheMethod& method) {
    const KvCache &student = *session.student_cache(), &teacher = *session.teacher_cache();
    const Recording& recording = *session.recording();
    const auto prompt = std::ssize(recording.info().prompt_ids);
    const CacheState told = cache_state(recording, recording.steps(), false);
    int64_t merged = 0;
    for (int64_t layer = 0; layer < student.num_layers(); ++layer) {
        for (int64_t head = 0; head < student.num_kv_heads(); ++head) {
            std::vector<int64_t> generated;
            for (const int64_t p : student.held(layer, head)) {
                const bool skipped =
                    told.plane(layer, head).origin[static_cast<size_t>(p)] == Origin::skipped;
                merged += skipped ? 1 : 0;
                if (p >= prompt && !skipped) generated.push_back(p);
            }
            const at::Tensor mine = student.read(layer, head, generated),
                             theirs = teacher.read(layer, head, generated);
            if (!encodes(method)) {
                CHECK(at::equal(mine, theirs));
            } else { // two bits: half of a third of the range
                const double range = (theirs.max() - theirs.min()).item<double>();
                CHECK((mine - theirs).abs().max().item<double>() < 1.02 * range / 6);
            }
        }
    }
    CHECK((merged > 0) == (method.name == "cam" || method.name == "d2o"));
}

} // namespace

TEST_CASE("a budget that nothing reaches changes no bit", "[session][cache_policy]") {
    Share share("an ample budget: every cache policy in every mode");
    for (const Mode mode : {Mode::student, Mode::teacher, Mode::overfill}) {
        DecodeSession drawn(pair_of_two(), run_of(mode));
        finish(drawn);
        RunConfig same_text = with(run_of(mode), small("oracle", 300));
        same_text.student_cache = same_text.teacher_cache = cache_policy_defaults("full", "a test");
        DecodeSession given(pair_of_two(), same_text);
        finish(given);
        for (const CacheMethod& method : cache_methods()) {
            if (!share.takes()) continue;
            CAPTURE(method.name, to_string(mode));
            const DecodeSession& full = method.given_text ? given : drawn;
            DecodeSession session(pair_of_two(), with(run_of(mode), small(method.name, 300)));
            finish(session);
            CHECK(trail(*session.recording()) == trail(*full.recording()));
        }
    }
}

TEST_CASE("a small budget is kept to, counted to the byte, and nothing evicted is read",
          "[session][cache_policy]") {
    Share share("a small budget: every cache policy in every mode");
    constexpr int64_t budget = 12;
    for (const Mode mode : {Mode::student, Mode::teacher, Mode::overfill}) {
        for (const CacheMethod& method : cache_methods()) {
            if (!share.takes()) continue;
            CAPTURE(method.name, to_string(mode));
            DecodeSession session(pair_of_two(), with(run_of(mode), small(method.name, budget)));
            finish(session);
            const Recording& recording = *session.recording();
            const KvCache& cache = cache_of(session);
            const auto prompt = std::ssize(recording.info().prompt_ids);
            REQUIRE(prompt > 2 * budget);
            // Slots of evicted entries hold NaN: one read of them would reach every number that follows.
            for (const float value : trail(recording))
                CHECK(std::isfinite(value));
            int64_t entries = 0, most = 0;
            for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
                for (int64_t head = 0; head < cache.num_kv_heads(); ++head) {
                    entries += std::ssize(cache.held(layer, head));
                    most = std::max(most, std::ssize(cache.held(layer, head)));
                }
            }
            CHECK(cache.bytes_used() == (encodes(method) ? encoded_bytes(method, cache, prompt)
                                                         : entries * 2 * cache.head_dim() * 4));
            const int64_t heads = cache.num_layers() * cache.num_kv_heads(),
                          generated = cache.length() - prompt;
            const bool decodes = method.name == "sliding_window" || method.name == "streaming_llm" ||
                                 method.name == "random" || method.name == "h2o" || method.name == "tova" ||
                                 method.name == "oracle" || method.name == "kv_direct" ||
                                 method.name == "trim_kv";
            const bool whole_model = method.name == "make_each_token_count";
            const bool once = method.name == "snapkv" || method.name == "pyramidkv" ||
                              method.name == "adakv" || method.name == "cake" ||
                              method.name == "defensivekv" || method.name == "layer_defensivekv" ||
                              method.name == "dapq" || method.name == "lookahead_kv" ||
                              method.name == "attention_gate" || method.name == "compress_kv";
            if (decodes) {
                CHECK(entries == heads * budget);
                CHECK(most == budget);
            } else if (whole_model) {
                CHECK(entries == heads * budget);
            } else if (once) {
                CHECK(entries == heads * (budget + generated));
            } else if (method.name == "epicache") { // and the question
                CHECK(entries == heads * (budget + 6 + generated));
            } else if (method.name == "locret") { // and the last 4 of the prompt
                CHECK(entries == heads * (budget + 4 + generated));
            } else if (method.name ==
                       "kv_routing") { // layers 0 and 2 of three hold everything, layer 1 nothing
                CHECK(entries == heads / 3 * 2 * cache.length());
                CHECK(cache.held(1, 0).empty());
            } else if (method.name ==
                       "arkv") { // between three quarters of what is not the window and all of it
                CHECK(most <= budget);
                CHECK(entries >= heads * (4 + 3 * (budget - 3) / 4));
            } else if (method.name == "mpcache") { // what no late row looks at
                CHECK(entries < heads * cache.length());
                CHECK(entries >= heads * generated);
            } else if (method.name == "lazy_eviction" || method.name == "cam") {
                CHECK(most <= budget + 8);
            } else if (method.name == "d2o" ||
                       method.name == "kv_merger") { // the first and the last layer stay whole
                CHECK(most == cache.length());
                CHECK(std::ssize(cache.held(1, 0)) < cache.length());
                CHECK(std::ssize(cache.held(1, 0)) >= budget / 2);
            } else {
                CHECK(entries == heads * cache.length()); // nothing leaves
            }
            // The events tell the same story.
            const CacheState state = cache_state(recording, recording.steps(), mode == Mode::teacher);
            int64_t coded = 0;
            for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
                for (int64_t head = 0; head < cache.num_kv_heads(); ++head) {
                    const auto held = cache.held(layer, head);
                    std::vector<int64_t> told;
                    for (int64_t p = 0; p < cache.length(); ++p) {
                        const EntryState of = state.plane(layer, head).state[static_cast<size_t>(p)];
                        if (of == EntryState::attended || of == EntryState::kept) told.push_back(p);
                    }
                    CHECK(std::ranges::equal(held, told));
                    const auto& encoded = state.plane(layer, head).encoded;
                    coded += std::ranges::count_if(
                        held, [&](int64_t p) { return encoded[static_cast<size_t>(p)] == 1; });
                    if (method.name != "arkv") // its best layer keeps all as it is
                        CHECK((std::ranges::count(encoded, 1) > 0) == encodes(method));
                }
            }
            if (method.name == "arkv") {
                CHECK(coded > 0);
                CHECK(coded == cache.metadata_bytes() / 8);
            }
        }
    }
}

TEST_CASE("what a step did not read is told, also across refreshes and rewinds", "[session][cache_policy]") {
    Share share("unread entries: every cache policy");
    for (const CacheMethod& method : cache_methods()) {
        if (!share.takes()) continue;
        CAPTURE(method.name);
        RunConfig config = with(run_of(Mode::overfill), small(method.name, 12));
        config.policy = policy_of({trigger("steps_since_refresh", Comparison::above, 6.5)});
        DecodeSession straight(pair_of_two(), config), session(pair_of_two(), config);
        finish(straight);
        for (int i = 0; i < 17; ++i)
            session.step();
        session.rewind(10);
        finish(session);
        const Recording& recording = *session.recording();
        CHECK(!first_difference(recording, *straight.recording()));
        if (method.name == "full" || method.name == "kv_direct") continue; // nothing is left unread
        int64_t unread_in_all = 0;
        for (int64_t step = 1; step < recording.steps(); ++step) {
            const CacheState state = cache_state(recording, step, false);
            const auto read = recording.layer_values(step, signal_id(recording, "cache_read"));
            const auto held = recording.layer_values(step, signal_id(recording, "cache_held"));
            for (int64_t layer = 0; layer < state.layers(); ++layer) {
                int64_t attended = 0, kept = 0;
                for (int64_t head = 0; head < state.kv_heads(); ++head) {
                    attended += std::ranges::count(state.plane(layer, head).state, EntryState::attended);
                    kept += std::ranges::count(state.plane(layer, head).state, EntryState::kept);
                }
                const auto at = static_cast<size_t>(layer);
                const auto heads = static_cast<float>(state.kv_heads());
                CHECK(static_cast<float>(attended + kept) == held[at] * heads);
                if (kept > 0) CHECK(static_cast<float>(attended) == read[at] * heads);
                unread_in_all += kept;
            }
        }
        CHECK((unread_in_all > 0) == (method.name == "refreshkv" || method.name == "quest" ||
                                      method.name == "mpcache" || method.name == "fasa" ||
                                      method.name == "infinigen"));
    }
}

TEST_CASE("rewinding goes back across evictions, bit for bit", "[session][cache_policy]") {
    Share share("rewinds: every cache policy");
    for (const CacheMethod& method : cache_methods()) {
        if (!share.takes()) continue;
        CAPTURE(method.name);
        RunConfig config = with(run_of(Mode::overfill), small(method.name, 12));
        config.policy =
            policy_of({trigger("steps_since_refresh", Comparison::above, 6.5)}, {}, OnFire::redraw);
        DecodeSession straight(pair_of_two(), config), session(pair_of_two(), config),
            half(pair_of_two(), config);
        finish(straight);
        finish(session);
        for (int i = 0; i < 11; ++i)
            half.step();
        session.rewind(11);
        CHECK(same_contents(*session.student_cache(), *half.student_cache()));
        finish(session);
        CHECK(trail(*session.recording()) == trail(*straight.recording()));
        CHECK(same_contents(*session.student_cache(), *straight.student_cache()));
    }
}

TEST_CASE("a run is replayed from its record, whatever the threads", "[session][cache_policy]") {
    Share share("replays and threads: every cache policy");
    for (const CacheMethod& method : cache_methods()) {
        if (!share.takes()) continue;
        CAPTURE(method.name);
        DecodeSession session(pair_of_two(), with(run_of(Mode::overfill), small(method.name, 12)));
        finish(session);
        const auto again = replay(*session.recording(), pair_of_two());
        CHECK(trail(*again) == trail(*session.recording()));
        CHECK(again->cache_entries().size() == session.recording()->cache_entries().size());
        RunConfig config = session.config();
        config.threads = 1;
        DecodeSession alone(pair_of_two(), config);
        finish(alone);
        CHECK(trail(*alone.recording()) == trail(*session.recording()));
    }
}

TEST_CASE("a prompt in chunks is kept like a prompt in one", "[session][cache_policy]") {
    RunConfig config = run_of(Mode::student);
    for (int i = 0; i < 3; ++i)
        config.prompt += " " + config.prompt;
    config.prompt = config.prompt.substr(0, 1100); // longer than a chunk of the session
    config.max_tokens = 12;
    for (const char* name :
         {"h2o", "snapkv", "tova", "refreshkv", "cam", "think", "kivi", "defensivekv", "dapq"}) {
        CAPTURE(name);
        DecodeSession session(pair_of_two(), with(config, small(name, 40)));
        REQUIRE(std::ssize(session.recording()->info().prompt_ids) > 256);
        finish(session);
        // The teacher as its own student: the same weights read the prompt, through the other path.
        const auto twins = tiny_pair(12, 12, {.layers = 3}, {.layers = 3});
        RunConfig handed = with(config, small(name, 40));
        handed.mode = Mode::overfill;
        DecodeSession other(twins, handed);
        finish(other);
        CHECK(trail(*other.recording()) == trail(*session.recording()));
        CHECK(same_contents(*other.student_cache(), *session.student_cache()));
    }
}

TEST_CASE("with teacher = student a refresh changes nothing under any cache policy",
          "[session][cache_policy]") {
    Share share("twins: every cache policy");
    // Columns of a student under a policy are not the full teacher's, so only a policy that reads everything is a no-op; for
    // the others positions keep their contract: what is held after the splice is what was held before it.
    const auto twins = tiny_pair(12, 12, {.layers = 3}, {.layers = 3});
    for (const CacheMethod& method : cache_methods()) {
        if (!share.takes()) continue;
        CAPTURE(method.name);
        RunConfig config = with(run_of(Mode::overfill), small(method.name, 300));
        DecodeSession without(twins, config);
        finish(without);
        config.policy = policy_of({trigger("steps_since_refresh", Comparison::above, 6.5)});
        DecodeSession refreshed(twins, config);
        finish(refreshed);
        CHECK(refreshed.recording()->refreshes().size() > 0);
        CHECK(trail(*refreshed.recording()) == trail(*without.recording()));

        config = with(run_of(Mode::overfill), small(method.name, 12));
        DecodeSession session(twins, config);
        for (int i = 0; i < 20; ++i)
            session.step();
        session.apply(command::RefreshNow{});
        session.step();
        CHECK(session.splice_watermark() == session.student_cache()->length());
        check_spliced(session, method);
    }
}

TEST_CASE("selection per query head: every query head has a set of its own, and its bytes",
          "[session][cache_policy]") {
    for (const Mode mode : {Mode::student, Mode::teacher, Mode::overfill}) {
        RunConfig full = run_of(mode);
        if (mode == Mode::overfill)
            full.policy = policy_of({trigger("steps_since_refresh", Comparison::above, 6.5)});
        DecodeSession everything(pair_of_two(), full);
        finish(everything);
        for (const char* name : {"h2o", "snapkv", "pyramidkv"}) {
            CAPTURE(name, to_string(mode));
            const auto own = [&](int64_t entries) {
                CachePolicyConfig policy = small(name, entries);
                policy.values.at("compat_per_query_head") = 1;
                return with(full, policy);
            };
            DecodeSession ample(pair_of_two(), own(300));
            finish(ample);
            CHECK(trail(*ample.recording()) == trail(*everything.recording()));
            const int64_t heads = ample.recording()->info().heads;
            CHECK(ample.recording()->info().kv_heads == heads);
            CHECK(everything.recording()->info().kv_heads == heads / 2);
            CHECK(cache_of(ample).bytes_used() == 2 * cache_of(everything).bytes_used());

            DecodeSession session(pair_of_two(), own(12)), straight(pair_of_two(), own(12));
            finish(session);
            finish(straight);
            const KvCache& cache = cache_of(session);
            int64_t entries = 0, unlike = 0;
            for (int64_t layer = 0; layer < cache.num_layers(); ++layer)
                for (int64_t head = 0; head < heads; head += 2) {
                    const auto one = cache.held(layer, head), two = cache.held(layer, head + 1);
                    entries += std::ssize(one) + std::ssize(two);
                    unlike += std::ranges::equal(one, two) ? 0 : 1;
                    // Where both hold an entry, it is the KV head's.
                    std::vector<int64_t> both;
                    std::ranges::set_intersection(one, two, std::back_inserter(both));
                    CHECK(at::equal(cache.read(layer, head, both), cache.read(layer, head + 1, both)));
                }
            CHECK(unlike > 0);
            CHECK(cache.bytes_used() == entries * 2 * cache.head_dim() * 4);
            session.rewind(9);
            finish(session);
            CHECK(trail(*session.recording()) == trail(*straight.recording()));
            CHECK(same_contents(cache_of(session), cache_of(straight)));
            CHECK(trail(*replay(*straight.recording(), pair_of_two())) == trail(*straight.recording()));
        }
    }
}

TEST_CASE("entries that are computed again are those that left: KV-Direct reads what full reads",
          "[session][cache_policy]") {
    for (const OnFire on_fire : {OnFire::keep, OnFire::redraw}) {
        for (const Mode mode : {Mode::student, Mode::teacher, Mode::overfill}) {
            CAPTURE(to_string(mode));
            RunConfig config = run_of(mode);
            if (mode == Mode::overfill)
                config.policy =
                    policy_of({trigger("steps_since_refresh", Comparison::above, 6.5)}, {}, on_fire);
            DecodeSession full(pair_of_two(), config);
            finish(full);
            for (const int64_t budget :
                 {1, 20, 70}) { // nothing, some of the prompt, some of the generated tokens
                DecodeSession session(pair_of_two(), with(config, small("kv_direct", budget)));
                finish(session);
                CHECK(trail(*session.recording()) == trail(*full.recording()));
                CHECK(std::ssize(cache_of(session).held(1, 0)) == budget);
            }
        }
    }
}

TEST_CASE("parameters that a method calls live change between steps, and replay bit for bit",
          "[session][cache_policy]") {
    DecodeSession session(pair_of_two(), with(run_of(Mode::student), small("refreshkv", 12)));
    const auto read = [&] {
        const Recording& recording = *session.recording();
        return recording.signal(recording.steps(), signal_id(recording, "cache_read"));
    };
    for (int i = 0; i < 4; ++i)
        session.step();
    CHECK(read() == 13);
    session.apply(command::SetParameter{"student_cache.partial", "5"});
    session.step();
    CHECK(read() == 6);
    session.apply(command::SetParameter{"student_cache.similarity", "2"}); // every check is a full step
    session.step();
    CHECK(read() == static_cast<float>(session.student_cache()->length()));
    session.apply(command::FullStepNow{});
    session.step();
    CHECK(read() == static_cast<float>(session.student_cache()->length()));
    session.step();
    CHECK(read() == 6);
    const auto refused = [&](const Command& command) {
        try {
            apply_command(session, command);
        } catch (const Error& e) {
            return std::string(e.what());
        }
        return std::string();
    };
    CHECK_THAT(refused(command::SetParameter{"student_cache.attend_full", "false"}),
               ContainsSubstring("attend_full: cannot change during a run"));
    {
        DecodeSession once(pair_of_two(), with(run_of(Mode::student), small("snapkv", 12)));
        try {
            once.apply(command::SetParameter{"student_cache.budget", "9"}); // of others it is live
            FAIL("a fixed parameter was changed");
        } catch (const Error& e) {
            CHECK_THAT(e.what(), ContainsSubstring("of cache policy snapkv cannot change during a run"));
        }
    }
    CHECK_THAT(refused(command::SetParameter{"student_cache.partial", "513"}),
               ContainsSubstring("more than the 512"));
    CHECK_THAT(refused(command::SetParameter{"student_cache.partial", "2.5"}), ContainsSubstring("whole"));
    CHECK_THAT(refused(command::SetParameter{"student_cache.policy", "h2o"}),
               ContainsSubstring("cannot change"));
    session.step();
    CHECK(read() ==
          static_cast<float>(session.student_cache()->length())); // step 9, a check; nothing was half set
    finish(session);
    CHECK(trail(*replay(*session.recording(), pair_of_two())) == trail(*session.recording()));
    // A rewind goes back behind the commands; settings stay, and the branch's own log leads to them.
    session.rewind(3);
    CHECK(parameter_value(session.config(), "student_cache.partial") == "5");
    session.step();
    CHECK(read() == 6);
    finish(session);
    CHECK(trail(*replay(*session.recording(), pair_of_two())) == trail(*session.recording()));
}

TEST_CASE("a budget may shrink and grow while a run goes on", "[session][cache_policy]") {
    for (const char* name : {"sliding_window", "random", "h2o", "tova", "kv_direct"}) {
        CAPTURE(name);
        DecodeSession session(pair_of_two(), with(run_of(Mode::teacher), small(name, 20)));
        const auto held = [&] { return std::ssize(session.teacher_cache()->held(2, 1)); };
        for (int i = 0; i < 5; ++i)
            session.step();
        CHECK(held() == 20);
        session.apply(command::SetParameter{"teacher_cache.budget", "7"});
        session.step();
        CHECK(held() == 7);
        session.apply(command::SetParameter{"teacher_cache.budget", "9"});
        for (int i = 0; i < 4; ++i)
            session.step();
        CHECK(held() == 9);
        session.rewind(5);
        CHECK(held() == 20);
        session.step();
        CHECK(held() == 9);
    }
}

TEST_CASE("a sliding window with a band over the prompt is a model that has such a window",
          "[session][cache_policy]") {
    for (const int64_t w : {1, 5, 16}) {
        CAPTURE(w);
        CachePolicyConfig band = small("sliding_window", w);
        band.values.at("banded_prefill") = 1;
        const auto run = [&](const TinyShape& shape, bool policy) {
            RunConfig config = run_of(Mode::teacher);
            if (policy) config.teacher_cache = band;
            DecodeSession session(tiny_pair(11, 12, shape, {.layers = 3}), config);
            finish(session);
            return session.recording();
        };
        const auto ours = run({.layers = 3}, true), native = run({.layers = 3, .window = w}, false);
        CHECK(ours->token_ids() == native->token_ids());
        double most = 0;
        const size_t entropy = *ours->signal_id("entropy_bits");
        for (int64_t t = 1; t <= ours->steps(); ++t)
            most = std::max(
                most, static_cast<double>(std::abs(ours->signal(t, entropy) - native->signal(t, entropy))));
        CHECK(most < 1e-5);
        // Without the band the prompt's entries are those of a model that sees everything.
        if (w > 1) {
            RunConfig config = run_of(Mode::teacher);
            config.teacher_cache = small("sliding_window", w);
            DecodeSession trimmed(tiny_pair(11, 12, {.layers = 3}, {.layers = 3}), config);
            finish(trimmed);
            CHECK(std::abs(trimmed.recording()->signal(1, entropy) - native->signal(1, entropy)) > 1e-4F);
        }
    }
}

TEST_CASE("the scores of a policy's choices are told, also across rewinds", "[session][cache_policy]") {
    for (const char* name : {"h2o",
                             "tova",
                             "snapkv",
                             "pyramidkv",
                             "adakv",
                             "cake",
                             "defensivekv",
                             "layer_defensivekv",
                             "dapq",
                             "arkv",
                             "mpcache",
                             "fasa",
                             "trim_kv",
                             "locret",
                             "lazy_eviction",
                             "cam",
                             "make_each_token_count",
                             "attention_gate",
                             "lookahead_kv",
                             "epicache",
                             "compress_kv",
                             "d2o",
                             "oracle",
                             "quest",
                             "refreshkv",
                             "infinigen"}) {
        CAPTURE(name);
        DecodeSession session(pair_of_two(), with(run_of(Mode::student), small(name, 12)));
        session.recording()->entry_scores().ask();
        finish(session);
        const auto check = [&](const Recording& recording, bool rewound) {
            const CacheState state = cache_state(recording, recording.steps(), false);
            int64_t gone = 0, told = 0;
            for (int64_t layer = 0; layer < state.layers(); ++layer)
                for (int64_t head = 0; head < state.kv_heads(); ++head) {
                    const CacheState::Plane& plane = state.plane(layer, head);
                    for (int64_t p = 0; p < state.length(); ++p) {
                        const auto score = recording.entry_scores().at(layer * state.kv_heads() + head, p);
                        if (score) CHECK(std::isfinite(score->value));
                        if (score) CHECK(score->step <= recording.steps());
                        told += score ? 1 : 0;
                        const EntryState now = plane.state[static_cast<size_t>(p)];
                        if (now != EntryState::evicted && now != EntryState::merged) continue;
                        ++gone;
                        REQUIRE(score); // it went with one
                        CHECK(score->step == plane.since[static_cast<size_t>(p)]);
                    }
                }
            const std::string_view method = name;
            const bool evicts =
                method != "quest" && method != "refreshkv" && method != "fasa" && method != "infinigen";
            CHECK((gone > 0) == evicts);
            // What was scored again after the step that is gone back to is not known any more.
            if (evicts || !rewound) CHECK(told > 0);
        };
        check(*session.recording(), false);
        session.rewind(20);
        check(*session.recording(), true);
        finish(session);
        check(*session.recording(), false);
    }
    // A policy without scores tells none, and where nobody looks only the prompt's are there.
    DecodeSession random(pair_of_two(), with(run_of(Mode::student), small("random", 12)));
    random.recording()->entry_scores().ask();
    finish(random);
    DecodeSession unseen(pair_of_two(), with(run_of(Mode::student), small("h2o", 12)));
    finish(unseen);
    for (int64_t p = 0; p < 60; ++p) {
        CHECK_FALSE(random.recording()->entry_scores().at(0, p));
        const auto score = unseen.recording()->entry_scores().at(0, p);
        if (score) CHECK(score->step == 0);
    }
}

TEST_CASE("a full step by hand belongs to policies that have one", "[session][cache_policy]") {
    DecodeSession session(pair_of_two(), with(run_of(Mode::student), small("h2o", 12)));
    CHECK_THROWS_AS(session.apply(command::FullStepNow{}), Error);
    DecodeSession full(pair_of_two(), run_of(Mode::student));
    CHECK_THROWS_AS(full.apply(command::FullStepNow{}), Error);
    CHECK(full.recording()->commands().size() == 0);
    const std::vector<TimedCommand> commands{{3, command::FullStepNow{}}};
    CHECK_THROWS_AS(check_commands(commands, full.config(), "a test"), Error);
    check_commands(commands, with(run_of(Mode::student), small("refreshkv", 12)), "a test");
    CHECK(std::holds_alternative<command::FullStepNow>(
        command_from_json(to_json(Command(command::FullStepNow{})), "a test")));
}

TEST_CASE(
    "StreamingLLM turns keys to new positions where heads turn whole and in one way, and is refused else",
    "[session][cache_policy]") {
    const ModelConfig plain = pair_of_two()->student->config();
    ModelConfig in_part = plain, in_two_ways = plain, by_context = plain;
    in_part.rotary_dim = 4;
    in_two_ways.local_rope_theta = 100;
    in_two_ways.layer_windows = {5, 0, 3};
    by_context.rope_scaling.kind = RopeScaling::Kind::longrope;
    by_context.rope_scaling.original_max_position = 30;
    by_context.rope_scaling.factors = {1, 1.1F, 1.2F};
    by_context.rope_scaling.long_factors = {1, 2, 4};
    for (const auto& [config, named] : {std::pair(plain, ""), std::pair(in_part, "heads that turn in part"),
                                        std::pair(in_two_ways, "RoPE of two kinds"),
                                        std::pair(by_context, "RoPE that depends on the context's length")}) {
        auto pair = std::make_shared<ModelPair>(*pair_of_two());
        pair->student = random_llama(config, 13, at::kCPU, at::kFloat);
        CachePolicyConfig policy = small("streaming_llm", 12);
        for (const double keeps : {0.0, 1.0}) {
            policy.values["keep_positions"] = keeps;
            const auto run = [&] {
                DecodeSession session(pair, with(run_of(Mode::student), policy));
                finish(session);
                return session.recording()->num_tokens();
            };
            if (keeps == 0 && *named != '\0') {
                CHECK_THROWS_WITH(run(),
                                  ContainsSubstring(named) && ContainsSubstring("keep_positions=true"));
            } else {
                CHECK(run() == tokens);
            }
        }
    }
}

TEST_CASE("RefreshKV without full attention reads the part that a full step chooses",
          "[session][cache_policy]") {
    CachePolicyConfig policy = small("refreshkv", 12);
    policy.values["attend_full"] = 0;
    policy.values["similarity"] = 2;
    DecodeSession session(pair_of_two(), with(run_of(Mode::student), policy));
    finish(session);
    const Recording& recording = *session.recording();
    const size_t read = signal_id(recording, "cache_read"), full = signal_id(recording, "full_step");
    for (int64_t t = 1; t < recording.steps(); ++t) {
        CHECK(recording.signal(t, full) == (t % 3 == 0 ? 1.0F : 0.0F));
        CHECK(recording.signal(t, read) >= 12);
        CHECK(recording.signal(t, read) <= 13); // the new entry may be one of the chosen
    }
    policy.values["partial"] = 300;
    DecodeSession everything(pair_of_two(), with(run_of(Mode::student), policy)),
        plain(pair_of_two(), run_of(Mode::student));
    finish(everything);
    finish(plain);
    CHECK(trail(*everything.recording()) == trail(*plain.recording()));
}

TEST_CASE("what a policy cannot do is said in one line before anything is computed",
          "[session][cache_policy]") {
    const auto refusal = [](const std::shared_ptr<const ModelPair>& pair,
                            const RunConfig& config) -> std::string {
        try {
            DecodeSession session(pair, config);
        } catch (const Error& e) {
            return e.what();
        }
        return {};
    };
    RunConfig config = run_of(Mode::overfill);
    config.teacher_cache = small("h2o", 12);
    CHECK_THAT(refusal(pair_of_two(), config), ContainsSubstring("keeps all of them"));
    config = run_of(Mode::student);
    config.student_cache = small("oracle", 12);
    CHECK_THAT(refusal(pair_of_two(), config), ContainsSubstring("has to know the text"));
    CHECK_THAT(refusal(pair_of_two(), with(run_of(Mode::student), small("h2o", 513))),
               ContainsSubstring("513 entries are more than the 512"));
    const auto strangers = tiny_pair(11, 12, {.layers = 3}, {.layers = 2});
    CHECK_THAT(refusal(strangers, with(run_of(Mode::overfill), small("h2o", 12))),
               ContainsSubstring("KV geometries differ"));
    const auto uneven = tiny_pair(11, 12, {.heads = 4}, {.heads = 2});
    CHECK_THAT(refusal(uneven, with(run_of(Mode::overfill), small("snapkv", 12))),
               ContainsSubstring("query heads"));
    CHECK(refusal(uneven, with(run_of(Mode::overfill), small("sliding_window", 12))).empty());
    CachePolicyConfig band = small("sliding_window", 12);
    band.values.at("banded_prefill") = 1;
    CHECK_THAT(refusal(pair_of_two(), with(run_of(Mode::overfill), band)),
               ContainsSubstring("banded_prefill"));
    config = run_of(Mode::teacher);
    config.student_cache = small("h2o", 12);
    DecodeSession idle(pair_of_two(), config);
    CHECK_THAT(idle.recording()->info().note, ContainsSubstring("does nothing in mode teacher"));
}

} // namespace cache_policy_test
