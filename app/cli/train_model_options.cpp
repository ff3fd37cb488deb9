#include "app/cli/train_model_options.h"

#include "app/cli/training_options.h"

#include <fmt/format.h>

namespace refreshlab::app {

void add_training_options(CLI::App& command, TrainModelOptions& options, const std::string& rate) {
    add_texts(command, "--texts", options.texts, "Texts", held_out_texts)->required();
    command
        .add_option("-o,--out", options.out,
                    "The model folder that is made. DIR.part beside it is the training so far: the same "
                    "command goes on from it")
        ->required()
        ->type_name("DIR");
    command
        .add_option("--csv", options.csv,
                    "Writes losses and the comparison as tables, and how they are drawn, into this folder")
        ->type_name("DIR");
    command
        .add_option(
            "--samples", options.samples,
            "Records a short decode of the model now and then as a run of this trace, which the window opens")
        ->type_name("FILE.rlt");
    command.add_option("--sample-every", options.sample_every, "Steps between two samples (default 100)")
        ->type_name("N")
        ->check(CLI::Range(1, 10'000'000));
    command.add_option("--dtype", options.dtype, "Of the weights written: f32 (the default), bf16, f16")
        ->type_name("DTYPE")
        ->check(CLI::IsMember({"f32", "bf16", "f16"}));
    command.add_option("--steps", options.steps, "Steps (default 1000)")
        ->type_name("N")
        ->check(CLI::Range(1, 10'000'000));
    add_batch(command, options.batch);
    command
        .add_option("--pack", options.pack,
                    "Texts of a step that have at most so many tokens together go through the model at once: "
                    "faster, and takes more memory (default 0: one after the other)")
        ->type_name("N")
        ->check(CLI::Range(0, 1 << 24));
    command
        .add_option("--products", options.products,
                    "Products of matrices: f32 (the default), or bf16, which is faster on processors that "
                    "have it, and keeps weights and all else in f32")
        ->type_name("DTYPE")
        ->check(CLI::IsMember({"f32", "bf16"}));
    add_length(command, options.length);
    add_learning_rate(command, options.learning_rate, rate);
    command
        .add_option(
            "--schedule", options.schedule,
            "How the rate falls after the first twentieth of the steps, in which it rises: cosine (the "
            "default; to a tenth) or linear (to 0)")
        ->type_name("NAME")
        ->check(CLI::IsMember({"cosine", "linear"}));
    command
        .add_option("--optimizer", options.optimizer,
                    "adamw (the default), or muon: Muon for the matrices of layers, AdamW for all else")
        ->type_name("NAME")
        ->check(CLI::IsMember({"adamw", "muon"}));
    command
        .add_option("--weight-decay", options.weight_decay,
                    fmt::format("Of matrices (default {})", options.weight_decay))
        ->type_name("X")
        ->check(CLI::Range(0.0, 10.0));
    command
        .add_option("--dropout", options.dropout,
                    "Share of keys, of what layers add, and of embeddings that is dropped in training; "
                    "written to config.json, where MC dropout reads it (default: as config.json has it)")
        ->type_name("SHARE")
        ->check(CLI::Range(0.0, 0.9));
    command
        .add_option("--judged", options.judged,
                    "Texts held out that the comparison at the end reads at most (default 32)")
        ->type_name("N")
        ->check(CLI::Range(1, 1'000'000));
    command
        .add_option("--seed", options.seed, "Of first weights, readings and the order of texts (default 0)")
        ->type_name("N");
    command.add_option("--device", options.device, "cpu (the default) or cuda[:i]")->type_name("NAME");
    add_threads(command, options.threads);
    command.add_flag("--restart", options.restart, "Begin again, whatever DIR.part holds");
}

void add_reading_options(CLI::App& command, StudentReadingOptions& options, const std::string& shares) {
    command.add_option("--teacher", options.teacher, "A checkpoint folder or a .gguf file")
        ->required()
        ->type_name("MODEL");
    command
        .add_option("--student", options.student,
                    "A checkpoint folder or a .gguf file of the teacher's KV geometry, or derive:SPEC")
        ->required()
        ->type_name("MODEL");
    command
        .add_option("--shares", options.shares,
                    "Shares of texts that are read alone, and behind a prefix of the teacher's without a "
                    "refresh; all others have refreshes too (default " +
                        shares + ")")
        ->type_name("A,P")
        ->delimiter(',');
    command
        .add_option("--longest", options.longest,
                    "Most tokens between two refreshes; the distance is drawn for each text (default 64)")
        ->type_name("N")
        ->check(CLI::Range(1, 1 << 20));
    command
        .add_option(
            "--withhold", options.withhold,
            "An almanac (assets/prompts/almanac.json) whose facts the student shall read from the "
            "teacher's entries and not know by itself: behind names that it read itself it is trained "
            "for all words alike")
        ->type_name("FILE");
}

} // namespace refreshlab::app
