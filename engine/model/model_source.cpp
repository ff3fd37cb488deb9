#include "engine/model/model_source.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/base/model_path.h"
#include "engine/model/checkpoint/checkpoint.h"
#include "engine/model/checkpoint/fused_weights.h"
#include "engine/model/checkpoint/weight_checks.h"
#include "engine/model/gguf/gguf_config.h"
#include "engine/model/gguf/gguf_text.h"
#include "engine/model/gguf/gguf_weights.h"
#include "engine/text/chat_template.h"
#include "engine/text/digest.h"
#include "engine/text/tokenizer/tokenizer.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace refreshlab {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view extension = ".gguf";

/// A GGUF file in a folder that is no model folder: the user's, most likely. Empty: there is none.
std::string gguf_in(const fs::path& folder) {
    std::error_code ignored;
    std::string first;
    for (fs::directory_iterator it(folder, ignored), end; !ignored && it != end; it.increment(ignored)) {
        const std::string name = it->path().filename().string();
        if (name.ends_with(extension) && (first.empty() || name < first)) first = name;
    }
    return first;
}

class FolderSource final : public ModelSource {
public:
    explicit FolderSource(fs::path folder)
        : m_folder(std::move(folder)) {}

    [[nodiscard]] const fs::path& path() const override { return m_folder; }
    [[nodiscard]] std::string config_name() const override { return "config.json"; }
    [[nodiscard]] ModelConfig config() const override {
        std::error_code ignored;
        if (!fs::exists(m_folder / "config.json", ignored)) {
            const std::string file = gguf_in(m_folder);
            if (file.empty())
                throw Error("reading", m_folder.string(), "holds no model: no config.json, and no .gguf file",
                            "a model is a folder with config.json, tokenizer.json and *.safetensors, "
                            "or a .gguf file");
            throw Error("reading", m_folder.string(), "has no config.json, but a file " + file,
                        "give the file: " + (m_folder / file).string());
        }
        return ModelConfig::load(m_folder);
    }
    [[nodiscard]] std::shared_ptr<const Tokenizer> tokenizer() const override {
        return Tokenizer::load(m_folder);
    }
    [[nodiscard]] std::string tokenizer_digest() const override {
        Digest digest;
        digest.add("tokenizer.json");
        digest.add(read_file(m_folder / "tokenizer.json"));
        return digest.hex();
    }
    [[nodiscard]] std::shared_ptr<const ChatTemplate> chat_template() const override {
        return ChatTemplate::load(m_folder);
    }
    [[nodiscard]] std::unique_ptr<WeightStore> weights(const ModelConfig& config) const override {
        std::unique_ptr<WeightStore> weights = std::make_unique<Checkpoint>(Checkpoint::open(m_folder));
        if (config.fused_projections) weights = std::make_unique<FusedWeights>(std::move(weights), config);
        refuse_unread_weights(config, *weights);
        return weights;
    }
    [[nodiscard]] std::vector<TextFile> folder_texts(const ModelConfig& config,
                                                     const std::string& dtype) const override {
        std::vector<TextFile> texts;
        for (const auto& [name, path] : files()) {
            if (name.ends_with(".safetensors") || name == "model.safetensors.index.json") continue;
            texts.push_back({name, read_file(path)});
            if (name != "config.json") continue;
            nlohmann::json object = parse_json(texts.back().text, path.string());
            // Where the file leaves head_dim out, it is hidden / heads, of the model's own hidden width.
            if (object.value("hidden_size", int64_t{0}) != config.hidden_size) {
                object["hidden_size"] = config.hidden_size;
                object["head_dim"] = config.head_dim;
            }
            object["intermediate_size"] = config.intermediate_size;
            object[object.contains("dtype") ? "dtype" : "torch_dtype"] = dtype;
            texts.back().text = json_text(object, 2) + "\n";
        }
        return texts;
    }
    [[nodiscard]] std::vector<File> files() const override {
        constexpr std::string_view small_files[] = {"config.json",         "generation_config.json",
                                                    "tokenizer.json",      "tokenizer_config.json",
                                                    "chat_template.jinja", "special_tokens_map.json",
                                                    "tokenizer.model",     "model.safetensors.index.json"};
        std::map<std::string, fs::path> found; // by name
        std::error_code error;
        for (const fs::directory_entry& entry : fs::directory_iterator(m_folder, error)) {
            const std::string name = entry.path().filename().string();
            if (name.ends_with(".safetensors") ||
                std::find(std::begin(small_files), std::end(small_files), name) != std::end(small_files))
                found.emplace(name, entry.path());
        }
        std::vector<File> files;
        for (const auto& [name, file] : found)
            files.push_back({name, file});
        return files;
    }

private:
    fs::path m_folder;
};

class GgufSource final : public ModelSource {
public:
    explicit GgufSource(fs::path path)
        : m_path(std::move(path))
        , m_file(std::make_shared<const GgufFile>(GgufFile::open(m_path))) {}

    [[nodiscard]] const fs::path& path() const override { return m_path; }
    [[nodiscard]] std::string config_name() const override { return "metadata"; }
    [[nodiscard]] ModelConfig config() const override { return gguf_config(*m_file); }
    [[nodiscard]] std::shared_ptr<const Tokenizer> tokenizer() const override {
        return gguf_tokenizer(*m_file);
    }
    [[nodiscard]] std::string tokenizer_digest() const override { return gguf_tokenizer_digest(*m_file); }
    [[nodiscard]] std::shared_ptr<const ChatTemplate> chat_template() const override {
        return gguf_chat_template(*m_file);
    }
    [[nodiscard]] std::unique_ptr<WeightStore> weights(const ModelConfig& config) const override {
        return std::make_unique<GgufWeights>(m_file, config);
    }
    [[nodiscard]] std::vector<TextFile> folder_texts(const ModelConfig& config,
                                                     const std::string& dtype) const override {
        return {{"config.json", gguf_config_json(config, dtype, m_path.string())},
                {"tokenizer.json", gguf_tokenizer_json(*m_file)},
                {"tokenizer_config.json", gguf_tokenizer_config_json(*m_file)}};
    }
    [[nodiscard]] std::vector<File> files() const override { return {{"model.gguf", m_path}}; }

private:
    fs::path m_path;
    std::shared_ptr<const GgufFile> m_file;
};

} // namespace

std::shared_ptr<const ModelSource> ModelSource::open(const fs::path& path) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) return std::make_shared<FolderSource>(path);
    if (!fs::exists(path, ignored))
        throw Error(
            "reading a model", path.string(), "there is no such model folder or .gguf file",
            "a model is a folder with config.json, tokenizer.json and *.safetensors, or a .gguf file");
    return std::make_shared<GgufSource>(path);
}

std::string ModelSource::name() const {
    return model_name(path());
}

} // namespace refreshlab
