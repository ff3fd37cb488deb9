#include "engine/base/error.h"
#include "engine/control/command_queue.h"
#include "tests/support/seed.h"
#include "ui/scene/policy/drafts.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <cstdlib>
#include <iterator>
#include <random>

namespace drafts_test {

using namespace refreshlab;
using namespace refreshlab::ui;
using Catch::Matchers::ContainsSubstring;

namespace {

RunConfig gate_config() {
    RunConfig config;
    config.policy = preset_policy("entropy");
    config.policy.triggers.at(0).threshold = 6;
    return config;
}

/// An engine that applies commands only when the test says so, through the real queue.
class SlowEngine final : public EngineLink {
public:
    explicit SlowEngine(RunConfig config) {
        auto status = std::make_shared<EngineStatus>();
        status->state = EngineState::running;
        status->applied = std::move(config);
        m_status = status;
    }
    uint64_t send(Command command) override {
        ++sent;
        return m_queue.push(std::move(command));
    }
    std::shared_ptr<const EngineStatus> status() const override { return m_status; }
    std::shared_ptr<const Recording> recording() const override { return nullptr; }
    void on_news(std::function<void()>) override {}
    [[nodiscard]] RunOutlook outlook(const RunConfig&) const override { return {}; }

    /// Applies the oldest command that waits. \return false when there is none
    bool apply_one() {
        const auto taken = m_queue.try_pop();
        if (!taken) return false;
        RunConfig config = m_status->applied;
        if (const auto* p = std::get_if<command::SetParameter>(&taken->command))
            set_parameter(config, p->key, p->value);
        if (const auto* p = std::get_if<command::SetPolicy>(&taken->command)) config.policy = p->policy;
        publish(std::move(config), taken->ticket);
        return true;
    }
    void apply_all() {
        while (apply_one()) {
        }
    }
    void replace(RunConfig config) { publish(std::move(config), m_status->answered); }
    [[nodiscard]] size_t waiting() const { return m_queue.size(); }
    int sent = 0;

private:
    void publish(RunConfig config, uint64_t answered) {
        auto status = std::make_shared<EngineStatus>(*m_status);
        status->applied = std::move(config);
        status->answered = answered;
        m_status = status;
    }
    CommandQueue m_queue;
    std::shared_ptr<const EngineStatus> m_status;
};

void frame(Drafts& drafts, const SlowEngine& engine) {
    drafts.begin_frame(*engine.status());
}

} // namespace

TEST_CASE("a dragged value is shown at once, is pending, and only its last value reaches the engine",
          "[ui]") {
    SlowEngine engine(gate_config());
    Drafts drafts;
    frame(drafts, engine);
    REQUIRE(drafts.number("entropy.threshold") == 6.0);
    REQUIRE_FALSE(drafts.pending("entropy.threshold"));

    drafts.begin_edit("entropy.threshold");
    for (const double value : {5.8, 5.5, 5.2}) {
        drafts.edit(engine, "entropy.threshold", value);
        frame(drafts, engine);
        CHECK(drafts.number("entropy.threshold") == value);
        CHECK(drafts.pending("entropy.threshold"));
        CHECK(engine.status()->applied.policy.triggers[0].threshold == 6.0);
        CHECK(engine.waiting() == 1);
    }
    drafts.commit("entropy.threshold");
    CHECK(drafts.edited_key().empty());
    REQUIRE(engine.apply_one());
    CHECK_FALSE(engine.apply_one());
    CHECK(engine.status()->applied.policy.triggers[0].threshold == 5.2);
    frame(drafts, engine);
    CHECK_FALSE(drafts.pending("entropy.threshold"));
    CHECK(drafts.number("entropy.threshold") == 5.2);
}

TEST_CASE("line, card and parameter of one trigger are one value", "[ui]") {
    SlowEngine engine(gate_config());
    Drafts drafts;
    frame(drafts, engine);
    const std::string card = trigger_key(0, TriggerField::threshold);
    drafts.edit(engine, card, 4.5);
    CHECK(drafts.number("entropy.threshold") == 4.5);
    CHECK(drafts.pending("entropy.threshold"));
    CHECK(drafts.policy().triggers[0].threshold == 4.5);
    drafts.edit(engine, "entropy.threshold", 4.25);
    CHECK(drafts.number(card) == 4.25);
    engine.apply_all();
    frame(drafts, engine);
    CHECK(engine.status()->applied.policy.triggers[0].threshold == 4.25);
    CHECK_FALSE(drafts.pending(card));
}

TEST_CASE("every field of a trigger is read, set, sent and taken back", "[ui]") {
    RunConfig config;
    config.policy = preset_policy("entropy");
    config.policy.triggers.at(0).signal = "attention_entropy_bits"; // it has layers
    config.policy.triggers.at(0).reduce = Reduction::layer;
    config.policy.triggers.at(0).layer = 2;
    const std::pair<TriggerField, const char*> edits[] = {
        {TriggerField::threshold, "3.5"}, {TriggerField::every, "7"},          {TriggerField::cooldown, "9"},
        {TriggerField::enabled, "false"}, {TriggerField::comparison, "below"}, {TriggerField::layers, "max"},
        {TriggerField::layer, "1"},
    };
    REQUIRE(std::size(edits) == num_trigger_fields);
    for (const auto& [field, value] : edits) {
        SlowEngine engine(config);
        Drafts drafts;
        frame(drafts, engine);
        const std::string key = trigger_key(0, field);
        CAPTURE(key);
        const auto before = drafts.value(key);
        REQUIRE(before);
        REQUIRE(*before != value);
        drafts.edit(engine, key, std::string_view(value));
        CHECK(drafts.value(key) == value);
        engine.apply_all();
        frame(drafts, engine);
        CHECK_FALSE(engine.status()->applied.policy == config.policy);
        CHECK(drafts.value(key) == value);
        CHECK(drafts.undo_label().find("trigger/") == std::string::npos);
        drafts.undo(engine);
        engine.apply_all();
        frame(drafts, engine);
        CHECK(engine.status()->applied.policy == config.policy); // the one layer too
        CHECK_THROWS_AS(drafts.edit(engine, key, std::string_view("no such value")), Error);
    }
}

TEST_CASE("escape in a drag gives the old value back and leaves no undo entry", "[ui]") {
    SlowEngine engine(gate_config());
    Drafts drafts;
    frame(drafts, engine);
    drafts.begin_edit("entropy.threshold");
    drafts.edit(engine, "entropy.threshold", 3.0);
    drafts.cancel(engine);
    CHECK(drafts.number("entropy.threshold") == 6.0);
    CHECK_FALSE(drafts.can_undo());
    CHECK(drafts.edited_key().empty());
    engine.apply_all();
    frame(drafts, engine);
    CHECK(engine.status()->applied.policy.triggers[0].threshold == 6.0);
    CHECK_FALSE(drafts.pending("entropy.threshold"));
}

TEST_CASE("a drag is one undo entry with its name, values and unit, and redo makes it again", "[ui]") {
    SlowEngine engine(gate_config());
    Drafts drafts;
    frame(drafts, engine);
    drafts.begin_edit("entropy.threshold");
    for (double value = 5.9; value > 5.15; value -= 0.1)
        drafts.edit(engine, "entropy.threshold", value);
    drafts.edit(engine, "entropy.threshold", 5.2);
    drafts.commit("entropy.threshold");
    drafts.edit(engine, "sampler.temperature", 0.8);

    CHECK_THAT(drafts.undo_label(), ContainsSubstring("0 -> 0.8"));
    drafts.undo(engine);
    CHECK(drafts.number("sampler.temperature") == 0.0);
    CHECK_THAT(drafts.undo_label(), ContainsSubstring("6 -> 5.2 bits"));
    drafts.undo(engine);
    CHECK(drafts.number("entropy.threshold") == 6.0);
    CHECK_FALSE(drafts.can_undo());
    CHECK_THAT(drafts.redo_label(), ContainsSubstring("6 -> 5.2 bits"));
    drafts.redo(engine);
    CHECK(drafts.number("entropy.threshold") == 5.2);

    drafts.edit(engine, "seed", "9"); // a new change ends what could be redone
    CHECK_FALSE(drafts.can_redo());
    engine.apply_all();
    frame(drafts, engine);
    CHECK(engine.status()->applied.seed == 9);
    CHECK(engine.status()->applied.policy.triggers[0].threshold == 5.2);
}

TEST_CASE("a value that comes back to where it began leaves no undo entry", "[ui]") {
    SlowEngine engine(gate_config());
    Drafts drafts;
    frame(drafts, engine);
    drafts.begin_edit("entropy.threshold");
    drafts.edit(engine, "entropy.threshold", 3.0);
    drafts.edit(engine, "entropy.threshold", 6.0);
    drafts.commit("entropy.threshold");
    CHECK_FALSE(drafts.can_undo());
    drafts.edit(engine, "entropy.threshold", "6.0"); // the same number in other words
    CHECK_FALSE(drafts.can_undo());
}

TEST_CASE("an impossible value is refused by name and nothing is sent", "[ui]") {
    SlowEngine engine(gate_config());
    Drafts drafts;
    frame(drafts, engine);
    const auto [key, value] = GENERATE(std::pair<std::string, std::string>{"entropy.threshold", "nan"},
                                       std::pair<std::string, std::string>{"entropy.threshold", "-1"},
                                       std::pair<std::string, std::string>{"sampler.top_p", "2"},
                                       std::pair<std::string, std::string>{"seed", "many"},
                                       std::pair<std::string, std::string>{"no.such.key", "1"},
                                       std::pair<std::string, std::string>{"trigger/0/threshold", "nan"},
                                       std::pair<std::string, std::string>{"trigger/0/every", "1.5"},
                                       std::pair<std::string, std::string>{"trigger/0/every", "-3"},
                                       std::pair<std::string, std::string>{"trigger/0/enabled", "perhaps"},
                                       std::pair<std::string, std::string>{"trigger/0/comparison", "near"},
                                       std::pair<std::string, std::string>{"trigger/7/threshold", "1"});
    CAPTURE(key, value);
    CHECK_THROWS_AS(drafts.edit(engine, key, value), Error);
    CHECK(engine.sent == 0);
    CHECK_FALSE(drafts.can_undo());
    CHECK(drafts.config() == engine.status()->applied);
}

TEST_CASE("a whole policy is one undo entry and takes edits of the old one back with it", "[ui]") {
    SlowEngine engine(gate_config());
    Drafts drafts;
    frame(drafts, engine);
    drafts.edit(engine, "entropy.threshold", 5.0);
    drafts.set_policy(engine, preset_policy("periodic"));
    CHECK(drafts.policy().name == "periodic");
    CHECK(drafts.policy_pending());
    CHECK_FALSE(drafts.value("entropy.threshold").has_value());
    CHECK_THAT(drafts.undo_label(), ContainsSubstring("entropy -> periodic"));
    drafts.undo(engine);
    CHECK(drafts.policy().name == "entropy");
    CHECK(drafts.number("entropy.threshold") == 5.0);
    engine.apply_all();
    frame(drafts, engine);
    CHECK(engine.status()->applied.policy.triggers[0].threshold == 5.0);
    CHECK_FALSE(drafts.policy_pending());
    CHECK_THROWS_AS(drafts.set_policy(engine,
                                      [] {
                                          RefreshPolicy wrong = preset_policy("entropy");
                                          wrong.triggers.at(0).signal = "no_such_signal";
                                          return wrong;
                                      }()),
                    Error);
}

TEST_CASE("an edit that the engine never takes up does not stay pending for ever", "[ui]") {
    SlowEngine engine(gate_config());
    Drafts drafts;
    frame(drafts, engine);
    drafts.edit(engine, "entropy.threshold", 5.0);
    engine.apply_all();
    engine.replace(gate_config()); // a new run with the old threshold overtook it
    frame(drafts, engine);
    CHECK_FALSE(drafts.pending("entropy.threshold"));
    CHECK(drafts.number("entropy.threshold") == 6.0);
}

TEST_CASE("an undo that the present policy refuses says so and is dropped", "[ui]") {
    SlowEngine engine(gate_config());
    Drafts drafts;
    frame(drafts, engine);
    drafts.edit(engine, "entropy.threshold", 5.0);
    engine.apply_all();
    RunConfig other = gate_config();
    other.policy = preset_policy("periodic");
    engine.replace(other);
    frame(drafts, engine);
    REQUIRE(drafts.can_undo());
    CHECK_THROWS_AS(drafts.undo(engine), Error);
    CHECK_FALSE(drafts.can_undo());
}

TEST_CASE("whatever is edited in whatever order, the draft is what the engine will come to", "[ui]") {
    const auto seed = test::seed(GENERATE(range(1U, 21U)));
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    SlowEngine engine(gate_config());
    Drafts drafts;
    for (int turn = 0; turn < 200; ++turn) {
        frame(drafts, engine);
        const double value = 1 + pick(50) / 10.0;
        switch (pick(7)) {
        case 0:
            drafts.edit(engine, "sampler.temperature", value);
            break;
        case 1:
            if (drafts.value("entropy.threshold")) drafts.edit(engine, "entropy.threshold", value);
            break;
        case 2:
            if (!drafts.policy().triggers.empty())
                drafts.edit(engine, trigger_key(0, TriggerField::threshold), value);
            break;
        case 3:
            drafts.set_policy(engine, preset_policy(pick(2) ? "entropy" : "mc"));
            break;
        case 4:
            drafts.undo(engine);
            break;
        case 5:
            drafts.redo(engine);
            break;
        default:
            engine.apply_one();
            break;
        }
    }
    const RunConfig wanted = drafts.config();
    engine.apply_all();
    CHECK(engine.status()->applied == wanted);
    frame(drafts, engine);
    CHECK(drafts.config() == wanted);
}

TEST_CASE(
    "what the engine would refuse of a threshold is refused by its line and its card, in the same words",
    "[ui][SG1][PO1]") {
    SlowEngine engine(gate_config());
    Drafts drafts;
    frame(drafts, engine);
    const std::string card = trigger_key(0, TriggerField::threshold);
    const auto told = [](const auto& work) {
        try {
            work();
        } catch (const Error& e) {
            return std::string(e.what());
        }
        return std::string();
    };
    for (const std::string value : {"-0.5", "-1e9", "nan", "inf", "-inf", "1e300", "abc", ""}) {
        CAPTURE(value);
        RunConfig applied = gate_config();
        const std::string engine_says = told([&] { set_parameter(applied, "entropy.threshold", value); });
        REQUIRE_FALSE(engine_says.empty());
        CHECK(told([&] { drafts.edit(engine, "entropy.threshold", value); }) == engine_says);
        const std::string card_says = told([&] { drafts.edit(engine, card, value); });
        CHECK_FALSE(card_says.empty());
        if (std::isfinite(std::strtod(value.c_str(), nullptr)) && value != "abc" && !value.empty())
            CHECK(card_says == engine_says);
        CHECK(drafts.number(card) == 6.0);
        CHECK_FALSE(drafts.pending(card));
        CHECK_FALSE(drafts.can_undo());
    }
    CHECK(engine.sent == 0);
    // The range itself is open to both.
    drafts.edit(engine, card, 0.0);
    CHECK(drafts.number("entropy.threshold") == 0.0);
}

} // namespace drafts_test
