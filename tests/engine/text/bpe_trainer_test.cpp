// The trainer of byte-level BPE, against that of the `tokenizers` library.
#include "engine/text/tokenizer/bpe_trainer.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "engine/text/tokenizer/tokenizer_files.h"
#include "tests/engine/text/text_fixture.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace bpe_trainer_test {

using namespace refreshlab;
using namespace refreshlab::text_test;
using nlohmann::json;

namespace {

/// Words of few letters, so that counts are often equal and tokens come up in two ways.
std::string random_text(Random& random, size_t words) {
    static const char* const letters[] = {"a", "b", "ab", "ba", "an", "\xC3\xA9", "1", "23", "'s", "\n", "!"};
    std::string text;
    for (size_t i = 0; i < words; ++i) {
        if (random.below(4) != 0) text += ' ';
        for (size_t n = 1 + random.below(6); n > 0; --n)
            text += letters[random.below(std::size(letters))];
    }
    return text;
}

std::vector<std::string> prompt_texts(const std::string& name, size_t most) {
    std::vector<std::string> texts;
    const std::string file =
        read_file(std::filesystem::path(RL_SOURCE_DIR) / "assets/prompts" / (name + ".jsonl"));
    for (size_t begin = 0; begin < file.size() && texts.size() < most;) {
        const size_t end = std::min(file.find('\n', begin), file.size());
        const json row = json::parse(file.substr(begin, end - begin));
        texts.push_back(row.value("response", row.value("reference", std::string())));
        begin = end + 1;
    }
    return texts;
}

WordCut cut_of(const std::string& wanted) {
    return std::ranges::find(word_cuts, wanted, [](const auto& known) { return known.first; })->second;
}

TrainedBpe train(const json& corpus) {
    WordCounter words(cut_of(corpus["cut"]));
    for (const json& text : corpus["texts"])
        words.add(text.get<std::string>());
    return train_bpe(words.counts(), corpus["specials"], corpus["vocab"]);
}

json spelt_merges(const TrainedBpe& bpe) {
    json merges = json::array();
    for (const auto& [left, right] : bpe.merges)
        merges.push_back({bpe.tokens[static_cast<size_t>(left)], bpe.tokens[static_cast<size_t>(right)]});
    return merges;
}

} // namespace

TEST_CASE("a trained tokenizer is that of the tokenizers library", "[text][tokenizer][train]") {
    Random random(test::seed(77));
    const TokenizerRecipe recipe = bundled_recipe();
    json corpora = json::array();
    for (const char* cut : {"llama3", "gpt2", "qwen2"}) {
        std::vector<std::string> texts = prompt_texts("story_prompts", 30);
        const std::vector<std::string> held_out(texts.end() - 5, texts.end());
        texts.resize(texts.size() - 5);
        corpora.push_back({{"texts", texts},
                           {"cut", cut},
                           {"specials", recipe.specials},
                           {"vocab", 900},
                           {"held_out", held_out}});
        texts.clear();
        for (int i = 0; i < 4; ++i)
            texts.push_back(random_text(random, 150));
        corpora.push_back({{"texts", texts},
                           {"cut", cut},
                           {"specials", recipe.specials},
                           {"vocab", 261 + 40 + random.below(40)},
                           {"held_out", {random_text(random, 60), random_text(random, 5)}}});
    }
    const auto folder = fresh_folder("bpe trainer");
    std::vector<TrainedBpe> learned;
    std::vector<std::shared_ptr<const Tokenizer>> tokenizers;
    for (json& corpus : corpora) {
        learned.push_back(train(corpus));
        TokenizerRecipe own = recipe;
        own.cut = cut_of(corpus["cut"]);
        const auto file = folder / (std::to_string(learned.size()) + ".json");
        write_file(file, tokenizer_files(learned.back(), own).front().second);
        tokenizers.push_back(Tokenizer::parse(read_file(file), file.string()));
        corpus["own"] = file.string();
    }
    write_file(folder / "corpora.json", corpora.dump());
    const std::string command =
        "'" RL_PYTHON "' -B '" RL_SOURCE_DIR "/tests/engine/text/reference_bpe.py' '" +
        (folder / "corpora.json").string() + "' '" + (folder / "learned.json").string() + "'";
    REQUIRE(std::system(command.c_str()) == 0);
    const json expected = read_json_file(folder / "learned.json");
    for (size_t i = 0; i < corpora.size(); ++i) {
        CAPTURE(i, corpora[i]["cut"]);
        CHECK(learned[i].tokens == expected[i]["tokens"].get<std::vector<std::string>>());
        CHECK(spelt_merges(learned[i]) == expected[i]["merges"]);
        for (size_t text = 0; text < corpora[i]["held_out"].size(); ++text) {
            const auto words = corpora[i]["held_out"][text].get<std::string>();
            const auto ids = tokenizers[i]->encode(words);
            CHECK(ids == expected[i]["ids"][text].get<std::vector<int32_t>>());
            CHECK(ids == expected[i]["own"][text].get<std::vector<int32_t>>());
            CHECK(tokenizers[i]->decode(ids) == words);
        }
    }
}

TEST_CASE("a trained tokenizer depends on nothing but its words, and says where they end",
          "[text][tokenizer][train]") {
    Random random(test::seed(78));
    const std::string text = random_text(random, 300);
    WordCounter words(WordCut::llama3);
    words.add(text);
    const TrainedBpe first = train_bpe(words.counts(), {"<s>"}, 320);
    WordCounts other; // another order of insertion, other buckets
    other.reserve(5000);
    for (const auto& [word, count] :
         std::map<std::string, int64_t>(words.counts().begin(), words.counts().end()))
        other[word] = count;
    CHECK(train_bpe(other, {"<s>"}, 320).merges == first.merges);
    // A smaller vocabulary is the beginning of a larger one.
    const TrainedBpe small = train_bpe(words.counts(), {"<s>"}, 290);
    CHECK(std::equal(small.tokens.begin(), small.tokens.end(), first.tokens.begin()));
    // No pair is left: every word is a token.
    const TrainedBpe all = train_bpe({{"abc", 2}, {"ab", 1}}, {}, 1000);
    CHECK(all.tokens.size() == 258);
    CHECK(all.merges.size() == 2);
    CHECK(train_bpe({}, {}, 300).merges.empty());
    CHECK(train_bpe({{"a", 5}}, {}, 300).merges.empty());
}

} // namespace bpe_trainer_test
