#pragma once

#include "app/cli/commands.h"

namespace refreshlab::app {

// The subcommands of `train`.
[[nodiscard]] Command add_train_tokenizer(CLI::App& train);
[[nodiscard]] Command add_train_texts(CLI::App& train);
[[nodiscard]] Command add_train_teacher(CLI::App& train);
[[nodiscard]] Command add_train_prune(CLI::App& train);
[[nodiscard]] Command add_train_student(CLI::App& train);
[[nodiscard]] Command add_train_heal(CLI::App& train);
[[nodiscard]] Command add_train_bridge(CLI::App& train);
[[nodiscard]] Command add_train_eval(CLI::App& train);

} // namespace refreshlab::app
