// `run --save-cache` and `run --cache`: a prompt that is read once.
#include "tests/app/program.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace prompt_cache_cli_test {

namespace fs = std::filesystem;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a prompt's cache is saved, and runs go on from it without a prompt", "[cli][prompt_cache]") {
    const Scratch scratch("prompt-cache");
    const std::string exact = scratch / "exact.safetensors", four = scratch / "four.safetensors",
                      trace = scratch / "run.rlt";
    const std::vector<std::string> prompt = {"run", "--prompt", "Write a chronicle of 3 companies.",
                                             "--max-tokens", "16"};
    const auto with = [](std::vector<std::string> arguments, const std::vector<std::string>& more) {
        arguments.insert(arguments.end(), more.begin(), more.end());
        return arguments;
    };
    const Outcome first = refreshlab_cli(with(prompt, {"--save-cache", exact, "--exact-cache"}));
    REQUIRE(first.status == 0);
    CHECK_THAT(first.err, ContainsSubstring("prompt tokens is in " + exact));
    REQUIRE(refreshlab_cli(with(prompt, {"--save-cache", four})).status == 0);
    CHECK(fs::file_size(four) < fs::file_size(exact) / 3); // 36 B for 64 numbers of 4 B, and the header

    const Outcome again = refreshlab_cli({"run", "--cache", exact, "--max-tokens", "16", "--record", trace});
    REQUIRE(again.status == 0);
    CHECK(again.out == first.out);
    const Outcome replayed = refreshlab_cli({"run", "--replay", trace});
    CHECK(replayed.status == 0);
    CHECK(replayed.out == first.out);
    const Outcome coded = refreshlab_cli({"run", "--cache", four, "--max-tokens", "16"});
    CHECK(coded.status == 0);
    CHECK_THAT(coded.err, ContainsSubstring("note: ") && ContainsSubstring("four bits"));

    refused_with({"run", "--cache", exact, "--mode", "student"}, "another model");
    refused_with({"run", "--cache", exact, "--dtype", "bf16"}, "made in f32");
    refused_with({"run", "--cache", exact, "--prompt", "Tell a story about a fox."}, "is not the prompt's");
    refused_with({"run", "--cache", exact, "--student-cache", "h2o", "--set", "student_cache.budget=12"},
                 "attention of the whole prompt");
    refused_with({"run", "--cache", scratch / "none.safetensors"}, "none.safetensors");
    refused_with({"run", "--cache", trace}, "safetensors");
    refused_with(with(prompt, {"--exact-cache"}), "--save-cache");
    refused_with(with(prompt, {"--save-cache", scratch / "no-folder/a.safetensors"}), "no such folder");
    refused_with({"run", "--cache", exact, "--save-cache", exact}, "--save-cache");
    refused_with(with(prompt, {"--mode", "student", "--student-cache", "h2o", "--set",
                               "student_cache.budget=12", "--save-cache", scratch / "part.safetensors"}),
                 "does not keep it whole");
    CHECK(!fs::exists(scratch / "part.safetensors"));
}

} // namespace prompt_cache_cli_test
