// Whole decode sessions against a second implementation: Python over transformers, written from docs/reference/refresh.md
// (session_reference.py). What the program runs, records, summarises and exports is what an outsider would check.
#include "tests/app/session_parity.h"
#include "tests/support/share.h"

#include <catch2/catch_test_macros.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace session_parity_test {

using namespace refreshlab::test;
using nlohmann::json;

namespace {

bool has_dropout_groups(const SessionCase& session) {
    const json& steps = session.expected.at("steps");
    return std::any_of(steps.begin(), steps.end(), [](const json& s) {
        return s.contains("mc_groups") && s.at("mc_groups").at("mc_variance").size() > 1;
    });
}

void every_session_equals_the_reference() {
    for (const SessionCase& session : session_cases()) {
        const std::vector<std::string> differences = session_differences(session);
        INFO(session.name << ": refreshlab run " << fmt::format("{}", fmt::join(session.arguments, " "))
                          << "\n  " << fmt::format("{}", fmt::join(differences, "\n  ")));
        CHECK(differences.empty());
    }
}

void the_sessions_go_through_every_branch() {
    // Without this, jobs on which nothing fires would be a comparison that cannot fail.
    std::set<std::string> seen;
    for (const SessionCase& session : session_cases()) {
        const json& e = session.expected;
        seen.insert("ended by " + e.at("summary").at("stop_reason").get<std::string>());
        if (e.at("rebuild").get<bool>() && !e.at("refreshes").empty()) seen.insert("refresh in rebuild mode");
        for (const json& pass : e.at("passes")) {
            const bool fired = std::any_of(e.at("refreshes").begin(), e.at("refreshes").end(),
                                           [&](const json& r) { return r.at("step") == pass.at("step"); });
            if (pass.at("probe").get<bool>()) seen.insert(fired ? "probe that fires" : "probe that does not");
            if (pass.at("shadow").get<bool>()) seen.insert("shadow pass");
        }
        for (const json& refresh : e.at("refreshes")) {
            const auto on_fire = refresh.at("on_fire").get<std::string>();
            seen.insert(on_fire);
            if (refresh.at("token_before") != refresh.at("token_after"))
                seen.insert(on_fire + " changes the token");
            for (const json& hit : refresh.at("hits"))
                seen.insert("fires: " + hit.at("signal").get<std::string>());
            if (refresh.at("fired_step") != refresh.at("step")) seen.insert("lagged");
            if (refresh.at("end_taken_back").get<bool>()) seen.insert("end token taken back");
            if (refresh.at("by_hand").get<bool>())
                seen.insert(refresh.at("hits").empty() ? "by hand" : "by hand and by a trigger");
            if (refresh.at("hits").size() > 1) seen.insert("several triggers at once");
            if (refresh.at("spliced") == 0) seen.insert("nothing spliced");
            if (refresh.at("spliced") > 0 && refresh.at("spliced") < refresh.at("delta"))
                seen.insert("window cuts");
            if (refresh.at("pass_tokens") < refresh.at("delta")) seen.insert("pass shorter than delta");
        }
    }
    for (const char* branch : {"ended by max_tokens",
                               "ended by stop_token",
                               "ended by given_end",
                               "ended by context_limit",
                               "refresh in rebuild mode",
                               "probe that fires",
                               "probe that does not",
                               "shadow pass",
                               "keep",
                               "teacher_token changes the token",
                               "redraw changes the token",
                               "fires: entropy_bits",
                               "fires: kl_nats",
                               "fires: kl_mean_nats",
                               "fires: acceptance",
                               "by hand",
                               "by hand and by a trigger",
                               "fires: top1_surprisal_bits",
                               "fires: top1_prob",
                               "fires: steps_since_refresh",
                               "fires: mc_variance",
                               "several triggers at once",
                               "nothing spliced",
                               "window cuts",
                               "pass shorter than delta",
                               "end token taken back",
                               "lagged"}) {
        CAPTURE(branch);
        CHECK(seen.contains(branch));
    }
}

void dropout_has_the_moments_of_transformers() {
    // The random numbers differ, so each measured value is one draw of a distribution that the reference has sampled.
    int sessions = 0;
    for (const SessionCase& session : session_cases()) {
        if (!has_dropout_groups(session)) continue;
        ++sessions;
        const auto all_scores = dropout_scores(session);
        CHECK(all_scores.size() == 3);
        for (const auto& [signal, scores] : all_scores) {
            CAPTURE(session.name, signal, scores);
            REQUIRE(scores.size() >= 4);
            double mean = 0;
            for (const double score : scores) {
                CHECK(std::abs(score) < 5);
                mean += score / static_cast<double>(scores.size());
            }
            CHECK(std::abs(mean) < 4 / std::sqrt(static_cast<double>(scores.size())));
        }
    }
    CHECK(sessions >= 2);
}

} // namespace

// One case, because the parts of this suite run side by side and the reference takes half a minute.
TEST_CASE("whole sessions equal those that refresh.md describes, computed with transformers",
          "[app][parity]") {
    SECTION("step by step") {
        every_session_equals_the_reference();
    }
    SECTION("through every branch of the loop") {
        the_sessions_go_through_every_branch();
    }
    SECTION("with the moments of Monte-Carlo dropout") {
        dropout_has_the_moments_of_transformers();
    }
}

TEST_CASE("whole sessions of a published model and a student of its weights equal the reference's",
          "[app][parity][real]") {
    if (!has_turn(2, "whole sessions of a published model")) SKIP("another commit's share");
    const auto& sessions = real_session_cases();
    if (sessions.empty())
        SKIP("SmolLM2-135M-Instruct.Q4_1.gguf is not there: refreshlab models get smollm2-135m");
    CHECK(sessions.size() == 2); // periodic refreshes, an entropy gate
    for (const SessionCase& session : sessions) {
        const std::vector<std::string> differences = session_differences(session);
        INFO(session.name << ": refreshlab run " << fmt::format("{}", fmt::join(session.arguments, " "))
                          << "\n  " << fmt::format("{}", fmt::join(differences, "\n  ")));
        CHECK(differences.empty());
    }
}

} // namespace session_parity_test
