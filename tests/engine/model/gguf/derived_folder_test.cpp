// Folders of derived students (refreshlab derive), by this program and by transformers, from a folder and from a GGUF file.
#include "engine/base/json_file.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/checkpoint/safetensors_header.h"
#include "engine/model/derive/derive_student.h"
#include "engine/model/derive/write_folder.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "tests/engine/model/gguf/gguf_support.h"
#include "tests/support/forward.h"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstring>
#include <span>

namespace derived_folder_test {

using namespace refreshlab;
using namespace refreshlab::test;
namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string bundled = RL_SOURCE_DIR "/assets/models/llama-tales-student";

struct Case {
    std::string name, teacher, spec;
};

std::vector<Case> cases() {
    const std::string gguf = (gguf_references() / "models/bundled.gguf").string();
    return {{"rounded", bundled, "bits=3,group=16"},
            {"symmetric", bundled, "bits=4,group=16,symmetric,only=mlp"},
            {"channels", bundled, "ffn=0.5"},
            {"skips", bundled, "skip_attention=1,skip_mlp=0+2"},
            {"noise", bundled, "noise=0.05,seed=12345678901"},
            {"all", bundled, "ffn=0.75,noise=0.02,seed=3,bits=5,group=16,skip_mlp=1"},
            {"gguf", gguf, "bits=3,group=16,ffn=0.5,skip_attention=2"}};
}

at::Tensor logits_of(const LlamaModel& model, const std::vector<int32_t>& ids) {
    const auto cache = model.make_cache(static_cast<int64_t>(ids.size()));
    return extend(model, *cache, ids, Rows::all, Origin::student);
}

at::Tensor stored(const fs::path& file, const std::string& name) {
    const std::string bytes = read_file(file);
    const SafetensorsHeader header =
        SafetensorsHeader::parse(std::as_bytes(std::span(bytes.data(), bytes.size())), file.string());
    const StoredTensor& entry = header.tensors.at(name);
    at::Tensor tensor = at::empty(entry.shape, at::TensorOptions().dtype(at::kFloat));
    std::memcpy(tensor.mutable_data_ptr(), bytes.data() + header.data_begin + entry.begin,
                entry.end - entry.begin);
    return tensor;
}

} // namespace

TEST_CASE("the folder of a derived student is the student, here and in transformers", "[derive][parity]") {
    const fs::path out = fs::path(RL_BUILD_DIR) / "test-files" / "derived-folders";
    fs::remove_all(out);
    fs::create_directories(out);
    const auto ids = ModelSource::open(bundled)->tokenizer()->encode(
        "Once upon a time there was a fox who counted 3 stars.", true);
    nlohmann::json list = nlohmann::json::array();
    std::vector<at::Tensor> wanted;
    for (const Case& one : cases()) {
        INFO(one.name);
        const auto source = ModelSource::open(one.teacher);
        const auto teacher = LlamaModel::load(*source, at::kCPU, at::kFloat);
        const DerivedStudent student = derive_student(*teacher, parse_derive(one.spec), at::kCPU, ids);
        write_folder(*source, *student.model, out / one.name);
        wanted.push_back(logits_of(*student.model, ids));
        CHECK((wanted.back() - logits_of(*teacher, ids)).abs().max().item<float>() > 0.05F);
        // The same bits when the folder is loaded, a tokenizer and a chat template as the teacher's.
        const auto folder = ModelSource::open(out / one.name);
        const auto again = LlamaModel::load(*folder, at::kCPU, at::kFloat);
        CHECK(at::equal(logits_of(*again, ids), wanted.back()));
        CHECK(folder->tokenizer()->fingerprint() == source->tokenizer()->fingerprint());
        CHECK((folder->chat_template() == nullptr) == (source->chat_template() == nullptr));
        CHECK(folder->config().eos_ids == source->config().eos_ids);
        CHECK(folder->config().bos_id == source->config().bos_id);
        CHECK_FALSE(geometry_difference(folder->config(), source->config()));
        list.push_back({{"name", one.name},
                        {"teacher", one.name == "gguf" ? bundled : one.teacher},
                        {"spec", derive_to_json(parse_derive(one.spec))}});
        CHECK_THAT(error_of([&] { write_folder(*source, *student.model, out / one.name); }),
                   ContainsSubstring("not empty"));
    }
    write_file(out / "cases.json", nlohmann::json{{"ids", ids}, {"cases", list}}.dump());
    const std::string command = "'" RL_PYTHON "' -B '" RL_SOURCE_DIR
                                "/tests/engine/model/gguf/derived_reference.py' '" +
                                out.string() + "'";
    REQUIRE(std::system(command.c_str()) == 0);
    const nlohmann::json answers = read_json_file(out / "answers.json");
    for (size_t i = 0; i < wanted.size(); ++i) {
        const std::string name = cases()[i].name;
        INFO(name << ": " << answers.at(name).dump());
        const at::Tensor theirs = stored(out / "logits.safetensors", name);
        CHECK((theirs - wanted[i]).abs().max().item<float>() < 1e-4F);
        // The weights, made a second time from the teacher's in numpy.
        CHECK(answers.at(name).at("tensors").get<int64_t>() > 20);
        CHECK(answers.at(name).at("different").get<std::vector<std::string>>().empty());
        CHECK(answers.at(name).at("ids_equal").get<bool>());
    }
    fs::remove_all(out);
}

} // namespace derived_folder_test
