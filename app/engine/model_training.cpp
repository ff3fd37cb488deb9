#include "app/engine/model_training.h"

#include "app/base/output.h"
#include "app/engine/training_samples.h"
#include "app/engine/work_progress.h"
#include "engine/base/bytes_text.h"
#include "engine/base/error.h"
#include "engine/base/interrupt.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/control/derive/derive_spec.h"
#include "engine/model/derive/write_folder.h"
#include "engine/train/loss_table.h"
#include "engine/train/models/judge_student.h"
#include "engine/train/models/withheld_facts.h"
#include "kernels/execution/isa.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace refreshlab::app {

namespace {

namespace fs = std::filesystem;

at::ScalarType stored_dtype(const std::string& name) {
    for (const Dtype dtype : {Dtype::bf16, Dtype::f16})
        if (to_string(dtype) == name) return scalar_type(dtype);
    return at::kFloat;
}

fs::path without_slash(const fs::path& folder) {
    return folder.has_filename() ? folder : folder.parent_path();
}

constexpr std::pair<const char*, double Dropout::*> dropout_keys[] = {
    {"attention_dropout", &Dropout::attention},
    {"resid_dropout", &Dropout::residual},
    {"embd_dropout", &Dropout::embedding}};

Dropout declared_dropout(const nlohmann::json& config) {
    Dropout dropout;
    for (const auto& [key, share] : dropout_keys) {
        const auto found = config.find(key);
        if (found == config.end() || !found->is_number()) continue;
        dropout.*share = found->get<double>();
        if (!(dropout.*share >= 0 && dropout.*share < 1))
            throw Error("training a model", key, "of config.json is no share below 1", "give --dropout");
    }
    return dropout;
}

/// So that config.json says what the weights were trained with.
void declare_dropout(const fs::path& folder, const Dropout& dropout) {
    nlohmann::json config = read_json_file(folder / "config.json");
    bool changed = false;
    for (const auto& [key, share] : dropout_keys) {
        if (config.value(key, nlohmann::json(0.0)) == nlohmann::json(dropout.*share)) continue;
        config[key] = dropout.*share;
        changed = true;
    }
    if (changed) write_file(folder / "config.json", json_text(config, 2) + "\n");
}

/// A folder that gets its name when it is whole, and is gone else.
class NewFolder {
public:
    explicit NewFolder(fs::path path)
        : m_path(std::move(path))
        , m_now(temporary_beside(m_path)) {}
    NewFolder(const NewFolder&) = delete;
    NewFolder& operator=(const NewFolder&) = delete;
    ~NewFolder() {
        std::error_code ignored;
        if (!m_whole) fs::remove_all(m_now, ignored);
    }
    [[nodiscard]] const fs::path& now() const { return m_now; }
    void keep() {
        require_new_folder(m_path);
        std::error_code error;
        fs::rename(m_now, m_path, error); // an empty folder may be there
        if (error)
            throw Error("writing a model folder", m_path.string(), error.message(), {}, ErrorKind::failure);
        m_whole = true;
    }

private:
    fs::path m_path, m_now;
    bool m_whole = false;
};

/// Notes the facts in the texts and says how many there are. Throws Error{bad_input} where there is none.
void note_withheld(ModelTraining& how, std::array<std::vector<TrainingText>, 2>& texts,
                   const Almanac& almanac, const Tokenizer& tokenizer) {
    const int64_t held_out = note_facts(texts[0], almanac, tokenizer),
                  trained = note_facts(texts[1], almanac, tokenizer);
    if (trained == 0)
        throw Error("training a model", "--withhold", "no text states a fact of these names",
                    "train texts makes such texts: --kind roll_call company chronicle");
    say("{} facts, {} more held out, are withheld where the student reads the name by itself\n", trained,
        held_out);
    how.withheld = almanac_digest(almanac);
}

} // namespace

std::optional<Almanac> withheld_facts(const StudentReadingOptions& options) {
    return options.withhold.empty() ? std::nullopt : std::optional(read_almanac(options.withhold));
}

std::string withheld_words(const StudentReadingOptions& options) {
    if (options.withhold.empty()) return {};
    return fmt::format(
        "\nIt was trained not to know the facts of {} by itself: where a fact belonged to a name "
        "whose cache entry was its own, its target was the uniform distribution over the "
        "words. So what refreshes do for these facts is there by construction.\n",
        options.withhold);
}

void check_training_files(const TrainModelOptions& options, std::vector<NamedFile> inputs) {
    for (const std::string& file : options.texts)
        inputs.push_back({"--texts", file});
    const fs::path out = without_slash(options.out);
    if (out.extension() == ".gguf" || out.extension() == ".safetensors")
        throw Error("training a model", out.string(), "a training writes a model folder",
                    "name a folder; llama.cpp's convert_hf_to_gguf.py makes a GGUF file of it");
    std::erase_if(inputs, [](const NamedFile& input) { return is_derivation(input.path); });
    check_outputs(std::vector<NamedFile>{{"--out", out.string()},
                                         {"--csv", options.csv},
                                         {"--samples", options.samples}},
                  inputs);
    const fs::path folder = fs::absolute(out).parent_path();
    if (!fs::is_directory(folder))
        throw Error("writing --out", folder.string(), "no such folder", "make it first");
    require_new_folder(out);
}

ModelTraining training_of(const TrainModelOptions& options, const std::string& name, double learning_rate,
                          const ModelSource& source) {
    ModelTraining how;
    how.name = name;
    how.steps = options.steps;
    how.batch = options.batch;
    how.pack = options.pack;
    if (options.products == "bf16") {
        how.products = TrainablePass::Products::bf16;
        if (options.device == "cpu" && !kernels::has_bf16_products())
            say("note: this processor has no products of bf16, so they are slower here than --products "
                "f32\n");
    }
    how.learning_rate = options.learning_rate > 0 ? options.learning_rate : learning_rate;
    how.schedule =
        options.schedule == "linear" ? TrainingPlan::Schedule::linear : TrainingPlan::Schedule::cosine;
    how.seed = options.seed;
    how.muon = options.optimizer == "muon";
    how.weight_decay = options.weight_decay;
    if (options.dropout) {
        how.dropout = {*options.dropout, *options.dropout, *options.dropout};
        return how;
    }
    for (const auto& text : source.folder_texts(source.config(), "float32"))
        if (text.name == "config.json") how.dropout = declared_dropout(nlohmann::json::parse(text.text));
    return how;
}

RunConfig pair_to_train(const TrainModelOptions& options, const std::string& teacher,
                        const std::string& student) {
    RunConfig config;
    config.mode = Mode::overfill;
    config.teacher_dir = teacher;
    config.student_dir = settled_model(student);
    config.device = options.device;
    config.dtype = Dtype::f32;
    config.threads = options.threads;
    if (is_derivation(config.student_dir) && derivation_of(config.student_dir).depends_on_prompt())
        throw Error("training a model", student, "is measured on a prompt, and a training has none",
                    "name its text: derive:...,text=FILE");
    return config;
}

ReadingShares shares_of(const StudentReadingOptions& options, double alone, double prefix) {
    ReadingShares shares{alone, prefix, options.longest};
    if (options.shares.empty()) return shares;
    if (options.shares.size() == 2) {
        shares.alone = options.shares[0];
        shares.prefix = options.shares[1];
    }
    if (options.shares.size() != 2 || shares.alone < 0 || shares.prefix < 0 ||
        shares.alone + shares.prefix > 1)
        throw Error("training a model", "--shares", "are two shares, of texts read alone and behind a prefix",
                    "0.25,0.25 reads the other half with refreshes");
    return shares;
}

void require_one_geometry(const std::string& doing, const ModelPair& pair) {
    if (pair.geometry_difference)
        throw Error(doing, pair.student_dir, "reads no entry of this teacher: " + *pair.geometry_difference,
                    "take a pair with one KV geometry");
}

std::shared_ptr<const ModelSource> source_of_student(const ModelPair& pair) {
    return ModelSource::open(is_derivation(pair.student_dir) ? pair.teacher_dir : pair.student_dir);
}

std::optional<StudyResult> split_before_and_after(const ModelPair& pair, const TrainedModel& trained) {
    const auto half = [&](double from) {
        return [&trained, from](double done) { return trained.progress(from + done / 2); };
    };
    const auto before = split_student(*pair.teacher, *pair.student, trained.held_out, half(0));
    if (!before) return std::nullopt;
    const auto after = split_student(*pair.teacher, trained.model, trained.held_out, half(0.5));
    if (!after) return std::nullopt;
    return compared_splits(*before, *after);
}

int64_t folder_bytes(const fs::path& folder) {
    int64_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(folder))
        if (entry.is_regular_file()) bytes += static_cast<int64_t>(entry.file_size());
    return bytes;
}

int train_model(const TrainModelOptions& options, ModelTraining how, const ModelPair& pair,
                const LlamaModel* teacher, const LlamaModel& student, const ModelSource& source,
                const Judge& judge, const std::optional<Almanac>& withheld) {
    if (options.length > student.config().max_position)
        throw Error("training a model", "--length",
                    fmt::format("{} tokens are more than the model's context of {}", options.length,
                                student.config().max_position));
    if (source.config().vocab_size != student.config().vocab_size)
        throw Error(
            "training a model", source.path().string(),
            fmt::format("its vocabulary of {} is padded otherwise than the teacher's, {} rows are left",
                        source.config().vocab_size, student.config().vocab_size),
            "cut both to one size");
    static_cast<void>(source.folder_texts(student.config(), "float32")); // may refuse, and shall do so now
    auto texts = held_out_and_trained(
        read_training_texts(pair, {options.texts.begin(), options.texts.end()}, options.length));
    how.texts = texts_digest(texts[1]);
    if (withheld) note_withheld(how, texts, *withheld, *pair.tokenizer);
    ModelTrainer trainer(teacher, student, texts[1], how);
    const fs::path out = without_slash(options.out);
    const TrainingFiles files{out.string() + ".part", options.csv};
    const TrainingLock lock(files.part);
    begin_training(trainer, files, options.restart, texts);
    const auto losses = [&] {
        return loss_table("Training of " + out.filename().string(), ModelTrainer::parts(teacher != nullptr),
                          trainer.losses());
    };
    const Mode mode = teacher != nullptr      ? Mode::overfill
                      : how.name == "teacher" ? Mode::teacher
                                              : Mode::student;
    TrainingSamples samples(options.samples, options.sample_every, pair, mode, out.string(),
                            texts[0].front());
    if (!train_to_end(trainer, files, losses, [&] { samples.take(trainer); })) return 128 + interrupted();

    NewFolder folder(out);
    write_folder(source, *trainer.model(stored_dtype(options.dtype)), folder.now());
    declare_dropout(folder.now(), how.dropout);
    // Judged as it is stored.
    const auto stored = LlamaModel::load(folder.now(), student.device(), at::kFloat);
    texts[0].resize(std::min(texts[0].size(), static_cast<size_t>(options.judged)));
    std::optional<Finding> finding;
    {
        WorkProgress progress;
        const std::function<bool(double)> show = [&](double done) {
            progress.show(done, "comparing on texts held out");
            return interrupted() == 0;
        };
        finding = judge({trainer, *stored, folder.now(), texts[0], show});
    }
    if (!finding) {
        say("interrupted after all steps: {} holds them, and the same command goes on\n",
            files.part.string());
        return 128 + interrupted();
    }
    finding->result.figures.push_back(losses());
    finding->result.notes.push_back(fmt::format("{} steps read {} tokens. Loss of the newest steps {:.5g}.",
                                                trainer.steps_done(), trainer.tokens_read(),
                                                newest_loss(trainer.losses())));
    write_file(
        folder.now() / "README.md",
        fmt::format(
            "{}\n{}\nMade with\n\n```\n{}\n```\n\nAll that decided on its bits, beside libtorch, threads and "
            "processor (models and texts by digest):\n\n```\n{}\n```\n",
            finding->card, to_markdown(finding->result), options.command, how.recipe()));
    folder.keep();
    if (!options.csv.empty()) write_study(finding->result, options.csv);
    print("{}", to_markdown(finding->result));
    std::error_code ignored;
    fs::remove(files.part, ignored);
    say("{}: {}\n", out.string(), bytes_text(folder_bytes(out)));
    return 0;
}

} // namespace refreshlab::app
