// Facts that a student shall not have in its own weights: where texts state them, what is trained for there, and what comes of it.
#include "engine/base/json_file.h"
#include "engine/tasks/prompt_file.h"
#include "engine/text/tokenizer/tokenizer_files.h"
#include "engine/train/models/withheld_facts.h"
#include "tests/engine/train/tiny_training.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>

namespace withheld_facts_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Approx;

namespace {

const std::string prompts = RL_SOURCE_DIR "/assets/prompts/";

std::shared_ptr<const Tokenizer> tokenizer_of(int64_t vocab) {
    const TokenizerRecipe recipe = bundled_recipe();
    WordCounter words(recipe.cut);
    words.add(read_file(prompts + "company.jsonl"));
    for (const auto& [name, text] :
         tokenizer_files(train_bpe(words.counts(), recipe.specials, vocab), recipe))
        if (name == "tokenizer.json") return Tokenizer::parse(text, "a test");
    return nullptr;
}

float share_of(const TokenShares& target, int32_t id) {
    const auto found = std::ranges::find(target.ids, id);
    return found == target.ids.end() ? 0 : target.shares[static_cast<size_t>(found - target.ids.begin())];
}

} // namespace

TEST_CASE("facts are found in texts, each with its name and a uniform target of all words", "[train]") {
    const Almanac almanac = read_almanac(prompts + "almanac.json");
    std::array<std::set<std::string>, num_attributes> words;
    for (const auto& [name, facts] : almanac)
        for (size_t i = 0; i < num_attributes; ++i)
            words[i].insert(facts[i]);
    std::vector<std::shared_ptr<const Tokenizer>> tokenizers{
        Tokenizer::load(RL_SOURCE_DIR "/assets/models/llama-tales-student")};
    for (const int64_t vocab : {261, 300, 420}) // letters, and words of several tokens that others begin with
        tokenizers.push_back(tokenizer_of(vocab));
    for (const auto& tokenizer : tokenizers) {
        for (const char* kind : {"roll_call", "company", "chronicle"}) {
            for (size_t record = 0; record < 4; ++record) {
                const PromptRecord row =
                    read_prompt_file(prompts + std::string(kind) + ".jsonl")[seed(1) % 20 + record];
                std::vector<TrainingText> texts{
                    {tokenizer->encode(
                         fmt::format("<|user|>{}<|assistant|>{}<|end|>", row.prompt, row.response)),
                     2}};
                const std::vector<int32_t>& ids = texts[0].ids;
                const int64_t facts = note_facts(texts, almanac, *tokenizer);
                // As many as the answer has items in lists of facts.
                int64_t items = 0;
                for (const std::string_view head : attribute_heads)
                    for (size_t at = row.response.find(head); at != std::string::npos;
                         at = row.response.find(head, at + 1)) {
                        const std::string line = row.response.substr(at, row.response.find('.', at) - at);
                        items += 1 + std::ranges::count(line, ',');
                    }
                CHECK(facts == items);
                // A run of withheld tokens is a fact: its word, and perhaps what shows that it is over.
                int64_t runs = 0;
                for (size_t i = 0, end = 0; i < texts[0].withheld.size(); i = end, ++runs) {
                    const WithheldToken& first = texts[0].withheld[i];
                    double share = 1;
                    std::vector<int32_t> run;
                    for (end = i;
                         end < texts[0].withheld.size() &&
                         texts[0].withheld[end].position == first.position + static_cast<int64_t>(end - i);
                         ++end) {
                        const WithheldToken& token = texts[0].withheld[end];
                        CHECK(token.name == first.name);
                        const int32_t id = ids[static_cast<size_t>(token.position)];
                        run.push_back(id);
                        share *= static_cast<double>(share_of(*token.target, id));
                        float sum = 0;
                        for (const float one : token.target->shares)
                            sum += one;
                        CHECK(sum == Approx(1));
                    }
                    const std::string before = tokenizer->decode({ids.data(), size_t(first.name)}),
                                      named = tokenizer->decode({ids.data(), size_t(first.name) + 1});
                    const auto name = std::ranges::find_if(almanac, [&](const auto& one) {
                        return named.ends_with(" " + one.first) && !before.ends_with(" " + one.first);
                    });
                    REQUIRE(name != almanac.end());
                    const std::string text = tokenizer->decode(run);
                    size_t attribute = 0;
                    while (attribute < num_attributes &&
                           !text.substr(text[0] == ' ').starts_with(name->second[attribute]))
                        ++attribute;
                    REQUIRE(attribute < num_attributes);
                    CHECK(share == Approx(1 / static_cast<double>(words[attribute].size())));
                }
                CHECK(runs == facts);
            }
        }
    }
}

TEST_CASE("a text that states no fact has none, and one that is cut loses what is cut", "[train]") {
    const Almanac almanac = read_almanac(prompts + "almanac.json");
    const auto tokenizer = tokenizer_of(300);
    const auto facts = [&](const std::string& text) {
        std::vector<TrainingText> texts{{tokenizer->encode(text), 1}};
        return note_facts(texts, almanac, *tokenizer);
    };
    CHECK(facts("The company: king Ashute.\nHomes: king farm.") == 1);
    CHECK(facts("The company: king Ashute.\nHomes: king far") == 1);
    CHECK(facts("The company: king Ashute.\nHomes: king") == 0);
    CHECK(facts("The company: king Nobody.\nHomes: king farm.") == 0); // the almanac does not know the name
    CHECK(facts("Homes: king farm. Once upon a time Ashute: the king.") == 0);
    CHECK(facts("king") == 0);
    CHECK(facts("The company: king Ashute.\nHomes: king \xC3\xA9\xC3\xA9.") ==
          1); // another word, the name's place
}

TEST_CASE("a withheld row is trained for its target, and every other one as before", "[train]") {
    const OneThread one_thread;
    const auto teacher = tiny_model(31, small_vocabulary), student = tiny_model(32, small_vocabulary);
    auto texts = texts_of(12, 130);
    const auto half = std::make_shared<TokenShares>(TokenShares{{3, 7}, {0.25F, 0.75F}}),
               sure = std::make_shared<TokenShares>(TokenShares{{9}, {1}});
    for (TrainingText& text : texts)
        text.withheld = {{12, 5, half}, {30, 5, half}, {31, 29, sure}, {39, 21, half}};
    ModelTraining how = healing();
    how.next_token = 0.3;
    how.shares = {0.2, 0.3, 8};
    int64_t withheld = 0, read = 0;
    for (const bool taught : {true, false}) {
        how.low_rank.reset();
        how.name = taught ? "student" : "teacher";
        if (!taught) how.next_token = 1;
        const ModelTrainer trainer(taught ? teacher.get() : nullptr, *student, texts, how);
        double next_token = 0, kl = 0;
        for (size_t number = 0; number < texts.size(); ++number) {
            const TrainingText& text = texts[number];
            const TeacherReading taught_rows = read_with(*teacher, text.ids);
            const auto entries = entries_of(*taught_rows.cache, 40);
            const ReadingPlan plan =
                taught ? drawn_reading(how.shares, 40, how.seed, static_cast<int64_t>(number))
                       : ReadingPlan{};
            const at::Tensor rows =
                at::log_softmax(trainer.logits(text.ids, plan, &entries).detach(), -1).to(at::kDouble);
            double told = 0, apart = 0;
            for (int64_t row = 0; row < 40 - plan.first; ++row) {
                const int64_t position = plan.first + row,
                              last = plan.refreshed.empty() ? plan.first : plan.refreshed[size_t(row)];
                const TokenShares* target = nullptr;
                for (const WithheldToken& token : text.withheld) {
                    if (token.position != position + 1) continue;
                    (token.name >= last ? withheld : read) += 1;
                    if (token.name >= last) target = token.target.get();
                }
                const auto logprob = [&](int32_t id) { return rows[row][id].item<double>(); };
                if (target != nullptr) {
                    for (size_t i = 0; i < target->ids.size(); ++i) {
                        const auto share = static_cast<double>(target->shares[i]);
                        told -= share * logprob(target->ids[i]);
                        apart += share * (std::log(share) - logprob(target->ids[i]));
                    }
                    continue;
                }
                if (position + 1 < 40) told -= logprob(text.ids[size_t(position) + 1]);
                const at::Tensor of_teacher = taught_rows.rows[position].to(at::kDouble);
                apart += (of_teacher.exp() * (of_teacher - rows[row])).sum().item<double>();
            }
            next_token += told / static_cast<double>(39 - plan.first) / 12;
            kl += apart / static_cast<double>(40 - plan.first) / 12;
        }
        const TrainingStep got = trainer.loss_of(texts);
        CHECK(got.parts.back() == Approx(next_token).epsilon(1e-4));
        if (taught) CHECK(got.parts.front() == Approx(kl).epsilon(1e-4));
        CHECK(got.total == Approx(taught ? 0.3 * next_token + 0.7 * kl : next_token).epsilon(1e-4));
    }
    CHECK((withheld > 12 && read > 0));
}

TEST_CASE("a student reads withheld facts from the teacher's entries, and does not know them by itself",
          "[train]") {
    const OneThread one_thread;
    // Eight segments "name, filler, colon, word" a text; the word is a fact of the name.
    constexpr int32_t names = 8, words = 4, first_name = 10, first_word = 40, colon = 3;
    std::mt19937 random(seed(140));
    std::vector<int32_t> fact;
    for (int32_t name = 0; name < names; ++name)
        fact.push_back(first_word + name % words);
    std::shuffle(fact.begin(), fact.end(), random);
    const auto uniform = std::make_shared<TokenShares>();
    for (int32_t word = 0; word < words; ++word) {
        uniform->ids.push_back(first_word + word);
        uniform->shares.push_back(1.0F / words);
    }
    const auto make = [&](int64_t count, bool noted) {
        std::vector<TrainingText> texts(static_cast<size_t>(count));
        for (TrainingText& text : texts) {
            text.prompt = 2;
            std::vector<int32_t> order(names); // each name once, so that no word can be copied
            for (int32_t name = 0; name < names; ++name)
                order[static_cast<size_t>(name)] = name;
            std::shuffle(order.begin(), order.end(), random);
            for (const int32_t name : order) {
                const auto at = std::ssize(text.ids);
                const auto filler = static_cast<int32_t>(50 + random() % 10);
                text.ids.insert(text.ids.end(),
                                {first_name + name, filler, colon, fact[static_cast<size_t>(name)]});
                if (noted) text.withheld.push_back({at + 3, at, uniform});
            }
        }
        return texts;
    };
    const TinyShape shape{.hidden = 32, .intermediate = 64, .vocab = 64};
    const auto trained = [&](const LlamaModel* teacher, uint64_t start,
                             const std::vector<TrainingText>& texts) {
        ModelTraining how = healing();
        how.low_rank.reset();
        how.name = teacher == nullptr ? "teacher" : "student";
        how.next_token = teacher == nullptr ? 1 : 0.5;
        how.steps = 180;
        how.batch = 6;
        how.pack = 1000;
        how.shares = {0.2, 0, 8};
        const auto student = new_model(tiny_model(start, shape)->config(), start, at::kCPU);
        ModelTrainer trainer(teacher, *student, texts, how);
        while (trainer.steps_done() < trainer.steps())
            trainer.step();
        return trainer.model(at::kFloat);
    };
    /// Mean probability of the right word. \param behind  the teacher's entries reach so far behind the name; 0: it is the student's own
    const auto known = [&](const LlamaModel& teacher, const LlamaModel& student, int64_t behind) {
        const auto texts = make(4, false);
        const ModelTrainer reader(&teacher, student, texts, healing());
        double sum = 0;
        for (const TrainingText& text : texts) {
            const auto entries = entries_of(*read_with(teacher, text.ids).cache, std::ssize(text.ids));
            for (int64_t at = 4; at < std::ssize(text.ids); at += 4) {
                ReadingPlan plan{1, {}};
                for (int64_t row = 1; row < std::ssize(text.ids); ++row)
                    plan.refreshed.push_back(std::min(row, at + behind));
                const at::Tensor rows = at::softmax(reader.logits(text.ids, plan, &entries).detach(), -1);
                sum += rows[at + 2 - 1][text.ids[static_cast<size_t>(at + 3)]].item<double>();
            }
        }
        return sum / static_cast<double>(std::ssize(texts) * (names - 1));
    };
    const auto teacher = trained(nullptr, seed(141), make(64, false));
    const auto plain = trained(teacher.get(), seed(142), make(64, false)),
               withheld = trained(teacher.get(), seed(142), make(64, true));
    CHECK(known(*teacher, *withheld, 0) == Approx(0.25).margin(0.1));
    CHECK(known(*teacher, *withheld, 1) > 0.6);
    CHECK(known(*teacher, *plain, 0) > 0.6);
}

} // namespace withheld_facts_test
