// A prompt's cache as a file: what is in it, runs that go on from it, and files that none goes on from.
#include "engine/base/json_file.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/prompt_cache.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/driver/replay.h"
#include "tests/engine/model/support.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/engine/session/trail.h"
#include "tests/support/refused.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace prompt_cache_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Tiny models that lie, as far as files go, where the bundled ones do.
const std::shared_ptr<const ModelPair>& pair_of_two() {
    static const std::shared_ptr<const ModelPair> pair = [] {
        auto named = std::make_shared<ModelPair>(*tiny_pair(11, 12, {.layers = 3}, {.layers = 3}));
        named->teacher_dir = RL_SOURCE_DIR "/assets/models/llama-tales-teacher";
        named->student_dir = RL_SOURCE_DIR "/assets/models/llama-tales-student";
        return named;
    }();
    return pair;
}

RunConfig run_of(Mode mode, const std::string& policy = "full") {
    RunConfig config = tiny_run(24);
    config.prompt =
        "Once upon a time a fox and a crow lived by the river, and every morning the crow sang of the "
        "mill, the bridge and the seven hills.";
    config.mode = mode;
    CachePolicyConfig cache = cache_policy_defaults(policy, "a test");
    for (const auto& [key, value] : {std::pair{"budget", 12.0}, {"window", 4.0}, {"partial", 12.0}})
        if (const auto found = cache.values.find(key); found != cache.values.end()) found->second = value;
    (mode == Mode::teacher ? config.teacher_cache : config.student_cache) = cache;
    if (mode == Mode::overfill)
        config.policy = policy_of({trigger("steps_since_refresh", Comparison::at_least, 5)});
    return config;
}

void finish(DecodeSession& session) {
    while (session.step()) {
    }
}

std::string save(const ScratchFolder& folder, const RunConfig& config, CacheForm form) {
    const std::string file = (folder.path() / "prompt.safetensors").string();
    DecodeSession(pair_of_two(), config).save_prompt_cache(file, form);
    return file;
}

const KvCache& read_by(const DecodeSession& session) {
    return session.config().mode == Mode::student ? *session.student_cache() : *session.teacher_cache();
}

} // namespace

TEST_CASE("a run from an exact cache has every bit of the run that read the prompt",
          "[session][prompt_cache]") {
    const ScratchFolder folder("exact-cache");
    for (const Mode mode : {Mode::student, Mode::teacher, Mode::overfill}) {
        const std::string file = save(folder, run_of(mode), CacheForm::exact);
        for (const char* policy : {"full", "streaming_llm", "tova", "snapkv", "refreshkv", "fasa"}) {
            CAPTURE(to_string(mode), policy);
            RunConfig config = run_of(mode, policy);
            DecodeSession whole(pair_of_two(), config);
            finish(whole);
            config.prompt_cache = file;
            DecodeSession session(pair_of_two(), config);
            finish(session);
            CHECK(trail(*session.recording()) == trail(*whole.recording()));
            CHECK(session.recording()->info().note.find("four bits") == std::string::npos);
            session.rewind(7);
            finish(session);
            CHECK(trail(*session.recording()) == trail(*whole.recording()));
            CHECK(trail(*replay(*session.recording(), pair_of_two())) == trail(*whole.recording()));
        }
    }
}

TEST_CASE("a longer prompt is read from where the file ends", "[session][prompt_cache]") {
    const ScratchFolder folder("longer-prompt");
    RunConfig config = run_of(Mode::overfill);
    const std::string file = save(folder, config, CacheForm::exact);
    config.prompt += " One day the fox said to the crow that the hills were too far away.";
    DecodeSession whole(pair_of_two(), config);
    finish(whole);
    config.prompt_cache = file;
    DecodeSession session(pair_of_two(), config);
    finish(session);
    CHECK(session.recording()->info().prompt_ids == whole.recording()->info().prompt_ids);
    CHECK(trail(*session.recording()) == trail(*whole.recording()));
}

TEST_CASE("four bits: a group is sixteen steps from its minimum on, and a run goes on from them",
          "[session][prompt_cache]") {
    const ScratchFolder folder("four-bits");
    RunConfig config = run_of(Mode::student);
    const std::string file = save(folder, config, CacheForm::four_bits);
    DecodeSession whole(pair_of_two(), config);
    const at::Tensor exact = whole.student_cache()->keys(1).clone();
    config.prompt_cache = file;
    DecodeSession session(pair_of_two(), config);
    CHECK_THAT(session.recording()->info().note, ContainsSubstring("four bits"));
    const auto length = std::ssize(session.recording()->info().prompt_ids);
    // One group a row: six channels. The last token is read again, and sees what is rounded.
    for (int64_t head = 0; head < 2; ++head) {
        for (int64_t p = 0; p + 1 < length; ++p) {
            const at::Tensor row = exact[head][p], got = session.student_cache()->keys(1)[head][p];
            const auto low = static_cast<float>(at::Half(row.min().item<float>()));
            const auto scale =
                static_cast<float>(at::Half((row.max().item<float>() - row.min().item<float>()) / 15));
            for (int64_t c = 0; c < 6; ++c) {
                const float code =
                    std::clamp(std::nearbyint((row[c].item<float>() - low) / scale), 0.0F, 15.0F);
                REQUIRE(got[c].item<float>() == code * scale + low);
            }
        }
    }
    finish(session);
    CHECK(trail(*replay(*session.recording(), pair_of_two())) == trail(*session.recording()));
    // Codes are 4 bits; scale and minimum 2 B each, 2 heads, 3 layers, keys and values.
    const PromptCacheFile saved(file);
    const auto bytes = std::filesystem::file_size(file);
    const int64_t numbers = length * 2 * 3 * 2 * 6, groups = length * 2 * 3 * 2;
    CHECK(static_cast<int64_t>(bytes) - numbers / 2 - groups * 4 - length * 12 < 4096); // the header
    CHECK(saved.origin().tokens == session.recording()->info().prompt_ids);
    CHECK(with_saved_prompt([&] {
              RunConfig none;
              none.prompt_cache = file;
              return none;
          }())
              .prompt == run_of(Mode::student).prompt);
}

TEST_CASE("what is not the run's own cache is refused in one line", "[session][prompt_cache]") {
    const ScratchFolder folder("refused-cache");
    RunConfig config = run_of(Mode::overfill);
    config.prompt_cache = save(folder, config, CacheForm::four_bits);
    const auto why = [&](const RunConfig& run) {
        return refused([&] { DecodeSession(pair_of_two(), run); });
    };
    CHECK(why(config) == "accepted");
    RunConfig student = config;
    student.mode = Mode::student;
    CHECK_THAT(why(student), ContainsSubstring("another model"));
    RunConfig dtype = config;
    dtype.dtype = Dtype::bf16;
    CHECK_THAT(why(dtype), ContainsSubstring("made in f32"));
    RunConfig prompt = config;
    prompt.prompt = "Once upon a time a crow";
    CHECK_THAT(why(prompt), ContainsSubstring("is not the prompt's"));
    prompt.prompt = "Once upon a time a fox";
    CHECK_THAT(why(prompt), ContainsSubstring("and the prompt has"));
    RunConfig sums = config;
    sums.student_cache = cache_policy_defaults("h2o", "a test");
    sums.student_cache.values.at("budget") = 12;
    CHECK_THAT(why(sums), ContainsSubstring("attention of the whole prompt"));
    // Files.
    const std::string whole = read_file(config.prompt_cache);
    RunConfig other = config;
    const auto with_bytes = [&](const std::string& bytes) {
        folder.write("other.safetensors", bytes);
        other.prompt_cache = (folder.path() / "other.safetensors").string();
        return why(other);
    };
    CHECK(with_bytes(whole) == "accepted");
    CHECK_THAT(with_bytes(whole.substr(0, whole.size() - 1)), ContainsSubstring("truncated"));
    std::string changed = whole;
    changed.replace(changed.find("\"version\":\"1\""), 13, "\"version\":\"9\"");
    CHECK_THAT(with_bytes(changed), ContainsSubstring("its version is 9, this program reads 1"));
    changed = whole;
    changed.replace(changed.find("refreshlab prompt"), 10, "othersuite");
    CHECK_THAT(with_bytes(changed), ContainsSubstring("is no saved prompt cache"));
    changed = whole;
    changed.replace(changed.find("layers.2.values.codes"), 8, "layers.7");
    CHECK_THAT(with_bytes(changed), ContainsSubstring("layers.2.values.codes"));
    other.prompt_cache = (folder.path() / "none.safetensors").string();
    CHECK_THAT(why(other), ContainsSubstring("none.safetensors"));
}

TEST_CASE("only a whole cache is saved", "[session][prompt_cache]") {
    const ScratchFolder folder("unsaved-cache");
    const std::string file = (folder.path() / "prompt.safetensors").string();
    const auto why = [&](const DecodeSession& session) {
        return refused([&] { session.save_prompt_cache(file, CacheForm::exact); });
    };
    const DecodeSession evicts(pair_of_two(), run_of(Mode::student, "h2o"));
    CHECK_THAT(why(evicts), ContainsSubstring("h2o does not keep it whole"));
    CHECK(!std::filesystem::exists(file));
    // The teacher's stays whole beside a student that evicts, also when it has read on.
    DecodeSession beside(pair_of_two(), run_of(Mode::overfill, "h2o"));
    finish(beside);
    CHECK(why(beside) == "accepted");
    RunConfig again = run_of(Mode::overfill);
    again.prompt_cache = file;
    const DecodeSession from(pair_of_two(), again);
    const auto length = std::ssize(from.recording()->info().prompt_ids);
    CHECK(at::equal(read_by(from).keys(0, length), read_by(beside).keys(0, length)));
    CHECK_THAT(why(from), ContainsSubstring("itself went on from"));
}

} // namespace prompt_cache_test
