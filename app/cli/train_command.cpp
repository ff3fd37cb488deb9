#include "app/cli/recipe_option.h"
#include "app/cli/train_commands.h"
#include "engine/base/check.h"

#include <utility>
#include <vector>

namespace refreshlab::app {

Command add_train_command(CLI::App& app) {
    CLI::App* train =
        app.add_subcommand("train", "Makes a pair, or a part of one: tokenizer, texts, models, and its card "
                                    "(docs/howto/make-a-pair.md, docs/howto/train-a-student.md)");
    train->require_subcommand(1);
    std::vector<std::pair<CLI::App*, Command>> commands;
    for (Command (*add)(CLI::App&) :
         {add_train_tokenizer, add_train_texts, add_train_teacher, add_train_prune, add_train_student,
          add_train_heal, add_train_bridge, add_train_eval}) {
        Command command = add(*train);
        CLI::App* const subcommand = train->get_subcommands({}).back();
        add_recipe_option(*subcommand);
        commands.emplace_back(subcommand, std::move(command));
    }
    return [commands] {
        for (const auto& [subcommand, command] : commands)
            if (subcommand->parsed()) return command();
        RL_ASSERT(false);
        return 1;
    };
}

} // namespace refreshlab::app
