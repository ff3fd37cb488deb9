#pragma once

#include "engine/control/parameter_table.h"
#include "engine/signals/registry.h"

#include <vector>

namespace refreshlab {

// The groups of the parameter table, each a file. The list is the order in which --help and the window show it.

/// What a run draws and how long it is.
void add_run_parameters(std::vector<ParameterEntry>& table);
/// What a refresh does and writes, and how many there may be.
void add_policy_parameters(std::vector<ParameterEntry>& table);
/// The fields of a signal's trigger.
void add_trigger_parameters(std::vector<ParameterEntry>& table, const Signal& signal);
/// What is measured and kept.
void add_measuring_parameters(std::vector<ParameterEntry>& table);

} // namespace refreshlab
