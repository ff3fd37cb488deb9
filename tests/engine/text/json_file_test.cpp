#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "tests/engine/text/text_fixture.h"

#include <sys/stat.h>
#include <unistd.h>

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
