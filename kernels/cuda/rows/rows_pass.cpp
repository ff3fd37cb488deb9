#include "kernels/cuda/rows/rows_pass.h"

#include "kernels/decode/scratch.h"
#include "kernels/shared/check.h"

#include <algorithm>
#include <iterator>

namespace refreshlab::kernels::RL_GPU {

void RowsPass::reserve(int64_t rows, int64_t capacity, cudaStream_t stream) {
    if (rows <= m_rows && capacity <= m_capacity) return;
    m_rows = std::max(rows, m_rows);
    m_capacity = std::max(capacity, m_capacity);
    const auto memory = [](int64_t bytes) { return DeviceMemory(static_cast<size_t>(bytes)); };
    const decode::PassScratch scratch = decode::pass_scratch(shape_of(m_model, m_rows, m_capacity));
    m_tokens = memory(scratch.tokens);
    m_x = memory(scratch.x);
    m_h = memory(scratch.h);
    m_qkv = memory(scratch.qkv);
    m_attended = memory(scratch.attended);
    m_inner = memory(scratch.inner);
    m_parts = memory(scratch.parts);
    m_routed.reserve(scratch.experts, stream);
}

void RowsPass::run(const DeviceCache& cache, const DevicePass& pass, cudaStream_t stream) {
    m_pass_rows = std::ssize(pass.tokens);
    RL_ASSERT(m_pass_rows > 0 && m_pass_rows <= most_pass_rows && pass.first + m_pass_rows <= cache.capacity);
    reserve(m_pass_rows, cache.capacity, stream);
    m_onto = {}; // of a pass that failed
    // From the host's own memory: it has been read when the call returns.
    check(cudaMemcpyAsync(m_tokens.data(), pass.tokens.data(), pass.tokens.size_bytes(),
                          cudaMemcpyHostToDevice, stream),
          "copying tokens");
    RowsEmbedInputs embed;
    embed.type = m_model.type;
    embed.embedding = m_model.embedding.data;
    embed.form = m_model.embedding.form;
    embed.tokens = static_cast<const int32_t*>(m_tokens.data());
    embed.rows = m_pass_rows;
    embed.hidden = m_model.hidden;
    embed.scale = static_cast<float>(m_model.embedding_scale);
    embed.x = x(0);
    launch_rows_embed(embed, stream);
    for (size_t layer = 0; layer < m_model.layers.size(); ++layer)
        run_layer(cache, pass, layer, stream);
    if (pass.rows == DevicePass::Rows::none) return;
    const int64_t first = pass.rows == DevicePass::Rows::last ? m_pass_rows - 1 : 0;
    norm(m_model.final_norm, first, stream);
    RowsProductInputs head;
    head.type = m_model.type;
    head.in = m_h.data();
    head.matrix = m_model.head.data;
    head.form = m_model.head.form;
    head.rows = m_pass_rows - first;
    head.inputs = m_model.hidden;
    head.outputs = m_model.vocab;
    head.out = pass.logits;
    head.out_stride = m_model.vocab;
    head.cap = m_model.logit_cap;
    head.dependent = true;
    launch_rows_product(head, stream);
}

ProductParts RowsPass::parts_of(int64_t inputs, int64_t outputs) const {
    const int64_t count = rows::product_parts(m_model.type, inputs, outputs);
    return {count, count == 1 ? nullptr : static_cast<float*>(m_parts.data())};
}

void RowsPass::norm(const void* weight, int64_t first, cudaStream_t stream) {
    RowsNormInputs in;
    in.type = m_model.type;
    in.x = x(first);
    in.norm = weight;
    in.eps = m_model.norm_eps;
    in.norm_offset = m_model.norm_offset;
    in.rows = m_pass_rows - first;
    in.hidden = m_model.hidden;
    in.width = m_model.width;
    in.out = m_h.data();
    in.dependent = true;
    if (m_onto.parts > 0) {
        in.parts = {m_onto.parts, static_cast<float*>(m_parts.data())};
        in.parts_bias = m_onto.bias;
        in.onto_norm = m_onto.norm;
        m_onto = {};
    }
    launch_rows_norm(in, stream);
}

void RowsPass::project(const DeviceModel::Layer& layer, bool with_q, cudaStream_t stream) const {
    const DeviceMatrix& first = with_q ? layer.q : layer.k;
    RowsProductInputs product;
    product.type = m_model.type;
    product.in = m_h.data();
    product.matrix = first.data;
    product.bias = first.bias;
    product.form = first.form;
    product.rows = m_pass_rows;
    product.inputs = first.inputs;
    product.outputs = first.outputs;
    if (with_q) product.below[0] = {layer.k.data, layer.k.bias, layer.k.outputs};
    product.below[with_q ? 1 : 0] = {layer.v.data, layer.v.bias, layer.v.outputs};
    product.out = qkv(0);
    product.out_stride = columns(with_q);
    product.dependent = true;
    product.parts = qkv_parts();
    launch_rows_product(product, stream);
}

void RowsPass::onto(const DeviceMatrix& matrix, const void* norm_of_it, const void* in, int64_t first,
                    cudaStream_t stream) {
    RowsProductInputs product;
    product.type = m_model.type;
    product.in = in;
    product.matrix = matrix.data;
    product.bias = matrix.bias;
    product.form = matrix.form;
    product.rows = m_pass_rows - first;
    product.inputs = matrix.inputs;
    product.outputs = matrix.outputs;
    product.then = norm_of_it == nullptr ? RowsProductInputs::Then::onto : RowsProductInputs::Then::store;
    product.out = norm_of_it == nullptr ? x(first) : static_cast<float*>(m_parts.data());
    product.out_stride = m_model.hidden;
    product.dependent = true;
    product.parts = parts_of(matrix.inputs, matrix.outputs);
    const int64_t parts = product.parts.count;
    if (parts > 1 || norm_of_it != nullptr) m_onto = {parts, parts > 1 ? matrix.bias : nullptr, norm_of_it};
    launch_rows_product(product, stream);
}

void RowsPass::run_mlp(const DeviceModel::Layer& layer, int64_t first, cudaStream_t stream) {
    norm(layer.post_norm, first, stream);
    RowsProductInputs gated;
    gated.type = m_model.type;
    gated.then = RowsProductInputs::Then::gated;
    gated.activation = m_model.activation;
    gated.in = m_h.data();
    gated.matrix = layer.gate.data;
    gated.form = layer.gate.form;
    gated.bias = layer.gate.bias;
    gated.up = layer.up.data;
    gated.up_bias = layer.up.bias;
    gated.rows = m_pass_rows - first;
    gated.inputs = layer.gate.inputs;
    gated.outputs = layer.gate.outputs;
    gated.out = m_inner.data();
    gated.out_stride = m_model.ffn;
    gated.dependent = true;
    launch_rows_product(gated, stream);
    onto(layer.down, layer.down_norm, m_inner.data(), first, stream);
}

void RowsPass::run_experts(size_t index, int64_t first, cudaStream_t stream) {
    const DeviceModel::Layer& layer = m_model.layers[index];
    norm(layer.post_norm, first, stream); // and what x has still to get
    const int64_t rows = m_pass_rows - first;
    const RouterInputs router = router_inputs(m_model, index, x(first), nullptr, rows, m_routed);
    launch_router(router, stream);
    const ExpertMatrices* const experts = m_tables.of_layer(index);
    const bool whole = layer.down_norm == nullptr && m_model.type == WeightType::f32;
    float* const sums = whole ? x(first) : static_cast<float*>(m_parts.data());
    if (!whole)
        m_onto = {m_model.type == WeightType::f32 ? 1 : m_model.experts.used, nullptr, layer.down_norm};
    if (m_model.type == WeightType::f32) { // row by row
        launch_expert_gate_up(
            expert_gate_up_inputs(m_model, index, router, experts, static_cast<float*>(m_inner.data())),
            stream);
        launch_expert_down(expert_down_inputs(m_model, index, router, experts,
                                              static_cast<float*>(m_inner.data()), sums, whole),
                           stream);
        return;
    }
    ExpertRowsInputs in;
    in.type = m_model.type;
    in.experts = experts;
    in.routed = m_routed.routed();
    in.count = m_model.experts.count;
    in.used = m_model.experts.used;
    in.expert_width = m_model.experts.width;
    in.hidden = m_model.hidden;
    in.h = m_h.data();
    in.inner = m_inner.data();
    in.sums = sums;
    in.rows = rows;
    in.activation = m_model.activation;
    in.gate_up_form = layer.experts[0].gate.form;
    in.down_form = layer.experts[0].down.form;
    in.dependent = true;
    launch_expert_rows_gate_up(in, stream);
    launch_expert_rows_down(in, stream);
}

void RowsPass::run_layer(const DeviceCache& cache, const DevicePass& pass, size_t index,
                         cudaStream_t stream) {
    const DeviceModel::Layer& layer = m_model.layers[index];
    const bool last = index + 1 == m_model.layers.size(), ends = last && pass.rows == DevicePass::Rows::none;
    const bool with_q = layer.o.data != nullptr && !ends; // else nobody reads them
    norm(layer.input_norm, 0, stream);
    project(layer, with_q, stream);
    if (m_model.qk_norm_whole)
        launch_norm_rows(qk_norms(m_model, layer, qkv(0), with_q, m_pass_rows, nullptr), stream);
    RowsAppendInputs append{heads_of(m_model, layer, cache)};
    append.qkv = qkv(0);
    append.k_cache = of_layer(cache.k, cache, index);
    append.v_cache = of_layer(cache.v, cache, index);
    append.heads = with_q ? m_model.heads : 0;
    append.capacity = cache.capacity;
    append.rows = m_pass_rows;
    append.first = pass.first;
    append.dependent = true;
    append.parts = qkv_parts();
    append.q_bias = layer.q.bias;
    append.k_bias = layer.k.bias;
    append.v_bias = layer.v.bias;
    launch_rows_append(append, stream);

    // After the last layer's keys and values only rows that get logits go on.
    if (ends) return;
    const int64_t first = last && pass.rows == DevicePass::Rows::last ? m_pass_rows - 1 : 0;
    if (with_q) attend(cache, pass, index, first, stream);
    if (layer.router.data != nullptr) {
        run_experts(index, first, stream);
    } else if (layer.down.data != nullptr) {
        run_mlp(layer, first, stream);
    }
}

void RowsPass::attend(const DeviceCache& cache, const DevicePass& pass, size_t index, int64_t first,
                      cudaStream_t stream) {
    const DeviceModel::Layer& layer = m_model.layers[index];
    RowsAttentionInputs attention;
    attention.type = m_model.type;
    attention.qkv = qkv(first);
    attention.k_cache = of_layer(cache.k, cache, index);
    attention.v_cache = of_layer(cache.v, cache, index);
    attention.heads = m_model.heads;
    attention.kv_heads = m_model.kv_heads;
    attention.head_dim = m_model.head_dim;
    attention.capacity = cache.capacity;
    attention.rows = m_pass_rows - first;
    attention.first = pass.first + first;
    attention.window = layer.window;
    attention.query_scale = m_model.query_scale;
    attention.cap = m_model.attention_cap;
    attention.parts = static_cast<float*>(m_parts.data());
    attention.attended = m_attended.data();
    attention.dependent = true;
    launch_rows_attention(attention, stream);
    onto(layer.o, layer.o_norm, m_attended.data(), first, stream);
}

} // namespace refreshlab::kernels::RL_GPU
