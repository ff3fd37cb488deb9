#include "engine/base/error.h"
#include "tests/engine/tasks/text_cuts.h"
#include "tests/support/seed.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <algorithm>
#include <set>
#include <sstream>

using namespace refreshlab;
using namespace refreshlab::test;

namespace {

struct Chain {
    std::string prompt;
    std::vector<std::string> keys; ///< in the order of the chain
};

Chain random_chain(std::mt19937_64& random) {
    std::vector<std::string> words{"egg", "bus", "garden", "brush", "floor", "iron", "wagon", "ring", "wind"};
    std::shuffle(words.begin(), words.end(), random);
    words.resize(3 + random() % 7);
    Chain chain;
    for (size_t i = 0; i + 1 < words.size(); ++i)
        chain.keys.push_back(words[i] + "-" + words[i + 1]);
    std::vector<std::string> shown = chain.keys;
    std::shuffle(shown.begin(), shown.end(), random);
    chain.prompt = "Here are some keys:\n";
    for (const std::string& key : shown)
        chain.prompt += key + "\n";
    chain.prompt +=
        "Make a chain. Each key starts with the last word of the key before it. Begin with " + words[0] + ".";
    return chain;
}

std::string join(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines)
        text += (text.empty() ? "" : "\n") + line;
    return text;
}

} // namespace

TEST_CASE("the lines of a chain are judged as a reading of the whole text judges them", "[tasks]") {
    const uint64_t seed = test::seed(GENERATE(range(1U, 301U)));
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const Chain chain = random_chain(random);
    std::vector<std::string> lines = chain.keys;
    if (chance(random, 70)) {
        const size_t at = random() % lines.size();
        switch (random() % 6) {
        case 0:
            lines[at] = "egg-storm";
            break;
        case 1:
            lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
            break;
        case 2:
            lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), lines[at]);
            break;
        case 3:
            lines[at] += " " + std::string(300, 'x');
            break;
        case 4:
            std::swap(lines[at], lines[random() % lines.size()]);
            break;
        default:
            lines.push_back("the end");
            break;
        }
    }
    std::string whole = join(lines);
    if (chance(random, 20)) whole.resize(random() % (whole.size() + 1));
    const CutText text = cut(whole, chance(random, 40), random);
    CAPTURE(chain.prompt, whole);

    const std::set<std::string> listed(chain.keys.begin(), chain.keys.end());
    std::map<int64_t, bool> expected;
    std::set<std::string> used;
    std::string last = chain.keys[0].substr(0, chain.keys[0].find('-'));
    int64_t right = 0, total = 0, prefix = 0, number = 0;
    size_t start = 0;
    std::istringstream stream(whole);
    for (std::string line; std::getline(stream, line); start += line.size() + 1) {
        if (line.empty()) continue;
        ++number;
        const std::string key = line.substr(0, line.find_last_not_of(' ') + 1); // a space may end a cut text
        const bool follows = listed.contains(key) && key.starts_with(last + "-") && !used.contains(key);
        if (follows) used.insert(key);
        const size_t hyphen = key.find('-');
        const bool shaped = hyphen != std::string::npos && hyphen > 0 && hyphen + 1 < key.size() &&
                            key.find(' ') == std::string::npos;
        last = shaped ? key.substr(hyphen + 1) : std::string();
        if (text.given() && !follows) continue;
        const bool ok = follows && text.all_hit(start, start + line.size());
        ++total;
        right += ok ? 1 : 0;
        if (ok && prefix == number - 1) ++prefix;
        for (const int64_t token : text.holders(start, start + line.size()))
            expected[token] = ok;
    }

    const auto scorer = TaskScorer::create({"chain_of_key", "", ""}, chain.prompt);
    const auto verdicts = run_scorer(*scorer, text);
    // A token that ends one line and begins the next has the verdict of the line that was judged last; the scorer judges an
    // overlong line early, so tokens shared with one are compared by neither.
    CHECK(verdicts == expected);
    const TaskResult result = scorer->result();
    CHECK(result.unit == "key");
    CHECK(result.right == right);
    CHECK(result.total == total);
    const auto keys = static_cast<int64_t>(chain.keys.size());
    CHECK(result.exact_match == (prefix == keys && number == keys));
    CHECK(result.correct_prefix == Catch::Approx(static_cast<double>(prefix) / static_cast<double>(keys)));
}

TEST_CASE("texts with a reference are right up to the first difference", "[tasks]") {
    const uint64_t seed = test::seed(GENERATE(range(1U, 301U)));
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    std::string reference;
    const size_t length = 1 + random() % 60;
    for (size_t i = 0; i < length; ++i)
        reference += pick(std::vector<std::string>{"a", "b", " ", "\n", "ü", "\t"}, random);
    // A retell prompt that holds only the reference's beginning leaves the rest unscored.
    const bool retell = chance(random, 40);
    const size_t known = retell && chance(random, 60) ? 1 + random() % reference.size() : reference.size();
    const bool open_end = known < reference.size();
    const std::string prompt = "Repeat this:\n" + (retell ? reference.substr(0, known) : "unlike");
    std::string whole = reference;
    size_t difference = whole.size();
    switch (random() % 5) {
    case 0:
        difference = random() % whole.size();
        whole[difference] = 'X';
        break;
    case 1:
        whole.resize(random() % (whole.size() + 1));
        break;
    case 2:
        whole += " and more";
        break;
    default:
        break;
    }
    const CutText text = cut(whole, chance(random, 40), random);
    CAPTURE(reference, prompt, whole);

    std::map<int64_t, bool> expected;
    size_t at = 0, prefix = 0;
    int64_t right = 0;
    bool clean = true, ended = false;
    for (size_t i = 0; i < text.tokens.size() && !ended; ++i) {
        const size_t end = at + text.tokens[i].size();
        if (end == at || (open_end && at >= known)) continue;
        const size_t scored_end = open_end ? std::min(end, known) : end;
        const bool same =
            scored_end <= known && whole.substr(at, scored_end - at) == reference.substr(at, scored_end - at);
        ended = !same;
        if (same || !text.given()) {
            const bool ok = same && text.hits[i].value_or(true);
            clean = clean && ok;
            if (clean) prefix = scored_end;
            right += ok ? 1 : 0;
            expected[static_cast<int64_t>(i) + 1] = ok;
        }
        at = end;
    }

    const std::string kind = retell ? "retell" : pick(std::vector<std::string>{"ledger", "table"}, random);
    const auto scorer = TaskScorer::create({kind, reference, ""}, prompt);
    CHECK(run_scorer(*scorer, text) == expected);
    const TaskResult result = scorer->result();
    CHECK(result.kind == kind);
    CHECK(result.unit == "token");
    CHECK(result.right == right);
    CHECK(result.total == static_cast<int64_t>(expected.size()));
    CHECK(result.exact_match == (clean && !ended && prefix == known));
    CHECK(result.correct_prefix == Catch::Approx(static_cast<double>(prefix) / static_cast<double>(known)));
}

TEST_CASE("a scorer takes any bytes", "[tasks]") {
    const uint64_t seed = test::seed(GENERATE(range(1U, 41U)));
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const std::string almanac = RL_SOURCE_DIR "/assets/prompts/almanac.json";
    const Chain chain = random_chain(random);
    for (const std::string& kind : task_kinds()) {
        const std::string prompt = kind == "chain_of_key" ? chain.prompt : "Roll call: king Ashute. Tell.";
        const auto scorer = TaskScorer::create({kind, "reference", almanac}, prompt);
        std::string whole;
        const std::vector<std::string> pieces{"The company: ",
                                              "Homes:",
                                              "Colors: ",
                                              "king",
                                              " Ashute",
                                              ", ",
                                              ".",
                                              "\n",
                                              ":",
                                              "\xff",
                                              "\xc3",
                                              std::string(90, 'n'),
                                              std::string("\0", 1),
                                              chain.keys[0],
                                              "-"};
        for (int i = 0; i < 400; ++i)
            whole += pick(pieces, random);
        const CutText text = cut(whole, chance(random, 30), random);
        for (const auto& [token, right] : run_scorer(*scorer, text)) {
            CHECK(token >= 1);
            CHECK(token <= static_cast<int64_t>(text.tokens.size()));
        }
        CHECK(scorer->result().right <= scorer->result().total);
    }
}

TEST_CASE("a task that cannot be scored is refused with what is missing", "[tasks]") {
    const std::string almanac = RL_SOURCE_DIR "/assets/prompts/almanac.json";
    const auto message = [](const TaskConfig& task, const std::string& prompt) -> std::string {
        try {
            static_cast<void>(TaskScorer::create(task, prompt));
        } catch (const Error& e) {
            CHECK(e.kind() == ErrorKind::bad_input);
            return e.what();
        }
        return "";
    };
    const auto holds = [](const std::string& text, const std::string& part) {
        CAPTURE(text);
        CHECK(text.find(part) != std::string::npos);
    };
    holds(message({"rollcall", "", almanac}, "x"), "the kinds are roll_call, company");
    holds(message({"chronicle", "", ""}, "x"), "no almanac given");
    holds(message({"chronicle", "", "nowhere.json"}, "x"), "nowhere.json");
    holds(message({"chronicle", "", RL_SOURCE_DIR "/assets/models/llama-tales-student/config.json"}, "x"),
          "has no \"home\"");
    holds(message({"roll_call", "", almanac}, "Tell their homes."), "names nobody");
    holds(message({"chain_of_key", "", ""}, "Begin with egg."), "holds no key");
    holds(message({"chain_of_key", "", ""}, "egg-bus\nMake a chain."), "where to begin");
    for (const char* kind : {"ledger", "table", "retell"})
        holds(message({kind, "", almanac}, "x"), "no reference given");
}
