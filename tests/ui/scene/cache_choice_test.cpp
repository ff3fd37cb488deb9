#include "engine/base/error.h"
#include "engine/control/stored_config.h"
#include "engine/policies/cache_gate.h"
#include "tests/ui/maps/heatmap_recording.h"
#include "ui/scene/axes/signal_choice.h"
#include "ui/scene/policy/cache_words.h"
#include "ui/scene/policy/drafts.h"
#include "ui/scene/policy/live_changes.h"
#include "ui/scene/policy/thresholds.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>

namespace cache_choice_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// An engine that answers nothing.
class DeafEngine final : public EngineLink {
public:
    uint64_t send(Command command) override {
        sent.push_back(std::move(command));
        return 1000 + sent.size();
    }
    [[nodiscard]] std::shared_ptr<const EngineStatus> status() const override { return m_status; }
    [[nodiscard]] std::shared_ptr<const Recording> recording() const override { return nullptr; }
    void on_news(std::function<void()>) override {}
    [[nodiscard]] RunOutlook outlook(const RunConfig&) const override { return {}; }
    std::vector<Command> sent;

private:
    std::shared_ptr<const EngineStatus> m_status = std::make_shared<EngineStatus>();
};

EngineStatus status_with(const CachePolicyConfig& student) {
    EngineStatus status;
    status.state = EngineState::running;
    status.applied.student_cache = student;
    return status;
}

CachePolicyConfig policy(const char* name,
                         std::initializer_list<std::pair<const char*, double>> values = {}) {
    CachePolicyConfig cache = cache_policy_defaults(name, "a test");
    for (const auto& [key, value] : values)
        cache.values[key] = value;
    return cache;
}

} // namespace

TEST_CASE("a cache policy waits for the next run until one has it", "[ui]") {
    Drafts drafts;
    DeafEngine engine;
    drafts.begin_frame(status_with({}));
    CHECK_FALSE(drafts.cache_waits(CacheOwner::student));
    drafts.set_next_cache(CacheOwner::student, policy("h2o", {{"budget", 24}}));
    CHECK(drafts.cache_waits(CacheOwner::student));
    CHECK_FALSE(drafts.cache_waits(CacheOwner::teacher));
    CHECK(drafts.config().student_cache.is_full());
    CHECK(drafts.next_run().student_cache.policy == "h2o");
    CHECK(drafts.undo_label() == "Student's cache policy full -> h2o");
    drafts.begin_frame(status_with({})); // frames go by
    CHECK(drafts.cache_waits(CacheOwner::student));
    drafts.set_next_cache(CacheOwner::student, policy("h2o", {{"budget", 12}}));
    CHECK(drafts.undo_label() == "Student's cache budget 24 -> 12");
    drafts.undo(engine);
    CHECK(drafts.next_cache(CacheOwner::student).values.at("budget") == 24);
    drafts.undo(engine);
    CHECK_FALSE(drafts.cache_waits(CacheOwner::student));
    drafts.redo(engine);
    CHECK(engine.sent.empty());                                       // nothing of it is the engine's yet
    drafts.begin_frame(status_with(policy("h2o", {{"budget", 24}}))); // a run has started with it
    CHECK_FALSE(drafts.cache_waits(CacheOwner::student));
    // A live parameter that is changed meanwhile is changed in what waits as well.
    drafts.set_next_cache(CacheOwner::student, policy("h2o", {{"budget", 24}, {"per_query_mean", 1}}));
    drafts.edit(engine, "student_cache.budget", "16");
    CHECK(engine.sent.size() == 1);
    CHECK(drafts.next_cache(CacheOwner::student).values.at("budget") == 16);
    CHECK(drafts.next_cache(CacheOwner::student).values.at("per_query_mean") == 1);
}

TEST_CASE("values of cache policies are refused in one line", "[ui]") {
    RunConfig config;
    config.student_cache = policy("h2o");
    const auto refused = [&](const char* key, const char* text) {
        try {
            static_cast<void>(with_value(config, CacheOwner::student, key, text, 512));
        } catch (const Error& e) {
            return std::string(e.what());
        }
        return std::string();
    };
    CHECK(refused("budget", "64").empty());
    for (const char* bad : {"0", "-3", "2.5", "many", "", "1e99"})
        CHECK_FALSE(refused("budget", bad).empty());
    CHECK_THAT(refused("budget", "513"), ContainsSubstring("more than the 512"));
    CHECK_THAT(refused("window", "4"), ContainsSubstring("has no window"));
    CHECK(refused("budget", "0").find('\n') == std::string::npos);

    CHECK(cache_refusal(config, {}).empty());
    config.teacher_cache = policy("snapkv");
    CHECK_THAT(cache_refusal(config, {}), ContainsSubstring("hands its entries over"));
    config.teacher_cache = {};
    config.student_cache = policy("oracle");
    CHECK_THAT(cache_refusal(config, {}), ContainsSubstring("has to know the text"));
    CHECK(cache_refusal(config, {0, "", true}).empty());
    CHECK_THAT(cache_refusal(config, {0, "head_dim", true}), ContainsSubstring("head_dim"));
    CHECK(why_no_cache_policy(Mode::teacher, CacheOwner::teacher).empty());
    CHECK_FALSE(why_no_cache_policy(Mode::overfill, CacheOwner::teacher).empty());
    CHECK(cache_words(policy("h2o", {{"budget", 24}})) == "H2O, budget 24");
    CHECK(is_modified(policy("h2o", {{"budget", 24}})));
    CHECK_FALSE(is_modified(policy("h2o")));
}

TEST_CASE("gates name what their methods have", "[ui]") {
    for (const CacheGate& gate : cache_gates()) {
        const CacheMethod* method = find_cache_method(gate.method);
        REQUIRE(method != nullptr);
        const auto parameter = std::ranges::find(method->parameters, gate.parameter, &CacheParameter::key);
        REQUIRE(parameter != method->parameters.end());
        CHECK(parameter->live);
        PolicyContext context;
        context.layers = context.heads = context.kv_heads = context.prompt_length = 1;
        context.head_dim = 2;
        context.rope_frequencies = {1};
        const auto signals =
            make_cache_policy(cache_policy_defaults(gate.method, "a test"), context)->signals();
        for (const std::string_view name : {gate.signal, gate.decided})
            CHECK(std::ranges::any_of(signals, [&](const PolicySignal& s) { return s.name == name; }));
    }
}

TEST_CASE("the threshold of a cache policy is a line on its signal, with a history", "[ui]") {
    Drafts drafts;
    DeafEngine engine;
    drafts.begin_frame(status_with(policy("refreshkv", {{"similarity", 0.7}})));
    auto lines = threshold_lines(drafts, "query_similarity");
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].trigger == ThresholdLine::of_cache);
    CHECK(lines[0].key == "student_cache.similarity");
    CHECK(lines[0].value == 0.7);
    CHECK(lines[0].fallback == 0.85);
    CHECK(lines[0].comparison == Comparison::at_most);
    CHECK(threshold_lines(drafts, "entropy_bits").empty());
    // Each layer is compared by itself: the line stands on the curve of any number of them, and on no strip.
    CHECK(lines_of_pick(lines, {.reduction = Reduction::max}).size() == 1);
    CHECK(lines_of_pick(lines, {.strip = true}).empty());
    drafts.edit(engine, lines[0].key, 0.4);
    CHECK(threshold_lines(drafts, "query_similarity")[0].pending);
    drafts.begin_frame(status_with(policy("h2o")));
    CHECK(threshold_lines(drafts, "query_similarity").empty());

    auto recording = empty_recording(Mode::student, 4);
    RunInfo info = recording->info();
    info.config.student_cache = policy("refreshkv", {{"similarity", 0.7}});
    recording = made_run(info);
    for (int i = 0; i < 6; ++i)
        append_step(*recording);
    recording->add_command(
        {4, R"({"command": "set_parameter", "key": "student_cache.similarity", "value": "0.4"})"});
    LiveChanges changes;
    changes.update(*recording);
    CHECK(threshold_stair(changes, 6, "query_similarity", {}) ==
          std::vector<ThresholdSpan>{{1, 3, 0.7}, {4, 6, 0.4}});
    SignalPlots plots;
    show_gate_signals(plots, *recording);
    CHECK((plots.of("query_similarity").shown && !plots.of("query_similarity").layers.strip));
    CHECK((plots.of("full_step").shown && plots.of("full_step").layers.strip));
    plots.choose("full_step").shown = false; // what a person hid stays hidden
    show_gate_signals(plots, *recording);
    CHECK_FALSE(plots.of("full_step").shown);
}

TEST_CASE("a cache policy that is chosen gets a budget that the run reaches", "[ui]") {
    RunConfig config;
    config.max_tokens = 300;
    CHECK(reach_of(config, 0, 2048).whole == 0);
    CHECK(reach_of(config, 40, 2048).whole == 340);
    CHECK(reach_of(config, 40, 128).whole == 128);
    CHECK(reach_of(config, 40, 0).whole == 340);

    const auto budget = [](const char* method, const RunReach& reach) {
        return chosen_cache(method, reach).values.find("budget")->second;
    };
    CHECK(budget("h2o", {}) == 2048);
    CHECK(budget("h2o", {40, 340}) == 80); // a quarter of 340, in eights
    CHECK(budget("h2o", {40, 2049}) == 2048);
    CHECK(budget("h2o", {4, 9}) == 8);
    CHECK(budget("snapkv", {40, 340}) == 8); // it thins the prompt alone
    CHECK(budget("snapkv", {4000, 4300}) == 1024);
    CHECK(chosen_cache("kivi", {40, 340}) == cache_policy_defaults("kivi", "a test"));
    for (const CacheMethod& method : cache_methods()) {
        const CachePolicyConfig chosen = chosen_cache(method.name, {40, 340});
        CHECK_NOTHROW(check_cache_policy(chosen, 340, "a test"));
        CHECK(budget_note(chosen, {40, 340}).empty());
    }

    CHECK_THAT(budget_note(policy("locret", {{"budget", 8}}), {40, 340}), // and its last 100
               ContainsSubstring("prompt has 40 tokens"));
    CHECK(chosen_cache("locret", {40, 340}).values.at("last_tokens") == 4);
    CachePolicyConfig gated = cache_policy_defaults("trim_kv", "a test");
    CHECK(!is_modified(gated));
    gated.files.at("gate").path = "some/where/mine.safetensors";
    CHECK(is_modified(gated));
    CHECK(cache_words(gated) == "TRIM-KV, budget 512, gate mine.safetensors");

    CHECK_THAT(budget_note(policy("h2o"), {40, 340}), ContainsSubstring("340 entries at most"));
    CHECK_THAT(budget_note(policy("snapkv", {{"budget", 64}}), {40, 340}),
               ContainsSubstring("prompt has 40 tokens"));
    CHECK(budget_note(policy("h2o", {{"budget", 64}}), {40, 340}).empty());
    CHECK(budget_note(policy("h2o"), {}).empty());
    CHECK(budget_note(policy("attention_gate"), {40, 340}).empty()); // a threshold decides
    CHECK_THAT(budget_note(policy("attention_gate", {{"choose", 1}}), {40, 340}),
               ContainsSubstring("40 tokens"));
}

TEST_CASE("a comparison changes the cache policy of the model that decodes and nothing else", "[ui][cache]") {
    for (const Mode mode : {Mode::overfill, Mode::teacher, Mode::student})
        for (const CacheMethod& method : cache_methods()) {
            CAPTURE(method.name);
            RunConfig run;
            run.mode = mode;
            run.seed = 7;
            run.policy = preset_policy("entropy");
            run.teacher_cache = policy("tova", {{"budget", 31}});
            run.student_cache = policy("h2o", {{"budget", 31}});
            const CachePolicyConfig& own = cache_of(run, deciding_owner(mode));
            const CachePolicyConfig other = compared_cache(method.name, own, {60, 200});
            CHECK(other.policy == method.name);
            for (const char* key : {"budget", "partial"}) // equal budgets
                if (const auto value = other.values.find(key);
                    value != other.values.end() &&
                    (std::string_view(key) == "budget" || !other.values.contains("budget")))
                    CHECK(value->second == 31);
            CHECK_NOTHROW(check_cache_policy(other, 200, "a test"));
            RunConfig with = with_cache_policy(run, other);
            CHECK(cache_of(with, deciding_owner(mode)) == other);
            cache_of(with, deciding_owner(mode)) = own;
            CHECK(to_json(with) == to_json(run));
        }
    // Without a budget to equal, one that the run reaches.
    CHECK(compared_cache("h2o", CachePolicyConfig(), {60, 200}) == chosen_cache("h2o", {60, 200}));
}

} // namespace cache_choice_test
