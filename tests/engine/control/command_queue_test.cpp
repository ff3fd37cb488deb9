#include "engine/control/command_queue.h"
#include "engine/control/engine_link.h"
#include "engine/control/parameters.h"

#include <catch2/catch_test_macros.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace refreshlab;

namespace {

/// All that waits, oldest first, as short texts.
std::vector<std::string> drain(CommandQueue& queue) {
    std::vector<std::string> texts;
    while (const auto taken = queue.try_pop()) {
        const Command* const command = &taken->command;
        if (const auto* set = std::get_if<command::SetParameter>(command)) {
            texts.push_back(fmt::format("{}={}", set->key, set->value));
        } else if (const auto* policy = std::get_if<command::SetPolicy>(command)) {
            texts.push_back("policy " + policy->policy.name);
        } else if (const auto* step = std::get_if<command::Step>(command)) {
            texts.push_back(fmt::format("step {}", step->steps));
        } else {
            texts.push_back(to_json(*command)["command"].get<std::string>());
        }
    }
    return texts;
}

using Texts = std::vector<std::string>;

} // namespace

TEST_CASE("commands leave the queue in the order in which they came", "[control]") {
    CommandQueue queue;
    CHECK_FALSE(queue.try_pop());
    queue.push(command::Pause{});
    queue.push(command::Step{3});
    queue.push(command::RefreshNow{});
    queue.push(command::Step{4});
    queue.push(command::RefreshNow{});
    queue.push(command::Resume{});
    CHECK(queue.size() == 6);
    CHECK(drain(queue) == Texts{"pause", "step 3", "refresh_now", "step 4", "refresh_now", "resume"});
    CHECK(queue.size() == 0);
}

TEST_CASE("a dragged slider never piles up: the later value takes the earlier one's place, at the end",
          "[control]") {
    CommandQueue queue;
    queue.push(command::SetParameter{"entropy.threshold", "6"});
    queue.push(command::SetParameter{"sampler.temperature", "1"});
    queue.push(command::RefreshNow{});
    for (int i = 0; i < 1000; ++i)
        queue.push(command::SetParameter{"entropy.threshold", fmt::format("{}", i)});
    CHECK(queue.size() == 3);
    CHECK(drain(queue) == Texts{"sampler.temperature=1", "refresh_now", "entropy.threshold=999"});
}

TEST_CASE("a parameter coalesces under any of its spellings", "[control]") {
    CHECK(coalesce_key(command::SetParameter{"entropy.threshold", "1"}) == "set:entropy.threshold");
    CHECK(coalesce_key(command::SetParameter{"entropy_bits.threshold", "1"}) == "set:entropy.threshold");
    CHECK(coalesce_key(command::SetParameter{"no.such", "1"}) == "set:no.such");
    CHECK(coalesce_key(command::SetPolicy{}) == "policy");
    CHECK(coalesce_key(command::RequestAttention{3, true}) ==
          coalesce_key(command::RequestAttention{3, true}));
    CHECK(coalesce_key(command::RequestAttention{3, true}) !=
          coalesce_key(command::RequestAttention{4, true}));
    CHECK(coalesce_key(command::RequestAttention{3, true}) !=
          coalesce_key(command::RequestAttention{3, false}));
    for (const Command& command :
         std::vector<Command>{command::StartRun{}, command::Pause{}, command::Resume{}, command::Step{},
                              command::Stop{}, command::RefreshNow{}, command::Rewind{}}) {
        CHECK(coalesce_key(command).empty());
    }
}

TEST_CASE("a whole policy replaces the waiting one together with what was set on that", "[control]") {
    CommandQueue queue;
    queue.push(command::SetParameter{"periodic.every", "32"});
    queue.push(command::SetPolicy{preset_policy("entropy")});
    queue.push(command::SetParameter{"entropy.threshold", "5"});
    queue.push(command::SetParameter{"sampler.temperature", "0.7"});
    queue.push(command::SetPolicy{preset_policy("kl")});
    queue.push(command::SetParameter{"kl.threshold", "0.4"});
    CHECK(drain(queue) ==
          Texts{"periodic.every=32", "sampler.temperature=0.7", "policy kl", "kl.threshold=0.4"});
}

TEST_CASE("coalescing leads to the same configuration as applying everything", "[control]") {
    // Any order of parameters and policies, where each parameter exists in the policy it was meant for.
    uint32_t state = 99; // a small generator of its own: the same sequence on every library
    const auto next = [&state](uint32_t n) {
        state = state * 1664525U + 1013904223U;
        return (state >> 16U) % n;
    };
    for (int round = 0; round < 300; ++round) {
        CommandQueue queue;
        RunConfig all, coalesced;
        all.policy = coalesced.policy = preset_policy("entropy");
        const auto apply = [](RunConfig& config, const Command& command) {
            if (const auto* set = std::get_if<command::SetParameter>(&command)) {
                set_parameter(config, set->key, set->value);
            } else {
                config.policy = std::get<command::SetPolicy>(command).policy;
            }
        };
        for (int i = 0; i < 12; ++i) {
            Command command;
            switch (next(4)) {
            case 0:
                command = command::SetPolicy{preset_policy(next(2) == 0 ? "entropy" : "mc")};
                break;
            case 1:
                command = command::SetParameter{
                    all.policy.name == "mc" ? "mc.threshold" : "entropy.threshold", std::to_string(next(10))};
                break;
            case 2:
                command = command::SetParameter{"sampler.top_k", std::to_string(next(10))};
                break;
            default:
                command =
                    command::SetParameter{"window.size", next(3) == 0 ? "none" : std::to_string(next(9))};
            }
            apply(all, command);
            queue.push(command);
        }
        while (const auto taken = queue.try_pop())
            apply(coalesced, taken->command);
        INFO("round " << round);
        REQUIRE(coalesced == all);
    }
}

TEST_CASE("two threads: nothing is lost, nothing is doubled, the last value of each key arrives",
          "[control]") {
    CommandQueue queue;
    constexpr int values = 20000, keys = 3, steps = 500;
    std::thread writer([&] {
        for (int i = 0; i < values; ++i) {
            queue.push(command::SetParameter{fmt::format("key{}", i % keys), std::to_string(i)});
            if (i % (values / steps) == 0) queue.push(command::Step{1 + i / (values / steps)});
        }
        queue.close();
    });
    std::map<std::string, int> last;
    std::vector<int> stepped;
    bool rising = true;
    uint64_t ticket = 0;
    while (const auto taken = queue.wait_pop()) {
        rising = rising && taken->ticket > ticket;
        ticket = taken->ticket;
        if (const auto* set = std::get_if<command::SetParameter>(&taken->command)) {
            const int value = std::stoi(set->value);
            if (last.contains(set->key)) rising = rising && value > last[set->key];
            last[set->key] = value;
        } else {
            stepped.push_back(std::get<command::Step>(taken->command).steps);
        }
    }
    writer.join();
    CHECK(rising);
    REQUIRE(last.size() == keys);
    for (int k = 0; k < keys; ++k) {
        const int newest = values - 1 - (values - 1 - k) % keys;
        CHECK(last[fmt::format("key{}", k)] == newest);
    }
    REQUIRE(stepped.size() == steps);
    for (int i = 0; i < steps; ++i)
        CHECK(stepped[static_cast<size_t>(i)] == i + 1);
    CHECK(queue.size() == 0);
    CHECK(ticket == values + steps); // replaced ones count too
}

TEST_CASE("closing wakes a waiting thread, keeps what waits and drops what comes later", "[control]") {
    CommandQueue queue;
    std::optional<CommandQueue::Taken> got = CommandQueue::Taken{command::Pause{}, 1};
    std::thread reader([&] { got = queue.wait_pop(); });
    queue.close();
    reader.join();
    CHECK_FALSE(got);

    CommandQueue filled;
    CHECK(filled.push(command::Stop{}) == 1);
    filled.close();
    CHECK(filled.push(command::Pause{}) == 0);
    CHECK(filled.size() == 1);
    CHECK(filled.wait_pop());
    CHECK_FALSE(filled.wait_pop());
}

TEST_CASE("every state of the engine has a name", "[control]") {
    std::set<std::string> names;
    for (const EngineState state :
         {EngineState::idle, EngineState::loading, EngineState::prefilling, EngineState::running,
          EngineState::paused, EngineState::finished, EngineState::failed}) {
        names.insert(to_string(state));
    }
    CHECK(names.size() == 7);
    CHECK_FALSE(names.contains("unknown"));
}
