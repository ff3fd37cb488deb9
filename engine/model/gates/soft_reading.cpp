#include "engine/model/gates/soft_reading.h"

#include "engine/cache/kv_cache.h"
#include "engine/model/forward/soft_rows.h"
#include "engine/model/llama_model.h"

namespace refreshlab {

namespace {

class GateRows final : public SoftRows {
public:
    explicit GateRows(const TokenGate& gate)
        : m_gate(gate) {}
    [[nodiscard]] at::Tensor embedded() const override { return m_gate.soft_tokens(); }
    void project(int64_t layer, Projection place, const at::Tensor& x, at::Tensor& rows) const override {
        rows.add_(m_gate.change(layer, place, x.to(at::kFloat), running_math()).to(rows.scalar_type()));
    }

private:
    const TokenGate& m_gate;
};

} // namespace

void read_soft_tokens(const LlamaModel& model, KvCache& cache, const TokenGate& gate, LayerHooks& watch) {
    const GateRows soft(gate);
    LayerHooks* const hooks[] = {&watch};
    StepInputs in;
    in.soft = &soft;
    in.rows = Rows::none;
    in.hooks = hooks;
    static_cast<void>(model.forward().prefill(cache, in));
}

} // namespace refreshlab
