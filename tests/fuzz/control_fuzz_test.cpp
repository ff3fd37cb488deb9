#include "engine/base/json_file.h"
#include "engine/control/command.h"
#include "engine/control/derive/derive_spec.h"
#include "engine/control/run_config.h"
#include "engine/refresh/policy.h"
#include "tests/fuzz/fuzz_support.h"

#include <catch2/catch_test_macros.hpp>

#include <stdexcept>

namespace control_fuzz_test {

using namespace refreshlab;

namespace {

const std::vector<std::string> words = {"entropy_bits",  "kl_nats",   "mc_variance", "steps_since_refresh",
                                        "above",         "below",     "at_least",    "at_most",
                                        "every",         "cooldown",  "any",         "all",
                                        "teacher_token", "redraw",    "keep",        "overfill",
                                        "student",       "teacher",   "bf16",        "cuda:0",
                                        "set_policy",    "start_run", "window",      "budget",
                                        "drift",         "logprob",   "task"};

/// What was accepted must come back the same from its own JSON, and be accepted again.
template <typename Read, typename Write>
void round_trip(const std::string& input, const Read& read, const Write& write) {
    const auto value = read(parse_json(input, "this input"));
    const nlohmann::json json = write(value);
    const std::string text = json.dump();
    if (write(read(parse_json(text, "what was written"))) != json)
        throw std::logic_error("a value that its own JSON does not give back: " + text);
}

} // namespace

TEST_CASE("any policy JSON is refused in one line or comes back from its own JSON", "[fuzz]") {
    const fuzz::Outcome outcome = fuzz::run_target(
        "policy",
        [](const std::string& input, size_t) {
            for (const Thresholds thresholds : {Thresholds::any_finite, Thresholds::not_negative}) {
                round_trip(
                    input,
                    [&](const nlohmann::json& json) {
                        return policy_from_json(json, "this input", thresholds);
                    },
                    [](const RefreshPolicy& policy) {
                        check_policy(policy, "this input");
                        return policy_to_json(policy);
                    });
            }
        },
        words);
    CHECK(outcome.accepted > outcome.refused / 50);
}

TEST_CASE("any run configuration is refused in one line or comes back from its own JSON", "[fuzz]") {
    const fuzz::Outcome outcome = fuzz::run_target(
        "run_config",
        [](const std::string& input, size_t) {
            round_trip(
                input, [](const nlohmann::json& json) { return run_config_from_json(json, "this input"); },
                [](const RunConfig& config) { return to_json(config); });
            check_run_config(run_config_from_json(parse_json(input, "this input"), "this input"),
                             "this input");
        },
        words);
    CHECK(outcome.accepted > outcome.refused / 50);
}

TEST_CASE("any command JSON is refused in one line or comes back from its own JSON", "[fuzz]") {
    const fuzz::Outcome outcome = fuzz::run_target(
        "command",
        [](const std::string& input, size_t) {
            round_trip(
                input, [](const nlohmann::json& json) { return command_from_json(json, "this input"); },
                [](const Command& command) {
                    (void)coalesce_key(command);
                    return to_json(command);
                });
        },
        words);
    CHECK(outcome.accepted > outcome.refused / 50);
}

TEST_CASE("any derivation is refused in one line or comes back from its own short form and JSON", "[fuzz]") {
    const ModelShape shape{.layers = 30,
                           .hidden = 576,
                           .intermediate = 1536,
                           .heads = 9,
                           .kv_heads = 3,
                           .head_dim = 64,
                           .vocab = 49152};
    const fuzz::Outcome outcome = fuzz::run_target(
        "derive",
        [&](const std::string& input, size_t) {
            const bool json = input.starts_with('{');
            const DeriveSpec spec =
                json ? derive_from_json(parse_json(input, "this input"), "this input") : parse_derive(input);
            const std::string text = derive_text(spec);
            if (parse_derive(text) != spec)
                throw std::logic_error("a derivation that its short form does not give back: " + text);
            if (derive_from_json(derive_to_json(spec), "what was written") != spec)
                throw std::logic_error("a derivation that its JSON does not give back: " + text);
            if (describe(spec).empty() || derive_name(spec).empty())
                throw std::logic_error("no words for " + text);
            if (derive_fault(spec, &shape)) return;
            const DeriveCost cost = derive_cost(spec, shape, 4);
            if (cost.token_bytes < 0 || cost.own_bytes < 0 || kept_channels(spec, shape.intermediate) < 1 ||
                kept_channels(spec, shape.intermediate) > shape.intermediate)
                throw std::logic_error("numbers that cannot be for " + text);
        },
        {"bits=",
         "group=",
         "only=mlp",
         "only=attention",
         "symmetric",
         "ffn=",
         "skip=auto:",
         "skip_mlp=",
         "skip_attention=",
         "noise=",
         "seed=",
         "text=",
         "+",
         "-",
         ",",
         "\"",
         "\\",
         "0.5",
         "1e9",
         "skip_auto"});
    CHECK(outcome.accepted > outcome.refused / 50);
}

} // namespace control_fuzz_test
