// The decode loop written down plainly: the teacher prefills the whole text anew at every refresh, columns are copied by
// hand, every decision is an if. DecodeSession must give the same text, refreshes and signals.
#include "engine/cache/kv_cache.h"
#include "engine/session/decode/decode_session.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/support/forward.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <memory>
#include <optional>
#include <random>

namespace naive_loop_test {

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

struct Gate {
    double entropy_above = 1e300;
    int64_t stride = 1, cooldown = 0, periodic = 0, window = -1, lag = 0;
    OnFire on_fire = OnFire::keep;
};

struct Naive {
    std::vector<int32_t> text; ///< generated
    std::vector<int64_t> refreshes;
    std::vector<double> entropy;
};

int32_t arg_max(const at::Tensor& row) {
    return static_cast<int32_t>(row.argmax().item<int64_t>());
}

double entropy_bits(const at::Tensor& row) {
    const at::Tensor lp = at::log_softmax(row.to(at::kDouble), -1);
    return -(lp.exp() * lp).sum().item<double>() / std::log(2.0);
}

Naive decode(const ModelPair& pair, const std::vector<int32_t>& prompt, int64_t n, const Gate& gate) {
    Naive out;
    const auto length = static_cast<int64_t>(prompt.size());
    const auto teacher_over = [&](const std::vector<int32_t>& ids, at::Tensor* last) {
        auto cache = pair.teacher->make_cache(length + n);
        *last = extend(*pair.teacher, *cache, ids, Rows::last, Origin::teacher_prefill)[0];
        return cache;
    };
    at::Tensor row;
    auto student = pair.student->make_cache(length + n);
    {
        const auto teacher = teacher_over(prompt, &row);
        student->adopt_prefix(*teacher, length);
    }
    int32_t pending = arg_max(row);
    out.text.push_back(pending);
    std::vector<int32_t> fed = prompt;
    int64_t spliced_to = length, last = 0;
    bool any = false;
    struct Flight {
        int64_t lands = 0, end = 0;
        std::unique_ptr<KvCache>
            teacher; ///< the teacher's own cache over the text as it was when the refresh fired
    };
    std::optional<Flight> flight;
    for (int64_t t = 1; t < n; ++t) {
        row = step(*pair.student, *student, pending, Origin::student).row;
        fed.push_back(pending);
        const int32_t token = pending;
        out.entropy.push_back(entropy_bits(row));
        pending = arg_max(row);
        const bool last_choice = t + 1 == n && gate.on_fire == OnFire::keep;
        const auto land = [&] {
            if (!flight || flight->lands != t || last_choice) return;
            const int64_t end = flight->end;
            const int64_t k = gate.window < 0 ? end - spliced_to : std::min(gate.window, end - spliced_to);
            for (int64_t layer = 0; layer < student->num_layers(); ++layer) {
                student->keys(layer)
                    .slice(1, end - k, end)
                    .copy_(flight->teacher->keys(layer).slice(1, end - k, end));
                student->values(layer)
                    .slice(1, end - k, end)
                    .copy_(flight->teacher->values(layer).slice(1, end - k, end));
            }
            spliced_to = end;
            last = t;
            any = true;
            out.refreshes.push_back(t);
            at::Tensor teacher_row;
            static_cast<void>(teacher_over(fed, &teacher_row));
            if (gate.on_fire == OnFire::teacher_token) pending = arg_max(teacher_row);
            if (gate.on_fire == OnFire::redraw)
                pending = arg_max(read_only_step(*pair.student, *student, token, length + t - 1));
            flight.reset();
        };
        land();
        const bool by_entropy = out.entropy.back() > gate.entropy_above && t % gate.stride == 0 &&
                                (!any || t - last >= gate.cooldown);
        const bool by_count = gate.periodic > 0 && length + t - spliced_to >= gate.periodic;
        if ((by_entropy || by_count) && !last_choice && !flight) {
            at::Tensor row_of_then;
            flight = Flight{t + gate.lag, length + t, teacher_over(fed, &row_of_then)};
            land();
        }
        out.text.push_back(pending);
    }
    return out;
}

} // namespace

TEST_CASE("the session agrees with the loop written down plainly", "[session]") {
    std::mt19937 random(test::seed(31));
    const auto pick = [&](int low, int high) {
        return std::uniform_int_distribution<int>(low, high)(random);
    };
    size_t fires = 0;
    for (int round = 0; round < 50; ++round) {
        const auto pair = tiny_pair(100 + static_cast<uint64_t>(round), 200 + static_cast<uint64_t>(round));
        Gate gate;
        gate.on_fire = static_cast<OnFire>(pick(0, 2));
        if (pick(0, 1) == 1) gate.window = pick(1, 9);
        if (pick(0, 1) == 1) gate.lag = pick(1, 7);
        const int kind = pick(0, 2);
        if (kind != 0) {
            gate.entropy_above = pick(1, 40) * 0.1;
            gate.stride = pick(1, 4);
            gate.cooldown = pick(0, 8);
        }
        if (kind != 1) gate.periodic = pick(2, 20);
        RunConfig config = tiny_run(45);
        std::vector<Trigger> triggers;
        if (kind != 0) {
            triggers.push_back(trigger("entropy_bits", Comparison::above, gate.entropy_above,
                                       static_cast<int32_t>(gate.stride),
                                       static_cast<int32_t>(gate.cooldown)));
        }
        if (kind != 1)
            triggers.push_back(
                trigger("steps_since_refresh", Comparison::at_least, static_cast<double>(gate.periodic)));
        config.policy = policy_of(
            triggers, gate.window < 0 ? std::nullopt : std::optional(static_cast<int32_t>(gate.window)),
            gate.on_fire);
        config.policy.lag = static_cast<int32_t>(gate.lag);
        DecodeSession session(pair, config);
        while (session.step()) {
        }
        const Recording& r = *session.recording();
        const Naive naive = decode(*pair, r.info().prompt_ids, 45, gate);
        CAPTURE(round, policy_to_json(config.policy).dump());
        CHECK(r.token_ids() == naive.text);
        REQUIRE(r.refreshes().size() == naive.refreshes.size());
        for (size_t i = 0; i < naive.refreshes.size(); ++i) {
            CHECK(r.refreshes()[i].step == naive.refreshes[i]);
            CHECK(r.refreshes()[i].fired_step == naive.refreshes[i] - gate.lag);
        }
        const size_t entropy = require_signal("entropy_bits", "test");
        for (int64_t t = 1; t < 45; ++t) {
            CHECK(std::abs(static_cast<double>(r.signal(t, entropy)) -
                           naive.entropy[static_cast<size_t>(t) - 1]) < 1e-5);
        }
        CHECK(is_absent(r.signal(45, entropy))); // y_N is never fed
        fires += naive.refreshes.size();
    }
    CHECK(fires > 100);
}

} // namespace naive_loop_test
