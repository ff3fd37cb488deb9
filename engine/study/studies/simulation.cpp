#include "engine/study/studies/simulation.h"

#include "kernels/shared/philox.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace refreshlab {

namespace {

using Phase = Simulation::Phase;

struct Setting {
    double peak, sigma;
};

Setting setting(Phase phase) {
    switch (phase) {
    case Phase::drift:
        return {6, 0.053};
    case Phase::alea:
        return {0, 0.010};
    default:
        return {16, 0.010};
    }
}

/// Four standard normal numbers named by (seed, step, pass, block): Box and Muller 1958, on 32-bit uniforms in (0, 1).
std::array<double, 4> normals(uint64_t seed, uint32_t step, uint32_t pass, uint32_t block) {
    const auto bits = kernels::shared::philox4x32({{block, pass, step, 0x51D1}}, static_cast<uint32_t>(seed),
                                                  static_cast<uint32_t>(seed >> 32));
    std::array<double, 4> out{};
    for (size_t i = 0; i < 4; i += 2) {
        const double u = (static_cast<double>(bits.word[i]) + 0.5) * 0x1p-32;
        const double angle = 2 * std::numbers::pi * (static_cast<double>(bits.word[i + 1]) + 0.5) * 0x1p-32;
        const double radius = std::sqrt(-2 * std::log(u));
        out[i] = radius * std::cos(angle);
        out[i + 1] = radius * std::sin(angle);
    }
    return out;
}

Simulation::Step simulate_step(uint64_t seed, int64_t step) {
    constexpr auto n = static_cast<size_t>(Simulation::vocabulary);
    constexpr auto passes = static_cast<double>(Simulation::passes);
    static_assert(n % 4 == 0);
    const Phase phase = phase_of(step);
    const Setting set = setting(phase);
    std::vector<double> sum(n, 0), squares(n, 0); // of the noise; the peak is no part of a variance
    for (uint32_t pass = 0; pass < Simulation::passes; ++pass) {
        for (size_t i = 0; i < n; i += 4) {
            const auto noise = normals(seed, static_cast<uint32_t>(step), pass, static_cast<uint32_t>(i / 4));
            for (size_t k = 0; k < 4; ++k) {
                const double e = set.sigma * noise[k];
                sum[i + k] += e;
                squares[i + k] += e * e;
            }
        }
    }
    double variance = 0;
    for (size_t i = 0; i < n; ++i) {
        variance += (squares[i] - sum[i] * sum[i] / passes) / (passes - 1);
        sum[i] = sum[i] / passes + (i == 0 ? set.peak : 0); // the mean logit from here on
    }
    // H = ln Z - sum p z, with the largest logit taken out.
    const double top = *std::ranges::max_element(sum);
    double z = 0, weighted = 0;
    for (const double logit : sum) {
        const double weight = std::exp(logit - top);
        z += weight;
        weighted += weight * (logit - top);
    }
    Simulation::Step result;
    result.phase = phase;
    result.entropy_nats = std::log(z) - weighted / z;
    result.mc_variance = variance / static_cast<double>(n);
    return result;
}

/// Mean + 6 standard deviations over the calm steps 0-99: calibrated on the peaks, both thresholds would fire by chance.
double calibrate(const std::vector<Simulation::Step>& trace, double Simulation::Step::*signal) {
    constexpr size_t calm = 100;
    double mean = 0, squares = 0;
    for (size_t i = 0; i < calm; ++i)
        mean += trace[i].*signal / static_cast<double>(calm);
    for (size_t i = 0; i < calm; ++i)
        squares += (trace[i].*signal - mean) * (trace[i].*signal - mean);
    return mean + 6 * std::sqrt(squares / static_cast<double>(calm - 1));
}

void fire(std::vector<Simulation::Step>& trace, double Simulation::Step::*signal, double threshold,
          bool Simulation::Step::*fires) {
    int64_t last = -Simulation::cooldown;
    for (int64_t t = Simulation::stride; t < Simulation::steps; t += Simulation::stride) {
        Simulation::Step& step = trace[static_cast<size_t>(t)];
        if (t - last < Simulation::cooldown || !(step.*signal > threshold)) continue;
        step.*fires = true;
        last = t;
    }
}

std::vector<int64_t> fires_of(const Simulation& simulation, bool Simulation::Step::*fires) {
    std::vector<int64_t> steps;
    for (size_t t = 0; t < simulation.trace.size(); ++t) {
        if (simulation.trace[t].*fires) steps.push_back(static_cast<int64_t>(t));
    }
    return steps;
}

} // namespace

std::string_view to_string(Simulation::Phase phase) {
    switch (phase) {
    case Phase::conf:
        return "conf";
    case Phase::drift:
        return "drift";
    case Phase::post:
        return "post";
    case Phase::alea:
        return "alea";
    }
    return "";
}

Simulation::Phase phase_of(int64_t step) {
    if (step >= 100 && step < 200) return Phase::drift;
    if (step >= 200 && step < 250) return Phase::post;
    if (step >= 250 && step < 350) return Phase::alea;
    return Phase::conf;
}

Simulation simulate(uint64_t seed) {
    Simulation simulation;
    simulation.seed = seed;
    for (int64_t t = 0; t < Simulation::steps; ++t)
        simulation.trace.push_back(simulate_step(seed, t));
    using Step = Simulation::Step;
    simulation.entropy_threshold = calibrate(simulation.trace, &Step::entropy_nats);
    simulation.variance_threshold = calibrate(simulation.trace, &Step::mc_variance);
    fire(simulation.trace, &Step::entropy_nats, simulation.entropy_threshold, &Step::entropy_fires);
    fire(simulation.trace, &Step::mc_variance, simulation.variance_threshold, &Step::mc_fires);
    return simulation;
}

std::array<Simulation::PhaseSummary, 4> Simulation::summary() const {
    std::array<PhaseSummary, 4> rows{};
    constexpr std::array order{Phase::alea, Phase::conf, Phase::drift, Phase::post};
    for (size_t i = 0; i < rows.size(); ++i) {
        PhaseSummary& row = rows[i];
        row.phase = order[i];
        for (const Step& step : trace) {
            if (step.phase != row.phase) continue;
            ++row.steps;
            row.mean_entropy_nats += step.entropy_nats;
            row.mean_mc_variance += step.mc_variance;
            row.entropy_fire_share += step.entropy_fires ? 1 : 0;
            row.mc_fire_share += step.mc_fires ? 1 : 0;
        }
        for (double* sum :
             {&row.mean_entropy_nats, &row.mean_mc_variance, &row.entropy_fire_share, &row.mc_fire_share})
            *sum /= static_cast<double>(row.steps);
    }
    return rows;
}

std::vector<int64_t> Simulation::entropy_fires() const {
    return fires_of(*this, &Step::entropy_fires);
}

std::vector<int64_t> Simulation::mc_fires() const {
    return fires_of(*this, &Step::mc_fires);
}

StudyResult study_simulation(uint64_t seed) {
    const Simulation simulation = simulate(seed);
    constexpr double bits = 1 / std::numbers::ln2;
    StudyResult result;
    StudyTable table{"table",
                     fmt::format("Entropy against MC variance, 400 simulated steps, seed {}", seed),
                     {{"phase"},
                      {"steps"},
                      {"mean_entropy", 4},
                      {"mean_entropy_bits", 4},
                      {"mean_mcvar", 6},
                      {"frac_entropy_fire", 2},
                      {"frac_mcvar_fire", 2}},
                     {}};
    for (const Simulation::PhaseSummary& row : simulation.summary()) {
        table.rows.push_back({std::string(to_string(row.phase)), row.steps, row.mean_entropy_nats,
                              row.mean_entropy_nats * bits, row.mean_mc_variance, row.entropy_fire_share,
                              row.mc_fire_share});
    }
    result.tables.push_back(std::move(table));
    result.notes = {
        fmt::format("threshold entropy: {:.6f} nats ({:.6f} bits)", simulation.entropy_threshold,
                    simulation.entropy_threshold * bits),
        fmt::format("threshold mcvar: {:.6e}", simulation.variance_threshold),
        fmt::format("entropy fires at: {}", fmt::join(simulation.entropy_fires(), ", ")),
        fmt::format("mcvar fires at: {}", fmt::join(simulation.mc_fires(), ", ")),
    };
    StudyTable figure{
        "figure",
        "",
        {{"step"},
         {"phase"},
         {"entropy_nats"},
         {"entropy_bits"},
         {"mc_variance"},
         {"entropy_fires"},
         {"mc_fires"},
         {"entropy_threshold_nats"},
         {"mc_variance_threshold"}},
        {},
        {{.name = "simulation",
          .title = fmt::format("400 simulated steps, seed {}", seed),
          .kind = TablePlot::Kind::curves,
          .x = "step",
          .parts = {
              {.title = "entropy (bits)",
               .values = {"entropy_bits"},
               .mark = simulation.entropy_threshold * bits},
              {.title = "MC variance", .values = {"mc_variance"}, .mark = simulation.variance_threshold}}}}};
    for (size_t t = 0; t < simulation.trace.size(); ++t) {
        const Simulation::Step& step = simulation.trace[t];
        figure.rows.push_back({static_cast<int64_t>(t), std::string(to_string(step.phase)), step.entropy_nats,
                               step.entropy_nats * bits, step.mc_variance, int64_t{step.entropy_fires},
                               int64_t{step.mc_fires}, simulation.entropy_threshold,
                               simulation.variance_threshold});
    }
    result.figures.push_back(std::move(figure));
    return result;
}

} // namespace refreshlab
