#include "engine/study/measure/loss_split.h"

#include "engine/base/error.h"
#include "engine/session/driver/run_driver.h"

#include <fmt/format.h>

#include <cmath>

namespace refreshlab {

namespace {

constexpr const char* splitting_the_loss = "splitting the loss";

/// Mean of minus a signal over y_2 .. y_N.
double mean_loss(const Recording& recording, std::string_view signal) {
    const size_t id = require_signal(signal, splitting_the_loss);
    const int64_t n = recording.num_tokens();
    double sum = 0;
    for (int64_t t = 2; t <= n; ++t)
        sum -= static_cast<double>(recording.signal(t, id));
    return sum / static_cast<double>(n - 1);
}

/// A run that reads the given text, and measures nothing that is not asked for here.
RunConfig reading_config(RunConfig config, Mode mode, int32_t period) {
    config.mode = mode;
    config.policy = RefreshPolicy{};
    if (period > 0) {
        config.policy = preset_policy("periodic");
        config.policy.triggers.front().threshold = period;
    }
    config.shadow = mode == Mode::overfill;
    config.task = {};
    config.sampler = {};
    config.mc = {};
    config.capture = {};
    config.capture.attention = false;
    config.capture.top_k = 0;
    config.given_text.clear(); // the ids are given
    config.given_ids.clear();
    return config;
}

} // namespace

LossSplit split_loss(const std::shared_ptr<const ModelPair>& pair, const RunConfig& config,
                     const RunText& text, int32_t period, const Execution& execution,
                     const std::function<bool(double, const std::string&)>& progress) {
    if (!pair->teacher || !pair->student)
        throw Error(splitting_the_loss, {}, "it needs a teacher and a student");
    if (const auto difference = pair->rebuild_reason())
        throw Error(splitting_the_loss, {}, "the pair runs in rebuild mode, where no teacher entry is copied",
                    "the KV geometries differ: " + *difference);
    if (text.given.size() < 2) throw Error(splitting_the_loss, "a text", "has fewer than two tokens");
    LossSplit split;
    split.period = period;
    split.tokens = static_cast<int64_t>(text.given.size()) - 1;
    const auto known = std::make_shared<const RunText>(text);
    const auto read = [&](const std::string& name, Mode mode, int32_t every) {
        RunConfig run = reading_config(config, mode, every);
        run.max_tokens = static_cast<int32_t>(text.given.size());
        RunDriver driver({.pair = pair, .config = std::move(run), .text = known, .execution = execution});
        const double share = 0.25, done = share * static_cast<double>(split.readings.size());
        driver.run([&] {
            const double part =
                static_cast<double>(driver.recording()->steps()) / static_cast<double>(split.tokens);
            if (progress && !progress(done + share * part, name))
                throw Error(splitting_the_loss, {}, "cancelled", {}, ErrorKind::failure);
            return RunDriver::Next::step;
        });
        const auto recording = driver.recording();
        if (recording->num_tokens() < static_cast<int64_t>(text.given.size()))
            throw Error(splitting_the_loss, "a text", "is longer than the models' context");
        LossSplit::Reading reading{name, mean_loss(*recording, "logprob"), {}};
        if (mode == Mode::overfill) reading.divergence = divergence_of(*recording);
        split.readings.push_back(std::move(reading));
        return recording;
    };
    (void)read("R = 1", Mode::overfill, 1);
    (void)read(fmt::format("R = {}", period), Mode::overfill, period);
    const auto none = read("none", Mode::overfill, 0);
    (void)read("alone", Mode::student, 0);
    split.readings.insert(split.readings.begin(), {"teacher", mean_loss(*none, "teacher_logprob"), {}});
    const auto loss = [&](size_t i) { return split.readings[i].nll; };
    split.own_weights = loss(1) - loss(0);
    split.cache = loss(3) - loss(1);
    if (split.cache > 0) split.recovered = (loss(3) - loss(2)) / split.cache;
    return split;
}

} // namespace refreshlab
