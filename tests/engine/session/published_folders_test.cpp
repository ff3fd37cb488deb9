// Folders as the model families publish them: every spelling of config.json, shards, tied heads, lists of end tokens.
#include "engine/base/json_file.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/checkpoint/checkpoint.h"
#include "engine/model/derive/write_folder.h"
#include "engine/model/model_source.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/pair/pair_check.h"
#include "engine/session/pair/run_text.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "tests/support/forward.h"
#include "tests/support/share.h"

#include <ATen/ops/allclose.h>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

namespace published_folders_test {

using namespace refreshlab;
using refreshlab::test::extend;
using refreshlab::test::has_turn;

namespace {

const std::filesystem::path& folders() {
    static const std::filesystem::path made = [] {
        std::filesystem::path out = std::filesystem::path(RL_BUILD_DIR) / "test-files" / "published-folders";
        std::filesystem::create_directories(out);
        const std::string command = "'" RL_PYTHON "' -B '" RL_SOURCE_DIR
                                    "/tests/engine/session/published_folders.py' '" +
                                    out.string() + "' '" RL_SOURCE_DIR "/assets/models/llama-tales-student'";
        INFO(command);
        REQUIRE(std::system(command.c_str()) == 0);
        return out;
    }();
    return made;
}

} // namespace

TEST_CASE("published folders load and decode as transformers does, alone and as a pair",
          "[session][parity]") {
    if (!has_turn(1, "published folders")) SKIP("another commit's share");
    const nlohmann::json answers = read_json_file(folders() / "answers.json");
    REQUIRE(answers.size() == 20);
    size_t stopped = 0;
    for (const auto& [name, answer] : answers.items()) {
        INFO(name);
        RunConfig config;
        config.teacher_dir = config.student_dir = (folders() / name).string();
        config.prompt = "given as ids";
        const auto most = answer.at("most").get<int32_t>();
        config.max_tokens = most;
        config.threads = 1;
        const auto pair = load_pair(config);
        CHECK_FALSE(pair->geometry_difference);
        CHECK(pair->end_ids() == answer.at("ends").get<std::vector<int32_t>>());
        const auto wanted = answer.at("ids").get<std::vector<int32_t>>();
        const RunText text{{"", answer.at("prompt").get<std::vector<int32_t>>(), 0}, {}};

        const auto cache = pair->teacher->make_cache(64);
        const at::Tensor row =
            extend(*pair->teacher, *cache, text.prompt.ids, Rows::last, Origin::teacher_prefill)[0];
        const auto logits = answer.at("logits").get<std::vector<float>>();
        REQUIRE(row.numel() == static_cast<int64_t>(logits.size()));
        float worst = 0;
        for (size_t i = 0; i < logits.size(); ++i)
            worst = std::max(worst, std::abs(row.const_data_ptr<float>()[i] - logits[i]));
        CHECK(worst < 1e-4F);

        for (const Mode mode : {Mode::teacher, Mode::overfill}) {
            config.mode = mode;
            config.policy = preset_policy(mode == Mode::overfill ? "periodic" : "none");
            DecodeSession session(pair, config, {}, &text);
            while (session.step()) {
            }
            CHECK(session.recording()->token_ids() == wanted);
            const bool ended = std::ssize(wanted) < most;
            CHECK(session.recording()->end()->stop_reason == (ended ? "stop_token" : "max_tokens"));
            stopped += ended;
        }
        // A cache policy that has room for all changes nothing; with little room it evicts, under every mask and cap.
        config.mode = Mode::overfill;
        const double all = 60.0 + most; // prompt and text
        for (const double budget : {all, 40.0}) {
            config.student_cache = cache_policy_defaults("h2o", "a test");
            config.student_cache.values["budget"] = budget;
            DecodeSession session(pair, config, {}, &text);
            while (session.step()) {
            }
            if (budget == all) CHECK(session.recording()->token_ids() == wanted);
            CHECK(session.recording()->steps() > 20);
        }
        CHECK(check_pair(config.teacher_dir, config.student_dir).same_tokenizer);

        // A student made of it, and its folder: what files fuse is fused there too.
        config.student_cache = cache_policy_defaults("full", "a test");
        config.student_dir = "derive:bits=4,skip_mlp=1,skip_attention=2";
        const auto derived = load_pair(config);
        CHECK_FALSE(derived->geometry_difference);
        DecodeSession session(derived, config, {}, &text);
        while (session.step()) {
        }
        CHECK(session.recording()->steps() > 20);
        const std::filesystem::path out = folders() / "derived";
        std::filesystem::remove_all(out);
        const auto source = ModelSource::open(config.teacher_dir);
        write_folder(*source, *derived->student, out);
        const auto again = LlamaModel::load(out, at::kCPU, at::kFloat);
        const auto row_of = [&](const LlamaModel& model) {
            return extend(model, *model.make_cache(64), text.prompt.ids, Rows::last,
                          Origin::student_prefill)[0];
        };
        CHECK(at::allclose(row_of(*again), row_of(*derived->student), 1e-4, 1e-4));
        std::vector<std::string> written = Checkpoint::open(out).names(), published;
        for (const std::string& tensor : Checkpoint::open(config.teacher_dir).names())
            if (tensor != "lm_head.weight" || !pair->teacher->config().tied_head) published.push_back(tensor);
        CHECK(written == published);
    }
    CHECK(stopped == 14); // the seven folders whose generation_config.json lists one of the drawn tokens
}

} // namespace published_folders_test
