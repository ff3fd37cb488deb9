#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <vector>

namespace refreshlab::test {

/// One session of the parity suite: what to give to `refreshlab run`, and what an independent program makes of the same job.
struct SessionCase {
    std::string name;
    std::vector<std::string> arguments;
    nlohmann::json expected; ///< a result of session_reference.py
    double tolerance = 2e-5; ///< of its numbers: |value - expected| <= tolerance * (1 + |expected|)
};

/// All sessions; runs session_jobs.py on the first call of a build, which leaves its results in the build folder for every process. With
/// REFRESHLAB_PARITY=full in the environment: many more, drawn at random.
const std::vector<SessionCase>& session_cases();

/// The sessions of a published model (session_real_jobs.py); empty where the model has not been fetched: looked for in the folder
/// REFRESHLAB_MODELS, else in .deps/models. Their tolerance is wider: 30 layers
/// of single precision are further from float64 than the few of the tiny models.
const std::vector<SessionCase>& real_session_cases();

/// What differs between a run, recorded and exported by the program, and its reference: one line each, at most `most`.
///
/// Equal: ids of prompt and text, steps, positions, refreshes (boundary, triggers, automatic, delta, spliced columns, tokens
/// before and after on_fire), teacher passes, why the run ended, the text; and which values are known at all.
/// Numbers: within the case's tolerance.
///
/// The reference computes in float64 (transformers keeps float32 in norms, softmax and rotary angles), the program in float32.
/// On the tiny models and the bundled pair the largest difference seen over 150 sessions is 2e-6; a splice that is off by one column
/// moves some signal of every session by 1e-3 and more.
[[nodiscard]] std::vector<std::string> session_differences(const SessionCase& session, size_t most = 12);

/// By signal: z-scores of the program's Monte-Carlo statistics against the reference's repeated measurements, one per measured
/// step: (value - mean) / sqrt(variance * (1 + 1 / n)).
[[nodiscard]] std::map<std::string, std::vector<double>> dropout_scores(const SessionCase& session);

} // namespace refreshlab::test
