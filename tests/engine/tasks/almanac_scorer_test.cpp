// The scorer reads byte by byte as tokens come; the check here reads the whole text at once, line by line, and looks up
// afterwards which tokens hold the bytes of a word.
#include "engine/base/json_file.h"
#include "engine/tasks/almanac.h"
#include "tests/engine/tasks/text_cuts.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <sstream>

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

const std::string almanac_file = RL_SOURCE_DIR "/assets/prompts/almanac.json";
const std::vector<std::string> roles{"king", "cook", "guard", "hero", "giant", "ghost", "sister"};

struct Naive {
    std::map<int64_t, bool> verdicts;
    std::map<std::string, std::pair<int64_t, int64_t>> counts; ///< head -> right, total
};

/// Words of `list` as [begin, end) offsets: runs of anything but ASCII punctuation and white space.
std::vector<std::pair<size_t, size_t>> words_of(const std::string& list) {
    const std::string letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-'";
    std::vector<std::pair<size_t, size_t>> words;
    for (size_t i = 0; i < list.size(); ++i) {
        const bool inside =
            letters.find(list[i]) != std::string::npos || static_cast<unsigned char>(list[i]) > 127;
        if (!inside) continue;
        if (words.empty() || words.back().second != i) words.push_back({i, i});
        words.back().second = i + 1;
    }
    return words;
}

Naive naive_score(const CutText& cut_text, std::map<std::string, std::string> company) {
    const nlohmann::json almanac = read_json_file(almanac_file);
    const std::map<std::string, std::string> facts{
        {"Homes", "home"}, {"Colors", "colour"}, {"Animals", "animal"}};
    const std::string text = cut_text.text();
    Naive naive;
    size_t line_start = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line); line_start += line.size() + 1) {
        const size_t colon = line.find(':');
        if (colon == std::string::npos || colon > 64) continue;
        const std::string head = line.substr(0, colon);
        const bool names = head.ends_with("company");
        if (!names && !facts.contains(head)) continue;
        if (names) company.clear();
        const std::string list = line.substr(colon + 1, line.find('.', colon) == std::string::npos
                                                            ? std::string::npos
                                                            : line.find('.', colon) - colon - 1);
        size_t item_start = 0;
        std::istringstream items(list);
        for (std::string item; std::getline(items, item, ','); item_start += item.size() + 1) {
            const auto words = words_of(item);
            if (words.size() < 2) continue;
            const std::string role = item.substr(words[0].first, words[0].second - words[0].first);
            const std::string word = item.substr(words[1].first, words[1].second - words[1].first);
            if (names) {
                company[role] = word;
                continue;
            }
            if (!company.contains(role) || !almanac.contains(company[role])) continue;
            const bool agrees = almanac[company[role]][facts.at(head)] == word;
            if (cut_text.given() && !agrees) continue;
            const size_t begin = line_start + colon + 1 + item_start + words[1].first;
            const size_t end = begin + word.size();
            const bool right = agrees && cut_text.all_hit(begin, end);
            naive.counts[head].first += right ? 1 : 0;
            ++naive.counts[head].second;
            for (const int64_t token : cut_text.holders(begin, end))
                naive.verdicts[token] = right;
        }
    }
    return naive;
}

/// Companies with their lists; words are wrong, roles or names unknown, lines broken off now and then.
std::string random_document(const Almanac& almanac, std::mt19937_64& random,
                            std::map<std::string, std::string> company) {
    std::string text;
    const auto mistake = [&] { return chance(random, 8); };
    const auto name = [&] { return mistake() ? std::string("Zorgü") : pick(almanac, random).first; };
    const size_t companies = 1 + random() % 4;
    for (size_t c = 0; c < companies; ++c) {
        if (c > 0 || company.empty()) {
            company.clear();
            text += c == 0 ? "The company:" : "The next company:";
            for (const std::string& role : roles) {
                if (chance(random, 50)) continue;
                company[role] = name();
                text += std::string(company.size() == 1 ? " " : ", ") + role + " " + company[role];
            }
            text += mistake() ? " and others.\n" : ".\n";
        }
        for (size_t f = 0; f < num_attributes; ++f) {
            if (mistake()) text += "Nothing: king barn, cook sea.\n";
            text += std::string(attribute_heads[f]) + (mistake() ? ":" : ": ");
            bool first = true;
            for (const auto& [role, who] : company) {
                if (mistake()) continue;
                if (!first) text += ", ";
                first = false;
                const auto known = almanac.find(who);
                std::string word = known == almanac.end() ? "sea" : known->second[f];
                if (mistake()) word = pick(almanac, random).second[f];
                if (mistake()) word += pick(std::vector<std::string>{"s", "é", "-x", "'", "."}, random);
                text += (mistake() ? "nobody" : role) + " " + (mistake() ? "" : word);
                if (mistake()) text += " and more";
            }
            text += mistake() ? "" : ".";
            text += mistake() ? " Then: king went, cook too.\n" : "\n";
        }
        text += "Rain fell on the hills. Everyone sang: an old song, a song.\n\n";
    }
    if (chance(random, 50)) text.resize(random() % text.size()); // the token limit
    for (size_t i = 0; i < text.size(); ++i) {
        if (chance(random, 1) && chance(random, 20)) text[i] = static_cast<char>(random() % 256);
    }
    return text;
}

} // namespace

TEST_CASE("attribute words are scored as an independent reading of the whole text scores them", "[tasks]") {
    const uint64_t seed = test::seed(GENERATE(range(1U, 301U)));
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const Almanac almanac = read_almanac(almanac_file);
    const bool roll_call = chance(random, 30);
    std::map<std::string, std::string> company;
    std::string prompt = "Write a chronicle of 3 companies.";
    if (roll_call) {
        prompt = "Roll call:";
        for (const std::string& role : roles) {
            company[role] = pick(almanac, random).first;
            prompt += (company.size() == 1 ? " " : ", ") + role + " " + company[role];
        }
        prompt += ". Tell their homes, king sea, and animals.";
    }
    const CutText text = cut(random_document(almanac, random, company), chance(random, 50), random);
    CAPTURE(text.text());
    const auto scorer = TaskScorer::create({roll_call ? "roll_call" : "chronicle", "", almanac_file}, prompt);
    const Naive naive = naive_score(text, company);
    const auto verdicts = run_scorer(*scorer, text);
    CHECK(verdicts == naive.verdicts);
    const TaskResult result = scorer->result();
    CHECK(result.unit == "word");
    CHECK(!result.exact_match);
    REQUIRE(result.parts.size() == 3);
    int64_t right = 0, total = 0;
    for (size_t f = 0; f < 3; ++f) {
        const auto counts = naive.counts.find(std::string(attribute_heads[f]));
        const auto expected = counts == naive.counts.end() ? std::pair<int64_t, int64_t>() : counts->second;
        CHECK(result.parts[f].right == expected.first);
        CHECK(result.parts[f].total == expected.second);
        right += expected.first;
        total += expected.second;
    }
    CHECK(result.right == right);
    CHECK(result.total == total);
}

TEST_CASE("a word's verdict comes with the token that ends it, to all of its tokens", "[tasks]") {
    const auto scorer = TaskScorer::create({"company", "", almanac_file}, "any prompt");
    using Verdicts = std::vector<Verdict>;
    // Ashute: farm, wooden, bear. Ashual: path, dusty, rabbit.
    CHECK(scorer->advance("The company: king Ash", std::nullopt).empty());
    CHECK(scorer->advance("ute, cook Ashual.\nHomes: king", std::nullopt).empty());
    CHECK(scorer->advance(" fa", std::nullopt).empty());
    CHECK(scorer->advance("", std::nullopt).empty());
    CHECK(scorer->advance("rm", std::nullopt).empty());
    CHECK(scorer->advance(", cook", std::nullopt) == Verdicts{{3, true}, {5, true}});
    CHECK(scorer->advance(" barn.", std::nullopt) == Verdicts{{7, false}});
    CHECK(scorer->advance(" king farm.\nAnimals: king bear", std::nullopt).empty());
    CHECK(scorer->finish() == Verdicts{{8, true}});
    const TaskResult result = scorer->result();
    CHECK(result.right == 2);
    CHECK(result.total == 3);
    CHECK(result.parts[0] == TaskResult::Part{"homes", 1, 2});
    CHECK(result.parts[1] == TaskResult::Part{"colors", 0, 0});
    CHECK(result.parts[2] == TaskResult::Part{"animals", 1, 1});
}

TEST_CASE("the answers of the bundled files are all right, live and as given texts that were all hit",
          "[tasks]") {
    // Counted apart from the scorer: an attribute word follows every role of a list.
    const std::string kind = GENERATE("roll_call", "company", "chronicle");
    std::istringstream lines(read_file(RL_SOURCE_DIR "/assets/prompts/" + kind + ".jsonl"));
    int64_t words = 0, scored = 0;
    for (std::string line; std::getline(lines, line);) {
        const nlohmann::json record = nlohmann::json::parse(line);
        const std::string text = record["response"];
        for (size_t at = 0; at < text.size();) {
            const size_t end = std::min(text.find('\n', at), text.size());
            const std::string part = text.substr(at, end - at);
            at = end + 1;
            if (part.starts_with("Homes:") || part.starts_with("Colors:") || part.starts_with("Animals:")) {
                words += 1 + std::count(part.begin(), part.end(), ',');
            }
        }
        for (const std::optional<bool> hit : {std::optional<bool>(), std::optional(true)}) {
            const auto scorer = TaskScorer::create({kind, "", almanac_file}, record["prompt"]);
            for (const char c : text)
                static_cast<void>(scorer->advance(std::string(1, c), hit));
            static_cast<void>(scorer->finish());
            CHECK(scorer->result().right == scorer->result().total);
            if (hit) scored += scorer->result().total;
        }
    }
    CHECK(words > 0);
    CHECK(scored == words);
}
