#include "app/base/output.h"
#include "app/cli/train_commands.h"
#include "app/cli/training_options.h"
#include "engine/base/error.h"
#include "engine/base/interrupt.h"
#include "engine/base/json_file.h"
#include "engine/text/text_rows.h"
#include "engine/text/tokenizer/tokenizer_files.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

namespace refreshlab::app {

namespace {

namespace fs = std::filesystem;

constexpr const char* tokenizer_training = "training a tokenizer";

struct TrainTokenizerOptions {
    std::vector<std::string> texts, specials;
    std::string out, chat_template, cut = "llama3";
    int64_t vocab = 4096, context = 2048;
};

TokenizerRecipe recipe_of(const TrainTokenizerOptions& options) {
    TokenizerRecipe recipe = bundled_recipe();
    for (const std::string& special : options.specials) {
        if (std::ranges::find(recipe.specials, special) != recipe.specials.end())
            throw Error(tokenizer_training, "--special " + special, "this token is there already");
        if (first_invalid_utf8(special)) throw Error(tokenizer_training, "--special", "is not UTF-8");
        recipe.specials.push_back(special);
    }
    if (!options.chat_template.empty()) recipe.chat_template = read_file(options.chat_template);
    recipe.context = options.context;
    for (const auto& [name, cut] : word_cuts)
        if (name == options.cut) recipe.cut = cut;
    if (const int64_t fewest = std::ssize(recipe.specials) + 256; options.vocab < fewest)
        throw Error(tokenizer_training, fmt::format("--vocab {}", options.vocab),
                    fmt::format("{} special tokens and 256 bytes are more", recipe.specials.size()),
                    fmt::format("give {} or more", fewest));
    return recipe;
}

int train_tokenizer(const TrainTokenizerOptions& options) {
    std::vector<NamedFile> inputs{{"--template", options.chat_template}};
    for (const std::string& file : options.texts)
        inputs.push_back({"--texts", file});
    check_outputs(std::vector<NamedFile>{{"--out", options.out}}, inputs);
    const TokenizerRecipe recipe = recipe_of(options);
    const fs::path folder = options.out;
    std::error_code failed;
    if (fs::exists(folder / "tokenizer.json", failed))
        throw Error("writing --out", folder.string(), "there is a tokenizer.json already",
                    "name a new folder");
    note_interrupts();
    WordCounter words(recipe.cut);
    size_t bytes = 0;
    for (const std::string& file : options.texts) {
        read_text_rows(file, [&](const TextRow& row) {
            for (const std::string* text : {&row.text, &row.prompt, &row.answer}) {
                words.add(*text);
                bytes += text->size();
            }
        });
    }
    const TrainedBpe bpe =
        train_bpe(words.counts(), recipe.specials, options.vocab, [](double) { return interrupted() == 0; });
    if (interrupted() != 0) {
        say("interrupted: nothing was written\n");
        return 128 + interrupted();
    }
    const int64_t learned = std::ssize(bpe.tokens) - std::ssize(recipe.specials) - 256;
    if (std::ssize(bpe.tokens) < options.vocab)
        throw Error(tokenizer_training, fmt::format("--vocab {}", options.vocab),
                    fmt::format("the texts have only {} merges", learned),
                    fmt::format("give more texts, or at most {} tokens", bpe.tokens.size()));
    const auto files = tokenizer_files(bpe, recipe);
    fs::create_directories(folder, failed);
    if (!fs::is_directory(folder, failed))
        throw Error("writing --out", folder.string(), "cannot be made", {}, ErrorKind::failure);
    for (auto file = files.rbegin(); file != files.rend();
         ++file) // tokenizer.json last: with it the folder is whole
        write_file(folder / file->first, file->second);
    print("{}: {} tokens: {} special, 256 bytes, {} merged; {} different words of {:.1f} MB of text\n",
          options.out, bpe.tokens.size(), recipe.specials.size(), learned, words.counts().size(),
          static_cast<double>(bytes) / 1e6);
    return 0;
}

} // namespace

Command add_train_tokenizer(CLI::App& train) {
    auto options = std::make_shared<TrainTokenizerOptions>();
    CLI::App* command = train.add_subcommand(
        "tokenizer", "Learns a byte-level BPE and writes it as a Hugging Face folder has it");
    add_texts(*command, "--texts", options->texts, "Texts")->required();
    command
        ->add_option("--vocab", options->vocab,
                     "Tokens, special ones and the 256 bytes included (default 4096)")
        ->type_name("N")
        ->check(CLI::Range(1, 1 << 20));
    command
        ->add_option(
            "--special", options->specials,
            "One more special token, beside <|begin|>, <|end|>, <|user|>, <|assistant|> and <|pad|>. May be "
            "repeated")
        ->type_name("TOKEN")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false);
    command
        ->add_option("--template", options->chat_template,
                     "A chat template in Jinja (default: the bundled models')")
        ->type_name("FILE");
    std::vector<std::string> cuts;
    for (const auto& [name, cut] : word_cuts)
        cuts.emplace_back(name);
    command
        ->add_option("--cut", options->cut,
                     "How text is cut into words: llama3 (the default), gpt2, digits_gpt2, qwen2, qwen35, "
                     "tekken or o200k")
        ->type_name("NAME")
        ->check(CLI::IsMember(cuts));
    command->add_option("--context", options->context, "Most tokens of a text of the model (default 2048)")
        ->type_name("N")
        ->check(CLI::Range(1, 1 << 24));
    command->add_option("-o,--out", options->out, "The folder that the files go to")
        ->required()
        ->type_name("DIR");
    return [options] { return train_tokenizer(*options); };
}

} // namespace refreshlab::app
