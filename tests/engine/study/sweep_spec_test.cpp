// The grid as data: what it expands to, and what is refused.
#include "engine/base/json_file.h"
#include "engine/model/model_fingerprint.h"
#include "engine/study/sweep/sweep_cells.h"
#include "kernels/execution/isa.h"
#include "tests/engine/study/sweep_fixture.h"
#include "tests/support/seed.h"

#include <catch2/catch_get_random_seed.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <set>

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

TEST_CASE("a grid expands to what nested loops give", "[study][sweep]") {
    const uint64_t seed = test::seed(GENERATE(range(0U, 20U)));
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto some = [&](auto... values) {
        std::vector<json> all{json(values)...};
        std::vector<json> chosen;
        for (const json& value : all) {
            if (random() % 2 == 0) chosen.push_back(value);
        }
        if (chosen.empty()) chosen.push_back(all[random() % all.size()]);
        return chosen;
    };
    auto modes = some("teacher", "student", "overfill");
    if (std::find(modes.begin(), modes.end(), json("overfill")) == modes.end())
        modes.emplace_back("overfill");
    const auto thresholds = some(4, 5.5, 6), strides = some(1, 16), every = some(32, 64),
               windows = some(nullptr, 16, 64), on_fire = some("keep", "redraw"),
               temperatures = some(0.0, 0.5, 1.0), lengths = some(8, 9), mc_samples = some(2, 4),
               prompts = some("a", "b", "c"), seeds = some(1, 2, 18446744073709551615U);
    json spec{{"modes", modes},
              {"policies",
               {"none",
                {{"preset", "entropy"},
                 {"set",
                  {{"entropy.threshold", thresholds},
                   {random() % 2 == 0 ? "entropy.every" : "entropy.stride", strides}}}},
                "periodic"}},
              {"windows", windows},
              {"set", {{"on_fire", on_fire}, {"periodic.every", every}, {"mc.samples", mc_samples}}},
              {"samplers", json::array()},
              {"max_tokens", lengths},
              {"prompts", prompts},
              {"seeds", seeds}};
    for (const json& t : temperatures)
        spec["samplers"].push_back({{"temperature", t}});
    CAPTURE(spec.dump());
    const SweepSpec read = parse(spec);

    // The same by plain loops, as a set of configurations.
    std::set<std::string> wanted;
    size_t rows = 0;
    for (const json& temperature : temperatures) {
        for (const json& length : lengths) {
            for (const json& samples : mc_samples) {
                std::vector<RunConfig> arms;
                RunConfig base = bundled_pair();
                base.capture.attention = false;
                base.sampler.temperature = temperature.get<double>();
                base.max_tokens = length.get<int32_t>();
                base.mc.samples = samples.get<int32_t>();
                for (const json& mode : modes) {
                    RunConfig c = base;
                    if (mode == "teacher" || mode == "student") {
                        c.mode = mode == "teacher" ? Mode::teacher : Mode::student;
                        arms.push_back(c);
                        continue;
                    }
                    arms.push_back(c); // none
                    for (const json& window : windows) {
                        for (const json& fire : on_fire) {
                            const auto finish = [&](RunConfig with) {
                                if (!window.is_null()) with.policy.window = window.get<int32_t>();
                                with.policy.on_fire = fire == "keep" ? OnFire::keep : OnFire::redraw;
                                arms.push_back(with);
                            };
                            for (const json& threshold : thresholds) {
                                for (const json& stride : strides) {
                                    RunConfig with = c;
                                    with.policy = preset_policy("entropy");
                                    with.policy.triggers[0].threshold = threshold.get<double>();
                                    with.policy.triggers[0].every = stride.get<int32_t>();
                                    finish(with);
                                }
                            }
                            for (const json& r : every) {
                                RunConfig with = c;
                                with.policy = preset_policy("periodic");
                                with.policy.triggers[0].threshold = r.get<double>();
                                finish(with);
                            }
                        }
                    }
                }
                rows += arms.size();
                for (const RunConfig& arm : arms) {
                    for (const json& prompt : prompts) {
                        for (const json& s : seeds) {
                            RunConfig c = arm;
                            c.prompt = prompt.get<std::string>();
                            c.seed = s.get<uint64_t>();
                            wanted.insert(to_json(c).dump());
                        }
                    }
                }
            }
        }
    }
    CHECK(read.rows.size() == rows);
    CHECK(static_cast<size_t>(read.num_cells()) == wanted.size());
    std::set<std::string> found;
    for (size_t row = 0; row < read.rows.size(); ++row) {
        for (size_t prompt = 0; prompt < read.prompts.size(); ++prompt) {
            for (const uint64_t s : read.seeds)
                found.insert(to_json(read.config(row, prompt, s)).dump());
        }
    }
    CHECK(found == wanted);

    // Every row with a policy knows the row that differs from it in nothing else.
    for (const SweepRow& row : read.rows) {
        const bool policy = row.config.mode == Mode::overfill && refreshes_by_itself(row.config.policy);
        REQUIRE(row.none_row.has_value() == policy);
        if (!policy) continue;
        RunConfig without = row.config;
        without.policy = RefreshPolicy{};
        CHECK(read.rows[*row.none_row].config == without);
    }
    // No two cells have one id, no two rows one label.
    const SweepPlan plan = make_sweep_plan(read, some_models);
    std::set<std::string> ids, labels;
    for (const SweepCell& cell : plan.cells)
        ids.insert(cell.id);
    for (const SweepRow& row : read.rows)
        labels.insert(row.label);
    CHECK(ids.size() == plan.cells.size());
    CHECK(labels.size() == read.rows.size());
}

TEST_CASE("rows are named like the literature's", "[study][sweep]") {
    const SweepSpec spec = parse({{"modes", {"teacher", "student", "overfill"}},
                                  {"policies", {"none", "entropy", "burst", "kl"}},
                                  {"prompts", "x"}});
    std::vector<std::string> labels;
    for (const SweepRow& row : spec.rows)
        labels.push_back(row.label);
    const std::string entropy = policy_label(preset_policy("entropy"));
    CHECK(labels == std::vector<std::string>{"Teacher", "Student", "OverFill", "OverFill + " + entropy,
                                             "OverFill + burst (steps_since_refresh >= 8; window 8)",
                                             "OverFill + " + policy_label(preset_policy("kl"))});
    CHECK_THAT(entropy, ContainsSubstring("entropy_bits > ") && ContainsSubstring("every 16 cool-down 32"));
}

TEST_CASE("a policy's own list stands over the shared one", "[study][sweep]") {
    const SweepSpec spec =
        parse({{"policies", {{{"preset", "entropy"}, {"set", {{"entropy.threshold", {3}}}}}}},
               {"set", {{"entropy_bits.threshold", {1, 2}}}},
               {"prompts", "x"}});
    REQUIRE(spec.rows.size() == 1);
    CHECK(spec.rows[0].config.policy.triggers[0].threshold == 3);
}

TEST_CASE("inline policies, policy files and presets are one thing", "[study][sweep]") {
    const json gate{{"name", "gate"},
                    {"when", {{"any", {{{"signal", "entropy_bits"}, {"above", 6.0}}}}}},
                    {"do", {{"refresh", {{"window", nullptr}}}}}};
    const SweepSpec spec =
        parse({{"policies",
                {gate,
                 {{"file", "gate.json"}, {"name", "from file"}},
                 {{"policy", gate}, {"set", {{"entropy.threshold", {5, 7}}}}, {"name", "swept"}}}},
               {"prompts", "x"}},
              {{"gate.json", gate.dump()}});
    REQUIRE(spec.rows.size() == 4);
    CHECK((spec.rows[0].config.policy.triggers == spec.rows[1].config.policy.triggers));
    CHECK(spec.rows[2].config.policy.triggers[0].threshold == 5);
    CHECK(spec.rows[3].config.policy.triggers[0].threshold == 7);
    // The name is no part of the run: both rows of the same gate share one computation.
    const SweepPlan plan = make_sweep_plan(spec, some_models);
    CHECK(plan.cells[0].id == plan.cells[1].id);
    CHECK(cells_of(plan, {}).size() == 3);
}

TEST_CASE("prompts come from the spec, from text files and from rows of jsonl", "[study][sweep]") {
    std::string rows;
    for (int i = 0; i < 6; ++i) {
        rows += json{{"kind", "chronicle"},
                     {"prompt", fmt::format("p{}", i / 2)},
                     {"response", fmt::format("r{}", i)},
                     {"turns", {"first", fmt::format("second {}", i)}}}
                    .dump() +
                (i == 3 ? "\n\n" : "\n");
    }
    const std::map<std::string, std::string> files{
        {"d/rows.jsonl", rows}, {"d/almanac.json", "{}"}, {"one.txt", "a whole file\n"}};
    const SweepSpec spec = parse(
        {{"prompts",
          {"inline",
           "inline",
           {{"file", "one.txt"}},
           {{"file", "d/rows.jsonl"}, {"from", 1}, {"limit", 2}, {"task", true}, {"given", "response"}},
           {{"file", "d/rows.jsonl"}, {"distinct", true}, {"group", "few"}},
           {{"file", "d/rows.jsonl"}, {"field", "/turns/1"}, {"from", 5}},
           {{"text", "with a task"}, {"task", {{"kind", "retell"}, {"reference", "w"}}}, {"given", "g"}}}}},
        files);
    CHECK(spec.repeated_prompts == 1);
    REQUIRE(spec.prompts.size() == 9);
    CHECK(spec.prompts[0].group == "prompts");
    CHECK(spec.prompts[1].text == "a whole file\n");
    CHECK(spec.prompts[1].group == "one");
    CHECK(spec.prompts[2].text == "p0");
    CHECK(spec.prompts[2].given == "r1");
    CHECK(spec.prompts[2].task == TaskConfig{"chronicle", "r1", "d/almanac.json"});
    CHECK_FALSE(spec.prompts[2].almanac_digest.empty());
    CHECK(spec.prompts[3].text == "p1");
    CHECK(spec.prompts[3].group == "rows");
    for (size_t i = 4; i < 7; ++i)
        CHECK(spec.prompts[i].text == fmt::format("p{}", i - 4));
    CHECK(spec.prompts[7].text == "second 5");
    CHECK(spec.prompts[8].task.kind == "retell");
    const RunConfig config = spec.config(0, 2, 7);
    CHECK(config.prompt == "p0");
    CHECK(config.given_text == "r1");
    CHECK(config.task.reference == "r1");
    CHECK(config.seed == 7);
}

TEST_CASE("a spec that is wrong is refused in one line that says where", "[study][sweep]") {
    struct Case {
        const char *spec, *first, *second;
    };
    const Case cases[] = {
        {"", "s.json", "line 1"},
        {"{\n  \"prompts\": \"x\",\n  \"seeds\": [1,]\n}", "line 3", "column"},
        {"[]", "must be an object", ""},
        {"{}", "prompts: missing", "file"},
        {R"({"promts": "x"})", "prompts: missing", ""},
        {R"({"prompts": "x", "sedes": [1]})", "sedes: unknown key", "seeds"},
        {R"({"prompts": []})", "prompts: there is none", ""},
        {R"({"prompts": ""})", "prompt is empty", ""},
        {R"({"prompts": 3})", "must be a text or an object", "3"},
        {R"({"prompts": {"file": "gone.jsonl"}})", "gone.jsonl", "no such file"},
        {R"({"prompts": {"file": "a.jsonl", "limt": 3}})", "limt: unknown key", "limit"},
        {R"({"prompts": {"file": "a.jsonl", "limit": 0}})", "limit", "whole number"},
        {R"({"prompts": {"file": "a.jsonl", "from": 9}})", "gives no prompt", "9"},
        {R"({"prompts": {"file": "a.jsonl", "field": "nope"}})", "row 1", "no field"},
        {R"({"prompts": {"file": "a.jsonl", "field": "/x/~"}})", "JSON pointer", ""},
        {R"({"prompts": {"file": "bad.jsonl"}})", "bad.jsonl, row 2", "line 1, column"},
        {R"({"prompts": {"file": "b.txt", "limit": 2}})", "jsonl", ""},
        {R"({"prompts": {"file": "latin.txt"}})", "latin.txt", "UTF-8"},
        {R"({"prompts": "x", "modes": []})", "modes: is an empty list", ""},
        {R"({"prompts": "x", "modes": ["teacher", "techer"]})", "modes[1]", "techer"},
        {R"({"prompts": "x", "modes": ["teacher", "teacher"]})", "modes[1]", "stands twice"},
        {R"({"prompts": "x", "modes": "teacher", "policies": "entropy"})", "none of the modes takes a policy",
         "overfill"},
        {R"({"prompts": "x", "policies": ["entropi"]})", "no preset", "entropy"},
        {R"({"prompts": "x", "policies": ["entropy", "entropy"]})", "two rows of the grid are the same",
         "entropy_bits"},
        {R"({"prompts": "x", "policies": [{"preset": "entropy", "file": "b.txt"}]})",
         "one of preset, file and policy", ""},
        {R"({"prompts": "x", "policies": [{"name": "g", "when": {"any": [{"signal": "entropy", "above": 1}]}}]})",
         "policies", "entropy"},
        {R"({"prompts": "x", "policies": [{"preset": "entropy", "set": {"kl.threshold": [1]}}]})",
         "kl.threshold", "no kl trigger"},
        {R"({"prompts": "x", "policies": [{"preset": "entropy", "set": {"entropy.threshold": [-1]}}]})",
         "entropy.threshold", "out of range"},
        {R"({"prompts": "x", "policies": ["none"], "windows": [8]})", "windows", "no policy of the grid"},
        {R"({"prompts": "x", "policies": ["entropy"], "set": {"kl.threshold": [1]}})", "set.kl.threshold",
         "no policy of the grid"},
        {R"({"prompts": "x", "set": {"samper.top_k": [1]}})", "no such parameter", "sampler.top_k"},
        {R"({"prompts": "x", "set": {" sampler.top_k": [1]}})", "no such parameter", "sampler.top_k"},
        {R"({"prompts": "x", "set": {"seed\t": [1]}})", "no such parameter", "seed"},
        {R"({"prompts": "x", "set": {"seed": [1]}})", "set.seed", "seeds"},
        {R"({"prompts": "x", "set": {"sampler.top_k": [1, 1]}})", "stands twice", ""},
        {R"({"prompts": "x", "set": {"sampler.top_k": [[1]]}})", "sampler.top_k", "must be a number"},
        {R"({"prompts": "x", "set": [1]})", "set", "object"},
        {R"({"prompts": "x", "samplers": [{"temperature": -1}]})", "temperature", "-1"},
        {R"({"prompts": "x", "samplers": [{"temprature": 1}]})", "temprature", "temperature"},
        {R"({"prompts": "x", "max_tokens": [0]})", "max_tokens", "whole number"},
        {R"({"prompts": "x", "max_tokens": [5, 5]})", "two rows of the grid are the same", ""},
        {R"({"prompts": "x", "seeds": [1, 1]})", "seeds[1]", "stands twice"},
        {R"({"prompts": "x", "seeds": [-1]})", "seeds", "whole number"},
        {R"({"prompts": "x", "seeds": {"count": 0}})", "seeds.count", "whole number"},
        {R"({"prompts": "x", "seeds": {"count": 250000}, "modes": ["teacher", "student"]})", "500000 runs",
         "split the sweep"},
        {R"({"prompts": "x", "base": {"max_token": 5}})", "base", "max_tokens"},
        {R"({"prompts": "x", "base": {"prompt": "y"}})", "base", "prompts"},
        {R"({"prompts": "x", "base": {"prompt_cache": "y"}})", "base", "prompt_cache"},
        {R"({"prompts": "x", "timing": {"pairs": 1}})", "timing.pairs", "5 to 1000"},
        {R"({"prompts": "x", "bootstrap": {"level": 2}})", "bootstrap.level", ""},
        {R"({"prompts": "x", "prompts": "y"})", "prompts", ""},
        {R"({"prompts": "x", "base": {"teacher_dir": "nowhere"}})", "nowhere", "no such file"},
    };
    const std::map<std::string, std::string> files{{"a.jsonl", "{\"prompt\": \"p\", \"x\": [1]}\n"},
                                                   {"b.txt", "text"},
                                                   {"bad.jsonl", "{\"prompt\": \"p\"}\n{\"prompt\": }\n"},
                                                   {"latin.txt", "caf\xE9"}};
    for (const Case& c : cases) {
        CAPTURE(c.spec);
        const std::string error = error_of(c.spec, files);
        CHECK_THAT(error, ContainsSubstring(c.first) && ContainsSubstring(c.second));
        CHECK(error.find('\n') == std::string::npos);
    }
}

TEST_CASE("a grid that nobody can mean is refused before it is built", "[study][sweep]") {
    json set = json::object();
    for (const char* key : {"sampler.temperature", "sampler.top_p", "sampler.min_p", "mc.p"}) {
        for (int i = 0; i < 100; ++i)
            set[key].push_back(0.001 * i);
    }
    CHECK_THAT(error_of(json{{"prompts", "x"}, {"set", set}}.dump()), ContainsSubstring("too many rows"));
    json policies = json::array();
    policies.push_back({{"preset", "entropy"}, {"set", {{"entropy.threshold", json::array()}}}});
    for (int i = 0; i < 20'000; ++i)
        policies[0]["set"]["entropy.threshold"].push_back(0.0001 * i);
    CHECK_THAT(error_of(json{{"prompts", "x"}, {"policies", policies}}.dump()),
               ContainsSubstring("too many rows"));
}

TEST_CASE("an id stands for all that decides a result and nothing else", "[study][sweep]") {
    RunConfig config = bundled_pair();
    config.prompt = "p";
    config.policy = preset_policy("entropy");
    const std::string id = cell_id(config, "almanac", some_models);
    CHECK(id.size() == 32);
    const auto same = [&](const auto& change) {
        RunConfig other = config;
        change(other);
        return cell_id(other, "almanac", some_models) == id;
    };
    CHECK(same([](RunConfig& c) { c.teacher_dir = c.student_dir = "elsewhere"; }));
    CHECK(same([](RunConfig& c) { c.device = "cpu"; }));
    CHECK(same([](RunConfig& c) { c.threads = 7; }));
    if (kernels::is_available(kernels::Isa::avx2)) { // auto: avx2, or avx512 with the same bits
        CHECK(same([](RunConfig& c) { c.kernels = KernelSet::avx2; }));
        CHECK_FALSE(same([](RunConfig& c) { c.kernels = KernelSet::portable; }));
    }
    CHECK_FALSE(same([](RunConfig& c) { c.kernels = KernelSet::reference; }));
    CHECK(same([](RunConfig& c) { c.capture.top_k = 3; }));
    CHECK(same([](RunConfig& c) { c.policy.name = "another name"; }));
    CHECK(same([](RunConfig& c) { c.task.almanac = "another place"; }));
    CHECK_FALSE(same([](RunConfig& c) { c.prompt += " "; }));
    CHECK_FALSE(same([](RunConfig& c) { c.raw_prompt = true; }));
    CHECK_FALSE(same([](RunConfig& c) { c.given_text = "g"; }));
    CHECK_FALSE(same([](RunConfig& c) { c.task.kind = "retell"; }));
    CHECK_FALSE(same([](RunConfig& c) { c.task.reference = "r"; }));
    CHECK_FALSE(same([](RunConfig& c) { c.seed = 1; }));
    CHECK_FALSE(same([](RunConfig& c) { c.max_tokens += 1; }));
    CHECK_FALSE(same([](RunConfig& c) { c.mode = Mode::student; }));
    CHECK_FALSE(same([](RunConfig& c) { c.dtype = Dtype::bf16; }));
    CHECK_FALSE(same([](RunConfig& c) { c.ignore_stop = true; }));
    CHECK_FALSE(same([](RunConfig& c) { c.shadow = true; }));
    CHECK_FALSE(same([](RunConfig& c) { c.sampler.temperature = 1e-300; }));
    CHECK_FALSE(same([](RunConfig& c) { c.mc.samples = 9; }));
    CHECK_FALSE(same([](RunConfig& c) { c.policy.triggers[0].threshold += 1e-12; }));
    CHECK_FALSE(same([](RunConfig& c) { c.policy.window = 0; }));
    CHECK(cell_id(config, "other almanac", some_models) != id);
    // On GPUs no CPU kernel decides anything.
    const SweepModels on_gpus{"teacher bytes", "student bytes", "cuda"};
    RunConfig portable = config;
    portable.kernels = KernelSet::portable;
    CHECK(cell_id(portable, "almanac", on_gpus) == cell_id(config, "almanac", on_gpus));
    CHECK(cell_id(portable, "almanac", {"teacher bytes", "student bytes", "cuda/cpu"}) !=
          cell_id(config, "almanac", {"teacher bytes", "student bytes", "cuda/cpu"}));
    for (const SweepModels& models :
         {SweepModels{"x", "student bytes", "cpu"}, SweepModels{"teacher bytes", "x", "cpu"},
          SweepModels{"teacher bytes", "student bytes", "cuda"}})
        CHECK(cell_id(config, "almanac", models) != id);
}

TEST_CASE("an id stands for what a gate is, and not for where it lies", "[study][sweep]") {
    const auto file = [](const char* name) {
        return std::filesystem::path(RL_BUILD_DIR) / "scratch" / (std::string("sweep-gate-") + name);
    };
    std::filesystem::create_directories(file("").parent_path());
    const auto id = [&](const char* name) {
        RunConfig config = bundled_pair();
        config.mode = Mode::student;
        config.student_cache = cache_policy_defaults("trim_kv", "a test");
        config.student_cache.files.at("gate").path = file(name).string();
        return cell_id(config, "", some_models);
    };
    write_file(file("a"), "a gate");
    write_file(file("b"), "a gate");
    CHECK(id("a") == id("b"));
    write_file(file("b"), "another gate");
    CHECK(id("a") != id("b"));
    for (const char* name : {"a", "b"})
        std::filesystem::remove(file(name));
}

TEST_CASE("the id of a run is the one that earlier versions gave it", "[study][sweep]") {
    RunConfig config;
    config.prompt = "p";
    config.policy = preset_policy("mc");
    config.mc.every = 5;
    // Made by a program whose configurations called it mc.stride: its file of results is resumed, not begun again.
    CHECK(run_id(config, "almanac", some_models) == "c36f6318575e8e557442d08cb2c12de1");
    config.mc.every = 6;
    CHECK(run_id(config, "almanac", some_models) != "c36f6318575e8e557442d08cb2c12de1");
}

TEST_CASE("shards share the runs out among them", "[study][sweep]") {
    const SweepSpec spec =
        parse({{"modes", {"teacher", "overfill"}},
               {"policies", {"none", {{"preset", "periodic"}, {"set", {{"periodic.every", {8, 16, 32}}}}}}},
               {"prompts", {"a", "b", "c"}},
               {"seeds", {1, 2}}});
    const SweepPlan plan = make_sweep_plan(spec, some_models);
    for (int64_t n = 1; n <= 40; ++n) {
        std::set<size_t> all;
        size_t largest = 0, smallest = SIZE_MAX;
        for (int64_t i = 1; i <= n; ++i) {
            const auto mine = cells_of(plan, {i, n});
            largest = std::max(largest, mine.size());
            smallest = std::min(smallest, mine.size());
            for (const size_t cell : mine)
                CHECK(all.insert(cell).second);
        }
        CHECK(all.size() == plan.cells.size());
        CHECK(largest - smallest <= 1);
    }
    CHECK(sweep_shard("3/8").index == 3);
    CHECK(sweep_shard("3/8").count == 8);
    for (const char* bad :
         {"", "0/3", "4/3", "1", "1/", "/2", "1/2x", "a/b", "-1/3", "1/0", " 1/2", "1/999999999"}) {
        CAPTURE(bad);
        CHECK_THROWS_AS(sweep_shard(bad), Error);
    }
}

TEST_CASE("the fingerprint of a model follows its bytes and not its place", "[study][sweep]") {
    namespace fs = std::filesystem;
    const fs::path root = fs::path(RL_BUILD_DIR) / fmt::format("fingerprint-{}", getpid());
    fs::remove_all(root);
    const fs::path source = bundled_pair().student_dir;
    fs::create_directories(root);
    fs::copy(source, root / "copy");
    CHECK(model_fingerprint(root / "copy") == model_fingerprint(source));
    CHECK(model_fingerprint(source) != model_fingerprint(bundled_pair().teacher_dir));
    fs::remove(root / "copy" / "README.md"); // says nothing about the numbers
    CHECK(model_fingerprint(root / "copy") == model_fingerprint(source));
    {
        std::FILE* file = std::fopen((root / "copy/model.safetensors").c_str(), "r+b");
        REQUIRE(file != nullptr);
        std::fseek(file, 1'000'000, SEEK_SET);
        const int old = std::fgetc(file);
        std::fseek(file, 1'000'000, SEEK_SET);
        std::fputc(old ^ 1, file);
        std::fclose(file);
    }
    CHECK(model_fingerprint(root / "copy") != model_fingerprint(source));
    CHECK(model_fingerprint("").empty());
    CHECK_THROWS_AS(model_fingerprint(root / "nowhere"), Error);
    fs::remove_all(root);
}
