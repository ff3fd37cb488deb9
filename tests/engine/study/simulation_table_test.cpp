// The table that reference/refresh.md, section 8, requires of every seed.
#include "engine/study/studies/simulation.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cmath>

using namespace refreshlab;

TEST_CASE("entropy fires on mere ambiguity, MC variance on drift alone, for every seed", "[study]") {
    const uint64_t seed = GENERATE(uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{12345}, ~uint64_t{0});
    CAPTURE(seed);
    const Simulation simulation = simulate(seed);
    struct Required {
        const char* phase;
        int64_t steps;
        double entropy, variance, entropy_share, mc_share;
    };
    const Required required[] = {{"alea", 100, 8.5172, 0.000100, 0.03, 0.00},
                                 {"conf", 150, 0.0096, 0.000100, 0.00, 0.00},
                                 {"drift", 100, 8.1466, 0.00281, 0.03, 0.03},
                                 {"post", 50, 0.0096, 0.000100, 0.00, 0.00}};
    const auto rows = simulation.summary();
    for (size_t i = 0; i < 4; ++i) {
        CAPTURE(required[i].phase);
        CHECK(to_string(rows[i].phase) == required[i].phase);
        CHECK(rows[i].steps == required[i].steps);
        CHECK(std::abs(rows[i].mean_entropy_nats - required[i].entropy) < 0.002);
        CHECK(std::abs(rows[i].mean_mc_variance / required[i].variance - 1) < 0.01);
        CHECK(rows[i].entropy_fire_share == Catch::Approx(required[i].entropy_share));
        CHECK(rows[i].mc_fire_share == Catch::Approx(required[i].mc_share));
    }
    CHECK(simulation.entropy_fires() == std::vector<int64_t>{112, 144, 176, 256, 288, 320});
    CHECK(simulation.mc_fires() == std::vector<int64_t>{112, 144, 176});
    // The noise moves the entropy of the mean logits by less than its own square.
    CHECK(simulation.trace[0].entropy_nats == Catch::Approx(0.00956).margin(0.0002));
    CHECK(simulation.entropy_threshold > 0.0095);
    CHECK(simulation.entropy_threshold < 0.02);
    CHECK(simulation.variance_threshold > 1.0e-4);
    CHECK(simulation.variance_threshold < 1.1e-4);
}

TEST_CASE("a seed gives the same simulation again, another seed another", "[study]") {
    const Simulation a = simulate(7), b = simulate(7), c = simulate(8);
    bool same = true, different = false;
    for (size_t t = 0; t < a.trace.size(); ++t) {
        same = same && a.trace[t].entropy_nats == b.trace[t].entropy_nats &&
               a.trace[t].mc_variance == b.trace[t].mc_variance;
        different = different || a.trace[t].mc_variance != c.trace[t].mc_variance;
    }
    CHECK(same);
    CHECK(different);
}

TEST_CASE("steps belong to the phases of the reference", "[study]") {
    CHECK(to_string(phase_of(0)) == "conf");
    CHECK(to_string(phase_of(99)) == "conf");
    CHECK(to_string(phase_of(100)) == "drift");
    CHECK(to_string(phase_of(199)) == "drift");
    CHECK(to_string(phase_of(200)) == "post");
    CHECK(to_string(phase_of(249)) == "post");
    CHECK(to_string(phase_of(250)) == "alea");
    CHECK(to_string(phase_of(349)) == "alea");
    CHECK(to_string(phase_of(350)) == "conf");
    CHECK(to_string(phase_of(399)) == "conf");
}

TEST_CASE("the study's table and figure hold the simulation", "[study]") {
    const StudyResult result = study_simulation(3);
    const Simulation simulation = simulate(3);
    REQUIRE(result.tables.size() == 1);
    CHECK(result.tables[0].rows.size() == 4);
    CHECK(std::get<std::string>(result.tables[0].rows[0][0]) == "alea");
    REQUIRE(result.figures.size() == 1);
    REQUIRE(result.figures[0].rows.size() == 400);
    int64_t entropy_fires = 0, mc_fires = 0;
    for (size_t t = 0; t < 400; ++t) {
        const auto& row = result.figures[0].rows[t];
        CHECK(std::get<double>(row[2]) == simulation.trace[t].entropy_nats);
        CHECK(std::get<double>(row[3]) == Catch::Approx(simulation.trace[t].entropy_nats / std::log(2.0)));
        entropy_fires += std::get<int64_t>(row[5]);
        mc_fires += std::get<int64_t>(row[6]);
    }
    CHECK(entropy_fires == 6);
    CHECK(mc_fires == 3);
}
