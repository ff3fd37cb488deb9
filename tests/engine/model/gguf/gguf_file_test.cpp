// The container: what a header says is believed only as far as the file bears it out.
#include "engine/model/gguf/gguf_file.h"
#include "tests/engine/model/gguf/gguf_support.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sys/stat.h>

#include <random>

using Catch::Matchers::ContainsSubstring;
using refreshlab::GgufFile;
using refreshlab::GgufKind;
using refreshlab::GgufTensor;
using refreshlab::test::error_of;
using refreshlab::test::gguf_error;
using refreshlab::test::GgufWriter;
using refreshlab::test::parse_gguf;
using refreshlab::test::ScratchFolder;
using refreshlab::test::tiny_gguf;

TEST_CASE("a GGUF file gives its values and its tensors", "[gguf]") {
    GgufWriter writer = tiny_gguf();
    writer.set("a.u8", 0, GgufWriter::raw<uint8_t>(200)).set("a.i8", 1, GgufWriter::raw<int8_t>(-3));
    writer.set("a.u16", 2, GgufWriter::raw<uint16_t>(60000)).set("a.i16", 3, GgufWriter::raw<int16_t>(-300));
    writer.set("a.i32", 5, GgufWriter::raw<int32_t>(-70000))
        .set("a.u64", 10, GgufWriter::raw<uint64_t>(UINT64_MAX));
    writer.set("a.i64", 11, GgufWriter::raw<int64_t>(-1)).set("a.f64", 12, GgufWriter::raw<double>(0.1));
    writer.real("a.f32", 1e-5F)
        .flag("a.yes", true)
        .flag("a.no", false)
        .text("a.text", "h\u00e9llo")
        .text("a.empty", "");
    writer.texts("a.texts", {"x", "", "yz"}).numbers("a.numbers", {1, -2}).reals("a.reals", {0.5F});
    const std::string bytes = writer.bytes();
    const GgufFile file = parse_gguf(bytes);
    CHECK(file.size_bytes() == bytes.size());
    CHECK(file.integer("a.u8", 0, 255) == 200);
    CHECK(file.integer("a.i8", -9, 9) == -3);
    CHECK(file.integer("a.u16", 0, 65535) == 60000);
    CHECK(file.integer("a.i16", -999, 0) == -300);
    CHECK(file.integer("a.i32", -99999, 0) == -70000);
    CHECK(file.integer("a.u64", 0, INT64_MAX) == INT64_MAX);
    CHECK(file.number("a.f64", 0, 1) == 0.1);
    CHECK(file.number("a.f32", 0, 1) == 1e-5); // the decimal that was meant
    CHECK(file.number("a.u8", 0, 255) == 200.0);
    CHECK(file.flag("a.yes") == true);
    CHECK(file.flag("a.no") == false);
    CHECK(file.text("a.text") == "h\u00e9llo");
    CHECK(file.text("a.empty") == "");
    CHECK(file.texts("a.texts") == std::vector<std::string_view>{"x", "", "yz"});
    CHECK(file.integers("a.numbers") == std::vector<int64_t>{1, -2});
    CHECK(file.numbers("a.reals") == std::vector<double>{0.5});
    CHECK_FALSE(file.integer("a.absent", 0, 1));
    CHECK_FALSE(file.texts("a.absent"));
    CHECK(file.has("a.text"));

    REQUIRE(file.tensors().size() == 20);
    CHECK(file.tensors().front().name == "token_embd.weight");
    const GgufTensor* down = file.tensor("blk.1.ffn_down.weight");
    REQUIRE(down != nullptr);
    CHECK(down->shape == std::vector<int64_t>{8, 12}); // the other way round in the file
    CHECK(down->type->name == "F32");
    REQUIRE(down->bytes.size() == 8 * 12 * 4);
    float second = 0;
    std::memcpy(&second, down->bytes.data() + 4, 4);
    CHECK(second == 0.06F * 1.001F);
    CHECK(file.tensor("blk.1.ffn_down") == nullptr);

    writer.version = 2;
    writer.last_padding = false;
    writer.tensors.pop_back();
    writer.tensor("odd", {3}, 1, "abcdef");
    CHECK(parse_gguf(writer.bytes()).tensors().back().bytes.size() == 6);
    writer.alignment = 64;
    writer.number("general.alignment", 64);
    CHECK(parse_gguf(writer.bytes()).tensors().size() == 20);
}

TEST_CASE("values of another kind and out of range are refused by key", "[gguf]") {
    const std::string bytes =
        tiny_gguf().set("a.flag", 7, GgufWriter::raw<uint8_t>(2)).text("a.bad", "x\xFFy").bytes();
    const GgufFile file = parse_gguf(bytes);
    CHECK_THAT(error_of([&] { (void)file.integer("llama.block_count", 3, 9); }),
               ContainsSubstring("tiny.gguf: key llama.block_count must be in 3 .. 9, not 2"));
    CHECK_THAT(error_of([&] { (void)file.integer("general.architecture", 0, 9); }),
               ContainsSubstring("key general.architecture is a text, and a whole number is expected"));
    CHECK_THAT(error_of([&] { (void)file.integer("tokenizer.ggml.token_type", 0, 9); }),
               ContainsSubstring("is a list, and a whole number"));
    CHECK_THAT(error_of([&] { (void)file.number("general.architecture", 0, 9); }),
               ContainsSubstring("a number is expected"));
    CHECK_THAT(error_of([&] { (void)file.text("llama.block_count"); }),
               ContainsSubstring("a text is expected"));
    CHECK_THAT(error_of([&] { (void)file.flag("llama.block_count"); }),
               ContainsSubstring("true or false is expected"));
    CHECK_THAT(error_of([&] { (void)file.flag("a.flag"); }), ContainsSubstring("is 2"));
    CHECK_THAT(error_of([&] { (void)file.text("a.bad"); }), ContainsSubstring("not UTF-8 at byte 1"));
    CHECK_THAT(error_of([&] { (void)file.texts("llama.block_count"); }),
               ContainsSubstring("a list is expected"));
    CHECK_THAT(error_of([&] { (void)file.texts("tokenizer.ggml.token_type"); }),
               ContainsSubstring("texts are expected"));
    CHECK_THAT(error_of([&] { (void)file.integers("tokenizer.ggml.tokens"); }),
               ContainsSubstring("whole numbers are expected"));
    CHECK_THAT(error_of([&] { (void)file.numbers("tokenizer.ggml.tokens"); }),
               ContainsSubstring("numbers are expected"));
}

TEST_CASE("damaged GGUF headers are refused with what is wrong and where", "[gguf]") {
    const auto changed = [](const auto& change) {
        GgufWriter writer = tiny_gguf();
        change(writer);
        return gguf_error(writer.bytes());
    };
    CHECK_THAT(gguf_error(""), ContainsSubstring("is no GGUF file"));
    CHECK_THAT(gguf_error("{\"a\": 1}"), ContainsSubstring("is no GGUF file"));
    CHECK_THAT(changed([](auto& w) { w.magic = "GGML"; }), ContainsSubstring("is no GGUF file"));
    CHECK_THAT(changed([](auto& w) { w.version = 1; }), ContainsSubstring("version 1 is not supported"));
    CHECK_THAT(changed([](auto& w) { w.version = 4; }), ContainsSubstring("version 4 is not supported"));
    CHECK_THAT(changed([](auto& w) { w.version = 0x03000000; }), ContainsSubstring("big-endian"));
    CHECK_THAT(changed([](auto& w) { w.entries.push_back(w.entries.front()); }),
               ContainsSubstring("key general.architecture stands there twice"));
    CHECK_THAT(changed([](auto& w) { w.number("", 1); }), ContainsSubstring("is empty"));
    CHECK_THAT(changed([](auto& w) { w.set("x", 13, "1234"); }),
               ContainsSubstring("key x has value type 13"));
    CHECK_THAT(
        changed([](auto& w) { w.set("x", 9, GgufWriter::raw<uint32_t>(9) + GgufWriter::raw<uint64_t>(0)); }),
        ContainsSubstring("key x is a list of lists"));
    CHECK_THAT(changed([](auto& w) { w.number("split.count", 3); }),
               ContainsSubstring("split.count") && ContainsSubstring("3 files"));
    CHECK_NOTHROW(parse_gguf(tiny_gguf().number("split.count", 1).bytes()));
    for (const uint32_t alignment : {0U, 24U})
        CHECK_THAT(changed([&](auto& w) { w.number("general.alignment", alignment); }),
                   ContainsSubstring("general.alignment"));
    CHECK_THAT(changed([](auto& w) { w.floats("token_embd.weight", {4}); }),
               ContainsSubstring("tensor \"token_embd.weight\": stands there twice"));
    CHECK_THAT(changed([](auto& w) { w.floats(std::string(64, 'n'), {4}); }),
               ContainsSubstring("64 bytes is absurd"));
    CHECK_THAT(changed([](auto& w) { w.floats("x", {1, 1, 1, 1, 4}); }), ContainsSubstring("5 dimensions"));
    CHECK_THAT(changed([](auto& w) { w.floats("x", {}); }), ContainsSubstring("0 dimensions"));
    CHECK_THAT(changed([](auto& w) { w.floats("x", {4, 0}); }), ContainsSubstring("empty or absurdly large"));
    CHECK_THAT(changed([](auto& w) {
                   w.tensor("x", {uint64_t{1} << 40, uint64_t{1} << 40}, 0, "");
               }),
               ContainsSubstring("empty or absurdly large"));
    CHECK_THAT(changed([](auto& w) { w.tensor("x", {INT64_MAX}, 0, ""); }),
               ContainsSubstring("absurdly large"));
    CHECK_THAT(changed([](auto& w) { w.tensor("x", {32}, 23, "0123"); }),
               ContainsSubstring("tensor \"x\": its type IQ4_XS is not supported") &&
                   ContainsSubstring("Q6_K"));
    CHECK_THAT(changed([](auto& w) { w.tensor("x", {32}, 4, "0123"); }), ContainsSubstring("number 4"));
    CHECK_THAT(changed([](auto& w) { w.tensor("x", {48}, 8, std::string(51, 'x')); }),
               ContainsSubstring("rows of 48 elements are no whole blocks of 32 (Q8_0)"));
    CHECK_THAT(changed([](auto& w) {
                   w.last_padding = false;
                   w.tensor("x", {8}, 0, std::string(28, 'x'));
               }),
               ContainsSubstring("tensor \"x\": needs 32 bytes"));
    CHECK_THAT(changed([](auto& w) { w.tensors[3].data += std::string(32, 'x'); }),
               ContainsSubstring("its data begin at byte"));
    CHECK_THAT(gguf_error(tiny_gguf().bytes() + "x"), ContainsSubstring("1 bytes after the last tensor"));
}

TEST_CASE("no length of a GGUF file is believed before memory is taken for it", "[gguf]") {
    const std::string header = tiny_gguf().header();
    const auto with_counts = [&](uint64_t tensors, uint64_t keys) {
        std::string bytes = header;
        std::memcpy(bytes.data() + 8, &tensors, 8);
        std::memcpy(bytes.data() + 16, &keys, 8);
        return bytes;
    };
    for (const uint64_t absurd : {uint64_t{100'001}, uint64_t{1} << 40, uint64_t{1} << 63, UINT64_MAX}) {
        CHECK_THAT(gguf_error(with_counts(absurd, 1)), ContainsSubstring("tensors are absurd"));
        CHECK_THAT(gguf_error(with_counts(1, absurd)), ContainsSubstring("keys are absurd"));
    }
    CHECK_THAT(gguf_error(with_counts(20, 90'000)),
               ContainsSubstring("truncated") || ContainsSubstring("absurd"));
    for (const uint64_t absurd :
         {uint64_t{1} << 20, uint64_t{1} << 30, uint64_t{1} << 31, uint64_t{1} << 62, UINT64_MAX}) {
        const std::string length = GgufWriter::raw(absurd);
        const auto key = [&](uint32_t type, const std::string& bytes) {
            return gguf_error(tiny_gguf().set("long", type, bytes).header());
        };
        CHECK_THAT(key(8, length + "abc"), ContainsSubstring("key long"));
        for (const uint32_t element : {0U, 4U, 7U, 8U, 10U})
            CHECK_THAT(key(9, GgufWriter::raw(element) + length + "abc"), ContainsSubstring("key long"));
        CHECK_THAT(key(9, GgufWriter::raw<uint32_t>(8) + GgufWriter::raw<uint64_t>(1) + length),
                   ContainsSubstring("key long"));
        // the length of a key itself
        CHECK_THAT(gguf_error(std::string("GGUF") + GgufWriter::raw<uint32_t>(3) +
                              GgufWriter::raw<uint64_t>(0) + GgufWriter::raw<uint64_t>(1) + length),
                   ContainsSubstring("key number 1 of 1"));
    }
}

TEST_CASE("a GGUF file cut anywhere is refused in one line", "[gguf]") {
    GgufWriter writer = tiny_gguf();
    writer.last_padding = false;
    const std::string whole = writer.bytes();
    REQUIRE_NOTHROW(parse_gguf(whole));
    std::mt19937_64 random(refreshlab::test::seed(31));
    const size_t header = writer.header().size();
    for (size_t cut = 0; cut < whole.size(); cut += cut < header ? 1 : 1 + random() % 40) {
        INFO("cut at " << cut << " of " << whole.size());
        const std::string message = gguf_error(whole.substr(0, cut));
        CHECK_THAT(message, ContainsSubstring("tiny.gguf"));
        CHECK_THAT(message,
                   cut < 4 ? ContainsSubstring("is no GGUF file") : ContainsSubstring("is it truncated?"));
        CHECK(message.size() < 400);
    }
}

TEST_CASE("a GGUF file is mapped, and what is no regular file is refused at once", "[gguf]") {
    const ScratchFolder folder("gguf");
    folder.write("tiny.gguf", tiny_gguf().bytes());
    GgufFile moved = GgufFile::open(folder.path() / "tiny.gguf");
    const GgufFile file = std::move(moved);
    CHECK(file.text("general.architecture") == "llama");
    CHECK(file.name() == (folder.path() / "tiny.gguf").string());
    const auto opening = [&](const std::filesystem::path& path) {
        return error_of([&] { (void)GgufFile::open(path); });
    };
    REQUIRE(::mkfifo((folder.path() / "pipe.gguf").c_str(), 0600) == 0);
    CHECK_THAT(opening(folder.path() / "pipe.gguf"), ContainsSubstring("is a pipe, not a regular file"));
    CHECK_THAT(opening("/dev/zero"), ContainsSubstring("is a character device"));
    CHECK_THAT(opening(folder.path()), ContainsSubstring("is a folder"));
    CHECK_THAT(opening(folder.path() / "absent.gguf"), ContainsSubstring("No such file"));
    folder.write("empty.gguf", "");
    CHECK_THAT(opening(folder.path() / "empty.gguf"), ContainsSubstring("is no GGUF file"));
}
