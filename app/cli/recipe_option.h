#pragma once

#include <CLI/CLI.hpp>

namespace refreshlab::app {

/// --recipe FILE: a JSON object {"train": "heal", "steps": 1000, "texts": ["a.jsonl"], ...} with any of the command's options under their long
/// names (a positional MODEL is "model"), required ones too. A list gives several values; true is an option without a value, and false none. What the
/// command line has is the command line's. Added behind all other options. A wrong file is refused while the command line is parsed:
/// Error{bad_input} naming the key.
void add_recipe_option(CLI::App& command);

} // namespace refreshlab::app
