#include "tests/engine/gpu/simt_decoder.h"

#include "engine/model/forward/cuda_forward.h"
#include "kernels/blocks/device_blocks.h"
#include "kernels/cuda/decode/decoder.h"
#include "kernels/cuda/rows/cache_work.h"
#include "kernels/simt/harness.h"

#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

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

/// A matrix in blocks as a device holds it. The models here are the host's, and so is the order of their tiles.
struct DeviceTiles {
    explicit DeviceTiles(const kernels::DeviceMatrix& m)
        : bytes(static_cast<size_t>(kernels::matrix_bytes({}, m.form, m.outputs, m.inputs)))
        , visible(bytes.data(), bytes.size(), Contents::read_only, "tiles") {
        using kernels::BlockType;
        const BlockType type = m.form == kernels::MatrixForm::q8_0   ? BlockType::q8_0
                               : m.form == kernels::MatrixForm::q4_0 ? BlockType::q4_0
                                                                     : BlockType::q4_1;
        kernels::to_device_tiles(type, m.outputs / kernels::block_rows * (m.inputs / kernels::block_width),
                                 static_cast<const std::byte*>(m.data), bytes.data());
    }
    std::vector<std::byte> bytes;
    Visible visible;
};
std::shared_ptr<DeviceTiles> shared_tiles(const kernels::DeviceMatrix& m) {
    static std::mutex mutex;
    static std::map<std::pair<const void*, int64_t>, std::weak_ptr<DeviceTiles>> known; // a head may be cut
    const std::lock_guard lock(mutex);
    std::weak_ptr<DeviceTiles>& place = known[{m.data, m.outputs}];
    if (auto there = place.lock()) return there;
    auto made = std::make_shared<DeviceTiles>(m);
    place = made;
    return made;
}

class SimtDecoder final : public kernels::DeviceDecoder {
public:
    explicit SimtDecoder(const kernels::DeviceModel& model)
        : m_model(model) {
        const int64_t number = kernels::bytes_of(model.type);
        const auto see = [&](const void* at, int64_t numbers) {
            if (auto visible = shared_weights(at, numbers * number)) m_weights.push_back(std::move(visible));
        };
        const auto see_matrix = [&](kernels::DeviceMatrix& m) {
            see(m.bias, m.outputs);
            if (m.form == kernels::MatrixForm::numbers) return see(m.data, m.outputs * m.inputs);
            m_tiles.push_back(shared_tiles(m));
            m.data = m_tiles.back()->bytes.data();
        };
        see_matrix(m_model.embedding);
        see_matrix(m_model.head);
        see(model.final_norm, model.hidden);
        for (auto& layer : m_model.layers) {
            see(layer.input_norm, model.hidden);
            see(layer.post_norm, model.hidden);
            see(layer.o_norm, model.hidden);
            see(layer.down_norm, model.hidden);
            see(layer.q_norm, model.head_dim * (model.qk_norm_whole ? model.heads : 1));
            see(layer.k_norm, model.head_dim * (model.qk_norm_whole ? model.kv_heads : 1));
            for (auto* m : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down})
                see_matrix(*m);
            see_matrix(layer.router);
            for (auto& expert : layer.experts)
                for (auto* m : {&expert.gate, &expert.up, &expert.down})
                    see_matrix(*m);
        }
        m_decoder = kernels::RL_GPU::make_decoder(m_model);
    }

    void step(const kernels::DeviceCache& cache, const kernels::DeviceStep& step, void* stream) override {
        const Seen seen(*this, cache, step.logits, step.logits != nullptr ? step.rows : 0);
        m_decoder->step(cache, step, stream);
    }
    void copy_logits(float* to, int64_t rows, void* stream) override {
        const Visible seen(to, static_cast<size_t>(rows * m_model.vocab) * sizeof(float), Contents::unwritten,
                           "logits");
        m_decoder->copy_logits(to, rows, stream);
    }
    void extend(const kernels::DeviceCache& cache, const kernels::DevicePass& pass, void* stream) override {
        const bool all = pass.rows == kernels::DevicePass::Rows::all;
        const Seen seen(*this, cache, pass.logits,
                        all                      ? std::ssize(pass.tokens)
                        : pass.logits != nullptr ? 1
                                                 : 0);
        m_decoder->extend(cache, pass, stream);
    }
    const kernels::DeviceAnswers& wait_for_answers() override { return m_decoder->wait_for_answers(); }
    [[nodiscard]] const uint16_t* halves(size_t index) const override { return m_decoder->halves(index); }
    [[nodiscard]] const float* floats(size_t index) const override { return m_decoder->floats(index); }
    [[nodiscard]] const float* entropies() const override { return m_decoder->entropies(); }
    [[nodiscard]] bool holds_lists(uint64_t cache, uint64_t version, int64_t list_capacity) const override {
        return m_decoder->holds_lists(cache, version, list_capacity);
    }
    [[nodiscard]] const void* left_rows() const override { return m_decoder->left_rows(); }

private:
    /// What kernels may see during a call, beside the weights.
    class Seen {
    public:
        Seen(const SimtDecoder& decoder, const kernels::DeviceCache& cache, const float* logits, int64_t rows)
            : m_cos(cache.cos, table_bytes(decoder, cache), Contents::read_only, "cos")
            , m_sin(cache.sin, table_bytes(decoder, cache), Contents::read_only, "sin") {
            if (cache.local_cos != nullptr) {
                m_local_cos.emplace(cache.local_cos, table_bytes(decoder, cache), Contents::read_only,
                                    "local_cos");
                m_local_sin.emplace(cache.local_sin, table_bytes(decoder, cache), Contents::read_only,
                                    "local_sin");
            }
            const auto see = [this](const void* at, int64_t bytes, const char* name) {
                m_entries.push_back(
                    std::make_unique<Visible>(at, static_cast<size_t>(bytes), Contents::written, name));
            };
            const kernels::DeviceModel& model = decoder.m_model;
            const int64_t row = model.head_dim * kernels::bytes_of(model.type);
            for (const kernels::DevicePool& pool : cache.pools) {
                see(pool.k, pool.rows * row, "k_pool");
                see(pool.v, pool.rows * row, "v_pool");
            }
            if (!cache.listed()) {
                const int64_t columns = std::ssize(model.layers) * model.kv_heads * cache.capacity;
                see(cache.k, columns * row, "k_cache");
                see(cache.v, columns * row, "v_cache");
            }
            if (rows > 0)
                m_logits.emplace(logits, static_cast<size_t>(rows * decoder.m_model.vocab) * sizeof(float),
                                 Contents::unwritten, "logits");
        }

    private:
        static size_t table_bytes(const SimtDecoder& decoder, const kernels::DeviceCache& cache) {
            return static_cast<size_t>(cache.capacity * decoder.m_model.turned / 2) * sizeof(float);
        }
        std::vector<std::unique_ptr<Visible>> m_entries;
        Visible m_cos, m_sin;
        std::optional<Visible> m_local_cos, m_local_sin;
        std::optional<Visible> m_logits;
    };

    kernels::DeviceModel m_model;
    std::vector<std::shared_ptr<Visible>> m_weights;
    std::vector<std::shared_ptr<DeviceTiles>> m_tiles;
    std::unique_ptr<kernels::DeviceDecoder> m_decoder;
};

class SimtCacheWork final : public kernels::DeviceCacheWork {
public:
    explicit SimtCacheWork(const kernels::CacheShape& shape)
        : m_shape(shape)
        , m_work(kernels::RL_GPU::make_cache_work(shape)) {}

    std::shared_ptr<const kernels::SavedColumns> splice(const kernels::DeviceColumns& to,
                                                        const kernels::DeviceColumns& from, int64_t n,
                                                        void* stream) override {
        const Seen seen(m_shape, to, Contents::written), seen_too(m_shape, from, Contents::read_only);
        return m_work->splice(to, from, n, stream);
    }
    void restore(const kernels::DeviceColumns& to, const kernels::SavedColumns& saved, int64_t n,
                 void* stream) override {
        const Seen seen(m_shape, to, Contents::written);
        m_work->restore(to, saved, n, stream);
    }
    std::shared_ptr<const kernels::SavedColumns> splice(const kernels::DeviceColumns& to,
                                                        const kernels::DeviceColumns& from, bool packed,
                                                        const kernels::SelectedColumns& which,
                                                        void* stream) override {
        const Seen seen(m_shape, to, Contents::written);
        if (!packed) {
            const Seen seen_too(m_shape, from, Contents::read_only);
            return m_work->splice(to, from, packed, which, stream);
        }
        const size_t bytes = which.heads.size() *
                             static_cast<size_t>(from.capacity * m_shape.head_dim * bytes_of(m_shape.type));
        std::optional<Visible> k, v;
        if (which.keys) k.emplace(from.k, bytes, Contents::read_only, "packed keys");
        if (which.values) v.emplace(from.v, bytes, Contents::read_only, "packed values");
        return m_work->splice(to, from, packed, which, stream);
    }
    void restore(const kernels::DeviceColumns& to, const kernels::SavedColumns& saved,
                 const kernels::SelectedColumns& which, void* stream) override {
        const Seen seen(m_shape, to, Contents::written);
        m_work->restore(to, saved, which, stream);
    }
    std::vector<float> distances(const kernels::DeviceColumns& a, const kernels::DeviceColumns& b, int64_t n,
                                 void* stream) override {
        const Seen seen(m_shape, a, Contents::read_only), seen_too(m_shape, b, Contents::read_only);
        return m_work->distances(a, b, n, stream);
    }

private:
    struct Seen {
        Seen(const kernels::CacheShape& shape, const kernels::DeviceColumns& columns, Contents contents)
            : k(columns.k, static_cast<size_t>(shape.bytes(columns.capacity) / 2), contents, "k_cache")
            , v(columns.v, static_cast<size_t>(shape.bytes(columns.capacity) / 2), contents, "v_cache") {}
        Visible k, v;
    };
    kernels::CacheShape m_shape;
    std::unique_ptr<kernels::DeviceCacheWork> m_work;
};

} // namespace

std::unique_ptr<kernels::DeviceDecoder> make_simt_decoder(const kernels::DeviceModel& model) {
    return std::make_unique<SimtDecoder>(model);
}

std::unique_ptr<kernels::DeviceCacheWork> make_simt_cache_work(const kernels::CacheShape& shape) {
    return std::make_unique<SimtCacheWork>(shape);
}

void decode_on_host_machine(LlamaModel& model) {
    model.use_forward(std::make_unique<CudaForward>(model, make_simt_decoder));
    model.use_cache_work(make_simt_cache_work);
}

} // namespace refreshlab::test
