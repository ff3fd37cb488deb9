#include "app/base/assets.h"
#include "app/base/output.h"
#include "app/cli/train_commands.h"
#include "engine/base/json_file.h"
#include "engine/tasks/row_generator.h"
#include "engine/tasks/task_scorer.h"
#include "engine/text/text_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>

namespace refreshlab::app {

namespace {

struct TrainTextsOptions {
    std::vector<std::string> kinds, stories;
    std::string out, prompts;
    int64_t rows = 1000;
    uint64_t seed = 0;
};

int make_texts(const TrainTextsOptions& options) {
    namespace fs = std::filesystem;
    std::vector<NamedFile> inputs{{"--prompts", options.prompts}};
    for (const std::string& file : options.stories)
        inputs.push_back({"--stories", file});
    check_outputs(std::vector<NamedFile>{{"--out", options.out}}, inputs);
    const fs::path folder = options.prompts.empty() ? find_assets() / "prompts" : fs::path(options.prompts);
    RowSources sources{read_almanac(folder / "almanac.json"), read_row_words(folder / "words.json"), {}, {}};
    for (const std::string& kind : task_kinds()) {
        const fs::path file = folder / (kind + ".jsonl");
        if (!fs::exists(file)) continue;
        for (PromptRecord& row : read_prompt_file(file))
            sources.held_out.push_back(std::move(row));
    }
    for (const std::string& file : options.stories) {
        read_text_rows(file, [&](TextRow row) {
            sources.stories.push_back(row.text.empty() ? std::move(row.answer) : std::move(row.text));
        });
    }
    RowGenerator generator(std::move(sources), options.seed);
    std::string text;
    for (int64_t i = 0; i < options.rows; ++i) {
        for (const std::string& kind :
             options.kinds) { // in turn, so that the beginning of the file is mixed as the whole is
            const PromptRecord row = generator.make(kind);
            const nlohmann::ordered_json object{
                {"kind", row.kind}, {"prompt", row.prompt}, {"response", row.response}};
            text += object.dump() + "\n";
        }
    }
    write_file(options.out, text);
    app::print("{}: {} rows of {}\n", options.out, options.rows * std::ssize(options.kinds),
               fmt::join(options.kinds, ", "));
    return 0;
}

} // namespace

Command add_train_texts(CLI::App& train) {
    auto options = std::make_shared<TrainTextsOptions>();
    CLI::App* command =
        train.add_subcommand("texts", "Makes training rows of the generated tasks; none is a bundled one");
    command
        ->add_option("--kind", options->kinds,
                     "roll_call, company, chronicle, chain_of_key, ledger, table or retell. May be repeated")
        ->required()
        ->type_name("KIND")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(true)
        ->check(CLI::IsMember(task_kinds()));
    command->add_option("--rows", options->rows, "Rows of each kind (default 1000)")
        ->type_name("N")
        ->check(CLI::Range(1, 10'000'000));
    command->add_option("--seed", options->seed, "Another seed gives other rows (default 0)")->type_name("N");
    command
        ->add_option("--stories", options->stories,
                     "Stories that retell rows tell again: .jsonl files, or plain texts of one story each. "
                     "May be repeated")
        ->type_name("FILE")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(true);
    command
        ->add_option("--prompts", options->prompts,
                     "The folder of almanac.json, words.json and the rows that are held out (default: the "
                     "bundled one)")
        ->type_name("DIR");
    command->add_option("-o,--out", options->out, "The rows, as JSON lines")->required()->type_name("FILE");
    return [options] { return make_texts(*options); };
}

} // namespace refreshlab::app
