#pragma once

#include <string>
#include <vector>

namespace refreshlab {

class Recording;

/// What makes a recorded run again without its trace: a command line, and the files that it names.
struct RunCommand {
    struct File {
        std::string name, text;
        friend bool operator==(const File&, const File&) = default;
    };
    std::string line;        ///< for a POSIX shell: "refreshlab run --prompt 'Once' --max-tokens 40"
    std::vector<File> files; ///< in the folder where it is called: policy.json, commands.json, given.txt
    std::string lacks;       ///< what a command line cannot say of this run, a sentence; empty: nothing
};

/// The settings of the run as options of `run`: those that differ from its defaults. A policy that no preset and --set make, a given text
/// and the log of commands become files. What the options do not give again is told in `lacks`. The pair that comes with the program is
/// not named: another machine has it elsewhere.
[[nodiscard]] RunCommand run_command(const Recording& recording);

} // namespace refreshlab
