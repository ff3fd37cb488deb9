// The parts of a session, each alone.
#include "engine/base/check.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/parts/refresh_boundary.h"
#include "engine/session/parts/row_ring.h"
#include "engine/session/parts/splice.h"
#include "engine/session/parts/teacher_reader.h"
#include "engine/session/parts/teacher_unread.h"
#include "engine/session/parts/token_chooser.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/support/forward.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

namespace parts_test {

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

std::vector<int32_t> some_tokens(int64_t n, uint32_t salt) {
    std::mt19937 random(seed(salt));
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < n; ++i)
        tokens.push_back(static_cast<int32_t>(10 + random() % 500));
    return tokens;
}

double kl_of(const at::Tensor& p_row, const at::Tensor& q_row) {
    const at::Tensor p = at::log_softmax(p_row.to(at::kDouble), -1);
    const at::Tensor q = at::log_softmax(q_row.to(at::kDouble), -1);
    return (p.exp() * (p - q)).sum().item<double>();
}

/// Teacher and student that have read the same `prompt` tokens, and the student `decoded` more.
struct Caches {
    Caches(const ModelPair& pair, const std::vector<int32_t>& tokens, int64_t prompt, int64_t decoded)
        : teacher(pair.teacher->make_cache(128))
        , student(pair.student->make_cache(128)) {
        (void)extend(*pair.teacher, *teacher, std::span(tokens).first(static_cast<size_t>(prompt)),
                     Rows::none, Origin::teacher_prefill);
        student->adopt_prefix(*teacher, prompt);
        for (int64_t p = prompt; p < prompt + decoded; ++p)
            rows.push_back(
                step(*pair.student, *student, tokens[static_cast<size_t>(p)], Origin::student).row);
    }
    std::unique_ptr<KvCache> teacher, student;
    std::vector<at::Tensor> rows; ///< the student's, of the decoded positions
};

} // namespace

TEST_CASE("a ring holds the newest rows, and says which", "[session][parts]") {
    RowRing ring(4, 3, at::kCPU);
    CHECK_FALSE(ring.holds(0));
    for (int64_t p = 0; p < 10; ++p)
        ring.put(p, at::full({3}, static_cast<double>(p)));
    for (int64_t p = 0; p < 14; ++p) {
        CAPTURE(p);
        CHECK(ring.holds(p) == (p >= 6 && p < 10));
        CHECK((ring.slot(p) >= 0) == ring.holds(p));
        if (ring.holds(p)) CHECK(ring.row(p)[1].item<double>() == static_cast<double>(p));
        if (ring.holds(p)) CHECK(at::equal(ring.rows()[ring.slot(p)], ring.row(p)));
    }
    ring.drop_from(8);
    CHECK(ring.holds(7));
    CHECK_FALSE(ring.holds(8));
    CHECK_THROWS_AS(ring.row(8), InvariantError);
}

TEST_CASE("a chooser gives the given text, then draws; statistics at hand change nothing",
          "[session][parts]") {
    at::Tensor row = at::zeros({50});
    row[17] = 4.0F;
    row[3] = 2.0F;
    const auto statistics = kernels::row_statistics(row.unsqueeze(0))[0];
    const TokenChooser chooser({5, 17}, 100, 9);
    const SamplerConfig greedy, warm{.temperature = 1.5, .top_k = 0, .top_p = 0.9, .min_p = 0};
    CHECK(chooser.choose(row, 100, Producer::teacher, greedy).id == 5);
    CHECK_FALSE(chooser.choose(row, 100, Producer::teacher, greedy).top1_hit);
    CHECK(chooser.choose(row, 101, Producer::teacher, greedy).top1_hit);
    CHECK(chooser.choose(row, 102, Producer::student, greedy).id == 17);
    CHECK(chooser.choose(row, 102, Producer::student, greedy).producer == Producer::student);
    for (const int64_t position : {100, 101, 102, 103, 104, 105}) {
        const PendingToken with = chooser.choose(row, position, Producer::student, warm, &statistics),
                           without = chooser.choose(row, position, Producer::student, warm);
        CHECK(with.id == without.id);
        CHECK(with.logprob == without.logprob);
        CHECK(with.top1_hit == without.top1_hit);
        const double expected = at::log_softmax(row.to(at::kDouble), -1)[with.id].item<double>();
        CHECK(std::abs(with.logprob - expected) < 1e-12);
    }
}

TEST_CASE("a reading gives KL, log-probability and agreement by their definitions, in any pieces",
          "[session][parts]") {
    const c10::InferenceMode guard;
    const auto pair = tiny_pair(3, 4);
    const int64_t prompt = 12, decoded = 30, ring_size = 20;
    const std::vector<int32_t> tokens = some_tokens(prompt + decoded + 1, 1);
    Caches caches(*pair, tokens, prompt, decoded);
    const at::Tensor teacher_rows = extend(*pair->teacher, *pair->teacher->make_cache(128),
                                           std::span(tokens).first(static_cast<size_t>(prompt + decoded)),
                                           Rows::all, Origin::teacher_decode);
    RowRing ring(ring_size, pair->student->config().vocab_size, at::kCPU);
    for (int64_t i = 0; i < decoded; ++i)
        ring.put(prompt + i, caches.rows[static_cast<size_t>(i)]);
    const auto token_at = [&](int64_t p) { return tokens[static_cast<size_t>(p)]; };
    TeacherReader reader(pair->teacher->forward(), std::move(caches.teacher));
    std::vector<float> kl, logprob, agrees;
    for (const int64_t end : {prompt + 7, prompt + 7, prompt + decoded}) {
        const auto reading = reader.read(end, token_at, ring, prompt + decoded);
        CHECK(reading.tokens == static_cast<int64_t>(reading.kl_nats.size()));
        CHECK(reader.length() == end);
        kl.insert(kl.end(), reading.kl_nats.begin(), reading.kl_nats.end());
        logprob.insert(logprob.end(), reading.next_logprob.begin(), reading.next_logprob.end());
        agrees.insert(agrees.end(), reading.next_agrees.begin(), reading.next_agrees.end());
    }
    REQUIRE(kl.size() == 30);
    REQUIRE(logprob.size() == 29); // what follows the newest position is not settled
    for (int64_t i = 0; i < decoded; ++i) {
        CAPTURE(i);
        const auto at_row = static_cast<size_t>(i);
        const at::Tensor row = teacher_rows[prompt + i];
        CHECK(is_absent(kl[at_row]) == (i < decoded - ring_size));
        if (!is_absent(kl[at_row]))
            CHECK(std::abs(static_cast<double>(kl[at_row]) - kl_of(row, caches.rows[at_row])) < 1e-5);
        if (i + 1 == decoded) continue;
        const int32_t next = tokens[static_cast<size_t>(prompt + i + 1)];
        const double expected = at::log_softmax(row.to(at::kDouble), -1)[next].item<double>();
        CHECK(std::abs(static_cast<double>(logprob[at_row]) - expected) < 1e-5);
        CHECK((agrees[at_row] == 1.0F) == (row.argmax().item<int64_t>() == next));
    }
    CHECK(at::equal(reader.last_row(), teacher_rows[prompt + decoded - 1]));
    CHECK(std::abs(reader.last_logprob(77) -
                   at::log_softmax(reader.last_row().to(at::kDouble), -1)[77].item<double>()) < 1e-5);
}

TEST_CASE("drift is the relative distance of two caches' columns; a splice takes the newest ones",
          "[session][parts]") {
    const c10::InferenceMode guard;
    const auto pair = tiny_pair(5, 6);
    const int64_t prompt = 9, decoded = 11;
    const std::vector<int32_t> tokens = some_tokens(prompt + decoded, 2);
    Caches caches(*pair, tokens, prompt, decoded);
    (void)extend(*pair->teacher, *caches.teacher, std::span(tokens).subspan(static_cast<size_t>(prompt)),
                 Rows::none, Origin::teacher_decode);
    const Delta delta{prompt, prompt + decoded};
    const DeltaDrift drift = measure_drift(*caches.student, *caches.teacher, delta);
    REQUIRE(drift.mean.size() == static_cast<size_t>(decoded));
    for (int64_t i = 0; i < decoded; ++i) {
        double sum = 0;
        for (int64_t layer = 0; layer < 2; ++layer) {
            const auto distance = [&](const at::Tensor& s, const at::Tensor& t) {
                const at::Tensor a = s.select(1, prompt + i).to(at::kDouble),
                                 b = t.select(1, prompt + i).to(at::kDouble);
                return (a - b).norm().item<double>() / b.norm().item<double>();
            };
            const double k = distance(caches.student->keys(layer), caches.teacher->keys(layer));
            const double v = distance(caches.student->values(layer), caches.teacher->values(layer));
            const auto cell = static_cast<size_t>(layer * decoded + i);
            CHECK(std::abs(static_cast<double>(drift.map->k[cell]) - k) < 1e-5);
            CHECK(std::abs(static_cast<double>(drift.map->v[cell]) - v) < 1e-5);
            sum += k + v;
        }
        CHECK(std::abs(drift.mean[static_cast<size_t>(i)] - sum / 4) < 1e-5);
    }
    splice_newest(*caches.student, *caches.teacher, delta, 4, 7, 1);
    for (int64_t p = prompt; p < delta.end; ++p) {
        CAPTURE(p);
        const bool copied = p >= delta.end - 4;
        CHECK(caches.student->origin(p) == (copied ? Origin::teacher_refresh : Origin::skipped));
        CHECK(caches.student->refresh_ids()[static_cast<size_t>(p)] == 7);
        CHECK(at::equal(caches.student->keys(p, 1), caches.teacher->keys(p, 1)) == copied);
    }
    CHECK_THROWS_AS(splice_newest(*caches.student, *caches.teacher, delta, 12, 8, 2), InvariantError);
}

TEST_CASE("columns that are rebuilt from their tokens are the same columns, told as one change",
          "[session][parts]") {
    const auto pair = tiny_pair(7, 8);
    const std::vector<int32_t> tokens = some_tokens(20, 3);
    const auto cache = pair->student->make_cache(32);
    (void)extend(*pair->student, *cache, tokens, Rows::none, Origin::student);
    const auto before = cache->clone();
    std::vector<CacheEvent> told;
    cache->set_listener([&](CacheEvent event) { told.push_back(std::move(event)); });
    rebuild_columns(pair->student->forward(), *cache, 6, std::span(tokens).subspan(6), 3);
    CHECK(at::equal(cache->keys(0, 20), before->keys(0, 20)));
    CHECK(at::equal(cache->values(0, 20), before->values(0, 20)));
    REQUIRE(told.size() == 1);
    CHECK(told[0].change == CacheChange::rebuilt);
    REQUIRE(told[0].positions.size() == 1);
    CHECK((told[0].positions[0] == PositionRange{6, 14}));
    CHECK(told[0].refresh_id == 3);
    CHECK_THROWS_AS(rebuild_columns(pair->student->forward(), *cache, 6, tokens, 4), InvariantError);
}

TEST_CASE("a boundary plans, lets the teacher read, splices and records; and goes back", "[session][parts]") {
    const c10::InferenceMode guard;
    const auto pair = tiny_pair(9, 10);
    const int64_t prompt = 10, decoded = 8;
    const std::vector<int32_t> tokens = some_tokens(prompt + decoded + 1, 4);
    Caches caches(*pair, tokens, prompt, decoded);
    RunConfig config = tiny_run(40);
    config.policy = policy_of({trigger("steps_since_refresh", Comparison::above, 7)}, 3);
    RowRing ring(64, pair->student->config().vocab_size, at::kCPU);
    for (int64_t i = 0; i < decoded; ++i)
        ring.put(prompt + i, caches.rows[static_cast<size_t>(i)]);
    TeacherReader reader(pair->teacher->forward(), std::move(caches.teacher));
    const TokenChooser chooser({}, prompt, 0);
    RefreshBoundary boundary(
        {config, pair->student->forward(), *caches.student, reader, ring, chooser, false, prompt});
    CHECK(boundary.state().splice == prompt);

    RunInfo info;
    info.prompt_ids.assign(tokens.begin(), tokens.begin() + prompt);
    info.layers = 2;
    Recording recording(std::move(info), pair->tokenizer);
    const auto record_of = [&](int64_t t) {
        StepRecord record;
        record.step = t;
        record.position = prompt + t - 1;
        record.token_id = tokens[static_cast<size_t>(record.position)];
        record.signals.fill(absent());
        return record;
    };
    for (int64_t t = 1; t < decoded; ++t)
        recording.append(record_of(t));
    StepRecord record = record_of(decoded);
    const size_t since = require_signal("steps_since_refresh", "test"),
                 kl = require_signal("kl_nats", "test");
    record.signals[since] = static_cast<float>(decoded);
    PendingToken pending;
    pending.id = tokens.back();
    const LayerValues layers;
    BoundaryStep at_boundary{record,
                             pending,
                             recording,
                             layers,
                             true,
                             false,
                             [&](int64_t p) {
                                 return tokens[static_cast<size_t>(p)]; }};
    const RefreshState before = boundary.state();
    boundary.run(at_boundary);
    REQUIRE(recording.refreshes().size() == 1);
    CHECK(recording.refreshes()[0].delta == decoded);
    CHECK(recording.refreshes()[0].spliced == 3);
    CHECK(recording.refreshes()[0].token_after == pending.id); // keep
    REQUIRE(recording.passes().size() == 1);
    CHECK(recording.passes()[0].tokens == decoded);
    CHECK(boundary.state().splice == prompt + decoded);
    CHECK(boundary.state().automatic_refreshes == 1);
    CHECK_FALSE(is_absent(record.signals[kl]));      // the newest row's
    CHECK_FALSE(is_absent(recording.signal(1, kl))); // back-filled
    CHECK(pending.teacher_logprob == reader.last_logprob(pending.id));
    CHECK(caches.student->origin(prompt) == Origin::skipped);
    CHECK(caches.student->origin(prompt + decoded - 1) == Origin::teacher_refresh);

    boundary.run(at_boundary); // nothing was written since: no second refresh
    CHECK(recording.refreshes().size() == 1);
    boundary.restore(before);
    CHECK(boundary.state().splice == prompt);
    CHECK(boundary.state().automatic_refreshes == 0);
}

TEST_CASE("what the teacher has not read is published and counted", "[session][parts]") {
    RunConfig config = tiny_run(30);
    config.policy = policy_of({trigger("steps_since_refresh", Comparison::above, 9)});
    DecodeSession session(tiny_pair(1, 2), config);
    while (session.step()) {
    }
    const Recording& r = *session.recording();
    const auto id = r.signal_id("teacher_unread");
    REQUIRE(id.has_value());
    CHECK_FALSE(signal_id("teacher_unread").has_value()); // the run's, not the registry's
    for (int64_t t = 1; t < r.steps(); ++t)
        CHECK(r.signal(t, *id) == static_cast<float>((t - 1) % 10 + 1));
    CHECK(is_absent(r.signal(r.steps(), *id))); // y_N has no boundary
}

TEST_CASE("a policy's own arithmetic is recorded as one works it out of the record, also after a rewind",
          "[session][parts][expression]") {
    const char* const text = "entropy_bits - mean(entropy_bits, 5) + highest(or(last_kl_nats, 0.5), 3) - "
                             "lag(steps_since_refresh, 2) / 16";
    RunConfig config = tiny_run(40);
    config.policy.signals = {own_signal_from_text(std::string("rise = ") + text, "the test")};
    config.policy.triggers = {trigger_from_text("rise > 0.4 cooldown 3", "the test", config.policy.signals)};
    const auto check = [&](const Recording& r) {
        const auto id = r.signal_id("rise");
        REQUIRE(id.has_value());
        size_t known = 0;
        for (int64_t t = 1; t <= r.steps(); ++t) {
            const float expected = config.policy.signals[0].expression->value(
                t, [&](std::string_view name, int64_t step) { return r.signal(step, *signal_id(name)); });
            INFO(t);
            CHECK(std::bit_cast<uint32_t>(r.signal(t, *id)) == std::bit_cast<uint32_t>(expected));
            if (is_absent(expected)) continue;
            ++known;
            // A refresh is where it is above its threshold, three steps at least after another.
            const RefreshEvent* event = r.refresh_at(t);
            if (event) CHECK(expected > 0.4F);
        }
        CHECK(known ==
              static_cast<size_t>(r.steps()) -
                  3); // not of the first two, where lag has nothing, and the last, which chose nothing
        CHECK(r.refreshes().size() >= 2);
        CHECK(r.refreshes().size() < static_cast<size_t>(r.steps()) / 3);
    };
    DecodeSession session(tiny_pair(1, 2), config);
    while (session.step()) {
    }
    check(*session.recording());
    const auto first = session.recording();
    session.rewind(17);
    while (session.step()) {
    }
    const Recording& again = *session.recording();
    check(again);
    // Earlier steps are there after a rewind: the run is the same, bit for bit.
    REQUIRE(again.steps() == first->steps());
    const auto id = *again.signal_id("rise");
    for (int64_t t = 1; t <= again.steps(); ++t)
        CHECK(std::bit_cast<uint32_t>(again.signal(t, id)) == std::bit_cast<uint32_t>(first->signal(t, id)));
}

TEST_CASE("the cache events of a recording lead to the very caches, step by step, also after a rewind",
          "[session][parts]") {
    using Column = std::pair<Origin, int32_t>; // and the refresh that wrote it
    const auto fold = [](const Recording& recording, bool teacher, int64_t step) {
        std::vector<Column> columns;
        for (size_t i = 0; i < recording.cache_entries().size(); ++i) {
            const CacheEntry& entry = recording.cache_entries()[i];
            if (entry.teacher != teacher) continue;
            for (int64_t e = 0; e < entry.steps() && entry.step + e <= step; ++e) {
                const CacheEvent event = entry.event(e);
                for (const PositionRange& range : event.positions) {
                    if (event.change == CacheChange::dropped) {
                        columns.resize(static_cast<size_t>(range.first));
                        continue;
                    }
                    columns.resize(std::max(columns.size(), static_cast<size_t>(range.first + range.n)));
                    for (int64_t p = range.first; p < range.first + range.n; ++p)
                        columns[static_cast<size_t>(p)] = {event.origin, event.refresh_id};
                }
            }
        }
        return columns;
    };
    const auto held = [](const KvCache& cache) {
        std::vector<Column> columns;
        for (int64_t p = 0; p < cache.length(); ++p)
            columns.push_back({cache.origin(p), cache.refresh_ids()[static_cast<size_t>(p)]});
        return columns;
    };
    for (const auto window :
         {std::optional<int32_t>(), std::optional<int32_t>(2), std::optional<int32_t>(0)}) {
        for (const int32_t lag : {0, 3}) {
            RunConfig config = tiny_run(36);
            config.policy = policy_of({trigger("steps_since_refresh", Comparison::above, 6)}, window);
            config.policy.lag = lag;
            DecodeSession session(tiny_pair(1, 2), config);
            const auto check = [&] {
                const Recording& r = *session.recording();
                CHECK((fold(r, false, r.steps()) == held(*session.student_cache())));
                CHECK((fold(r, true, r.steps()) == held(*session.teacher_cache())));
            };
            check();
            for (int i = 0; i < 25; ++i) {
                session.step();
                check();
            }
            session.rewind(13);
            check();
            while (session.step()) {
                if (session.finished()) break; // the closing record feeds nothing
                check();
            }
            check();
            session.score(); // reads more, which is no part of the run
            CHECK((fold(*session.recording(), false, 1000) == held(*session.student_cache())));
            session.rewind(20);
            check();
        }
    }
}

TEST_CASE("attention of a step is kept within its bytes, the strongest keys exact, and no signal changes",
          "[session][parts]") {
    const auto pair = tiny_pair(5, 6);
    RunConfig config = tiny_run(40);
    config.capture.attention = config.capture.attention_entropy = true;
    config.policy = policy_of({trigger("steps_since_refresh", Comparison::at_least, 7)});
    const auto run = [&](int64_t bytes) {
        config.capture.attention_bytes = bytes;
        DecodeSession session(pair, config);
        while (session.step()) {
        }
        session.capture_attention(session.recording()->prompt_length() + 20, true);
        return session.recording();
    };
    const auto whole = run(0);
    REQUIRE(whole->token_ids() == run(50'000)->token_ids());
    CHECK(first_difference(*whole, *run(50'000)) == std::nullopt); // a short run needs no bins
    const AttentionRows& last = *whole->attention_rows().back();
    const int64_t bytes = static_cast<int64_t>(last.rows()) * 40;
    const auto kept = run(bytes);
    REQUIRE(whole->token_ids() == kept->token_ids());
    for (int64_t t = 1; t <= whole->steps(); ++t) {
        const auto &a = whole->step(t).signals, &b = kept->step(t).signals;
        REQUIRE(std::memcmp(a.data(), b.data(), sizeof a) == 0);
    }
    const auto rows = whole->attention_rows(), others = kept->attention_rows();
    REQUIRE(rows.size() == others.size());
    size_t in_bins = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
        const AttentionRows &a = *rows[i], &b = *others[i];
        CAPTURE(a.position, a.teacher);
        REQUIRE(a.every_key());
        REQUIRE(static_cast<int64_t>(b.bytes()) <= bytes);
        REQUIRE((b.keys == a.keys && b.layers == a.layers && b.heads == a.heads && b.step == a.step));
        if (b.every_key()) continue;
        ++in_bins;
        REQUIRE(b.exact > 0);
        for (size_t row = 0; row < b.rows(); ++row) {
            const auto weight = [&](int64_t key) {
                return a.weights[row * static_cast<size_t>(a.keys) + static_cast<size_t>(key)];
            };
            for_each_share(b, row, [&](const AttentionShare& share) {
                if (share.exact()) REQUIRE(share.share == weight(share.first));
            });
        }
    }
    CHECK(in_bins > 10);
}

TEST_CASE("attention that is kept in bins is the sums of the rows, and no signal changes",
          "[session][parts]") {
    const auto pair = tiny_pair(5, 6);
    RunConfig config = tiny_run(24);
    config.capture.attention = config.capture.attention_entropy = true;
    config.policy = policy_of({trigger("steps_since_refresh", Comparison::at_least, 7)});
    const auto run = [&](int32_t bins) {
        config.capture.attention_bins = bins;
        DecodeSession session(pair, config);
        while (session.step()) {
        }
        session.capture_attention(session.recording()->prompt_length() + 10,
                                  true); // of the teacher, read once more
        return session.recording();
    };
    const auto whole = run(0), binned = run(8);
    REQUIRE(whole->token_ids() == binned->token_ids());
    for (int64_t t = 1; t <= whole->steps(); ++t) {
        const auto &a = whole->step(t).signals, &b = binned->step(t).signals;
        REQUIRE(std::memcmp(a.data(), b.data(), sizeof a) == 0);
    }
    const auto rows = whole->attention_rows(), sums = binned->attention_rows();
    REQUIRE(rows.size() == sums.size());
    bool teacher = false;
    for (size_t i = 0; i < rows.size(); ++i) {
        const AttentionRows &a = *rows[i], &b = *sums[i];
        CAPTURE(a.position, a.teacher);
        teacher |= b.teacher;
        REQUIRE(a.every_key());
        REQUIRE(b.every_key() == (b.keys <= 8));
        REQUIRE(b.keys == a.keys);
        REQUIRE(b.numbers() <= 8);
        REQUIRE(b.weights.size() == b.layers.size() * static_cast<size_t>(b.heads * b.numbers()));
        for (size_t row = 0; row < b.layers.size() * static_cast<size_t>(b.heads); ++row) {
            for (int64_t n = 0; n < b.numbers(); ++n) {
                float sum = 0;
                const auto edge = [&](int64_t at) {
                    return b.every_key() ? at : b.edges[static_cast<size_t>(at)];
                };
                for (int64_t key = edge(n); key < edge(n + 1); ++key)
                    sum += half_to_float(
                        a.weights[row * static_cast<size_t>(a.keys) + static_cast<size_t>(key)]);
                const float kept =
                    half_to_float(b.weights[row * static_cast<size_t>(b.numbers()) + static_cast<size_t>(n)]);
                REQUIRE(std::abs(kept - sum) <= 2e-3F * sum + 1e-6F);
            }
        }
    }
    CHECK(teacher);
}

} // namespace parts_test
