#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/model/checkpoint/checkpoint.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/checkpoint/safetensors_header.h"
#include "engine/model/forward/rope_table.h"
#include "engine/model/model_config.h"
#include "tests/fuzz/fuzz_support.h"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace model_fuzz_test {

using refreshlab::Checkpoint;
using refreshlab::Error;
using refreshlab::ModelConfig;
using refreshlab::SafetensorsHeader;
using refreshlab::fuzz::CorpusFile;
using refreshlab::fuzz::fuzz_runs;
using refreshlab::fuzz::Mutator;
using refreshlab::fuzz::Outcome;
using refreshlab::fuzz::Random;
using refreshlab::fuzz::read_corpus;
using refreshlab::fuzz::run_target;

namespace {

void promise(bool kept, const char* what) {
    if (!kept) throw std::logic_error(std::string("accepted, but not ") + what);
}

/// A folder of one thread, for readers that open files.
std::filesystem::path folder_of(const std::string& name, size_t thread) {
    const auto folder =
        std::filesystem::path(RL_BUILD_DIR) / "scratch" / ("fuzz-" + name + "-" + std::to_string(thread));
    std::filesystem::create_directories(folder);
    return folder;
}

void write(const std::filesystem::path& file, std::string_view bytes) {
    // A new file each time: one that is truncated and written again goes to the disk at once on some file systems.
    std::filesystem::remove(file);
    std::ofstream(file, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string with_length(uint64_t length, const std::string& rest) {
    std::string bytes(sizeof(length), '\0');
    std::memcpy(bytes.data(), &length, sizeof(length));
    return bytes + rest;
}

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

/// A whole file out of a mutated header: mostly with the right length and as much data as the header speaks of, so that
/// the checks after these two are reached as well. A binary file of the corpus is mutated as it is.
std::string make_safetensors(const Mutator& mutator, Random& random) {
    std::string header = mutator.make(random);
    if (header.empty() || header.front() != '{') return header;
    uint64_t data = random.below(64);
    const auto object = nlohmann::json::parse(header, nullptr, false);
    if (object.is_object() && !random.one_in(8)) {
        data = 0;
        for (const auto& [name, entry] : object.items()) {
            const auto offsets = entry.is_object() ? entry.find("data_offsets") : entry.end();
            if (!entry.is_object() || offsets == entry.end() || !offsets->is_array() || offsets->size() != 2)
                continue;
            if ((*offsets)[1].is_number_unsigned())
                data = std::max(data, std::min<uint64_t>((*offsets)[1].get<uint64_t>(), 4096));
        }
    }
    uint64_t length = header.size();
    if (random.one_in(16)) length += random.below(9) - 4;
    if (random.one_in(64)) length = random.next();
    return with_length(length, header + std::string(data, 'd'));
}

void check_header(const SafetensorsHeader& header, size_t file_size) {
    promise(header.data_begin >= 8 && header.data_begin <= file_size, "a data part inside the file");
    uint64_t covered = 0;
    for (const auto& [name, tensor] : header.tensors) {
        promise(tensor.dtype != nullptr && tensor.dtype->bytes > 0, "a known dtype");
        uint64_t elements = 1;
        for (const int64_t n : tensor.shape) {
            promise(n >= 0, "a shape without negative sizes");
            elements *= static_cast<uint64_t>(n);
        }
        promise(tensor.begin <= tensor.end && tensor.end <= file_size - header.data_begin,
                "a range of the data");
        promise(tensor.end - tensor.begin == elements * tensor.dtype->bytes, "a range of the shape's bytes");
        covered += tensor.end - tensor.begin;
    }
    promise(covered == file_size - header.data_begin, "a file whose every byte belongs to one tensor");
}

} // namespace

TEST_CASE("fuzz: a config.json is read as promised or refused", "[fuzz]") {
    const Outcome outcome = run_target(
        "config",
        [](const std::string& input, size_t) {
            const ModelConfig c =
                ModelConfig::parse(refreshlab::parse_json(input, "config.json"), "config.json");
            promise(c.vocab_size > 0 && c.hidden_size > 0 && c.intermediate_size > 0, "positive widths");
            promise(c.num_layers > 0 && c.num_heads > 0 && c.num_kv_heads > 0, "positive counts");
            promise(c.num_heads % c.num_kv_heads == 0, "heads a multiple of kv_heads");
            promise(c.head_dim > 0 && c.head_dim % 2 == 0, "an even head size");
            promise(c.max_position > 0, "a context");
            promise(c.rms_norm_eps > 0 && std::isfinite(c.rms_norm_eps), "a positive eps");
            promise(c.layer_windows.empty() || static_cast<int64_t>(c.layer_windows.size()) == c.num_layers,
                    "one window per layer");
            for (const int64_t window : c.layer_windows)
                promise(window >= 0, "windows of 0 and more");
            promise(c.model_type != "llama" || c.layer_windows.empty(), "a Llama without windows");
            for (const int32_t id : c.eos_ids)
                promise(id >= 0 && id < c.vocab_size, "end tokens of the vocabulary");
            promise(!c.bos_id || (*c.bos_id >= 0 && *c.bos_id < c.vocab_size),
                    "a first token of the vocabulary");
            promise(c.num_parameters() > 0, "countable");
            promise(2 * c.num_layers * c.num_kv_heads * c.head_dim <= INT64_MAX / 8 / c.max_position,
                    "a cache whose bytes can be counted");
            promise(!geometry_difference(c, c).has_value(), "of its own geometry");
            for (const float frequency : refreshlab::rope_frequencies(c))
                promise(std::isfinite(frequency) && frequency >= 0.0F, "finite frequencies");
            if (c.num_layers <= 64)
                promise(refreshlab::LlamaWeights::held_elements(c) >= c.num_parameters(),
                        "held with its padding");
        },
        {"\"model_type\"", "\"qwen3\"", "\"layer_types\"", "\"sliding_attention\"",
         "\"use_sliding_window\": true", "\"rope_scaling\"", "\"rope_type\": \"llama3\"", "null", "1e308",
         "-1", "18446744073709551615"});
    CHECK(outcome.accepted > fuzz_runs() / 50);
    CHECK(outcome.refused > fuzz_runs() / 10);
}

TEST_CASE("fuzz: a safetensors file is read as promised or refused, from memory and from disk alike",
          "[fuzz]") {
    std::vector<CorpusFile> corpus = read_corpus("safetensors");
    const Mutator mutator(corpus,
                          {"data_offsets", "\"shape\":[0]", "18446744073709551615", "-1", "__metadata__"});
    for (CorpusFile& file : corpus) {
        if (file.name.ends_with(".json")) file.bytes = with_length(file.bytes.size(), file.bytes);
    }
    const Outcome outcome = run_target(
        "safetensors", corpus, [&](Random& random) { return make_safetensors(mutator, random); },
        [](const std::string& input, size_t thread) {
            // Every so often through a file as well; the verdict must be the same.
            const bool on_disk = std::hash<std::string>()(input) % 8 == 0;
            const auto folder = on_disk ? folder_of("safetensors", thread) : std::filesystem::path();
            if (on_disk) write(folder / "model.safetensors", input);
            std::optional<Checkpoint> opened;
            std::string disk_error;
            try {
                if (on_disk) opened = Checkpoint::open(folder);
            } catch (const Error& error) {
                disk_error = error.problem();
            }
            try {
                const SafetensorsHeader header =
                    SafetensorsHeader::parse(bytes_of(input), "model.safetensors");
                check_header(header, input.size());
                if (!on_disk) return;
                promise(opened.has_value(), "opened");
                promise(opened->names().size() == header.tensors.size(), "the same tensors from disk");
                for (const auto& [name, tensor] : header.tensors) {
                    if (!tensor.dtype->type) continue;
                    const at::Tensor read = opened->read(name, tensor.shape);
                    promise(read.nbytes() == tensor.end - tensor.begin, "readable");
                }
            } catch (const Error&) {
                promise(!on_disk || !disk_error.empty(), "refused from disk");
                throw;
            }
        });
    CHECK(outcome.accepted > fuzz_runs() / 100);
    CHECK(outcome.refused > fuzz_runs() / 10);
}

TEST_CASE("fuzz: an index of shards is opened or refused", "[fuzz]") {
    const std::string a = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
    const std::string b = R"({"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                          R"("c":{"dtype":"U8","shape":[8],"data_offsets":[8,16]}})";
    const Outcome outcome = run_target(
        "safetensors_index",
        [&](const std::string& input, size_t thread) {
            const auto folder = folder_of("index", thread);
            if (!std::filesystem::exists(folder / "second.safetensors")) {
                write(folder / "first.safetensors", with_length(a.size(), a + std::string(8, '\0')));
                write(folder / "second.safetensors", with_length(b.size(), b + std::string(16, '\0')));
            }
            write(folder / "model.safetensors.index.json", input);
            const Checkpoint checkpoint = Checkpoint::open(folder);
            promise(!checkpoint.names().empty(), "without tensors");
            for (const std::string& name : checkpoint.names()) {
                promise(name == "a" || name == "b" || name == "c", "a tensor of the shards");
                promise(checkpoint.file_of(name).parent_path() == folder, "of this folder");
            }
        },
        {"../first.safetensors", "/first.safetensors", "\"weight_map\"", "first.safetensors\\u0000"});
    CHECK(outcome.accepted > 0);
    CHECK(outcome.refused > fuzz_runs() / 10);
}

} // namespace model_fuzz_test
