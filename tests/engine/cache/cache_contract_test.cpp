#include "engine/cache/kv_cache.h"
#include "kernels/execution/cuda_devices.h"
#include "tests/engine/model/support.h"
#include "tests/support/forward.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <limits>
#include <random>
#include <span>

namespace cache_contract_test {

/// The cache contract of a decoder, with random models: what a cache holds never depends on how it was filled.
using refreshlab::KvCache;
using refreshlab::LlamaModel;
using refreshlab::McRequest;
using refreshlab::ModelConfig;
using refreshlab::Origin;
using refreshlab::Rows;
using refreshlab::test::extend;
using refreshlab::test::lively_llama;
using refreshlab::test::random_tokens;
using refreshlab::test::read_only_step;
using refreshlab::test::step;
using refreshlab::test::tiny_config;

namespace {

constexpr Origin by_student = Origin::student;
constexpr Origin by_teacher = Origin::teacher_decode;

bool same_columns(const KvCache& a, const KvCache& b) {
    return a.length() == b.length() && at::equal(a.keys(0, a.length()), b.keys(0, b.length())) &&
           at::equal(a.values(0, a.length()), b.values(0, b.length()));
}

/// Same geometry of the cache, other widths inside.
ModelConfig student_config() {
    ModelConfig config = tiny_config();
    config.hidden_size = 23;
    config.intermediate_size = 31;
    return config;
}

} // namespace

TEST_CASE("token by token, any chunking and one prefill give the same columns and rows, bit for bit",
          "[cache]") {
    const auto dtype = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
    const uint64_t seed = refreshlab::test::seed(31);
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto model = lively_llama(tiny_config(), seed, dtype);
    const int64_t n = 130;
    const std::vector<int32_t> tokens = random_tokens(n, 97, seed);
    const auto whole = model->make_cache(n);
    const at::Tensor rows = extend(*model, *whole, tokens, Rows::all, by_student);
    CHECK(rows.isfinite().all().item<bool>());

    const auto single = model->make_cache(n + 50); // the capacity does not matter either
    for (int64_t i = 0; i < n; ++i) {
        const at::Tensor row = step(*model, *single, tokens[static_cast<size_t>(i)], by_student).row;
        REQUIRE(at::equal(row, rows[i]));
    }
    CHECK(same_columns(*single, *whole));

    for (int round = 0; round < 6; ++round) {
        const auto chunked = model->make_cache(n);
        int64_t at = 0;
        while (at < n) {
            const int64_t count = std::min(n - at, std::uniform_int_distribution<int64_t>(1, 40)(random));
            const auto chunk = std::span(tokens).subspan(static_cast<size_t>(at), static_cast<size_t>(count));
            const at::Tensor part = extend(*model, *chunked, chunk, Rows::all, by_student);
            REQUIRE(at::equal(part, rows.narrow(0, at, count)));
            at += count;
        }
        CHECK(same_columns(*chunked, *whole));
    }
}

TEST_CASE("truncating and going on is never having gone further", "[cache]") {
    const auto model = lively_llama(tiny_config(), 5);
    const std::vector<int32_t> tokens = random_tokens(40, 97, 1);
    const std::vector<int32_t> other = random_tokens(40, 97, 2);
    for (const size_t keep : {size_t{0}, size_t{1}, size_t{17}, size_t{40}}) {
        CAPTURE(keep);
        const auto edited = model->make_cache(100);
        (void)extend(*model, *edited, tokens, Rows::none, by_student);
        edited->truncate(static_cast<int64_t>(keep));
        const at::Tensor after_edit = extend(*model, *edited, other, Rows::all, by_student);
        const auto fresh = model->make_cache(100);
        if (keep > 0) (void)extend(*model, *fresh, std::span(tokens).first(keep), Rows::none, by_student);
        CHECK(at::equal(extend(*model, *fresh, other, Rows::all, by_student), after_edit));
        CHECK(same_columns(*edited, *fresh));
    }
}

TEST_CASE("columns at and beyond the length are never read", "[cache]") {
    const auto dtype = GENERATE(at::kFloat, at::kBFloat16);
    const auto model = lively_llama(tiny_config(), 6, dtype);
    const std::vector<int32_t> tokens = random_tokens(30, 97, 3);
    const auto clean = model->make_cache(64);
    const auto poisoned = model->make_cache(64);
    const auto poison = [&] {
        const int64_t length = poisoned->length();
        for (int64_t layer = 0; layer < poisoned->num_layers(); ++layer) {
            poisoned->keys(layer)
                .narrow(1, length, 64 - length)
                .fill_(std::numeric_limits<float>::quiet_NaN());
            poisoned->values(layer)
                .narrow(1, length, 64 - length)
                .fill_(std::numeric_limits<float>::quiet_NaN());
        }
    };
    const McRequest mc{.passes = 3, .seed = 1, .p = 0.2F};
    poison();
    CHECK(at::equal(extend(*model, *poisoned, tokens, Rows::all, by_student),
                    extend(*model, *clean, tokens, Rows::all, by_student)));
    for (int32_t i = 0; i < 5; ++i) {
        poison();
        const auto a = step(*model, *poisoned, i, by_student, mc);
        const auto b = step(*model, *clean, i, by_student, mc);
        CHECK(at::equal(a.row, b.row));
        CHECK(at::equal(a.mc, b.mc));
        CHECK(at::equal(read_only_step(*model, *poisoned, i, 30 + i), b.row));
    }
    CHECK(same_columns(*clean, *poisoned));
}

TEST_CASE("a refresh leaves the student with the teacher's columns and the same future as the teacher's own",
          "[cache]") {
    const auto teacher = lively_llama(tiny_config(), 40);
    const auto student = lively_llama(student_config(), 41);
    const std::vector<int32_t> tokens = random_tokens(60, 97, 9);
    const auto prompt = std::span(tokens).first(20);
    const auto teacher_cache = teacher->make_cache(80);
    (void)extend(*teacher, *teacher_cache, prompt, Rows::last, Origin::teacher_prefill);
    const auto cache = student->make_cache(80);
    cache->adopt_prefix(*teacher_cache, 20);
    for (size_t i = 20; i < 35; ++i)
        (void)step(*student, *cache, tokens[i], by_student);
    const auto before = cache->clone();

    // The teacher reads what it has not seen; incremental equals a full prefill.
    (void)extend(*teacher, *teacher_cache, std::span(tokens).subspan(20, 15), Rows::none, by_teacher);
    const auto full = teacher->make_cache(80);
    (void)extend(*teacher, *full, std::span(tokens).first(35), Rows::none, by_teacher);
    CHECK(same_columns(*full, *teacher_cache));
    CHECK_FALSE(at::equal(cache->keys(20, 15), teacher_cache->keys(20, 15)));

    // Windowed: exactly the last 6 columns change.
    cache->splice(*teacher_cache, 29, 6, 0, 15);
    cache->mark_skipped(20, 9, 0, 15);
    CHECK(at::equal(cache->keys(29, 6), teacher_cache->keys(29, 6)));
    CHECK(at::equal(cache->keys(0, 29), before->keys(0, 29)));
    CHECK(at::equal(cache->values(0, 29), before->values(0, 29)));
    CHECK(cache->origin(28) == Origin::skipped);
    CHECK(cache->origin(29) == Origin::teacher_refresh);

    // Unlimited: all of them are the teacher's, and what follows is what the student makes of the teacher's cache.
    cache->splice(*teacher_cache, 20, 15, 1, 15);
    CHECK(same_columns(*cache, *teacher_cache));
    const auto handed_over = student->make_cache(80);
    handed_over->adopt_prefix(*teacher_cache, 35);
    for (size_t i = 35; i < 45; ++i) {
        CHECK(at::equal(step(*student, *cache, tokens[i], by_student).row,
                        step(*student, *handed_over, tokens[i], by_student).row));
    }

    // Rewind over both splices and decode again: the same bits as before them.
    cache->rewind(14, 34);
    CHECK(at::equal(cache->keys(0, 34), before->keys(0, 34)));
    (void)step(*student, *cache, tokens[34], by_student);
    CHECK(same_columns(*cache, *before));
    CHECK(cache->origin(34) == Origin::student);
}

TEST_CASE("teacher equal to student: a splice changes no bit", "[cache]") {
    const auto dtype = GENERATE(at::kFloat, at::kBFloat16);
    const auto model = lively_llama(tiny_config(), 50, dtype);
    const std::vector<int32_t> tokens = random_tokens(50, 97, 11);
    const auto a = model->make_cache(64);
    const auto b = model->make_cache(64);
    (void)extend(*model, *a, std::span(tokens).first(10), Rows::none, by_teacher);
    b->adopt_prefix(*a, 10);
    for (size_t i = 10; i < tokens.size(); ++i)
        (void)step(*model, *b, tokens[i], by_student);
    (void)extend(*model, *a, std::span(tokens).subspan(10), Rows::none, by_teacher);
    const auto before = b->clone();
    b->splice(*a, 10, 40, 0, 40);
    CHECK(same_columns(*b, *before));
}

TEST_CASE("the teacher's cache is read where it lies: on the GPU where there is one", "[cache]") {
    const at::Device far =
        refreshlab::kernels::cuda_devices() > 0 ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
    const auto teacher = lively_llama(tiny_config(), 60, at::kBFloat16, far);
    const auto student = lively_llama(student_config(), 61, at::kBFloat16);
    const std::vector<int32_t> tokens = random_tokens(30, 97, 12);
    const auto teacher_cache = teacher->make_cache(32);
    (void)extend(*teacher, *teacher_cache, tokens, Rows::none, by_teacher);
    const auto cache = student->make_cache(32);
    cache->adopt_prefix(*teacher_cache, 10);
    CHECK(at::equal(cache->keys(0, 10), teacher_cache->keys(0, 10).to(at::kCPU)));
    for (size_t i = 10; i < 30; ++i)
        (void)step(*student, *cache, tokens[i], by_student);
    const auto before = cache->clone();
    cache->splice(*teacher_cache, 10, 20, 0, 20);
    CHECK(at::equal(cache->values(0, 30), teacher_cache->values(0, 30).to(at::kCPU)));
    cache->rewind(19, 30);
    CHECK(same_columns(*cache, *before));
}

} // namespace cache_contract_test
