#include "engine/base/bytes_text.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/llama_model.h"
#include "engine/model/memory_estimate.h"
#include "tests/engine/model/support.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <array>

namespace memory_estimate_test {

using Catch::Matchers::ContainsSubstring;
using refreshlab::bytes_text;
using refreshlab::Dtype;
using refreshlab::Error;
using refreshlab::ErrorKind;
using refreshlab::estimate_memory;
using refreshlab::host_memory_available;
using refreshlab::MemoryEstimate;
using refreshlab::ModelConfig;
using refreshlab::ModelNeed;
using refreshlab::require_memory;
using refreshlab::test::lively_llama;
using refreshlab::test::ScratchFolder;
using refreshlab::test::tiny_config;

namespace {

ModelNeed need(const ModelConfig& config, Dtype dtype, int64_t capacity) {
    return {.name = "teacher", .config = config, .dtype = dtype, .device = "cpu", .capacity = capacity};
}

} // namespace

TEST_CASE("the estimate of weights and caches is what models and caches then hold", "[model]") {
    ModelConfig odd = tiny_config(); // padded widths
    ModelConfig tied = tiny_config();
    tied.tied_head = true;
    tied.hidden_size = 48;
    ModelConfig normed = tiny_config();
    normed.qk_norm = normed.qkv_bias = true;
    ModelConfig biased = tiny_config();
    biased.qkv_bias = biased.output_bias = biased.mlp_bias = true;
    for (const ModelConfig& config : {odd, tied, normed, biased}) {
        for (const auto& [dtype, type] :
             {std::pair(Dtype::f32, at::kFloat), std::pair(Dtype::bf16, at::kBFloat16),
              std::pair(Dtype::f16, at::kHalf)}) {
            const auto model = lively_llama(config, 1, type);
            const auto estimates = estimate_memory(std::array{need(config, dtype, 300)});
            REQUIRE(estimates.size() == 1);
            CHECK(estimates[0].weights == model->weight_bytes());
            CHECK(estimates[0].cache == model->make_cache(300)->bytes_reserved());
            CHECK(estimates[0].cache_per_position * 300 == estimates[0].cache);
            CHECK(estimates[0].workspace > 0);
            CHECK(estimates[0].needed() ==
                  estimates[0].weights + estimates[0].cache + estimates[0].workspace);
        }
    }
    // Llama-3.2-3B in bf16: reference/refresh.md, 9.
    ModelConfig large = tiny_config();
    large.num_layers = 28;
    large.num_heads = 24;
    large.num_kv_heads = 8;
    large.head_dim = 128;
    CHECK(estimate_memory(std::array{need(large, Dtype::bf16, 2048)})[0].cache_per_position == 114'688);
}

TEST_CASE("models on one device are added up, models on two are estimated apart", "[model]") {
    const ModelNeed teacher = need(tiny_config(), Dtype::f32, 100);
    ModelNeed student = need(tiny_config(), Dtype::bf16, 100);
    const auto together = estimate_memory(std::array{teacher, student});
    REQUIRE(together.size() == 1);
    const MemoryEstimate alone = estimate_memory(std::array{teacher})[0];
    CHECK(together[0].weights == alone.weights * 3 / 2);
    CHECK(together[0].cache == alone.cache * 3 / 2);
    student.device = "cuda:0";
    const auto apart = estimate_memory(std::array{teacher, student});
    REQUIRE(apart.size() == 2);
    CHECK(apart[0].device == "cpu");
    CHECK(apart[0].weights == alone.weights);
    CHECK(apart[1].device == "cuda:0");
    CHECK(apart[1].cache == alone.cache / 2);
    // On a GPU the kernels hold memory of their own, the more the longer the cache and the more rows ride along.
    ModelNeed on_cpu = student;
    on_cpu.device = "cpu";
    const int64_t plain = estimate_memory(std::array{on_cpu})[0].workspace;
    CHECK(apart[1].workspace > plain);
    ModelNeed longer = student, wider = student;
    longer.capacity = 100'000;
    wider.step_rows = 9;
    CHECK(estimate_memory(std::array{longer})[0].workspace > apart[1].workspace);
    CHECK(estimate_memory(std::array{wider})[0].workspace > apart[1].workspace);
    ModelNeed more_rows = teacher;
    more_rows.logit_rows += 256;
    CHECK(estimate_memory(std::array{more_rows})[0].workspace == alone.workspace + 256 * 4 * 97);
    ModelNeed no_cache = teacher;
    no_cache.capacity = 0;
    CHECK(estimate_memory(std::array{no_cache})[0].cache == 0);
}

TEST_CASE("what cannot fit is refused with the numbers and what would help", "[model]") {
    CHECK_NOTHROW(require_memory(estimate_memory(std::array{need(tiny_config(), Dtype::f32, 100)})));
    const auto too_long = estimate_memory(std::array{need(tiny_config(), Dtype::f32, int64_t{1} << 50)});
    CHECK_FALSE(too_long[0].fits());
    try {
        require_memory(too_long);
        FAIL("petabytes were accepted");
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::failure);
        CHECK_THAT(error.what(), ContainsSubstring("not enough memory") && ContainsSubstring("caches") &&
                                     ContainsSubstring("available"));
        CHECK_THAT(error.hint(), ContainsSubstring("positions of context fit"));
    }
    ModelConfig huge = tiny_config();
    huge.hidden_size = huge.intermediate_size = int64_t{1} << 20;
    huge.num_layers = 1000;
    const auto too_wide = estimate_memory(std::array{need(huge, Dtype::f32, 10)});
    CHECK_THAT(too_wide[0].advice(), ContainsSubstring("bf16"));
    CHECK_THAT(estimate_memory(std::array{need(huge, Dtype::f16, 10)})[0].advice(),
               ContainsSubstring("smaller model"));
    // Sums of absurd sizes stay absurd instead of wrapping around.
    const auto saturated =
        estimate_memory(std::array{need(huge, Dtype::f32, INT64_MAX), need(huge, Dtype::f32, INT64_MAX)});
    CHECK(saturated[0].needed() == INT64_MAX);
    CHECK_FALSE(saturated[0].fits());

    MemoryEstimate unknown;
    unknown.device = "cpu";
    unknown.weights = INT64_MAX;
    CHECK(unknown.fits()); // a machine that does not say refuses nothing
    CHECK_THAT(unknown.line(), ContainsSubstring("an unknown amount available"));
    unknown.weights = 2'500'000'000;
    unknown.cache = 400'000'000;
    unknown.workspace = 100'000'000;
    unknown.available = 2'999'999'999;
    CHECK_FALSE(unknown.fits());
    CHECK(unknown.line() ==
          "cpu: 3.0 GB needed (weights 2.5 GB, caches 400.0 MB, working space 100.0 MB), 3.0 GB "
          "available");
    unknown.available = 3'000'000'000;
    CHECK(unknown.fits());
}

TEST_CASE("available memory is the host's, lowered to what the control groups leave", "[model]") {
    const ScratchFolder root("memory");
    const auto file = [&](const std::string& path, const std::string& text) {
        std::filesystem::create_directories((root.path() / path).parent_path());
        root.write(path, text);
    };
    CHECK_FALSE(host_memory_available(root.path()).has_value());
    file("proc/meminfo",
         "MemTotal:       8000000 kB\nMemFree:         100000 kB\nMemAvailable:   4000000 kB\n");
    CHECK(host_memory_available(root.path()) == 4'096'000'000);

    SECTION("version 2: the tightest group on the way up counts, pages of files are free") {
        file("proc/self/cgroup", "0::/user/session\n");
        file("sys/fs/cgroup/user/session/memory.max", "max\n");
        file("sys/fs/cgroup/user/session/memory.current", "5\n");
        CHECK(host_memory_available(root.path()) == 4'096'000'000);
        file("sys/fs/cgroup/user/memory.max", "1000000\n");
        file("sys/fs/cgroup/user/memory.current", "900000\n");
        CHECK(host_memory_available(root.path()) == 100'000);
        file("sys/fs/cgroup/user/memory.stat", "anon 5\ninactive_file 30000\nactive_file 1000\n");
        CHECK(host_memory_available(root.path()) == 131'000);
        file("sys/fs/cgroup/user/memory.current", "2000000\n");
        CHECK(host_memory_available(root.path()) == 0);
    }
    SECTION("version 1, in a container that does not see its own path") {
        file("proc/self/cgroup", "9:cpu,cpuacct:/\n4:memory:/docker/abc\n0::/\n");
        file("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000\n");
        file("sys/fs/cgroup/memory/memory.usage_in_bytes", "500000\n");
        file("sys/fs/cgroup/memory/memory.stat", "cache 1\ntotal_inactive_file 100000\n");
        CHECK(host_memory_available(root.path()) == 1'600'000);
    }
    SECTION("files that say nonsense say nothing") {
        file("proc/self/cgroup", "rubbish\n4:memory\n0::/../..\n");
        file("sys/fs/cgroup/memory.max", "many\n");
        file("sys/fs/cgroup/memory.current", "-7\n");
        CHECK(host_memory_available(root.path()) == 4'096'000'000);
        file("proc/meminfo", "MemAvailable: lots\n");
        CHECK_FALSE(host_memory_available(root.path()).has_value());
    }
}

TEST_CASE("this machine says how much memory it has", "[model]") {
    const auto available = refreshlab::device_memory_available("cpu");
    REQUIRE(available.has_value());
    CHECK(*available > 1'000'000);
    CHECK_FALSE(refreshlab::device_memory_available("cuda:123").has_value());
}

TEST_CASE("bytes are written with one digit in decimal units", "[model]") {
    CHECK(bytes_text(0) == "0 B");
    CHECK(bytes_text(999) == "999 B");
    CHECK(bytes_text(1000) == "1.0 kB");
    CHECK(bytes_text(999'949) == "999.9 kB");
    CHECK(bytes_text(999'950) == "1.0 MB");
    CHECK(bytes_text(114'688) == "114.7 kB");
    CHECK(bytes_text(12'100'000'000) == "12.1 GB");
    CHECK(bytes_text(INT64_MAX) == "9223.4 PB");
}

} // namespace memory_estimate_test
