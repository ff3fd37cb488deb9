// Make Each Token Count's gate: TRIM-KV's, with the last projection shared by all layers, so that scores of layers can be compared.
// Source: reference/cache-definitions.md, section 11; Bui et al. 2026.
#include "engine/model/gates/token_gate.h"

namespace refreshlab {

GateKind gate_kinds::make_each_token_count() {
    GateKind kind = trim_kv();
    kind.method = "make_each_token_count";
    kind.weights = [](const ModelConfig& model, int64_t width) {
        std::vector<GateWeight> weights = trim_kv().weights(model, width);
        for (GateWeight& weight : weights)
            weight.shared = !weight.held_in;
        return weights;
    };
    return kind;
}

} // namespace refreshlab
