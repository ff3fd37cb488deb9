// What the machine gives: cores, assets, files to write to. And what is said when it gives less than was asked for.
#include "engine/base/json_file.h"
#include "kernels/execution/cores.h"
#include "tests/app/program.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sched.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

namespace machine_test {

namespace fs = std::filesystem;
using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

constexpr const char* teacher = RL_SOURCE_DIR "/assets/models/llama-tales-teacher";
constexpr const char* student = RL_SOURCE_DIR "/assets/models/llama-tales-student";

/// An environment variable for a scope; the program inherits it.
class Variable {
public:
    Variable(const char* name, const char* value)
        : m_name(name) {
        if (const char* before = std::getenv(name)) m_before = before;
        setenv(name, value, 1);
    }
    ~Variable() {
        if (m_before) {
            setenv(m_name, m_before->c_str(), 1);
        } else {
            unsetenv(m_name);
        }
    }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;

private:
    const char* m_name;
    std::optional<std::string> m_before;
};

/// Threads of a short run, as its summary says.
int threads_of(const Scratch& scratch, const std::vector<std::string>& more, std::string* said = nullptr) {
    std::vector<std::string> arguments{"run",      "--prompt", "Hello",     "--max-tokens",    "3",
                                       "--device", "cpu",      "--summary", scratch / "s.json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = refreshlab_program(arguments);
    CAPTURE(outcome.err);
    REQUIRE(outcome.status == 0);
    if (said != nullptr) *said = outcome.err;
    return read_json_file(scratch / "s.json")["threads"].get<int>();
}

void refused(const std::vector<std::string>& arguments, const std::vector<std::string>& parts) {
    const Outcome outcome = refreshlab_program(arguments);
    CAPTURE(arguments, outcome.err);
    CHECK(outcome.status == 2);
    CHECK(outcome.out.empty());
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    CHECK_FALSE(has_controls(outcome.err));
    for (const std::string& part : parts)
        CHECK_THAT(outcome.err, ContainsSubstring(part));
}

} // namespace

TEST_CASE("a run uses the cores that it may use, and says when more were asked for", "[cli]") {
    const Scratch scratch("threads");
    const int cores = kernels::usable_cores();
    std::string said;
    {
        const Variable none("OMP_NUM_THREADS", "");
        CHECK(threads_of(scratch, {}) == cores);
        CHECK(threads_of(scratch, {"--threads", "4096"}, &said) == cores);
        CHECK_THAT(said, ContainsSubstring("note: --threads 4096") &&
                             ContainsSubstring(fmt::format("{} core", cores)));
        CHECK(threads_of(scratch, {"--threads", "1"}, &said) == 1);
        CHECK_THAT(said, !ContainsSubstring("note:"));
    }
    const Variable one("OMP_NUM_THREADS", "1");
    CHECK(threads_of(scratch, {}) == 1);
    CHECK(threads_of(scratch, {"--threads", std::to_string(cores)}) == cores);
    const Variable many("OMP_NUM_THREADS", "64");
    cpu_set_t before, first;
    REQUIRE(sched_getaffinity(0, sizeof(before), &before) == 0);
    CPU_ZERO(&first);
    for (int core = 0; CPU_COUNT(&first) == 0; ++core) {
        if (CPU_ISSET(core, &before)) CPU_SET(core, &first);
    }
    REQUIRE(sched_setaffinity(0, sizeof(first), &first) == 0);
    const int pinned = threads_of(scratch, {"--threads", "0"});
    REQUIRE(sched_setaffinity(0, sizeof(before), &before) == 0);
    CHECK(pinned == 1);
}

TEST_CASE("assets are looked for only where one is needed", "[cli]") {
    const Scratch scratch("assets");
    const Variable none("REFRESHLAB_ASSETS", "/nope");
    const std::vector<std::string> models{"--teacher", teacher, "--student", student};
    const auto with_models = [&](std::vector<std::string> arguments) {
        arguments.insert(arguments.end(), models.begin(), models.end());
        return arguments;
    };
    const std::vector<std::string> run{"run", "--prompt", "Hello", "--max-tokens", "3", "--device", "cpu"},
        check{"check", "--steps", "2", "--no-latency", "--device", "cpu"},
        sweep{"sweep", scratch / "grid.json", "--out", scratch / "s.db", "--dry-run"},
        study{"study", "tasks", "--limit", "1"};
    write_file(scratch / "grid.json", R"({"base": {"device": "cpu"}, "max_tokens": 3, "prompts": "Hello"})");
    for (const auto& command : {run, check, sweep}) {
        const Outcome outcome = refreshlab_program(with_models(command));
        CAPTURE(command, outcome.err);
        CHECK(outcome.status == 0);
    }
    for (const auto& command :
         {run, check, sweep, study, with_models(study)}) // a study reads bundled prompts
        refused(command, {"/nope", "REFRESHLAB_ASSETS"});
    const Outcome doctor = refreshlab_program({"doctor", teacher, student});
    CHECK(doctor.status == 0);
    CHECK_THAT(doctor.out, ContainsSubstring("note  assets"));
}

TEST_CASE("check says what it cut, and looks at its files before it works", "[cli]") {
    const Scratch scratch("check-cuts");
    std::ofstream(scratch / "file") << "x";
    const std::vector<std::string> endless{"check", "--steps", "4096", "--repetitions", "100"};
    const auto with = [&](const char* option, const std::string& value) {
        std::vector<std::string> arguments = endless;
        arguments.insert(arguments.end(), {option, value});
        return arguments;
    };
    refused(with("--json", scratch / "no/such/report.json"), {"--json", "no such folder"});
    refused(with("--json", scratch / ""), {"--json", "folder"});
    refused(with("--csv", scratch / "file"), {"--csv", "folder"});

    // The bundled student with room for no more than 60 positions.
    const std::string small = scratch / "small";
    fs::copy(student, small);
    nlohmann::json config = read_json_file(small + "/config.json");
    config["max_position_embeddings"] = 60;
    write_file(small + "/config.json", config.dump());
    const Outcome check = refreshlab_program({"check", "--teacher", small, "--student", small, "--prompt",
                                              "Hello", "--raw-prompt", "--steps", "600", "--lengths",
                                              "8,100000", "--repetitions", "1", "--device", "cpu"});
    CAPTURE(check.err);
    CHECK(check.status == 0);
    CHECK_THAT(check.out, ContainsSubstring("of 600 steps are checked") &&
                              ContainsSubstring("no latency of teacher at 100000 tokens") &&
                              ContainsSubstring("no latency of student at 100000 tokens"));
}

TEST_CASE("doctor takes two models, and shows a sliding window where one has it", "[cli]") {
    refused({"doctor", teacher, student, student}, {"one model too many"});
    const Scratch scratch("windows");
    const auto windowed = [&](const char* name, int window) {
        const std::string folder = scratch / name;
        fs::copy(student, folder);
        nlohmann::json config = read_json_file(folder + "/config.json");
        config["model_type"] = "mistral";
        config["architectures"] = {"MistralForCausalLM"};
        config["sliding_window"] = window;
        write_file(folder + "/config.json", config.dump());
        return folder;
    };
    const std::string a = windowed("a", 24), b = windowed("b", 24), c = windowed("c", 32);
    const auto line_of = [](const Outcome& outcome, const std::string& what) {
        const size_t at = outcome.out.find(what);
        REQUIRE(at != std::string::npos);
        return outcome.out.substr(at, outcome.out.find('\n', at) - at);
    };
    const Outcome same = refreshlab_program({"doctor", a, b});
    CAPTURE(same.out);
    CHECK_THAT(line_of(same, "sliding window"), Catch::Matchers::EndsWith(" 24"));
    const Outcome one = refreshlab_program({"doctor", a, student});
    CHECK_THAT(line_of(one, "sliding window"), Catch::Matchers::EndsWith("24 | none (differs)"));
    const Outcome two = refreshlab_program({"doctor", a, c});
    CHECK_THAT(line_of(two, "sliding window"), Catch::Matchers::EndsWith("24 | 32 (differs)"));
    CHECK_THAT(refreshlab_program({"doctor", student, student}).out, !ContainsSubstring("sliding window"));
}

namespace {

constexpr const char* damaged_tensor = "model.layers.3.mlp.down_proj.weight";

/// The bundled student with value 77 of one tensor replaced. \param value  the four bytes of an f32
std::string student_with(const Scratch& scratch, const char* value) {
    std::string model = scratch / "model";
    fs::remove_all(model);
    fs::copy(student, model);
    const std::string file = model + "/model.safetensors";
    std::string bytes = read_file(file, size_t{1} << 30);
    uint64_t header_size = 0;
    std::memcpy(&header_size, bytes.data(), sizeof(header_size));
    const auto header = nlohmann::json::parse(bytes.substr(8, header_size));
    const std::string dtype = header[damaged_tensor]["dtype"];
    const size_t width = dtype == "F32" ? 4 : 2;
    REQUIRE((dtype == "F32" || dtype == "BF16")); // the upper half of an f32 is a bf16
    const size_t begin = 8 + header_size + header[damaged_tensor]["data_offsets"][0].get<size_t>();
    bytes.replace(begin + 77 * width, width, value + 4 - width, width);
    write_file(file, bytes);
    return model;
}

} // namespace

TEST_CASE("a weight that is no number is refused with file and tensor", "[bad-input]") {
    const Scratch scratch("nan");
    for (const char* value : {"\x00\x00\xC0\x7F", "\x00\x00\x80\xFF"}) { // NaN, -infinity
        const std::string model = student_with(scratch, value);
        refused({"run", "--prompt", "Hello", "--max-tokens", "3", "--device", "cpu", "--student", model},
                {model + "/model.safetensors", damaged_tensor, "value 77 is"});
    }
    // A number, but not in f16.
    const std::string model = student_with(scratch, "\x00\x00\x80\xC7"); // -65536
    std::vector<std::string> arguments = {"run",      "--prompt", "Hello",     "--max-tokens", "3",
                                          "--device", "cpu",      "--student", model,          "--dtype"};
    arguments.emplace_back("f16");
    refused(arguments, {model + "/model.safetensors", damaged_tensor, "65536", "bf16"});
    arguments.back() = "bf16";
    CHECK(refreshlab_program(arguments).status == 0);
}

TEST_CASE("a pipe in the place of a model's file is refused at once", "[bad-input]") {
    const Scratch scratch("pipe");
    for (const char* name :
         {"model.safetensors", "model.safetensors.index.json", "config.json", "generation_config.json",
          "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"}) {
        const std::string model = scratch / "model", file = model + "/" + name;
        fs::remove_all(model);
        fs::copy(student, model);
        fs::remove(file);
        if (std::string(name) == "model.safetensors.index.json") fs::remove(model + "/model.safetensors");
        // The template's own configuration is the older file's only where the newer one does not stand.
        if (std::string(name) == "special_tokens_map.json") fs::remove(model + "/tokenizer_config.json");
        REQUIRE(mkfifo(file.c_str(), 0600) == 0);
        CAPTURE(name);
        refused({"run", "--mode", "teacher", "--prompt", "Hello", "--max-tokens", "3", "--device", "cpu",
                 "--teacher", model, "--student", model},
                {file, "is a pipe, not a regular file"});
    }
}

TEST_CASE("a pipe, a device or a folder in the place of an option's file is refused at once", "[bad-input]") {
    const Scratch scratch("special");
    const std::string pipe = scratch / "pipe.json", folder = scratch / "folder.json";
    REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
    fs::create_directory(folder);
    const std::pair<std::string, std::string> places[] = {
        {pipe, "is a pipe"}, {"/dev/zero", "is a character device"}, {folder, "is a folder"}};
    for (const auto& [place, kind] : places) {
        CAPTURE(place);
        refused({"run", "--prompt-file", place}, {place, kind});
        refused({"run", "--prompt", "Hello", "--given-file", place}, {place, kind});
        refused({"run", "--prompt", "Hello", "--policy", place}, {place, kind});
        refused({"run", "--prompt", "Hello", "--commands", place}, {place, kind});
        refused({"sweep", place}, {place, kind});
    }
    write_file(scratch / "spec.json", R"({"prompts": "Hello", "max_tokens": 2})");
    refused({"sweep", scratch / "spec.json", "--out", pipe}, {pipe, "is a pipe"});
}

} // namespace machine_test
