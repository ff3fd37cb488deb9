#pragma once

#include "engine/control/engine_link.h"

#include <string>

namespace refreshlab {

struct ModelPair;
struct RunInfo;
class RunDriver;

// What an EngineStatus says of a run, for every EngineLink that has one.

/// Both models, their differences, and what the start of the run took.
void show_start(EngineStatus& status, const ModelPair& pair, const RunInfo& info);
/// The run as it is between two steps: configuration, bytes of the caches, draft, end. Thread of the run.
void show_run(EngineStatus& status, const RunDriver& run);
/// Decode TPS over the last 64 tokens.
void show_speed(EngineStatus& status, const Recording& recording);
/// In a handler of an exception that is none of a person's making: what it says of device, memory or program, in one line.
[[nodiscard]] std::string what_failed();
/// A command that could not be carried out, in one line.
void show_refusal(EngineStatus& status, const std::string& why);

} // namespace refreshlab
