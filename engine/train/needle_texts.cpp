#include "engine/train/needle_texts.h"

#include "engine/base/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>

namespace refreshlab {

namespace {

constexpr std::string_view needle_places[] = {"lighthouse", "harbour", "library", "orchard", "station",
                                              "market",     "castle",  "garden",  "bakery",  "bridge"};
constexpr std::string_view needle_words[] = {
    "amber",  "falcon", "river",  "copper", "willow", "thunder", "velvet", "island", "candle", "marble",
    "silver", "meadow", "anchor", "winter", "violin", "desert",  "lemon",  "tiger",  "paper",  "window"};
constexpr int64_t depths = 5, answer_words = 3;

/// One of them; the same with every library.
template <size_t n>
std::string_view drawn(std::mt19937_64& random, const std::string_view (&all)[n]) {
    return all[random() % n];
}

} // namespace

std::vector<NeedleText> needle_texts(const Tokenizer& tokenizer, std::span<const TrainingText> texts,
                                     uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<NeedleText> all;
    for (size_t i = 0; i < texts.size(); ++i) {
        const std::vector<int32_t>& hay = texts[i].ids;
        RL_ASSERT(hay.size() >= 2);
        std::string answer;
        for (int64_t word = 0; word < answer_words; ++word)
            answer += fmt::format(" {}", drawn(random, needle_words));
        const std::string question =
            fmt::format(" The secret word of the {} is", drawn(random, needle_places));
        const std::vector<int32_t> asked = tokenizer.encode(question, false),
                                   said = tokenizer.encode(answer + ".", false);
        const int64_t depth = 2 * (static_cast<int64_t>(i) % depths) + 1;
        const int64_t place = std::max<int64_t>(std::ssize(hay) * depth / (2 * depths), 1);

        NeedleText text;
        const auto append = [&](auto begin, auto end) { text.ids.insert(text.ids.end(), begin, end); };
        append(hay.begin(), hay.begin() + place);
        text.needle_begin = std::ssize(text.ids);
        append(asked.begin(), asked.end());
        append(said.begin(), said.end());
        text.needle_end = std::ssize(text.ids);
        append(hay.begin() + place, hay.end());
        append(asked.begin(), asked.end());
        text.answer_begin = std::ssize(text.ids);
        append(said.begin(), said.end());
        all.push_back(std::move(text));
    }
    return all;
}

} // namespace refreshlab
