#pragma once

#include "engine/model/forward/layer_hooks.h"
#include "engine/model/gates/token_gate.h"

namespace refreshlab {

class KvCache;
class LlamaModel;

/// Reads a gate's soft tokens (GateKind::soft_tokens) behind what a cache holds, and shows the pass to a hook.
/// \param cache  has room for them; they are appended
/// \param gate   on the model's device
void read_soft_tokens(const LlamaModel& model, KvCache& cache, const TokenGate& gate, LayerHooks& watch);

} // namespace refreshlab
