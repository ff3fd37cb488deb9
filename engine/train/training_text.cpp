#include "engine/train/training_text.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/session/pair/run_text.h"
#include "engine/text/digest.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace refreshlab {

namespace {

constexpr int64_t shortest = 32, one_in = 8;
constexpr size_t most_bytes = size_t{1} << 28;

class TextReader {
public:
    TextReader(const ModelPair& pair, int64_t length)
        : m_pair(pair)
        , m_length(length) {}

    void read(const std::filesystem::path& path) {
        const std::string words = read_file(path, most_bytes);
        if (const auto bad = first_invalid_utf8(words))
            throw Error("reading a training text", path.string(), fmt::format("byte {} is not UTF-8", *bad),
                        "save the file as UTF-8");
        if (path.extension() == ".jsonl") {
            read_rows(path, words);
        } else {
            add_pieces(m_pair.tokenizer->encode(words, true));
        }
    }
    [[nodiscard]] std::vector<TrainingText> take() { return std::move(m_texts); }

private:
    void read_rows(const std::filesystem::path& path, const std::string& words) {
        for (size_t begin = 0, line = 1; begin < words.size(); ++line) {
            const size_t end = std::min(words.find('\n', begin), words.size());
            const std::string_view row = std::string_view(words).substr(begin, end - begin);
            begin = end + 1;
            if (row.find_first_not_of(" \t\r") == std::string_view::npos) continue;
            const std::string where = fmt::format("{}, row {}", path.string(), line);
            const nlohmann::json object = parse_json(row, where);
            const auto text = [&](const char* key) {
                const bool there = object.is_object() && object.contains(key) && object[key].is_string();
                return there ? object[key].get<std::string>() : std::string();
            };
            const std::string prompt = text("prompt"),
                              answer = text("response").empty() ? text("reference") : text("response");
            if (!text("text").empty()) {
                add_pieces(m_pair.tokenizer->encode(text("text"), true));
            } else if (!prompt.empty() && !answer.empty()) {
                add_answered(prompt, answer);
            } else {
                throw Error("reading a training text", where,
                            R"(has neither "text" nor "prompt" with "response" or "reference")");
            }
        }
    }

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

std::vector<TrainingText>
read_training_texts(const ModelPair& pair, const std::vector<std::filesystem::path>& files, int64_t length) {
    RL_ASSERT(length >= 2 * shortest);
    TextReader reader(pair, length);
    for (const auto& file : files)
        reader.read(file);
    std::vector<TrainingText> texts = reader.take();
    if (std::ssize(texts) < one_in)
        throw Error("reading training texts", {},
                    fmt::format("they give {} texts of at least {} tokens, and {} are the fewest that can be "
                                "trained on and judged",
                                texts.size(), shortest, one_in),
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
