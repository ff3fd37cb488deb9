// Speculative decoding written down plainly: every draft begins with caches that are made anew, and the teacher reads the whole text.
// DecodeSession with on_fire = verify must draw the same tokens.
#include "engine/cache/kv_cache.h"
#include "engine/model/sampler.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/pair/run_text.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/support/forward.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <vector>

namespace verify_naive_test {

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

constexpr TinyShape shape{.end_id = 4095, .vocab = 10};
const std::vector<int32_t> prompt_ids = {2, 7, 1, 8, 2, 8};

struct Naive {
    std::vector<int32_t> text;
    int64_t rejections = 0, passes = 0;
};

int32_t walk(const std::vector<double>& weights, double share) {
    double total = 0, reached = 0;
    for (const double w : weights)
        total += w;
    for (size_t i = 0; i < weights.size(); ++i) {
        reached += weights[i];
        if (weights[i] > 0 && reached > share * total) return static_cast<int32_t>(i);
    }
    return static_cast<int32_t>(weights.size() - 1);
}

/// \param splice  every draft begins on the teacher's entries of the whole text; else on the prompt's alone
Naive speculative(const ModelPair& pair, const RunConfig& config, int64_t g, bool splice) {
    Naive out;
    const auto length = static_cast<int64_t>(prompt_ids.size());
    const SamplerConfig& sampler = config.sampler;
    const auto draw = [&](const at::Tensor& row, int64_t position) {
        return choose_token(row, sampler, config.seed, position, nullptr,
                            static_cast<uint32_t>(out.rejections))
            .token_id;
    };
    const auto whole = [&](size_t generated) { // the prompt and the first tokens
        std::vector<int32_t> ids = prompt_ids;
        ids.insert(ids.end(), out.text.begin(), out.text.begin() + static_cast<std::ptrdiff_t>(generated));
        return ids;
    };
    {
        const auto cache = pair.teacher->make_cache(128);
        out.text.push_back(
            draw(extend(*pair.teacher, *cache, prompt_ids, Rows::last, Origin::teacher_prefill)[0], length));
    }
    while (std::ssize(out.text) < config.max_tokens) {
        const size_t settled = out.text.size();
        // Entries before the pending token: the teacher's up to `copied`, the student's own after that.
        const auto teacher = pair.teacher->make_cache(128), student = pair.student->make_cache(128);
        const std::vector<int32_t> copied = whole(splice ? settled - 1 : 0);
        static_cast<void>(extend(*pair.teacher, *teacher, copied, Rows::none, Origin::teacher_prefill));
        student->adopt_prefix(*teacher, std::ssize(copied));
        for (size_t i = copied.size() - prompt_ids.size(); i + 1 < settled; ++i)
            static_cast<void>(step(*pair.student, *student, out.text[i], Origin::student));

        std::vector<at::Tensor> q;
        while (std::ssize(q) < g && std::ssize(out.text) < config.max_tokens) {
            q.push_back(step(*pair.student, *student, out.text.back(), Origin::student).row.clone());
            out.text.push_back(draw(q.back(), length + std::ssize(out.text)));
        }
        const auto reader = pair.teacher->make_cache(128);
        const at::Tensor p =
            extend(*pair.teacher, *reader, whole(out.text.size() - 1), Rows::all, Origin::teacher_prefill);
        ++out.passes;
        for (size_t i = 0; i < q.size(); ++i) {
            const int64_t position = length + static_cast<int64_t>(settled + i);
            const auto attempt = static_cast<uint32_t>(out.rejections);
            std::vector<double> of_teacher = token_probabilities(p[position - 1], sampler);
            const std::vector<double> of_student = token_probabilities(q[i], sampler);
            const auto y = static_cast<size_t>(out.text[settled + i]);
            const double u = uniform_number(config.seed, position, attempt, Draw::acceptance);
            if (sampler.temperature > 0 ? u * of_student[y] < of_teacher[y] : of_teacher[y] == 1) continue;
            if (sampler.temperature > 0) {
                for (size_t x = 0; x < of_teacher.size(); ++x)
                    of_teacher[x] = std::max(of_teacher[x] - of_student[x], 0.0);
            }
            out.text.resize(settled + i);
            out.text.push_back(
                walk(of_teacher, uniform_number(config.seed, position, attempt, Draw::residual)));
            ++out.rejections;
            break;
        }
    }
    return out;
}

} // namespace

TEST_CASE("a verified run draws what plain speculative decoding draws", "[verify]") {
    int64_t rejections = 0, runs = 0;
    for (uint32_t round = 0; round < 12; ++round) {
        const auto pair = tiny_pair(seed(800 + round), seed(900 + round), shape, shape);
        for (const SamplerConfig& sampler :
             {SamplerConfig{}, SamplerConfig{.temperature = 1}, SamplerConfig{.temperature = 0.7, .top_k = 6},
              SamplerConfig{.temperature = 1.2, .top_p = 0.9, .min_p = 0.02}})
            for (const int32_t g : {1, 2, 3, 4, 7})
                for (const bool splice : {true, false}) {
                    RunConfig config = tiny_run(26);
                    config.seed = seed(1000 + round);
                    config.sampler = sampler;
                    config.capture.attention = false;
                    config.policy = policy_of({trigger("steps_since_refresh", Comparison::at_least, g)}, {},
                                              OnFire::verify);
                    config.policy.verify.splice = splice;
                    CAPTURE(round, sampler.temperature, g, splice);
                    const Naive wanted = speculative(*pair, config, g, splice);
                    const RunText text{{"", prompt_ids, 0}, {}};
                    DecodeSession session(pair, config, {}, &text);
                    while (session.step()) {
                    }
                    REQUIRE(session.recording()->token_ids() == wanted.text);
                    REQUIRE(static_cast<int64_t>(session.recording()->passes().size()) == wanted.passes);
                    rejections += wanted.rejections;
                    ++runs;
                }
    }
    CHECK(rejections > 3 * runs);
}

} // namespace verify_naive_test
