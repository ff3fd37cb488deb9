#include "engine/model/llama_model.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/checkpoint/checkpoint.h"
#include "engine/model/checkpoint/weight_checks.h"
#include "engine/model/llama_weights.h"
#include "engine/model/rope_table.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/dense.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <utility>

namespace refreshlab {

namespace {

constexpr int64_t chunk_rows = LlamaWeights::chunk_rows;

/// Keeps the attention row of every layer that the caller asked for.
class CaptureSink {
public:
    CaptureSink(AttentionCapture* target, int64_t num_layers)
        : m_target(target) {
        if (m_target == nullptr) return;
        m_layers = m_target->layers;
        if (m_layers.empty()) {
            m_layers.resize(static_cast<size_t>(num_layers));
            std::iota(m_layers.begin(), m_layers.end(), 0);
        }
        for (const int32_t layer : m_layers)
            RL_ASSERT(layer >= 0 && layer < num_layers);
        m_target->rows =
            at::Tensor(); // a capture is reused from step to step, and every step's rows are longer
    }

    [[nodiscard]] bool wants(int64_t layer) const {
        return std::find(m_layers.begin(), m_layers.end(), layer) != m_layers.end();
    }
    [[nodiscard]] bool active() const { return m_target != nullptr; }

    /// \param row  [heads, n], any device
    void keep(int64_t layer, const at::Tensor& row) {
        at::Tensor& rows = m_target->rows;
        if (!rows.defined()) {
            rows = at::empty({static_cast<int64_t>(m_layers.size()), row.size(0), row.size(1)},
                             at::TensorOptions().dtype(at::kFloat));
        }
        for (size_t i = 0; i < m_layers.size(); ++i) {
            if (m_layers[i] == layer) rows.select(0, static_cast<int64_t>(i)).copy_(row);
        }
    }

private:
    AttentionCapture* m_target;
    std::vector<int32_t> m_layers;
};

/// Keeps the residual stream of a pass of `rows` rows, which may come in chunks.
class HiddenSink {
public:
    HiddenSink(HiddenCapture* target, const ModelConfig& config, int64_t rows)
        : m_target(target) {
        if (m_target == nullptr) return;
        m_width = m_target->padding ? LlamaWeights::held_width(config.hidden_size) : config.hidden_size;
        m_target->states =
            at::empty({config.num_layers + 1, rows, m_width}, at::TensorOptions().dtype(at::kFloat));
    }

    /// The next rows to come belong behind these.
    void advance(int64_t rows) { m_first_row += rows; }
    /// \param x  [n, held hidden width], what `layer` reads; of more rows than the pass has, the first ones count
    void keep(int64_t layer, const at::Tensor& x) {
        if (m_target == nullptr) return;
        const at::Tensor to = m_target->states.select(0, layer);
        const int64_t n = std::min(x.size(0), to.size(0) - m_first_row);
        to.narrow(0, m_first_row, n).copy_(x.narrow(0, 0, n).narrow(1, 0, m_width));
    }

private:
    HiddenCapture* m_target;
    int64_t m_width = 0;
    int64_t m_first_row = 0;
};

/// Dropout of a batch whose rows all stand at `position`.
struct BatchDropout {
    const McRequest* request = nullptr; ///< null: no dropout in this batch
    std::span<const int32_t> passes;    ///< per row; 0 = none
    int64_t position = 0;

    [[nodiscard]] kernels::DropoutKey key(int64_t layer) const {
        return {request->seed, position, static_cast<int32_t>(layer), 0};
    }
    void apply(at::Tensor& branch, int64_t layer, kernels::DropoutSite site, bool McRequest::*enabled) const {
        if (request == nullptr || !(request->*enabled)) return;
        kernels::dropout_rows_(branch, key(layer), passes, site, request->p);
    }
};

/// What the rows of a batch may attend to, in a layer with a given sliding window.
class Sight {
public:
    /// Rows at `positions`. With `own_columns` every row brings the column of its own position along; without, it is in
    /// the cache.
    Sight(std::span<const int64_t> positions, bool own_columns)
        : m_positions(positions.begin(), positions.end())
        , m_visible(m_positions) {
        if (own_columns) return;
        for (int64_t& n : m_visible)
            ++n;
    }

    [[nodiscard]] std::span<const int64_t> num_visible() const { return m_visible; }
    /// First position in (p - window, p], or nothing where the layer sees everything; valid until the next call.
    [[nodiscard]] std::span<const int64_t> first_visible(int64_t window) const {
        if (window == 0) return {};
        m_first.resize(m_positions.size());
        for (size_t r = 0; r < m_positions.size(); ++r)
            m_first[r] = std::max<int64_t>(m_positions[r] - window + 1, 0);
        return m_first;
    }

private:
    std::vector<int64_t> m_positions, m_visible;
    mutable std::vector<int64_t> m_first;
};

} // namespace

struct LlamaModel::Impl {
    ModelConfig config;
    at::Device device = at::kCPU;
    at::ScalarType dtype = at::kFloat;
    LlamaWeights weights;
    /// Grows with the positions asked for, by whichever session of the model comes first.
    mutable RopeTable rope;
    mutable std::mutex rope_mutex;
    [[nodiscard]] std::pair<at::Tensor, at::Tensor> rope_rows(int64_t first_pos, int64_t n) const {
        const std::lock_guard lock(rope_mutex);
        return rope.rows(first_pos, n);
    }

    [[nodiscard]] at::Tensor embed(std::span<const int32_t> tokens) const;
    [[nodiscard]] at::Tensor heads_of(const at::Tensor& x, const at::Tensor& weight,
                                      const at::Tensor& bias) const {
        return kernels::linear(x, weight, bias).view({x.size(0), -1, config.head_dim});
    }
    /// RMSNorm over every head of q or k, where the family has it.
    [[nodiscard]] at::Tensor normed_heads(at::Tensor heads, const at::Tensor& weight) const {
        if (!weight.defined()) return heads;
        return kernels::rms_norm(heads.view({-1, config.head_dim}), weight, config.rms_norm_eps)
            .view(heads.sizes());
    }
    [[nodiscard]] at::Tensor queries(const LlamaLayer& w, const at::Tensor& x) const {
        return normed_heads(heads_of(x, w.q, w.q_bias), w.q_norm);
    }
    [[nodiscard]] at::Tensor keys(const LlamaLayer& w, const at::Tensor& x) const {
        return normed_heads(heads_of(x, w.k, w.k_bias), w.k_norm);
    }
    /// Over the residual; padded channels do not count in the mean.
    [[nodiscard]] at::Tensor normed(const at::Tensor& x, const at::Tensor& weight) const {
        return kernels::rms_norm(x, weight, config.rms_norm_eps, config.hidden_size);
    }
    [[nodiscard]] kernels::AttentionInputs attention_inputs(const KvCache& cache, int64_t layer, at::Tensor q,
                                                            const Sight& sight) const;
    void finish_layer(const LlamaLayer& w, int64_t layer, const at::Tensor& attended,
                      const BatchDropout& dropout, at::Tensor& x) const;
    [[nodiscard]] at::Tensor logits(const at::Tensor& x) const {
        return kernels::linear(normed(x, weights.final_norm), weights.head).to(at::kFloat);
    }
    void check_geometry(const KvCache& cache) const {
        RL_ASSERT(cache.num_layers() == config.num_layers && cache.num_kv_heads() == config.num_kv_heads);
        RL_ASSERT(cache.head_dim() == config.head_dim && cache.dtype() == dtype && cache.device() == device);
    }

    at::Tensor extend_chunk(KvCache& cache, std::span<const int32_t> tokens, Rows rows, Origin origin,
                            CaptureSink* capture, HiddenSink& hidden) const;
    at::Tensor step_rows(KvCache& cache, int32_t token, bool write, const BatchDropout& dropout,
                         int64_t num_rows, CaptureSink& capture, HiddenSink& hidden,
                         StepFault fault = {}) const;
};

at::Tensor LlamaModel::Impl::embed(std::span<const int32_t> tokens) const {
    at::Tensor ids = at::empty({static_cast<int64_t>(tokens.size())}, at::TensorOptions().dtype(at::kLong));
    auto* out = ids.mutable_data_ptr<int64_t>();
    for (size_t i = 0; i < tokens.size(); ++i) {
        RL_ASSERT(tokens[i] >= 0 && tokens[i] < config.vocab_size);
        out[i] = tokens[i];
    }
    const at::ScalarType activations = device.is_cpu() ? at::kFloat : dtype;
    return weights.embedding.index_select(0, ids.to(device)).to(activations);
}

kernels::AttentionInputs LlamaModel::Impl::attention_inputs(const KvCache& cache, int64_t layer, at::Tensor q,
                                                            const Sight& sight) const {
    kernels::AttentionInputs in;
    in.q = std::move(q);
    in.k_cache = cache.keys(layer);
    in.v_cache = cache.values(layer);
    in.num_visible = sight.num_visible();
    in.first_visible = sight.first_visible(config.window(layer));
    in.scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim));
    return in;
}

/// What follows a layer's attention: output projection and MLP, each added to the residual x.
void LlamaModel::Impl::finish_layer(const LlamaLayer& w, int64_t layer, const at::Tensor& attended,
                                    const BatchDropout& dropout, at::Tensor& x) const {
    at::Tensor branch = kernels::linear(attended.reshape({x.size(0), -1}), w.o, w.o_bias);
    dropout.apply(branch, layer, kernels::DropoutSite::attention_output, &McRequest::attention_output);
    x.add_(branch);
    const at::Tensor h = normed(x, w.post_norm);
    const at::Tensor gate = kernels::linear(h, w.gate, w.gate_bias);
    const at::Tensor up = kernels::linear(h, w.up, w.up_bias);
    branch = kernels::linear(kernels::silu_mul(gate, up), w.down, w.down_bias);
    dropout.apply(branch, layer, kernels::DropoutSite::mlp_output, &McRequest::mlp_output);
    x.add_(branch);
}

at::Tensor LlamaModel::Impl::extend_chunk(KvCache& cache, std::span<const int32_t> tokens, Rows rows,
                                          Origin origin, CaptureSink* capture, HiddenSink& hidden) const {
    const auto n = static_cast<int64_t>(tokens.size());
    const int64_t first_pos = cache.length();
    std::vector<int64_t> positions(tokens.size());
    std::iota(positions.begin(), positions.end(), first_pos);
    const Sight all_rows(positions, false);
    const std::span<const int64_t> every_position = positions;
    const Sight last_row(every_position.last(1), false);

    auto [cos, sin] = rope_rows(first_pos, n);
    at::Tensor x = embed(tokens);
    for (int64_t layer = 0; layer < config.num_layers; ++layer) {
        const LlamaLayer& w = weights.layers[static_cast<size_t>(layer)];
        hidden.keep(layer, x);
        at::Tensor h = normed(x, w.input_norm);
        at::Tensor k = keys(w, h);
        kernels::rope_(k, cos, sin);
        cache.write(layer, k, heads_of(h, w.v, w.v_bias));
        // The last layer's outputs are read for the rows that get logits, and by nobody else.
        const bool last_layer = layer + 1 == config.num_layers;
        const bool captured = capture != nullptr && capture->wants(layer);
        if (last_layer && rows == Rows::none && !captured) break;
        if (last_layer && rows != Rows::all) {
            h = h.narrow(0, n - 1, 1);
            x = x.narrow(0, n - 1, 1);
            cos = cos.narrow(0, n - 1, 1);
            sin = sin.narrow(0, n - 1, 1);
        }
        at::Tensor q = queries(w, h);
        kernels::rope_(q, cos, sin);
        const int64_t num_rows = q.size(0);
        const auto in = attention_inputs(cache, layer, q, num_rows == n ? all_rows : last_row);
        if (captured) {
            // The last row once more, alone: probabilities of a whole chunk would be rows * heads * length floats.
            at::Tensor probabilities;
            (void)kernels::attention(attention_inputs(cache, layer, q.narrow(0, num_rows - 1, 1), last_row),
                                     &probabilities);
            capture->keep(layer, probabilities.select(0, 0));
        }
        if (last_layer && rows == Rows::none) break;
        finish_layer(w, layer, kernels::attention(in), {}, x);
    }
    hidden.keep(config.num_layers, x);
    hidden.advance(n);
    cache.commit(n, origin);
    return rows == Rows::none ? at::Tensor() : logits(x);
}

/// `num_rows` rows of one token at dropout.position == cache.length(). With `write`, row 0 writes its column there. With
/// more than one row, or where nothing is written, each row brings its own column as its last key.
at::Tensor LlamaModel::Impl::step_rows(KvCache& cache, int32_t token, bool write, const BatchDropout& dropout,
                                       int64_t num_rows, CaptureSink& capture, HiddenSink& hidden,
                                       StepFault fault) const {
    const int64_t position = dropout.position;
    const bool own_columns = num_rows > 1 || !write;
    const Sight sight(std::vector<int64_t>(static_cast<size_t>(num_rows), position + fault.mask_shift),
                      own_columns);
    auto [cos, sin] = rope_rows(position + fault.position_shift, 1);
    if (num_rows > 1) {
        cos = cos.expand({num_rows, -1}).contiguous();
        sin = sin.expand({num_rows, -1}).contiguous();
    }
    const std::vector<int32_t> tokens(static_cast<size_t>(num_rows), token);
    at::Tensor x = embed(tokens);
    for (int64_t layer = 0; layer < config.num_layers; ++layer) {
        const LlamaLayer& w = weights.layers[static_cast<size_t>(layer)];
        hidden.keep(layer, x);
        const at::Tensor h = normed(x, w.input_norm);
        at::Tensor q = queries(w, h);
        at::Tensor k = keys(w, h);
        const at::Tensor v = heads_of(h, w.v, w.v_bias);
        kernels::rope_(q, cos, sin);
        kernels::rope_(k, cos, sin);
        if (write) cache.write(layer, k.narrow(0, 0, 1), v.narrow(0, 0, 1));

        kernels::AttentionInputs in = attention_inputs(cache, layer, q, sight);
        if (own_columns) {
            // Rounded like a stored column, so that a row without dropout has the bits of the plain step.
            in.own_k = k.to(dtype);
            in.own_v = v.to(dtype);
        }
        if (dropout.request != nullptr && dropout.request->attention) {
            in.dropout_key = dropout.key(layer);
            in.passes = dropout.passes;
            in.dropout_p = dropout.request->p;
        }
        at::Tensor probabilities;
        const bool captured = capture.wants(layer);
        const at::Tensor attended = kernels::attention(in, captured ? &probabilities : nullptr);
        if (captured) capture.keep(layer, probabilities.select(0, 0));
        finish_layer(w, layer, attended, dropout, x);
    }
    hidden.keep(config.num_layers, x);
    return logits(x);
}

LlamaModel::LlamaModel(std::unique_ptr<Impl> impl)
    : m_impl(std::move(impl)) {}
LlamaModel::~LlamaModel() = default;

void LlamaModel::keep_vocabulary(int64_t rows) {
    RL_ASSERT(rows > 0 && rows <= m_impl->config.vocab_size);
    const c10::InferenceMode guard;
    m_impl->config.vocab_size = rows;
    m_impl->weights.head = m_impl->weights.head.narrow(0, 0, rows);
}

const ModelConfig& LlamaModel::config() const {
    return m_impl->config;
}
at::Device LlamaModel::device() const {
    return m_impl->device;
}
at::ScalarType LlamaModel::dtype() const {
    return m_impl->dtype;
}
int64_t LlamaModel::weight_bytes() const {
    return m_impl->weights.bytes;
}

std::unique_ptr<KvCache> LlamaModel::make_cache(int64_t capacity) const {
    const ModelConfig& config = m_impl->config;
    try {
        return std::make_unique<KvCache>(config.num_layers, config.num_kv_heads, capacity, config.head_dim,
                                         m_impl->dtype, m_impl->device);
    } catch (const c10::Error& error) {
        throw Error("allocating a KV cache of", std::to_string(capacity) + " positions",
                    error.what_without_backtrace(), "is there enough memory on " + m_impl->device.str() + "?",
                    ErrorKind::failure);
    }
}

at::Tensor LlamaModel::extend(KvCache& cache, std::span<const int32_t> tokens, Rows rows, uint8_t origin,
                              AttentionCapture* capture, HiddenCapture* hidden) const {
    const c10::InferenceMode guard;
    m_impl->check_geometry(cache);
    RL_ASSERT(!tokens.empty());
    const auto n = static_cast<int64_t>(tokens.size());
    RL_ASSERT(cache.length() + n <= cache.capacity());
    RL_ASSERT(hidden == nullptr || rows == Rows::all);
    CaptureSink sink(capture, m_impl->config.num_layers);
    HiddenSink hidden_sink(hidden, m_impl->config, n);

    at::Tensor result;
    if (rows == Rows::all && n > chunk_rows) {
        result = at::empty({n, m_impl->config.vocab_size},
                           at::TensorOptions().dtype(at::kFloat).device(m_impl->device));
    }
    for (int64_t begin = 0; begin < n; begin += chunk_rows) {
        const int64_t count = std::min(chunk_rows, n - begin);
        const bool last = begin + count == n;
        const Rows chunk_wants = rows == Rows::last && !last ? Rows::none : rows;
        const auto chunk = tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
        at::Tensor chunk_result = m_impl->extend_chunk(cache, chunk, chunk_wants, static_cast<Origin>(origin),
                                                       last && sink.active() ? &sink : nullptr, hidden_sink);
        if (result.defined()) {
            result.narrow(0, begin, count).copy_(chunk_result);
        } else if (last) {
            result = std::move(chunk_result);
        }
    }
    return result;
}

LlamaModel::StepRows LlamaModel::step(KvCache& cache, int32_t token, uint8_t origin, const McRequest& mc,
                                      AttentionCapture* capture, HiddenCapture* hidden) const {
    const c10::InferenceMode guard;
    m_impl->check_geometry(cache);
    RL_ASSERT(cache.length() < cache.capacity());
    RL_ASSERT(mc.passes >= 0 && mc.p >= 0.0F && mc.p < 1.0F);
    CaptureSink sink(capture, m_impl->config.num_layers);
    HiddenSink hidden_sink(hidden, m_impl->config, 1);

    std::vector<int32_t> passes(static_cast<size_t>(mc.passes) + 1);
    std::iota(passes.begin(), passes.end(), 0);
    BatchDropout dropout;
    dropout.position = cache.length();
    StepRows result;
    // On the CPU all rows share one reading of the weights. On CUDA cuBLAS may round row 0 differently beside other
    // rows, so it runs apart: a probe must not change the text.
    const bool together = m_impl->device.is_cpu() && mc.passes > 0;
    if (together) {
        dropout.request = &mc;
        dropout.passes = passes;
        const at::Tensor rows =
            m_impl->step_rows(cache, token, true, dropout, mc.passes + 1, sink, hidden_sink);
        result.row = rows.select(0, 0);
        result.mc = rows.narrow(0, 1, mc.passes);
    } else {
        result.row = m_impl->step_rows(cache, token, true, dropout, 1, sink, hidden_sink).select(0, 0);
        if (mc.passes > 0) {
            dropout.request = &mc;
            dropout.passes = std::span(passes).subspan(1);
            CaptureSink nothing(nullptr, m_impl->config.num_layers);
            HiddenSink nothing_hidden(nullptr, m_impl->config, 0);
            result.mc = m_impl->step_rows(cache, token, false, dropout, mc.passes, nothing, nothing_hidden);
        }
    }
    cache.commit(1, static_cast<Origin>(origin));
    return result;
}

at::Tensor LlamaModel::faulty_step(KvCache& cache, int32_t token, uint8_t origin,
                                   const StepFault& fault) const {
    const c10::InferenceMode guard;
    m_impl->check_geometry(cache);
    RL_ASSERT(cache.length() + 1 + fault.mask_shift <= cache.capacity());
    BatchDropout dropout;
    dropout.position = cache.length();
    CaptureSink nothing(nullptr, m_impl->config.num_layers);
    HiddenSink nothing_hidden(nullptr, m_impl->config, 0);
    const at::Tensor row =
        m_impl->step_rows(cache, token, true, dropout, 1, nothing, nothing_hidden, fault).select(0, 0);
    cache.commit(1, static_cast<Origin>(origin));
    return row;
}

at::Tensor LlamaModel::read_only_step(const KvCache& cache, int32_t token, int64_t position,
                                      AttentionCapture* capture, HiddenCapture* hidden) const {
    const c10::InferenceMode guard;
    m_impl->check_geometry(cache);
    RL_ASSERT(position >= 0 && position < cache.length());
    const ModelConfig& config = m_impl->config;
    CaptureSink sink(capture, config.num_layers);
    HiddenSink hidden_sink(hidden, config, 1);
    const Sight sight(std::span(&position, 1), false);
    const auto [cos, sin] = m_impl->rope_rows(position, 1);
    at::Tensor x = m_impl->embed(std::span(&token, 1));
    for (int64_t layer = 0; layer < config.num_layers; ++layer) {
        const LlamaLayer& w = m_impl->weights.layers[static_cast<size_t>(layer)];
        hidden_sink.keep(layer, x);
        at::Tensor q = m_impl->queries(w, m_impl->normed(x, w.input_norm));
        kernels::rope_(q, cos, sin);
        at::Tensor probabilities;
        const bool captured = sink.wants(layer);
        const at::Tensor attended = kernels::attention(m_impl->attention_inputs(cache, layer, q, sight),
                                                       captured ? &probabilities : nullptr);
        if (captured) sink.keep(layer, probabilities.select(0, 0));
        m_impl->finish_layer(w, layer, attended, {}, x);
    }
    hidden_sink.keep(config.num_layers, x);
    return m_impl->logits(x).select(0, 0);
}

std::unique_ptr<LlamaModel> LlamaModel::from_weights(
    const ModelConfig& config,
    const std::function<at::Tensor(const std::string& name, at::IntArrayRef shape)>& weight,
    at::Device device, at::ScalarType dtype) {
    const c10::InferenceMode guard;
    auto impl = std::make_unique<Impl>();
    impl->config = config;
    impl->device = device;
    impl->dtype = dtype;
    impl->weights = LlamaWeights::gather(config, weight, device, dtype);
    impl->rope = RopeTable(config, device);
    return std::unique_ptr<LlamaModel>(new LlamaModel(std::move(impl)));
}

std::unique_ptr<LlamaModel> LlamaModel::load(const std::filesystem::path& folder, at::Device device,
                                             at::ScalarType dtype, const LoadProgress& progress) {
    const auto report = [&](double fraction, const std::string& what) {
        if (progress && !progress(fraction, what)) {
            throw Error("loading", folder.string(), "cancelled", {}, ErrorKind::failure);
        }
    };
    report(0.0, "config.json");
    const ModelConfig config = ModelConfig::load(folder);
    const Checkpoint checkpoint = Checkpoint::open(folder);
    refuse_unread_weights(config, checkpoint);
    const auto total = static_cast<double>(std::max<int64_t>(checkpoint.total_bytes(), 1));
    int64_t bytes = 0;
    const auto source = [&](const std::string& name, at::IntArrayRef shape) {
        report(std::min(1.0, static_cast<double>(bytes) / total), name);
        at::Tensor tensor = checkpoint.read(name, shape);
        require_finite(checkpoint, name, tensor, dtype);
        bytes += static_cast<int64_t>(tensor.nbytes());
        return tensor;
    };
    try {
        auto model = from_weights(config, source, device, dtype);
        report(1.0, "ready");
        return model;
    } catch (const c10::Error& error) {
        throw Error("loading", folder.string(), error.what_without_backtrace(),
                    "is there enough memory on " + device.str() + "?", ErrorKind::failure);
    }
}

std::unique_ptr<LlamaModel> random_llama(const ModelConfig& config, uint64_t seed, at::Device device,
                                         at::ScalarType dtype) {
    constexpr double deviation = 0.02; // initializer_range of the Llama configurations
    at::Generator generator = at::detail::createCPUGenerator(seed);
    const auto source = [&](const std::string& name, at::IntArrayRef shape) {
        const auto options = at::TensorOptions().dtype(at::kFloat);
        if (name.find("norm.weight") != std::string::npos) return at::ones(shape, options);
        return at::empty(shape, options).normal_(0.0, deviation, generator);
    };
    return LlamaModel::from_weights(config, source, device, dtype);
}

} // namespace refreshlab
