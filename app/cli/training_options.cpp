#include "app/cli/training_options.h"

namespace refreshlab::app {

CLI::Option* add_texts(CLI::App& command, const std::string& name, std::vector<std::string>& texts,
                       const std::string& help, const std::string& more) {
    return command
        .add_option(name, texts,
                    help + ": .jsonl files of prompts with answers, or plain texts" + more +
                        ". May be repeated")
        ->type_name("FILE")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(true);
}

CLI::Option* add_length(CLI::App& command, int64_t& length, int64_t most) {
    return command.add_option("--length", length, "Most tokens of a text (default 512)")
        ->type_name("N")
        ->check(CLI::Range(int64_t{64}, most));
}

CLI::Option* add_batch(CLI::App& command, int64_t& batch) {
    return command.add_option("--batch", batch, "Texts of a step (default 4)")
        ->type_name("N")
        ->check(CLI::Range(1, 4096));
}

CLI::Option* add_learning_rate(CLI::App& command, double& rate, const std::string& usual) {
    return command.add_option("--learning-rate", rate, "Of the optimiser (default " + usual + ")")
        ->type_name("X")
        ->check(CLI::Range(1e-8, 1.0));
}

CLI::Option* add_threads(CLI::App& command, int& threads) {
    return command.add_option("--threads", threads, "CPU threads; 0 = all cores that this process may use")
        ->type_name("N")
        ->check(CLI::Range(0, 4096));
}

} // namespace refreshlab::app
