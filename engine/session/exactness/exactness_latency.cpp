#include "engine/session/exactness/exactness_latency.h"

#include "engine/base/origin.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/llama_model.h"

#include <algorithm>
#include <chrono>

namespace refreshlab {

namespace {

constexpr int warm_ups = 3;
constexpr int32_t naive_samples = 8;
constexpr Origin timed_origin = Origin::teacher_decode;

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

/// Milliseconds of `work`, which returns a tensor that is read back: on a GPU the call alone measures its launch.
template <typename Work>
double timed(const Work& work) {
    const auto start = std::chrono::steady_clock::now();
    (void)work().flatten()[0].template item<float>();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

} // namespace

bool latency_length_fits(const LlamaModel& model, int64_t length) {
    return length + 1 <= model.config().max_position;
}

void measure_latency(const LlamaModel& model, const std::string& subject, const ExactnessOptions& options,
                     std::vector<LatencyCurve>& out, const std::function<void(double)>& tell) {
    const int64_t vocab = model.config().vocab_size;
    const auto token = [vocab](int64_t i) { return static_cast<int32_t>((i * 7919 + 13) % vocab); };
    const auto repetitions = static_cast<size_t>(options.repetitions);
    int64_t work = 0, done = 0;
    for (const int64_t length : options.lengths)
        work += length;
    for (const int32_t length : options.lengths) {
        if (!latency_length_fits(model, length)) continue;
        const int32_t steps = static_cast<int32_t>(
            std::min<int64_t>(options.latency_steps, model.config().max_position - length));
        std::vector<int32_t> text;
        for (int64_t i = 0; i < length + steps; ++i)
            text.push_back(token(i));
        const auto cache = model.make_cache(length + steps);
        const auto prefill = [&](int64_t n) {
            cache->truncate(0);
            StepInputs in;
            in.tokens = std::span(text).first(static_cast<size_t>(n));
            in.origin = timed_origin;
            return model.forward().prefill(*cache, in).logits;
        };
        LatencyCurve curve;
        curve.subject = subject;
        curve.length = length;
        for (int i = 0; i < warm_ups; ++i)
            (void)timed([&] { return prefill(std::min<int64_t>(length, 64)); });
        std::vector<double> samples;
        for (size_t i = 0; i < repetitions; ++i)
            samples.push_back(timed([&] { return prefill(length); }));
        curve.prefill_ms = median(samples);

        std::vector<std::vector<double>> cached(static_cast<size_t>(steps));
        for (size_t i = 0; i < repetitions; ++i) {
            cache->truncate(length);
            for (int32_t t = 0; t < steps; ++t) {
                cached[static_cast<size_t>(t)].push_back(timed([&] {
                    StepInputs in;
                    in.tokens = std::span(text).subspan(static_cast<size_t>(length + t), 1);
                    in.origin = timed_origin;
                    return model.forward().step(*cache, in).logits;
                }));
            }
        }
        const int32_t every = std::max(1, (steps + naive_samples - 1) / naive_samples);
        for (int32_t t = 1; t <= steps; t += every) {
            samples.clear();
            for (size_t i = 0; i < repetitions; ++i)
                samples.push_back(timed([&] { return prefill(length + t); }));
            curve.step.push_back(t);
            curve.naive_ms.push_back(static_cast<float>(median(samples)));
            curve.cached_ms.push_back(static_cast<float>(median(cached[static_cast<size_t>(t - 1)])));
            tell((static_cast<double>(done) + static_cast<double>(length) * t / steps) /
                 static_cast<double>(work));
        }
        done += length;
        out.push_back(std::move(curve));
    }
}

} // namespace refreshlab
