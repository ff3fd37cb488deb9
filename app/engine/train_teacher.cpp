#include "app/engine/carry_out.h"
#include "app/engine/model_training.h"
#include "app/options/run_options.h"
#include "app/options/train_teacher_options.h"
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/session/pair/run_execution.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <cmath>

namespace refreshlab::app {

namespace {

namespace fs = std::filesystem;
constexpr const char* training_a_teacher = "training a teacher";

/// A model that has no weights yet: its config.json from one place, its tokenizer from another.
class NewModelSource final : public ModelSource {
public:
    NewModelSource(fs::path shape, const fs::path& tokenizer)
        : m_shape(fs::is_directory(shape) ? shape / "config.json" : std::move(shape))
        , m_tokenizer(open(tokenizer)) {}

    [[nodiscard]] const fs::path& path() const override { return m_shape; }
    [[nodiscard]] std::string config_name() const override { return "config.json"; }
    [[nodiscard]] ModelConfig config() const override {
        return ModelConfig::parse(read_json_file(m_shape), m_shape.string());
    }
    [[nodiscard]] std::shared_ptr<const Tokenizer> tokenizer() const override {
        return m_tokenizer->tokenizer();
    }
    [[nodiscard]] std::string tokenizer_digest() const override { return m_tokenizer->tokenizer_digest(); }
    [[nodiscard]] std::shared_ptr<const ChatTemplate> chat_template() const override {
        return m_tokenizer->chat_template();
    }
    [[nodiscard]] std::unique_ptr<WeightStore> weights(const ModelConfig&) const override {
        throw Error(training_a_teacher, m_shape.string(), "has no weights yet");
    }
    [[nodiscard]] std::vector<TextFile> folder_texts(const ModelConfig& config,
                                                     const std::string& dtype) const override {
        auto texts = m_tokenizer->folder_texts(config, dtype);
        std::erase_if(texts, [](const TextFile& text) { return text.name == "config.json"; });
        nlohmann::json object = read_json_file(m_shape);
        object[object.contains("dtype") ? "dtype" : "torch_dtype"] = dtype;
        texts.insert(texts.begin(), {"config.json", json_text(object, 2) + "\n"});
        return texts;
    }
    [[nodiscard]] std::vector<File> files() const override { return m_tokenizer->files(); }

private:
    fs::path m_shape;
    std::shared_ptr<const ModelSource> m_tokenizer;
};

} // namespace

int carry_out(const TrainTeacherOptions& options) {
    check_training_files(options, {{"--shape", options.shape}, {"--tokenizer", options.tokenizer}});
    RunConfig config = pair_to_train(options, {}, {});
    note_threads(config.threads);
    const Execution execution = make_execution(config);
    const kernels::ExecutionScope scope(*execution);
    const kernels::LibtorchThreads all_threads;
    const NewModelSource source(options.shape, options.tokenizer);
    const ModelConfig shape = source.config();
    ModelPair pair;
    pair.tokenizer = source.tokenizer();
    pair.chat_template = source.chat_template();
    if (pair.tokenizer->vocab_size() > shape.vocab_size)
        throw Error(training_a_teacher, source.path().string(),
                    fmt::format("its vocabulary of {} has no room for the tokenizer's {} tokens",
                                shape.vocab_size, pair.tokenizer->vocab_size()));
    const std::shared_ptr<const LlamaModel> start =
        new_model(shape, options.seed, resolve_device(options.device));
    pair.teacher = start;
    ModelTraining how = training_of(options, "teacher", 1e-3, source);
    how.next_token = 1;
    how.student = json_text(read_json_file(source.path())) + source.tokenizer_digest();
    return train_model(options, how, pair, nullptr, *start, source,
                       [&](const TrainedModel& trained) -> std::optional<Finding> {
                           if (!trained.progress(0)) return std::nullopt;
                           const double loss = trained.trainer.loss_of(trained.held_out).total;
                           Finding finding;
                           finding.result.notes.push_back(fmt::format(
                               "Loss of {} texts held out: {:.4f} nats a token, perplexity {:.2f}.",
                               trained.held_out.size(), loss, std::exp(loss)));
                           finding.card =
                               "# A model trained from nothing\n\nThe texts that it was trained on have "
                               "licences of their own.\n";
                           return finding;
                       });
}

} // namespace refreshlab::app
