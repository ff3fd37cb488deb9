#include "engine/tasks/fact_reader.h"

#include <catch2/catch_test_macros.hpp>

#include <string>
#include <vector>

using namespace refreshlab;

namespace {

/// "NAME.ATTRIBUTE=WORD", or "NAME" where a name is told; each with the bytes that end it.
std::vector<std::string> read_all(FactReader& reader, const std::string& text) {
    std::vector<std::string> all;
    std::string seen; // of the word that is read
    for (const char c : text) {
        const auto word = reader.take(c);
        if (word) {
            CHECK(seen == word->text);
            all.push_back(word->attribute
                              ? word->name + "." + std::to_string(*word->attribute) + "=" + word->text
                              : word->name);
        }
        if (reader.word_bytes() <= 1) seen.clear();
        if (reader.word_bytes() > 0) seen += c;
    }
    return all;
}

} // namespace

TEST_CASE("names and facts are told apart, and belong to the latest list of names", "[tasks]") {
    FactReader reader(false);
    CHECK(read_all(reader, "The company: king Marid, cook Bliron.\nHomes: king chest, guard room.\n"
                           "Colors: cook red. king blue\nA tale: king Bob.\n") ==
          std::vector<std::string>{"Marid", "Bliron", "Marid.0=chest", "Bliron.1=red"});
    CHECK(read_all(reader, "The next company: king Flaut.\nAnimals: king owl, cook bat.\n") ==
          std::vector<std::string>{"Flaut", "Flaut.2=owl"});
    CHECK(read_all(reader, "Roll call: king Bob.\nHomes: king hall\n") ==
          std::vector<std::string>{"Flaut.0=hall"});
}

TEST_CASE("a prompt calls the roll, wherever its line begins", "[tasks]") {
    FactReader reader(true);
    const std::string long_line(200, 'a');
    CHECK(read_all(reader, long_line + ". Roll call: king Thomon, hero Flaut. Tell their homes.\n") ==
          std::vector<std::string>{"Thomon", "Flaut"});
    reader.prompt_is_over();
    CHECK(read_all(reader, "Roll call: king Bob.\nHomes: king hall, hero sea.\n") ==
          std::vector<std::string>{"Thomon.0=hall", "Flaut.0=sea"});
}
