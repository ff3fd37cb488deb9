#include "kernels/cuda/decode/decoder.h"

#include "kernels/cuda/decode/attention_rows.h"
#include "kernels/cuda/decode/decode_kernels.h"
#include "kernels/cuda/decode/device_lists.h"
#include "kernels/cuda/decode/mc_attention.h"
#include "kernels/cuda/decode/qkv_attention.h"
#include "kernels/cuda/device/runtime.h"
#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/cuda/rows/rows_pass.h"
#include "kernels/decode/scratch.h"
#include "kernels/ops/dropout_site.h"
#include "kernels/shared/check.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <list>
#include <new>
#include <utility>
#include <vector>

namespace refreshlab::kernels::RL_GPU {
namespace {

/// What a graph is made for: everything that its launches hold and no step changes.
struct GraphKey {
    DeviceCache cache;
    int64_t rows = 1;
    float dropout = 0;
    std::array<bool, 3> sites{};
    int64_t top_k = -1; ///< -1: no answers
    std::vector<AttentionTap> taps;
    bool entropies = false;

    bool operator==(const GraphKey&) const = default;
};

class Decoder final : public DeviceDecoder {
public:
    explicit Decoder(const DeviceModel& model)
        : m_model(model)
        , m_capture(make_stream())
        , m_tables(m_model, m_capture.get())
        , m_pass(m_model, m_tables)
        , m_state(sizeof(StepState))
        , m_host_states(host_states * sizeof(StepState))
        , m_answers(sizeof(DeviceAnswers)) {
        new (m_answers.data()) DeviceAnswers;
        const PinnedMemory windows(model.layers.size() * sizeof(int64_t));
        std::ranges::transform(model.layers, static_cast<int64_t*>(windows.data()),
                               &DeviceModel::Layer::window);
        m_windows = DeviceMemory(model.layers.size() * sizeof(int64_t));
        check(cudaMemcpyAsync(m_windows.data(), windows.data(), model.layers.size() * sizeof(int64_t),
                              cudaMemcpyHostToDevice, m_capture.get()),
              "copying windows");
        check(cudaStreamSynchronize(m_capture.get()), "copying windows");
    }

    void step(const DeviceCache& cache, const DeviceStep& step, void* stream_) override {
        auto* const stream = static_cast<cudaStream_t>(stream_);
        const bool drops = step.rows > 1 && step.dropout > 0;
        GraphKey key{cache,
                     step.rows,
                     drops ? step.dropout : 0,
                     {drops && step.drop_attention, drops && step.drop_attention_output,
                      drops && step.drop_mlp_output},
                     step.answers ? step.top_k : -1,
                     {step.taps.begin(), step.taps.end()},
                     step.entropies};
        RL_ASSERT(!step.entropies || step.answers);
        RL_ASSERT(step.temperature > 0 ? step.answers && step.share < 1 : step.share < 0);
        RL_ASSERT(cache.listed() == (step.lists != nullptr) && (!cache.listed() || step.answers));
        const Captured& captured = graph(key);

        // The copy is read when the stream comes to it; by then so many later steps cannot have been asked for.
        auto* const host = static_cast<StepState*>(m_host_states.data()) + m_next_host_state;
        m_next_host_state = (m_next_host_state + 1) % host_states;
        if (step.lists != nullptr) m_lists.change(*step.lists, stream);
        *host = {step.token,       static_cast<int32_t>(step.rows - 1),
                 step.asked,       step.position,
                 step.seed,        ++m_sequence,
                 step.temperature, step.share};
        m_stream = stream;
        check(cudaMemcpyAsync(m_state.data(), host, sizeof *host, cudaMemcpyHostToDevice, stream),
              "copying a step's state");
        check(cudaGraphLaunch(captured.graph.get(), stream), "starting a decode step");
        if (step.logits != nullptr) copy_logits(step.logits, step.rows, stream);
    }

    void copy_logits(float* to, int64_t rows, void* stream) override {
        check(cudaMemcpyAsync(to, m_logits.data(), static_cast<size_t>(rows * m_model.vocab) * sizeof(float),
                              cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream)),
              "copying logits");
    }

    void extend(const DeviceCache& cache, const DevicePass& pass, void* stream) override {
        m_pass.run(cache, pass, static_cast<cudaStream_t>(stream));
    }

    [[nodiscard]] const uint16_t* halves(size_t index) const override {
        const GraphKey& key = m_graphs.front().key;
        if (!key.taps[index].halves) return nullptr;
        return static_cast<const uint16_t*>(m_halves.data()) + row_numbers(key, index);
    }
    [[nodiscard]] const float* floats(size_t index) const override {
        const GraphKey& key = m_graphs.front().key;
        if (!key.taps[index].floats) return nullptr;
        return static_cast<const float*>(m_floats.data()) + row_numbers(key, index);
    }

    [[nodiscard]] const float* entropies() const override {
        return m_graphs.front().key.entropies ? static_cast<const float*>(m_host_entropies.data()) : nullptr;
    }

    [[nodiscard]] bool holds_lists(uint64_t cache, uint64_t version, int64_t list_capacity) const override {
        return m_lists.hold(cache, version, list_capacity);
    }
    [[nodiscard]] const void* left_rows() const override { return m_lists.left_rows(); }

    const DeviceAnswers& wait_for_answers() override {
        auto& answers = *static_cast<DeviceAnswers*>(m_answers.data());
        const std::atomic_ref<uint64_t> sequence(answers.sequence);
        for (int64_t looks = 0; sequence.load(std::memory_order_acquire) != m_sequence; ++looks) {
            if (looks % 4096 != 4095) continue;
            // A stream that is done, or failed, will not write it any more.
            const cudaError_t state = cudaStreamQuery(m_stream);
            if (state == cudaErrorNotReady) continue;
            check(state, "waiting for a decode step");
            if (sequence.load(std::memory_order_acquire) != m_sequence)
                throw DeviceFailure("CUDA: a decode step ended without its answers");
        }
        return answers;
    }

private:
    static constexpr size_t host_states = 8;
    static constexpr size_t most_graphs = 8; ///< sessions and numbers of rows that take turns

    struct Captured {
        GraphKey key;
        RunnableGraph graph;
    };

    /// The graph of a key, made where there is none; the one that was used last stands first.
    const Captured& graph(const GraphKey& key) {
        for (auto at = m_graphs.begin(); at != m_graphs.end(); ++at) {
            if (!(at->key == key)) continue;
            m_graphs.splice(m_graphs.begin(), m_graphs, at);
            return m_graphs.front();
        }
        reserve(key.rows, key.cache.entries());
        reserve_rows(key);
        if (key.cache.listed() && m_lists.reserve(planes(), row_bytes(), key.cache.list_capacity))
            m_graphs.clear();
        if (m_graphs.size() >= most_graphs) m_graphs.pop_back();
        m_graphs.push_front({key, capture(m_capture.get(), [&] { launch_all(key); })});
        return m_graphs.front();
    }

    /// Where the row of a tap begins.
    [[nodiscard]] size_t row_numbers(const GraphKey& key, size_t index) const {
        return index * static_cast<size_t>(m_model.heads * key.cache.entries());
    }
    static bool any(const GraphKey& key, bool AttentionTap::*form) {
        return std::ranges::any_of(key.taps, [form](const AttentionTap& tap) { return tap.*form; });
    }
    /// What attention rows need, where a graph wants some.
    void reserve_rows(const GraphKey& key) {
        const auto taps = static_cast<int64_t>(key.taps.size());
        const int64_t numbers = taps * m_model.heads * key.cache.entries();
        const bool halves = any(key, &AttentionTap::halves), floats_too = any(key, &AttentionTap::floats);
        if (taps == 0 ||
            (taps <= m_taps && numbers <= m_row_numbers && (!halves || m_halves.data() != nullptr) &&
             (!floats_too || m_floats.data() != nullptr)))
            return;
        m_graphs.clear();
        m_taps = std::max(taps, m_taps);
        m_row_numbers = std::max(numbers, m_row_numbers);
        m_scores = floats(m_row_numbers);
        m_score_sums = floats(m_taps * m_model.heads * 2);
        const auto pinned = static_cast<size_t>(m_row_numbers);
        if (halves || m_halves.data() != nullptr) m_halves = PinnedMemory(pinned * sizeof(uint16_t));
        if (floats_too || m_floats.data() != nullptr) m_floats = PinnedMemory(pinned * sizeof(float));
    }
    /// Buffers of the largest step so far. Graphs hold their addresses, so they go when the buffers grow.
    void reserve(int64_t rows, int64_t capacity) {
        if (rows <= m_rows && capacity <= m_capacity) return;
        m_graphs.clear();
        m_rows = std::max(rows, m_rows);
        m_capacity = std::max(capacity, m_capacity);
        const decode::StepScratch scratch = decode::step_scratch(shape_of(m_model, m_rows, m_capacity));
        m_x = floats(scratch.x);
        m_branch = floats(scratch.branch);
        m_qkv = floats(scratch.qkv);
        m_attended = floats(scratch.attended);
        m_inner = floats(scratch.inner);
        m_routed.reserve(scratch.experts, m_capture.get());
        m_logits = floats(scratch.logits);
        m_parts = floats(scratch.parts);
        m_answer_sums = DeviceMemory(static_cast<size_t>(scratch.answer_sums));
        m_answer_keys = DeviceMemory(static_cast<size_t>(scratch.answer_keys));
        m_answer_weights = DeviceMemory(static_cast<size_t>(scratch.answer_weights));
        m_asked = DeviceMemory(sizeof(float));
        m_answer_arrived = cleared(scratch.answer_counters);
        m_entropy_parts = floats(scratch.entropy_parts);
        m_entropies = cleared(scratch.entropies * static_cast<int64_t>(sizeof(float)));
        m_host_entropies = PinnedMemory(static_cast<size_t>(scratch.entropies) * sizeof(float));
        m_arrived = cleared(scratch.counters);
        check(cudaStreamSynchronize(m_capture.get()), "clearing counters");
    }
    [[nodiscard]] int64_t planes() const { return std::ssize(m_model.layers) * m_model.kv_heads; }
    [[nodiscard]] int64_t row_bytes() const { return m_model.head_dim * bytes_of(m_model.type); }
    /// Zeros, once the stream has come so far.
    [[nodiscard]] DeviceMemory cleared(int64_t bytes) const {
        DeviceMemory memory(static_cast<size_t>(bytes));
        check(cudaMemsetAsync(memory.data(), 0, static_cast<size_t>(bytes), m_capture.get()),
              "clearing counters");
        return memory;
    }
    static DeviceMemory floats(int64_t n) { return DeviceMemory(static_cast<size_t>(n) * sizeof(float)); }

    [[nodiscard]] const StepState* state() const { return static_cast<const StepState*>(m_state.data()); }
    static float* data(const DeviceMemory& memory) { return static_cast<float*>(memory.data()); }

    /// The launches of a step, in order (kernels/decode/decode_plan.h counts them).
    void launch_all(const GraphKey& key) {
        cudaStream_t const stream = m_capture.get();
        // What comes after it begins when the lists are edited: embed waits for it whole, and every later kernel begins after embed has.
        if (key.cache.listed()) launch_list_edits(m_lists.edits(), stream);
        EmbedInputs embed;
        embed.type = m_model.type;
        embed.embedding = m_model.embedding.data;
        embed.form = m_model.embedding.form;
        embed.state = state();
        embed.x = data(m_x);
        embed.rows = key.rows;
        embed.hidden = m_model.hidden;
        embed.scale = static_cast<float>(m_model.embedding_scale);
        launch_embed(embed, stream);
        for (size_t i = 0; i < m_model.layers.size(); ++i)
            launch_layer(key, i, stream);
        if (!key.taps.empty()) launch_rows(key, stream);
        HeadInputs head;
        with_norm(head, key, m_model.final_norm);
        head.head = m_model.head;
        head.logits = data(m_logits);
        head.cap = m_model.logit_cap;
        if (key.top_k >= 0)
            head.answers = {static_cast<DeviceAnswers*>(seen_by_device(m_answers)),
                            key.top_k,
                            static_cast<shared::SoftmaxSums*>(m_answer_sums.data()),
                            static_cast<uint64_t*>(m_answer_keys.data()),
                            static_cast<uint32_t*>(m_answer_arrived.data()),
                            data(m_asked),
                            static_cast<double*>(m_answer_weights.data())};
        if (key.entropies) {
            head.answers.numbers = data(m_entropies);
            head.answers.numbers_to = static_cast<float*>(seen_by_device(m_host_entropies));
            head.answers.num_numbers = std::ssize(m_model.layers) * m_model.heads;
        }
        launch_head(head, stream);
    }

    void launch_rows(const GraphKey& key, cudaStream_t stream) {
        AttentionRowsInputs rows;
        rows.state = state();
        rows.scores = data(m_scores);
        rows.score_sums = data(m_score_sums);
        rows.windows = static_cast<const int64_t*>(m_windows.data());
        if (any(key, &AttentionTap::halves)) rows.halves = static_cast<uint16_t*>(seen_by_device(m_halves));
        if (any(key, &AttentionTap::floats)) rows.floats = static_cast<float*>(seen_by_device(m_floats));
        rows.taps = static_cast<int64_t>(key.taps.size());
        rows.heads = m_model.heads;
        rows.capacity = key.cache.entries();
        if (key.cache.listed()) {
            rows.entries = m_lists.entries(0);
            rows.counts = m_lists.counts(0);
            rows.kv_heads = m_model.kv_heads;
        }
        for (size_t i = 0; i < key.taps.size(); ++i)
            rows.layers[i] = static_cast<uint16_t>(key.taps[i].layer);
        for (const AttentionTap& tap : key.taps) {
            if (!tap.halves) continue;
            RL_ASSERT(tap.bins >= 0 && (rows.bins == 0 || rows.bins == tap.bins));
            rows.bins = tap.bins;
        }
        RL_ASSERT(rows.bins > 0 || !key.cache.listed() || rows.halves == nullptr);
        rows.dependent = true;
        launch_attention_rows(rows, stream);
    }

    /// What the products after a norm have in common.
    void with_norm(NormedInputs& in, const GraphKey& key, const void* norm) const {
        in.type = m_model.type;
        in.state = state();
        in.x = data(m_x);
        in.norm = norm;
        in.hidden = m_model.hidden;
        in.width = m_model.width;
        in.eps = m_model.norm_eps;
        in.norm_offset = m_model.norm_offset;
        in.rows = key.rows;
        in.dependent = true;
    }

    void launch_layer(const GraphKey& key, size_t index, cudaStream_t stream) {
        const DeviceModel::Layer& layer = m_model.layers[index];
        if (layer.o.data == nullptr) {
            launch_columns(key, index, stream);
        } else {
            launch_attention(key, index, stream);
        }
        if (layer.router.data != nullptr) return launch_experts(key, index, stream);
        if (layer.down.data == nullptr) return;
        NormGateUpInputs gated;
        with_norm(gated, key, layer.post_norm);
        gated.gate = layer.gate;
        gated.up = layer.up;
        gated.inner = data(m_inner);
        gated.activation = m_model.activation;
        launch_norm_gate_up(gated, stream);
        launch_onto(key, layer.down, layer.down_norm, data(m_inner),
                    dropout(key, index, DropoutSite::mlp_output), stream);
    }

    void launch_experts(const GraphKey& key, size_t index, cudaStream_t stream) {
        const DeviceModel::Layer& layer = m_model.layers[index];
        const RouterInputs router = router_inputs(m_model, index, data(m_x), state(), key.rows, m_routed);
        launch_router(router, stream);
        const ExpertMatrices* const experts = m_tables.of_layer(index);
        launch_expert_gate_up(expert_gate_up_inputs(m_model, index, router, experts, data(m_inner)), stream);
        const bool adds = layer.down_norm == nullptr;
        ExpertDownInputs down = expert_down_inputs(m_model, index, router, experts, data(m_inner),
                                                   data(adds ? m_x : m_branch), adds);
        const BranchDropout masks = dropout(key, index, DropoutSite::mlp_output);
        if (adds) down.dropout = masks;
        launch_expert_down(down, stream);
        if (!adds) launch_branch_norm(key, layer.down_norm, masks, stream);
    }

    /// What the cache gets of a layer whose attention is left out: of the token's row alone, as nobody reads those of MC rows.
    void launch_columns(const GraphKey& key, size_t index, cudaStream_t stream) {
        const DeviceModel::Layer& layer = m_model.layers[index];
        NormProductInputs columns;
        with_norm(columns, key, layer.input_norm);
        columns.matrices[0] = layer.k;
        columns.matrices[1] = layer.v;
        columns.out = data(m_qkv);
        columns.rows = 1;
        launch_norm_product(columns, stream);
        RowsAppendInputs append{heads_of(m_model, layer, key.cache)};
        append.qkv = data(m_qkv);
        if (m_model.qk_norm_whole)
            launch_norm_rows(qk_norms(m_model, layer, data(m_qkv), false, 1, state()), stream);
        append.k_cache = of_layer(key.cache.k, key, index);
        append.v_cache = of_layer(key.cache.v, key, index);
        append.capacity = key.cache.capacity;
        append.rows = 1;
        append.position = &state()->position;
        append.dependent = true;
        launch_rows_append(append, stream);
    }
    [[nodiscard]] std::byte* of_layer(void* cache, const GraphKey& key, size_t index) const {
        const auto layer_bytes = static_cast<size_t>(m_model.kv_heads * key.cache.capacity *
                                                     m_model.head_dim * bytes_of(m_model.type));
        return static_cast<std::byte*>(cache) + index * layer_bytes;
    }

    void launch_attention(const GraphKey& key, size_t index, cudaStream_t stream) {
        const DeviceModel::Layer& layer = m_model.layers[index];
        NormProductInputs qkv;
        with_norm(qkv, key, layer.input_norm);
        qkv.matrices[0] = layer.q;
        qkv.matrices[1] = layer.k;
        qkv.matrices[2] = layer.v;
        qkv.out = data(m_qkv);
        DecodeAttentionInputs attention{heads_of(m_model, layer, key.cache)};
        attention.state = state();
        attention.qkv = data(m_qkv);
        attention.query_scale = m_model.query_scale;
        attention.cap = m_model.attention_cap;
        if (key.cache.listed()) {
            const auto plane = static_cast<int64_t>(index) * m_model.kv_heads;
            attention.k_cache = key.cache.pools[index].k;
            attention.v_cache = key.cache.pools[index].v;
            attention.entries = m_lists.entries(plane);
            attention.counts = m_lists.counts(plane);
        } else {
            attention.k_cache = of_layer(key.cache.k, key, index);
            attention.v_cache = of_layer(key.cache.v, key, index);
        }
        attention.heads = m_model.heads;
        attention.capacity = key.cache.entries();
        attention.window = layer.window;
        attention.dropout = dropout(key, index, DropoutSite::attention);
        attention.parts = data(m_parts);
        attention.arrived = static_cast<uint32_t*>(m_arrived.data());
        attention.attended = data(m_attended);
        const auto tap = std::ranges::find(key.taps, static_cast<int64_t>(index), &AttentionTap::layer);
        if (tap != key.taps.end()) {
            const int64_t i = tap - key.taps.begin();
            attention.scores = data(m_scores) + i * m_model.heads * key.cache.entries();
            attention.score_sums = data(m_score_sums) + i * m_model.heads * 2;
        }
        if (key.entropies) {
            attention.entropies = data(m_entropies) + static_cast<int64_t>(index) * m_model.heads;
            attention.entropy_parts = data(m_entropy_parts);
        }
        // Through lists MC rows go with the token's row, one by one.
        const bool apart = key.rows > 1 && decode::mc_rows_apart(m_model.type) && !key.cache.listed();
        attention.rows = apart ? 1 : key.rows;
        attention.dependent = true;
        if (const QkvAttentionInputs joined{qkv, attention};
            !m_model.qk_norm_whole && runs_qkv_attention(joined)) {
            launch_qkv_attention(joined, stream);
        } else {
            launch_norm_product(qkv, stream);
            if (m_model.qk_norm_whole)
                launch_norm_rows(qk_norms(m_model, layer, data(m_qkv), true, key.rows, state()), stream);
            launch_decode_attention(attention, stream);
            if (apart) launch_mc_rows(attention, key.rows, stream);
        }
        launch_onto(key, layer.o, layer.o_norm, data(m_attended),
                    dropout(key, index, DropoutSite::attention_output), stream);
    }

    /// Attention of the MC rows, beside that of the token's row.
    static void launch_mc_rows(const DecodeAttentionInputs& of_token, int64_t rows, cudaStream_t stream) {
        McAttentionInputs in{static_cast<const HeadsInputs&>(of_token)};
        in.state = of_token.state;
        in.qkv = of_token.qkv;
        in.query_scale = of_token.query_scale;
        in.cap = of_token.cap;
        in.k_cache = of_token.k_cache;
        in.v_cache = of_token.v_cache;
        in.heads = of_token.heads;
        in.capacity = of_token.capacity;
        in.window = of_token.window;
        in.dropout = of_token.dropout;
        // Behind the token's share of the scratch, 16 bytes aligned.
        const int64_t parts = in.heads * decode::splits(in.capacity) * (in.head_dim + 2);
        in.parts = of_token.parts + (parts + 3) / 4 * 4;
        in.arrived = of_token.arrived + in.kv_heads;
        in.attended = of_token.attended;
        in.rows = rows;
        in.dependent = true;
        launch_mc_attention(in, stream);
    }

    /// x += dropout(m * in), or with a norm of it.
    void launch_onto(const GraphKey& key, const DeviceMatrix& m, const void* norm, const float* in,
                     const BranchDropout& dropout, cudaStream_t stream) {
        ProductOntoInputs onto;
        onto.type = m_model.type;
        onto.state = state();
        onto.in = in;
        onto.matrix = m;
        onto.rows = key.rows;
        onto.dependent = true;
        onto.adds = norm == nullptr;
        onto.x = data(onto.adds ? m_x : m_branch);
        if (onto.adds) onto.dropout = dropout;
        launch_product_onto(onto, stream);
        if (!onto.adds) launch_branch_norm(key, norm, dropout, stream);
    }
    /// x += dropout(norm of the branch).
    void launch_branch_norm(const GraphKey& key, const void* norm, const BranchDropout& dropout,
                            cudaStream_t stream) {
        NormRowsInputs normed;
        normed.type = m_model.type;
        normed.state = state();
        normed.runs[0] = {data(m_branch), data(m_x), norm, m_model.hidden, m_model.width};
        normed.in_stride = normed.out_stride = m_model.hidden;
        normed.eps = m_model.norm_eps;
        normed.norm_offset = m_model.norm_offset;
        normed.dropout = dropout;
        normed.rows = key.rows;
        normed.adds = normed.dependent = true;
        launch_norm_rows(normed, stream);
    }

    static BranchDropout dropout(const GraphKey& key, size_t layer, DropoutSite site) {
        const bool drops = key.sites[static_cast<size_t>(site)];
        return {drops ? key.dropout : 0.0F, static_cast<uint32_t>(layer), static_cast<uint32_t>(site)};
    }

    DeviceModel m_model;
    DeviceStream m_capture;
    ExpertTables m_tables;
    RowsPass m_pass;
    DeviceMemory m_state;
    PinnedMemory m_host_states;
    PinnedMemory m_answers;
    size_t m_next_host_state = 0;
    uint64_t m_sequence = 0;
    cudaStream_t m_stream = nullptr; ///< of the last step
    int64_t m_rows = 0, m_capacity = 0;
    RoutedRows m_routed;
    DeviceMemory m_x, m_branch, m_qkv, m_attended, m_inner, m_logits, m_parts, m_arrived;
    DeviceMemory m_scores, m_score_sums, m_windows, m_entropy_parts, m_entropies;
    PinnedMemory m_halves, m_floats, m_host_entropies;
    int64_t m_taps = 0, m_row_numbers = 0;
    DecoderLists m_lists;
    DeviceMemory m_asked, m_answer_sums, m_answer_weights, m_answer_keys, m_answer_arrived;
    std::list<Captured> m_graphs;
};

} // namespace

std::unique_ptr<DeviceDecoder> make_decoder(const DeviceModel& model) {
    return std::make_unique<Decoder>(model);
}

} // namespace refreshlab::kernels::RL_GPU
