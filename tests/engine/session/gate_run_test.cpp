// Gates as files: runs that read them, what they record, and what is refused. Chunks of a prompt give a gate's scores the same bits.
#include "engine/base/json_file.h"
#include "engine/cache/kv_cache.h"
#include "engine/control/cache_choice.h"
#include "engine/control/model_files.h"
#include "engine/control/parameters.h"
#include "engine/model/gates/gate_file.h"
#include "engine/model/gates/gate_inputs.h"
#include "engine/model/prompt_cache.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/pair/policy_aids.h"
#include "engine/session/policies/shared_prompt.h"
#include "tests/engine/model/support.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/engine/session/trail.h"
#include "tests/support/refused.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

namespace gate_run_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

/// Tiny models that lie, as far as files go, where the bundled ones do; without gates at hand.
const std::shared_ptr<const ModelPair>& named_pair() {
    static const std::shared_ptr<const ModelPair> pair = [] {
        auto named = std::make_shared<ModelPair>(*tiny_pair(11, 12, {.layers = 3}, {.layers = 3}));
        named->teacher_dir = RL_SOURCE_DIR "/assets/models/llama-tales-teacher";
        named->student_dir = RL_SOURCE_DIR "/assets/models/llama-tales-student";
        named->teacher_gates.clear();
        named->student_gates.clear();
        return named;
    }();
    return pair;
}

/// Gates of both models of named_pair().
struct GateFolder {
    ScratchFolder folder{"gate-files"};
    [[nodiscard]] std::string path(const std::string& name) const { return (folder.path() / name).string(); }
    std::string save(const char* method, bool teacher, uint64_t seed) const {
        const ModelPair& pair = *named_pair();
        const ModelConfig& model = (teacher ? pair.teacher : pair.student)->config();
        const GateKind& kind = *find_gate_kind(method);
        const auto gate = TokenGate::untrained(kind, model, 16, default_settings(kind), seed);
        for (const auto& layer : gate->weights())
            if (&layer == &gate->weights().front() || !layer[1].is_same(gate->weights().front()[1]))
                layer[1].mul_(20); // once, where layers share it
        const std::string file =
            path(std::string(method) + (teacher ? "-teacher" : "-student") + ".safetensors");
        save_gate(file, *gate, model, {pair_fingerprint(pair, teacher), "tales", "{}"});
        return file;
    }
};

RunConfig run_of(Mode mode, const char* method) {
    RunConfig config = tiny_run(24);
    config.prompt =
        "Once upon a time a fox and a crow lived by the river, and every morning the crow sang of "
        "the mill, the bridge and the seven hills.";
    config.mode = mode;
    config.teacher_dir = named_pair()->teacher_dir;
    config.student_dir = named_pair()->student_dir;
    CachePolicyConfig cache = cache_policy_defaults(method, "a test");
    cache.values.at("budget") = 10;
    if (const auto last = cache.values.find("last_tokens"); last != cache.values.end()) last->second = 4;
    (mode == Mode::teacher ? config.teacher_cache : config.student_cache) = cache;
    return config;
}

std::shared_ptr<Recording> made(const RunConfig& config) {
    DecodeSession session(named_pair(), config);
    while (session.step()) {
    }
    return session.recording();
}

/// Scores of a pass's rows, layer after layer.
class Scores final : public LayerHooks {
public:
    Scores(const TokenGate& gate, const ModelConfig& model)
        : m_gate(gate)
        , m_rope(model, at::kCPU)
        , of_layer(static_cast<size_t>(model.num_layers)) {}
    LayerTaps taps(int64_t) const override {
        LayerTaps taps;
        taps.all_rows = true;
        return taps;
    }
    void observe(const LayerView& view) override {
        of_layer[static_cast<size_t>(view.layer)].push_back(
            m_gate.scores(view.layer, gate_inputs(view, m_rope), running_math()));
    }

private:
    const TokenGate& m_gate;
    RopeTable m_rope;

public:
    std::vector<std::vector<at::Tensor>> of_layer;
};

} // namespace

TEST_CASE("a gate gives a token the same bits in a prompt read at once, in chunks and in steps",
          "[session][cache_policy]") {
    const auto model = tiny_model(11, {.layers = 3, .heads = 6, .kv_heads = 3});
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < 75; ++i)
        ids.push_back((7 + 37 * i) % 4096);
    for (const auto& [method, gate] : untrained_gates(model->config(), at::kCPU, 5)) {
        CAPTURE(method);
        if (gate->kind().scores == nullptr) continue;
        std::vector<std::vector<at::Tensor>> all;
        for (const int64_t chunk : {75, 7, 1}) {
            Scores scores(*gate, model->config());
            LayerHooks* const hooks[] = {&scores};
            const auto cache = model->make_cache(75);
            for (int64_t first = 0; first < 75; first += chunk) {
                StepInputs in;
                in.tokens = std::span(ids).subspan(static_cast<size_t>(first),
                                                   static_cast<size_t>(std::min<int64_t>(chunk, 75 - first)));
                in.hooks = hooks;
                if (chunk == 1) {
                    (void)model->forward().step(*cache, in);
                } else {
                    in.rows = Rows::none;
                    (void)model->forward().prefill(*cache, in);
                }
            }
            auto& layers = all.emplace_back();
            for (const auto& parts : scores.of_layer)
                layers.push_back(gate->together(std::ssize(layers), at::cat(parts), running_math()));
        }
        for (size_t layer = 0; layer < all[0].size(); ++layer) {
            CHECK(all[0][layer].sizes() == at::IntArrayRef{75, 3});
            CHECK(at::equal(all[0][layer], all[1][layer]));
            CHECK(at::equal(all[0][layer], all[2][layer]));
        }
    }
}

TEST_CASE("a gate is asked about every token of a prompt that is read in several chunks",
          "[session][cache_policy]") {
    constexpr int64_t length = 600; // a chunk has 512
    const auto model = tiny_model(11, {.layers = 3, .heads = 6, .kv_heads = 3, .max_position = 1024});
    const ModelConfig& config = model->config();
    const ModelGates gates = untrained_gates(config, at::kCPU, 5);
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < length; ++i)
        ids.push_back((7 + 37 * i) % 4096);
    for (const auto& [method, gate] : gates) {
        CAPTURE(method);
        if (gate->kind().scores == nullptr) continue;
        CachePolicyConfig policy = cache_policy_defaults(method, "a test");
        policy.values.at("budget") = 50;
        if (const auto choose = policy.values.find("choose"); choose != policy.values.end())
            choose->second = 1; // by the budget
        PolicyRunner runner(policy, config, config, at::kCPU, length, 1, aids_of(policy, gates, config));
        PolicyRunner* const alone[] = {&runner};
        const auto whole = model->make_cache(length), cache = model->make_cache(length, runner.layout());
        (void)read_shared_prompt(*model, ids, *whole, alone);
        cache->adopt_prefix(*whole, length);
        runner.finish_prompt(*cache);
        size_t held = 0;
        for (int64_t layer = 0; layer < 3; ++layer)
            for (int64_t head = 0; head < 3; ++head)
                held += cache->held(layer, head).size();
        CHECK(held < 9 * length / 2);
        CHECK(held >= 9 * 50);
    }
}

TEST_CASE("what a gate's file holds is what was saved, and a gate of another width reads as well",
          "[session][cache_policy]") {
    const GateFolder files;
    const ModelConfig& model = named_pair()->student->config();
    const std::string fingerprint = pair_fingerprint(*named_pair(), false);
    for (const char* method :
         {"trim_kv", "make_each_token_count", "locret", "attention_gate", "lookahead_kv"}) {
        const std::string file = files.save(method, false, 3), again = files.path("again.safetensors");
        const auto gate = load_gate(file, method, model, fingerprint);
        CHECK(gate->width() == 16);
        save_gate(again, *gate, model, {fingerprint, "tales", "{}"});
        CHECK(file_digest(again) == file_digest(file));
    }
}

TEST_CASE("a run reads its gates, says which, and the recorded one wants the same again",
          "[session][cache_policy]") {
    const GateFolder files;
    const std::string trim_teacher = files.save("trim_kv", true, 1),
                      trim_student = files.save("trim_kv", false, 2),
                      locret_teacher = files.save("locret", true, 3);
    // Each mode: whose gate it is.
    RunConfig student = run_of(Mode::student, "trim_kv"), teacher = run_of(Mode::teacher, "trim_kv"),
              both = run_of(Mode::overfill, "trim_kv"), prompt = run_of(Mode::overfill, "locret");
    set_parameter(student, "student_cache.gate", trim_student);
    set_parameter(teacher, "teacher_cache.gate", trim_teacher);
    set_parameter(both, "student_cache.gate", trim_teacher);
    set_parameter(both, "student_cache.step_gate", trim_student);
    set_parameter(prompt, "student_cache.gate", locret_teacher);
    for (const RunConfig& config : {student, teacher, both, prompt}) {
        CAPTURE(to_string(config.mode));
        const auto run = made(config);
        CHECK(run->info().config == config);
        const CachePolicyConfig& said = deciding_cache(run->info().config);
        CHECK(said.files.at("gate").digest == file_digest(said.files.at("gate").path));
        // The configuration as a trace has it gives the run again.
        const RunConfig stored = run_config_from_json(to_json(run->info().config), "a test");
        CHECK(deciding_cache(stored).files.at("gate").digest == said.files.at("gate").digest);
        CHECK(trail(*made(stored)) == trail(*run));
    }
    // Another gate at the same place: a new run takes it, the recorded one refuses it.
    const auto before = made(student);
    (void)files.save("trim_kv", false, 9);
    CHECK(trail(*made(student)) != trail(*before));
    CHECK_THAT(refused([&] { (void)made(before->info().config); }),
               ContainsSubstring("another one than the recorded"));
}

TEST_CASE("rewinds bring a gate's scores back", "[session][cache_policy]") {
    const GateFolder files;
    RunConfig config = run_of(Mode::student, "trim_kv");
    set_parameter(config, "student_cache.gate", files.save("trim_kv", false, 2));
    const auto straight = made(config);
    DecodeSession session(named_pair(), config);
    for (int i = 0; i < 15; ++i)
        REQUIRE(session.step());
    session.rewind(4);
    while (session.step()) {
    }
    CHECK(trail(*session.recording()) == trail(*straight));
}

TEST_CASE("gates that are not there, foreign or another model's are refused in one line",
          "[session][cache_policy][bad-input]") {
    const GateFolder files;
    const auto with = [](const std::string& gate) {
        RunConfig config = run_of(Mode::student, "trim_kv");
        set_parameter(config, "student_cache.gate", gate);
        return config;
    };
    const auto said = [](const RunConfig& config) { return refused([&] { (void)made(config); }); };
    CHECK_THAT(said(with(files.path("none.safetensors"))), ContainsSubstring("none.safetensors"));
    CHECK_THAT(said(with(files.save("trim_kv", true, 1))),
               ContainsSubstring("another model (tales)") && ContainsSubstring("train-gate trim_kv"));
    CHECK_THAT(said(with(files.save("locret", false, 1))),
               ContainsSubstring("gate of locret, not of trim_kv"));
    CHECK_THAT(said(with(RL_SOURCE_DIR "/assets/models/llama-tales-student/model.safetensors")),
               ContainsSubstring("no trained gate"));
    const std::string text = files.path("text.safetensors");
    write_file(text, "hello");
    CHECK_THAT(said(with(text)), ContainsSubstring("text.safetensors"));
    const std::string whole = read_file(files.save("trim_kv", false, 1));
    write_file(text, whole.substr(0, whole.size() - 10));
    CHECK_THAT(said(with(text)), ContainsSubstring("text.safetensors"));

    // Nothing named, nothing beside the model.
    auto bare = std::make_shared<ModelPair>(*named_pair());
    RunConfig config = run_of(Mode::student, "trim_kv");
    config.student_dir = bare->student_dir = files.folder.path().string();
    CHECK_THAT(refused([&] { DecodeSession session(bare, config); }),
               ContainsSubstring("has no trained gate") &&
                   ContainsSubstring("gates/trim_kv.safetensors is not there"));
    // A saved prompt has no scores.
    RunConfig saved = run_of(Mode::student, "trim_kv");
    set_parameter(saved, "student_cache.gate", files.save("trim_kv", false, 1));
    RunConfig keeping = saved;
    keeping.student_cache = {};
    const std::string cache = files.path("prompt.safetensors");
    DecodeSession(named_pair(), keeping).save_prompt_cache(cache, CacheForm::exact);
    saved.prompt_cache = cache;
    CHECK_THAT(said(saved), ContainsSubstring("its gate scores every token"));
}

TEST_CASE("gates and profiles are looked for beside the model", "[session][cache_policy]") {
    const ScratchFolder folder("gates");
    const std::string model = folder.path().string();
    constexpr auto gate = CacheFile::Kind::gate, profile = CacheFile::Kind::profile;
    CHECK(file_beside(model, "compress_kv", profile) == folder.path() / "profiles/compress_kv.json");
    CHECK(file_beside("a.gguf", "compress_kv", profile) == fs::path("a.gguf.profiles/compress_kv.json"));
    CHECK(file_beside(model, "trim_kv", gate) == folder.path() / "gates/trim_kv.safetensors");
    CHECK(file_beside(model + "/", "trim_kv", gate) == folder.path() / "gates/trim_kv.safetensors");
    CHECK(file_beside("some/model.gguf", "locret", gate) ==
          fs::path("some/model.gguf.gates/locret.safetensors"));
    CHECK(file_beside("derive:bits=3", "locret", gate).empty());
    RunConfig config = run_of(Mode::overfill, "trim_kv");
    const auto files = model_files(config);
    REQUIRE(files.size() == 2);
    CHECK((files[0].key == "gate" && files[0].of_teacher && !files[0].named));
    CHECK((files[1].key == "step_gate" && !files[1].of_teacher));
    CHECK(model_files(run_of(Mode::student, "trim_kv")).size() == 1);
    CHECK(model_files(run_of(Mode::student, "locret"))[0].path ==
          file_beside(config.student_dir, "locret", gate));
    const auto soft = model_files(run_of(Mode::overfill, "lookahead_kv"));
    REQUIRE(soft.size() == 1); // whoever decodes reads them
    CHECK((soft[0].key == "gate" && !soft[0].of_teacher));
    CHECK(model_files(run_of(Mode::teacher, "lookahead_kv"))[0].of_teacher);
    const auto profiles = model_files(run_of(Mode::overfill, "compress_kv"));
    REQUIRE(profiles.size() == 1);
    CHECK((profiles[0].kind == profile && profiles[0].of_teacher));
    config.student_cache = {};
    CHECK(model_files(config).empty());
}

} // namespace gate_run_test
