#include "tests/engine/gpu/simt_decoder.h"

#include "engine/model/forward/cuda_forward.h"
#include "kernels/cuda/decode/decoder.h"
#include "kernels/simt/harness.h"

#include <map>
#include <mutex>
#include <utility>

namespace refreshlab::test {

namespace {

using simt::Contents;
using simt::Visible;

/// Weights that kernels may read. Models of one test share tensors, and so do decoders of one model.
std::shared_ptr<Visible> shared_weights(const void* at, int64_t bytes) {
    if (at == nullptr) return nullptr;
    static std::mutex mutex;
    static std::map<const void*, std::weak_ptr<Visible>> known;
    const std::lock_guard lock(mutex);
    std::weak_ptr<Visible>& place = known[at];
    if (auto there = place.lock()) return there;
    auto made = std::make_shared<Visible>(at, static_cast<size_t>(bytes), Contents::read_only, "weights");
    place = made;
    return made;
}

class SimtDecoder final : public kernels::DeviceDecoder {
public:
    explicit SimtDecoder(const kernels::DeviceModel& model)
        : m_model(model)
        , m_decoder(kernels::RL_GPU::make_decoder(model)) {
        const int64_t number = kernels::bytes_of(model.type);
        const auto see = [&](const void* at, int64_t numbers) {
            if (auto visible = shared_weights(at, numbers * number)) m_weights.push_back(std::move(visible));
        };
        const auto see_matrix = [&](const kernels::DeviceMatrix& m) {
            see(m.data, m.outputs * m.inputs);
            see(m.bias, m.outputs);
        };
        see(model.embedding, model.vocab * model.hidden);
        see(model.head, model.vocab * model.hidden);
        see(model.final_norm, model.hidden);
        for (const auto& layer : model.layers) {
            see(layer.input_norm, model.hidden);
            see(layer.post_norm, model.hidden);
            see(layer.q_norm, model.head_dim);
            see(layer.k_norm, model.head_dim);
            for (const auto* m :
                 {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down})
                see_matrix(*m);
        }
    }

    void step(const kernels::DeviceCache& cache, const kernels::DeviceStep& step, void* stream) override {
        const auto numbers = static_cast<int64_t>(m_model.layers.size()) * m_model.kv_heads * cache.capacity *
                             m_model.head_dim;
        const auto cache_bytes = static_cast<size_t>(numbers * kernels::bytes_of(m_model.type));
        const auto table_bytes = static_cast<size_t>(cache.capacity * m_model.head_dim / 2 * 4);
        const Visible k(cache.k, cache_bytes, Contents::written, "k_cache");
        const Visible v(cache.v, cache_bytes, Contents::written, "v_cache");
        const Visible cos(cache.cos, table_bytes, Contents::read_only, "cos");
        const Visible sin(cache.sin, table_bytes, Contents::read_only, "sin");
        const Visible logits(step.logits, static_cast<size_t>(step.rows * m_model.vocab) * sizeof(float),
                             Contents::unwritten, "logits");
        m_decoder->step(cache, step, stream);
    }
    const kernels::DeviceAnswers& wait_for_answers() override { return m_decoder->wait_for_answers(); }
    [[nodiscard]] const uint16_t* halves(size_t index) const override { return m_decoder->halves(index); }
    [[nodiscard]] const float* floats(size_t index) const override { return m_decoder->floats(index); }

private:
    kernels::DeviceModel m_model;
    std::vector<std::shared_ptr<Visible>> m_weights;
    std::unique_ptr<kernels::DeviceDecoder> m_decoder;
};

} // namespace

std::unique_ptr<kernels::DeviceDecoder> make_simt_decoder(const kernels::DeviceModel& model) {
    return std::make_unique<SimtDecoder>(model);
}

void decode_on_host_machine(LlamaModel& model) {
    model.use_forward(std::make_unique<CudaForward>(model, make_simt_decoder));
}

} // namespace refreshlab::test
