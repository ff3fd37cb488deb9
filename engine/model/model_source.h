#pragma once

#include "engine/model/checkpoint/weight_store.h"
#include "engine/model/model_config.h"

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab {

class ChatTemplate;
class Tokenizer;

/// Where a model comes from: a Hugging Face folder (config.json, tokenizer.json, *.safetensors) or a GGUF file. Code
/// that takes a model takes one of these. Nothing else asks which of the two it is.
///
/// Every function reads what it gives, each time. All throw Error{bad_input} naming the file and what is wrong with it.
/// Threads  const; several may read at once. The files must not shrink while the object lives.
class ModelSource {
public:
    /// A folder, or else a GGUF file, whose header is read here. Throws Error{bad_input} for a path that is neither.
    [[nodiscard]] static std::shared_ptr<const ModelSource> open(const std::filesystem::path& path);

    ModelSource() = default;
    ModelSource(const ModelSource&) = delete;
    ModelSource& operator=(const ModelSource&) = delete;
    virtual ~ModelSource() = default;

    [[nodiscard]] virtual const std::filesystem::path& path() const = 0;
    /// model_name(path()).
    [[nodiscard]] std::string name() const;
    /// What config() reads, for messages: "config.json", "metadata".
    [[nodiscard]] virtual std::string config_name() const = 0;
    [[nodiscard]] virtual ModelConfig config() const = 0;
    [[nodiscard]] virtual std::shared_ptr<const Tokenizer> tokenizer() const = 0;
    /// Of the bytes that tokenizer() reads. Where two digests are equal, one reading is enough (it may take seconds).
    [[nodiscard]] virtual std::string tokenizer_digest() const = 0;
    [[nodiscard]] virtual std::shared_ptr<const ChatTemplate>
    chat_template() const = 0; ///< null: it has none
    /// The weights of a model of this configuration; any that it has no place for are refused.
    [[nodiscard]] virtual std::unique_ptr<WeightStore> weights(const ModelConfig& config) const = 0;

    /// A small file of a model folder.
    struct TextFile {
        std::string name, text;
    };
    /// What a Hugging Face folder of a model with this tokenizer has beside its weights: config.json as `config` says it (of this
    /// source, with other hidden and MLP widths), the tokenizer's files, the chat template.
    /// \param dtype  of the weights, as config.json names it: "float32"
    [[nodiscard]] virtual std::vector<TextFile> folder_texts(const ModelConfig& config,
                                                             const std::string& dtype) const = 0;

    struct File {
        std::string
            label; ///< what decides on the model: a folder's own file names, but not what somebody called a GGUF file
        std::filesystem::path path;
    };
    /// The files that make the model what it is, in an order of their own.
    [[nodiscard]] virtual std::vector<File> files() const = 0;
};

} // namespace refreshlab
