#include "engine/train/training_text.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/session/pair/run_text.h"
#include "engine/text/digest.h"
#include "engine/text/text_rows.h"
#include "engine/text/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

namespace refreshlab {

namespace {

constexpr int64_t shortest = 32, one_in = 8;

class TextReader {
public:
    TextReader(const ModelPair& pair, int64_t length)
        : m_pair(pair)
        , m_length(length) {}

    void read(const std::filesystem::path& path) {
        read_text_rows(path, [&](const TextRow& row) {
            if (row.prompt.empty() || !row.text.empty())
                add_pieces(m_pair.tokenizer->encode(row.text, true));
            else
                add_answered(row.prompt, row.answer);
        });
    }
    [[nodiscard]] std::vector<TrainingText> take() { return std::move(m_texts); }

private:
    void add_answered(const std::string& prompt, const std::string& answer) {
        RunConfig config;
        config.mode = Mode::teacher;
        config.prompt = prompt;
        config.given_text = answer;
        const RunText text = run_text(m_pair, config);
        TrainingText one{text.prompt.ids, std::ssize(text.prompt.ids)};
        one.ids.insert(one.ids.end(), text.given.begin(), text.given.end());
        if (std::ssize(one.ids) > m_length) one.ids.resize(static_cast<size_t>(m_length));
        one.prompt = std::min(one.prompt, answer_begin(std::ssize(one.ids)));
        add(std::move(one));
    }
    void add_pieces(const std::vector<int32_t>& ids) {
        for (int64_t begin = 0; begin < std::ssize(ids); begin += m_length) {
            const int64_t end = std::min(begin + m_length, std::ssize(ids));
            add({{ids.begin() + begin, ids.begin() + end}, answer_begin(end - begin)});
        }
    }
    /// Where the last quarter begins.
    [[nodiscard]] static int64_t answer_begin(int64_t tokens) { return tokens - tokens / 4; }

    void add(TrainingText text) {
        if (std::ssize(text.ids) >= shortest && text.prompt <= std::ssize(text.ids) - 2)
            m_texts.push_back(std::move(text));
    }

    const ModelPair& m_pair;
    int64_t m_length;
    std::vector<TrainingText> m_texts;
};

} // namespace

std::vector<TrainingText> read_training_texts(const ModelPair& pair,
                                              const std::vector<std::filesystem::path>& files, int64_t length,
                                              int64_t fewest) {
    RL_ASSERT(length >= 2 * shortest);
    TextReader reader(pair, length);
    for (const auto& file : files)
        reader.read(file);
    std::vector<TrainingText> texts = reader.take();
    if (std::ssize(texts) < fewest)
        throw Error("reading training texts", {},
                    fmt::format("they give {} texts of at least {} tokens, and {} are the fewest that serve",
                                texts.size(), shortest, fewest),
                    "give more, or longer ones");
    return texts;
}

std::array<std::vector<TrainingText>, 2> held_out_and_trained(std::vector<TrainingText> texts) {
    std::array<std::vector<TrainingText>, 2> parts;
    for (size_t i = 0; i < texts.size(); ++i)
        parts[i % one_in == one_in - 1 ? 0 : 1].push_back(std::move(texts[i]));
    return parts;
}

std::string texts_digest(const std::vector<TrainingText>& texts) {
    Digest digest;
    for (const TrainingText& text : texts) {
        digest.add(static_cast<uint64_t>(text.prompt));
        digest.add(text.ids.size());
        for (const int32_t id : text.ids)
            digest.add(static_cast<uint64_t>(id));
    }
    return digest.hex();
}

} // namespace refreshlab
