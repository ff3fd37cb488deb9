#include "engine/model/checkpoint/checkpoint.h"
#include "engine/model/checkpoint/weight_checks.h"
#include "kernels/execution/execution_context.h"
#include "tests/engine/model/support.h"
#include "tests/support/seed.h"

#include <ATen/ops/equal.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <cstring>
#include <limits>
#include <random>
#include <string_view>
#include <vector>

namespace checkpoint_test {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using refreshlab::Checkpoint;
using refreshlab::Error;
using refreshlab::test::error_of;
using refreshlab::test::ScratchFolder;

namespace {

std::string with_length(uint64_t length, const std::string& rest) {
    std::string bytes(sizeof(length), '\0');
    std::memcpy(bytes.data(), &length, sizeof(length));
    return bytes + rest;
}

std::string safetensors(const std::string& header, const std::string& data) {
    return with_length(header.size(), header + data);
}

/// 24 bytes: a [2, 2] f32 0 1 2 3, b [4] bf16 1 2 3 4.
std::string good_data() {
    const float a[] = {0.0F, 1.0F, 2.0F, 3.0F};
    const uint16_t b[] = {0x3F80, 0x4000, 0x4040, 0x4080};
    std::string data(24, '\0');
    std::memcpy(data.data(), a, sizeof(a));
    std::memcpy(data.data() + 16, b, sizeof(b));
    return data;
}

json good_header() {
    return json::parse(R"({"__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
        "b": {"dtype": "BF16", "shape": [4], "data_offsets": [16, 24]}})");
}

std::string open_error(const ScratchFolder& folder) {
    return error_of([&] { (void)Checkpoint::open(folder.path()); });
}

} // namespace

TEST_CASE("a safetensors file gives its tensors bit for bit, in the stored dtype", "[model]") {
    const ScratchFolder folder("checkpoint");
    folder.write("model.safetensors", safetensors(good_header().dump() + "    ", good_data()));
    const Checkpoint checkpoint = Checkpoint::open(folder.path());
    CHECK(checkpoint.names() == std::vector<std::string>{"a", "b"});
    CHECK(checkpoint.contains("a"));
    CHECK_FALSE(checkpoint.contains("__metadata__"));
    CHECK(checkpoint.total_bytes() == 24);
    const at::Tensor a = checkpoint.read("a", {2, 2});
    const at::Tensor b = checkpoint.read("b", {4});
    CHECK(a.scalar_type() == at::kFloat);
    CHECK(b.scalar_type() == at::kBFloat16);
    for (int i = 0; i < 4; ++i) {
        CHECK(a.data_ptr<float>()[i] == static_cast<float>(i));
        CHECK(static_cast<float>(b.data_ptr<at::BFloat16>()[i]) == static_cast<float>(i + 1));
    }
    // A copy: it outlives the mapping and may be changed.
    at::Tensor copy;
    {
        const Checkpoint second = Checkpoint::open(folder.path());
        copy = second.read("a", {2, 2});
    }
    copy.mul_(2.0);
    CHECK(checkpoint.read("a", {2, 2}).data_ptr<float>()[3] == 3.0F);
}

TEST_CASE("what a loading reads has the file's bits at any address, and outlives the object that gave it",
          "[model]") {
    const ScratchFolder folder("checkpoint");
    for (const std::string_view spaces : {"    ", "   ", "  ", " "}) { // where the data begin
        folder.write("model.safetensors",
                     safetensors(good_header().dump() + std::string(spaces), good_data()));
        at::Tensor a, b;
        {
            const Checkpoint checkpoint = Checkpoint::open(folder.path());
            const refreshlab::WeightStore& weights = checkpoint;
            a = weights.read("a", {2, 2}, at::kBFloat16);
            b = weights.read("b", {4}, at::kFloat);
            CHECK(at::equal(a, checkpoint.read("a", {2, 2})));
            CHECK_THAT(error_of([&] { (void)weights.read("a", {4}, at::kFloat); }),
                       ContainsSubstring("its shape is"));
        }
        CHECK(a.scalar_type() == at::kFloat);
        CHECK(b.scalar_type() == at::kBFloat16);
        for (int i = 0; i < 4; ++i) {
            CHECK(a.const_data_ptr<float>()[i] == static_cast<float>(i));
            CHECK(static_cast<float>(b.const_data_ptr<at::BFloat16>()[i]) == static_cast<float>(i + 1));
        }
    }
}

TEST_CASE("the first number that is not finite is named, whichever thread finds one", "[model]") {
    const ScratchFolder folder("checkpoint");
    constexpr int64_t n = 700'000;
    std::mt19937 random(refreshlab::test::seed(5));
    std::vector<float> values(n, 1.0F);
    const int64_t first = std::uniform_int_distribution<int64_t>(0, n / 2)(random);
    values[static_cast<size_t>(first)] = std::numeric_limits<float>::infinity();
    values[static_cast<size_t>(std::uniform_int_distribution<int64_t>(first + 1, n - 1)(random))] =
        std::numeric_limits<float>::quiet_NaN();
    const std::string data(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    folder.write("model.safetensors",
                 safetensors(R"({"w":{"dtype":"F32","shape":[700000],"data_offsets":[0,2800000]}})", data));
    const Checkpoint checkpoint = Checkpoint::open(folder.path());
    const at::Tensor w = static_cast<const refreshlab::WeightStore&>(checkpoint).read("w", {n}, at::kFloat);
    for (const int threads : {1, 3}) {
        const refreshlab::kernels::ExecutionContext context(threads);
        const refreshlab::kernels::ExecutionScope scope(context);
        CHECK_THAT(error_of([&] { refreshlab::require_finite(checkpoint, "w", w, at::kFloat); }),
                   ContainsSubstring("value " + std::to_string(first) + " is inf"));
    }
}

TEST_CASE("scalars and empty tensors are part of the format", "[model]") {
    const ScratchFolder folder("checkpoint");
    folder.write("model.safetensors",
                 safetensors(R"({"e":{"dtype":"F32","shape":[0,7],"data_offsets":[4,4]},)"
                             R"("s":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
                             std::string(4, '\0')));
    const Checkpoint checkpoint = Checkpoint::open(folder.path());
    CHECK(checkpoint.read("s", {}).numel() == 1);
    CHECK(checkpoint.read("e", {0, 7}).numel() == 0);
}

TEST_CASE("reading names file and tensor when it is missing, of another shape, or no weight", "[model]") {
    const ScratchFolder folder("checkpoint");
    json header = good_header();
    header["b"]["dtype"] = "I16";
    folder.write("model.safetensors", safetensors(header.dump(), good_data()));
    const Checkpoint checkpoint = Checkpoint::open(folder.path());
    const auto read_error = [&](const char* name, at::IntArrayRef shape) {
        return error_of([&] { (void)checkpoint.read(name, shape); });
    };
    CHECK_THAT(read_error("lm_head.weight", {2, 2}),
               ContainsSubstring("model.safetensors") && ContainsSubstring("\"lm_head.weight\": missing"));
    CHECK_THAT(read_error("a", {4}), ContainsSubstring("\"a\"") && ContainsSubstring("[2, 2]") &&
                                         ContainsSubstring("config.json asks for [4]"));
    CHECK_THAT(read_error("a", {2, 3}), ContainsSubstring("shape"));
    CHECK_THAT(read_error("b", {4}), ContainsSubstring("dtype is I16"));
}

TEST_CASE("damaged headers are refused with file, tensor and reason", "[model]") {
    struct Case {
        const char* name;
        std::string bytes;
        std::vector<std::string> parts;
    };
    const std::string header = good_header().dump();
    const std::string data = good_data();
    const auto changed = [&](const char* tensor, const char* key, const json& value) {
        json copy = good_header();
        copy[tensor][key] = value;
        return safetensors(copy.dump(), data);
    };
    const auto without = [&](const char* tensor, const char* key) {
        json copy = good_header();
        copy[tensor].erase(key);
        return safetensors(copy.dump(), data);
    };
    json metadata = good_header();
    metadata["__metadata__"] = {{"format", 3}};
    const std::vector<Case> cases = {
        {"empty file", "", {"too short"}},
        {"seven bytes", "1234567", {"too short", "7 bytes"}},
        {"length only", with_length(100, ""), {"header length 100", "beyond the end", "truncated"}},
        {"absurd length",
         with_length(UINT64_MAX, header + data),
         {"header length 18446744073709551615 is absurd"}},
        {"huge length", with_length(1ULL << 40, header + data), {"absurd"}},
        {"truncated header", safetensors(header, data).substr(0, 60), {"beyond the end"}},
        {"truncated data",
         safetensors(header, data.substr(0, 20)),
         {"\"b\"", "end at byte 24", "byte 20", "truncated"}},
        {"no data", safetensors(header, ""), {"truncated"}},
        {"trailing bytes", safetensors(header, data + "xx"), {"2 bytes after the last tensor"}},
        {"no header", safetensors("", data), {"not a JSON object"}},
        {"array header", safetensors("[1]", data), {"not a JSON object"}},
        {"broken JSON", safetensors("{\"a\": ", data), {"line 1"}},
        {"same key twice",
         safetensors(
             R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],)"
             R"("data_offsets":[0,4]}})",
             "xxxx"),
         {"model.safetensors"}},
        {"bad metadata", safetensors(metadata.dump(), data), {"__metadata__"}},
        {"entry is a number", safetensors(R"({"a": 3})", ""), {"\"a\"", "must be an object"}},
        {"no dtype", without("a", "dtype"), {"\"a\"", "dtype is missing"}},
        {"no shape", without("a", "shape"), {"\"a\"", "shape is missing"}},
        {"no offsets", without("a", "data_offsets"), {"\"a\"", "data_offsets is missing"}},
        {"unknown dtype", changed("a", "dtype", "F7"), {"\"a\"", "F7", "not supported"}},
        {"dtype no string", changed("a", "dtype", 32), {"\"a\"", "dtype must be a string"}},
        {"other dtype", changed("a", "dtype", "F16"), {"\"a\"", "span 16 bytes", "need 8"}},
        {"shape too large", changed("a", "shape", {2, 3}), {"\"a\"", "span 16 bytes", "need 24"}},
        {"negative shape", changed("a", "shape", {-2, -2}), {"\"a\"", "shape"}},
        {"fractional shape", changed("a", "shape", {2.0, 2.0}), {"\"a\"", "shape"}},
        {"shape no list", changed("a", "shape", 4), {"\"a\"", "shape"}},
        {"overflowing shape",
         changed("a", "shape", {4294967296, 4294967296, 16}),
         {"\"a\"", "absurdly large"}},
        {"shape of 2^64", changed("a", "shape", {UINT64_MAX}), {"\"a\"", "absurdly large"}},
        {"overflow hidden by 0", changed("a", "shape", {0, UINT64_MAX}), {"\"a\"", "absurdly large"}},
        {"one offset", changed("a", "data_offsets", {0}), {"\"a\"", "two numbers"}},
        {"descending offsets", changed("a", "data_offsets", {16, 0}), {"\"a\"", "ascending"}},
        {"negative offset", changed("a", "data_offsets", {-16, 0}), {"\"a\"", "ascending"}},
        {"beyond the file", changed("b", "data_offsets", {1000, 1008}), {"\"b\"", "end at byte 1008"}},
        {"overlap", changed("b", "data_offsets", {8, 16}), {"\"b\"", "overlap"}},
        {"hole",
         safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "12345678"),
         {"\"a\"", "a hole of 4 bytes"}},
    };
    const ScratchFolder folder("checkpoint");
    for (const Case& bad : cases) {
        CAPTURE(bad.name);
        folder.write("model.safetensors", bad.bytes);
        const std::string message = open_error(folder);
        CHECK_THAT(message, ContainsSubstring("model.safetensors"));
        for (const std::string& part : bad.parts)
            CHECK_THAT(message, ContainsSubstring(part));
    }
}

TEST_CASE("an index joins its shards; each broken promise of it is named", "[model]") {
    const ScratchFolder folder("checkpoint");
    const auto index = [&](const json& map) {
        folder.write("model.safetensors.index.json",
                     json{{"metadata", {{"total_size", 8}}}, {"weight_map", map}}.dump());
    };
    folder.write("one.safetensors", safetensors(good_header().dump(), good_data()));
    folder.write("two.safetensors", safetensors(R"({"c":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                                                std::string(4, '\0')));
    index({{"a", "one.safetensors"}, {"b", "one.safetensors"}, {"c", "two.safetensors"}});
    const Checkpoint checkpoint = Checkpoint::open(folder.path());
    CHECK(checkpoint.names() == std::vector<std::string>{"a", "b", "c"});
    CHECK(checkpoint.total_bytes() == 28);
    CHECK(checkpoint.read("c", {1}).item<float>() == 0.0F);

    index({{"a", "one.safetensors"}, {"x", "three.safetensors"}});
    CHECK_THAT(open_error(folder), ContainsSubstring("three.safetensors") && ContainsSubstring("missing"));
    index({{"a", "one.safetensors"}, {"c", "one.safetensors"}});
    CHECK_THAT(open_error(folder),
               ContainsSubstring("one.safetensors") && ContainsSubstring("\"c\": missing"));
    index({{"a", 3}});
    CHECK_THAT(open_error(folder), ContainsSubstring("index.json") && ContainsSubstring("must be a string"));
    index(json::object());
    CHECK_THAT(open_error(folder), ContainsSubstring("weight_map"));
    folder.write("model.safetensors.index.json", "[]");
    CHECK_THAT(open_error(folder), ContainsSubstring("weight_map"));

    for (const char* trick : {"../one.safetensors", "/etc/passwd", "sub/one.safetensors", "..", "", "one.bin",
                              "a\\b.safetensors", ".safetensors", "one.safetensors\\u0000.safetensors"}) {
        CAPTURE(trick);
        folder.write("model.safetensors.index.json",
                     std::string(R"({"weight_map":{"a":")") +
                         (std::string_view(trick) == "a\\b.safetensors" ? "a\\\\b.safetensors" : trick) +
                         "\"}}");
        CHECK_THAT(open_error(folder), ContainsSubstring("plain *.safetensors file name"));
    }
}

TEST_CASE("a folder without weights says what is there instead", "[model]") {
    const ScratchFolder folder("checkpoint");
    CHECK_THAT(open_error(folder), ContainsSubstring("no model.safetensors"));
    folder.write("pytorch_model.bin", "x");
    CHECK_THAT(open_error(folder), ContainsSubstring("convert pytorch_model.bin"));
    std::filesystem::create_directory(folder.path() / "model.safetensors");
    CHECK_THAT(open_error(folder), ContainsSubstring("not a regular file"));
}

TEST_CASE("mutated safetensors files are read or refused, never anything else", "[model]") {
    const uint64_t seed = refreshlab::test::seed(424242);
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto pick = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
    const std::string base = safetensors(good_header().dump(), good_data());
    const std::vector<std::string> inserts = {"0",    "9", "-",  "e9",      "18446744073709551615",
                                              "null", "[", "]",  "{",       "}",
                                              ",",    ":", "\"", "\\u0000", "F64",
                                              "1.5",  " ", "\n", "\xff",    "[0,16]"};
    const ScratchFolder folder("mutant");
    int refused = 0;
    int accepted = 0;
    for (int round = 0; round < 4000; ++round) {
        std::string bytes = base;
        for (size_t change = 0, changes = 1 + pick(3); change < changes && !bytes.empty(); ++change) {
            const size_t at = pick(bytes.size());
            switch (pick(5)) {
            case 0:
                bytes[at] = static_cast<char>(pick(256));
                break;
            case 1:
                bytes[at] = static_cast<char>(bytes[at] ^ static_cast<char>(1U << pick(8)));
                break;
            case 2:
                bytes.erase(at, 1 + pick(4));
                break;
            case 3:
                bytes.insert(at, inserts[pick(inserts.size())]);
                break;
            default:
                bytes.resize(at + 1);
                break;
            }
        }
        // Mostly keep the length honest, so that the parser behind it is reached.
        if (pick(4) != 0 && bytes.size() >= 8 + 24) {
            const uint64_t length = bytes.size() - 8 - 24;
            std::memcpy(bytes.data(), &length, sizeof(length));
        }
        folder.write("model.safetensors", bytes);
        try {
            const Checkpoint checkpoint = Checkpoint::open(folder.path());
            for (const std::string& name : checkpoint.names()) {
                for (const std::vector<int64_t>& shape :
                     {std::vector<int64_t>{2, 2}, std::vector<int64_t>{4}}) {
                    at::Tensor tensor;
                    try {
                        tensor = checkpoint.read(name, shape);
                    } catch (const Error&) { // another shape, or no dtype of a weight
                    }
                    if (tensor.defined()) CHECK(tensor.numel() == 4);
                }
            }
            ++accepted;
        } catch (const Error&) {
            ++refused;
        }
    }
    CHECK(refused > 2000);
    CHECK(accepted > 50);
}

} // namespace checkpoint_test
