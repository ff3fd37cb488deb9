#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/base/regular_file.h"
#include "engine/text/utf8.h"
#include "tests/engine/text/text_fixture.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>

namespace json_file_test {

using namespace refreshlab;
using namespace refreshlab::text_test;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string refusal(const std::string& text) {
    return message_of([&] { (void)parse_json(text, "--policy"); });
}

} // namespace

TEST_CASE("malformed JSON is refused with line and column", "[base]") {
    CHECK_THAT(refusal("{\"a\": 1,\n \"b\": }"), ContainsSubstring("reading --policy: line 2, column 7"));
    CHECK_THAT(refusal("{\"\u00e9\u00e9\": x}"),
               ContainsSubstring("line 1, column 8")); // characters, not bytes
    CHECK_THAT(refusal(""), ContainsSubstring("line 1, column 1"));
    CHECK_THAT(refusal("[1, 2"), ContainsSubstring("unexpected end"));
    CHECK_THAT(refusal("[1] x"), ContainsSubstring("line 1, column 5"));
    CHECK_THAT(refusal("[1] [2]"), ContainsSubstring("expected end of input"));
    CHECK_THAT(refusal("// comment\n1"), ContainsSubstring("line 1, column 1"));
    CHECK_THAT(refusal("[NaN]"), ContainsSubstring("line 1"));
    CHECK_THAT(refusal("[1e999]"), ContainsSubstring("overflow"));
    CHECK_THAT(refusal("\"\xFF\""), ContainsSubstring("UTF-8"));
    CHECK_THAT(refusal("[1,]"), ContainsSubstring("column 4"));
}

TEST_CASE("a message is short, whatever it speaks of", "[base]") {
    const std::string huge = "begin" + std::string(5'000'000, 'x') + "end", odd = "\u00e9";
    const Error all(huge, huge, huge, huge);
    CHECK(std::string(all.what()).size() < 8000);
    CHECK_THAT(all.problem(), Catch::Matchers::StartsWith("begin") && Catch::Matchers::EndsWith("end") &&
                                  ContainsSubstring("bytes ...]"));
    CHECK_THAT(Error("reading", "x.json", huge, "try this").what(),
               Catch::Matchers::EndsWith("end; try this"));
    // No character is cut in two, wherever the cut would fall.
    for (const char* before : {"", "a", "ab"}) {
        std::string text = before;
        for (int i = 0; i < 4000; ++i)
            text += odd;
        CHECK_FALSE(first_invalid_utf8(Error("reading", "x", text).problem()));
    }
    const std::string list(1500, 'n');
    CHECK(Error("reading", "x", list).problem() == list);
}

TEST_CASE("the text of a JSON value is made of any bytes", "[base]") {
    const nlohmann::json good = {{"b", {1, 2.5, nullptr}}, {"a", "\u00FC \\ \n"}};
    CHECK(json_text(good) == good.dump());
    CHECK(json_text(good, 2) == good.dump(2));
    CHECK(json_text({{"folder", "m\xC1"}, {"\xFF", 1}}) == "{\"folder\":\"m\uFFFD\",\"\uFFFD\":1}");
}

TEST_CASE("a key that appears twice is refused where it appears again", "[base]") {
    CHECK_THAT(refusal("{\"a\": 1,\n  \"a\": 2}"),
               ContainsSubstring("line 2, column 5") && ContainsSubstring("key \"a\" appears twice"));
    CHECK(parse_json(R"([{"a": 1}, {"a": 2}])", "x").size() == 2);
}

TEST_CASE("nesting is allowed to 256 levels and no further", "[base]") {
    const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
    CHECK(parse_json(nested(256), "x").is_array());
    CHECK_THAT(refusal(nested(257)), ContainsSubstring("column 257") && ContainsSubstring("deeper than 256"));
    CHECK_THAT(refusal(std::string(1'000'000, '[')), ContainsSubstring("deeper than 256"));
}

TEST_CASE("whatever the library parses without duplicates is parsed to the same document", "[base]") {
    const std::string text =
        R"({"a": [1, -2, 3.5e2, true, null, "x\u00e9\n\ud83d\ude00"], "b": {"c": {}, "d": []}, "": 18446744073709551615})";
    CHECK(parse_json(text, "x") == nlohmann::json::parse(text));
    CHECK(parse_json(" 5 ", "x") == 5);
}

TEST_CASE("damaged JSON is parsed like the library does, or refused", "[base][mutation]") {
    Random random(test::seed(2));
    const std::string original =
        R"({"name": "gate", "when": {"any": [{"signal": "entropy_bits", "above": 6.0, "x": [1, 2, {"y": null}]}]}, "n": -12})";
    int parsed = 0;
    for (int round = 0; round < 5000; ++round) {
        const std::string text = mutated(original, random);
        INFO("round " << round);
        const nlohmann::json expected = nlohmann::json::parse(text, nullptr, false);
        try {
            const nlohmann::json document = parse_json(text, "x");
            REQUIRE(document == expected);
            ++parsed;
        } catch (const Error& error) {
            if (std::string(error.what()).find("appears twice") == std::string::npos)
                REQUIRE(expected.is_discarded());
        }
    }
    CHECK(parsed > 100);
}

TEST_CASE("files are read whole, and what is no readable file is refused", "[base]") {
    const auto folder = fresh_folder("files");
    std::string bytes;
    for (int i = 0; i < 300'000; ++i)
        bytes += static_cast<char>(i * 7);
    write_file(folder / "data", bytes);
    CHECK(read_file(folder / "data") == bytes);
    CHECK(read_file(folder / "data", bytes.size()) == bytes);
    CHECK_THAT(message_of([&] { (void)read_file(folder / "data", bytes.size() - 1); }),
               ContainsSubstring("larger than"));
    CHECK_THAT(message_of([&] { (void)read_file(folder); }), ContainsSubstring("is a folder"));
    CHECK_THAT(message_of([&] { (void)read_file(folder / "none"); }), ContainsSubstring("No such file"));
    CHECK_FALSE(read_file("/proc/self/status").empty()); // states no size
    write_file(folder / "j.json", "{\n\"a\": }");
    CHECK_THAT(message_of([&] { (void)read_json_file(folder / "j.json"); }),
               ContainsSubstring("j.json: line 2, column 6"));
}

TEST_CASE("what is no regular file is refused at once and by its kind", "[base]") {
    const auto folder = fresh_folder("special");
    const std::string pipe = folder / "pipe", link = folder / "link", socket_path = folder / "s";
    REQUIRE(mkfifo(pipe.c_str(), 0600) == 0); // nobody writes: opening it the plain way would wait for ever
    std::filesystem::create_symlink("pipe", link);
    CHECK_THAT(message_of([&] { (void)read_file(pipe); }),
               ContainsSubstring(pipe + ": is a pipe, not a regular file"));
    CHECK_THAT(message_of([&] { (void)read_json_file(link); }),
               ContainsSubstring(link + ": is a pipe, not a regular file"));
    const int held = ::open(pipe.c_str(), O_RDWR | O_CLOEXEC); // one with a writer who says nothing
    REQUIRE(held >= 0);
    CHECK_THAT(message_of([&] { (void)read_file(pipe); }), ContainsSubstring("is a pipe"));
    ::close(held);
    CHECK_THAT(message_of([&] { (void)read_file("/dev/zero"); }),
               ContainsSubstring("is a character device, not a regular file"));
    CHECK_THAT(message_of([&] { (void)read_file(folder); }),
               ContainsSubstring("is a folder, not a regular file"));
    const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    // The address has room for 107 characters, the folder's path may be longer.
    const auto before = std::filesystem::current_path();
    std::filesystem::current_path(folder);
    address.sun_path[0] = 's';
    const int bound = ::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    std::filesystem::current_path(before);
    REQUIRE(bound == 0);
    CHECK_THAT(message_of([&] { (void)read_file(socket_path); }),
               ContainsSubstring("is a socket, not a regular file"));
    ::close(descriptor);
}

TEST_CASE("a part of a regular file is read where it stands", "[base]") {
    const auto folder = fresh_folder("parts");
    write_file(folder / "data", "0123456789");
    const RegularFile file(folder / "data", 10);
    CHECK(file.size() == 10);
    CHECK(file.read(3, 4) == "3456");
    CHECK(file.read(8, 4) == "89");
    CHECK(file.read(20, 4).empty());
    CHECK(file.read_all() == "0123456789");
    std::ofstream(folder / "data", std::ios::app) << "x"; // it grows after it was opened
    CHECK_THAT(message_of([&] { (void)file.read_all(); }), ContainsSubstring("larger than 10 bytes"));
    const auto descriptors = [] {
        return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
    };
    const auto open_before = descriptors();
    for (int i = 0; i < 20; ++i) {
        (void)read_file(folder / "data");
        CHECK_THAT(message_of([&] { (void)read_file(folder / "data", 5); }), ContainsSubstring("larger"));
        CHECK_THAT(message_of([&] { (void)read_file(folder); }), ContainsSubstring("folder"));
    }
    CHECK(descriptors() == open_before);
}

TEST_CASE("writing replaces a file at once and leaves no other file behind", "[base]") {
    const auto folder = fresh_folder("writing");
    write_file(folder / "a", "old");
    ::chmod((folder / "a").c_str(), 0600);
    std::filesystem::create_symlink("a", folder / "link");
    write_file(folder / "link", "new");
    CHECK(read_file(folder / "a") == "new");
    CHECK(std::filesystem::is_symlink(folder / "link"));
    CHECK(std::filesystem::status(folder / "a").permissions() ==
          (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
    CHECK_THAT(message_of([&] { write_file(folder / "no" / "b", "x"); }), ContainsSubstring("writing"));
    CHECK_THAT(message_of([&] { write_file(folder, "x"); }), ContainsSubstring("is a folder"));
    CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 2);
}

} // namespace json_file_test
