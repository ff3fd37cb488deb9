#pragma once

#include "app/options/run_options.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::app {

/// What `run` takes beside --branch.
struct BranchOptions {
    std::string at;        ///< TRACE@STEP; empty: no branch is asked for
    std::string run_id;    ///< of the run that is left; empty: the newest
    std::string give;      ///< text that the step chooses
    int32_t candidate = 0; ///< that the step chooses: its place among the recorded ones, from 1; 0: none
    bool refresh = false;  ///< by hand at that step
};

/// What `run` was asked for.
struct RunCommandOptions {
    RunOptions run;
    BranchOptions branch;
    std::string record, summary, replay, commands;
    std::string save_cache;   ///< file; empty: the prompt's cache is not saved
    bool exact_cache = false; ///< else in four bits
    bool exact = false;       ///< of a replay
};

} // namespace refreshlab::app
