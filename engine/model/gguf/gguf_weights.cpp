#include "engine/model/gguf/gguf_weights.h"

#include "engine/base/check.h"
#include "engine/model/checkpoint/fused_weights.h"
#include "engine/model/gguf/gguf_config.h"
#include "kernels/blocks/blocks.h"
#include "kernels/execution/thread_pool.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

namespace refreshlab {

namespace {

/// Tensors that gguf_config() reads.
constexpr std::string_view rope_tensors[] = {"rope_freqs.weight", "rope_factors_short.weight",
                                             "rope_factors_long.weight"};

using Names = std::pair<std::string_view, std::string_view>;

/// What a tensor of a layer is called elsewhere, without "model.layers.N." and "blk.N.".
constexpr Names layer_names[] = {{"input_layernorm", "attn_norm"},
                                 {"self_attn.q_proj", "attn_q"},
                                 {"self_attn.k_proj", "attn_k"},
                                 {"self_attn.v_proj", "attn_v"},
                                 {"self_attn.o_proj", "attn_output"},
                                 {"self_attn.q_norm", "attn_q_norm"},
                                 {"self_attn.k_norm", "attn_k_norm"},
                                 {"pre_feedforward_layernorm", "ffn_norm"},
                                 {"post_feedforward_layernorm", "post_ffw_norm"},
                                 {"mlp.gate_proj", "ffn_gate"},
                                 {"mlp.up_proj", "ffn_up"},
                                 {"mlp.down_proj", "ffn_down"},
                                 {"mlp.gate", "ffn_gate_inp"},
                                 {"block_sparse_moe.gate", "ffn_gate_inp"},
                                 {"self_attn.qkv_proj", "attn_qkv"},
                                 {"mlp.gate_up_proj", "ffn_up"}};
/// The same of an expert's matrices: one tensor holds those of all experts.
constexpr Names expert_names[] = {{"gate_proj", "ffn_gate_exps"}, {"up_proj", "ffn_up_exps"},
                                  {"down_proj", "ffn_down_exps"}, {"w1", "ffn_gate_exps"},
                                  {"w3", "ffn_up_exps"},          {"w2", "ffn_down_exps"}};
constexpr Names other_names[] = {{"model.embed_tokens.weight", "token_embd.weight"},
                                 {"model.norm.weight", "output_norm.weight"},
                                 {"lm_head.weight", "output.weight"}};

std::string_view name_of(std::span<const Names> names, std::string_view name) {
    const auto found = std::ranges::find(names, name, &Names::first);
    RL_ASSERT(found != names.end());
    return found->second;
}

/// Rows of all weights that a tensor holds.
int64_t rows_of(const std::vector<int64_t>& shape) {
    return shape.size() == 3 ? shape[0] * shape[1] : shape[0];
}

/// The element type in which plain floats are copied; nothing for blocks.
std::optional<at::ScalarType> plain_type(const GgufType& type) {
    if (type.name == "F32") return at::kFloat;
    if (type.name == "F16") return at::kHalf;
    if (type.name == "BF16") return at::kBFloat16;
    return std::nullopt;
}

/// Rows of `row_bytes` bytes each, in the order that `blocks` says.
void copy_rows(const GgufWeights::Blocks& blocks, int64_t rows, int64_t row_bytes, std::byte* out) {
    const std::byte* const from = blocks.tensor->bytes.data();
    if (blocks.head_dim == 0) {
        std::memcpy(out, from + blocks.first * row_bytes, static_cast<size_t>(rows * row_bytes));
        return;
    }
    for (int64_t row = 0; row < rows; ++row)
        std::memcpy(out + row * row_bytes, from + blocks.source_row(row) * row_bytes,
                    static_cast<size_t>(row_bytes));
}

/// The kernels' name of a type that they multiply as it is.
std::optional<kernels::BlockType> packed_type(const GgufType& type) {
    if (type.name == "Q8_0") return kernels::BlockType::q8_0;
    if (type.name == "Q4_0") return kernels::BlockType::q4_0;
    if (type.name == "Q4_1") return kernels::BlockType::q4_1;
    return std::nullopt;
}

/// Blocks as fp32 or bf16, row by row.
template <typename Out>
void unpack_rows(const GgufWeights::Blocks& blocks, int64_t rows, int64_t width, Out* out) {
    const GgufType& type = *blocks.tensor->type;
    const int64_t blocks_of_row = width / type.block;
    const std::byte* const from = blocks.tensor->bytes.data();
    constexpr int64_t least_elements = int64_t{1} << 16; // of a thread's piece
    kernels::parallel_for(rows, least_elements / width + 1, [&](int64_t begin, int64_t end) {
        std::vector<float> row_values(static_cast<size_t>(width));
        for (int64_t row = begin; row < end; ++row) {
            type.unpack(from + blocks.source_row(row) * blocks_of_row * type.block_bytes, blocks_of_row,
                        row_values.data());
            std::transform(row_values.begin(), row_values.end(), out + row * width,
                           [](float value) { return static_cast<Out>(value); });
        }
    });
}

void unpack_into(at::Tensor& out, const GgufWeights::Blocks& blocks, int64_t rows, int64_t width) {
    if (out.scalar_type() == at::kFloat)
        unpack_rows(blocks, rows, width, out.mutable_data_ptr<float>());
    else
        unpack_rows(blocks, rows, width, out.mutable_data_ptr<at::BFloat16>());
}

} // namespace

int64_t GgufWeights::Blocks::source_row(int64_t row) const {
    if (head_dim == 0) return first + row;
    const int64_t within = row % head_dim, half = head_dim / 2;
    return first + row - within + 2 * (within % half) + within / half;
}

GgufWeights::Place GgufWeights::place_of(const ModelConfig& config, const WeightPlace& place) {
    Place result;
    result.rows = place.stored[0];
    const StoredRows rows = stored_rows(config, place);
    const auto several = [&](int64_t first, std::vector<int64_t> whole) {
        result.blocks.first = first;
        result.blocks.whole = std::move(whole);
    };
    if (rows.tensor != place.name) several(rows.first, rows.shape);
    if (place.layer < 0) {
        result.tensor = name_of(other_names, place.name);
    } else {
        const std::string stem = fmt::format("model.layers.{}.", place.layer);
        const size_t dot = rows.tensor.rfind('.');
        const std::string part = rows.tensor.substr(stem.size(), dot - stem.size()),
                          kind = rows.tensor.substr(dot);
        constexpr std::string_view experts = ".experts.";
        std::string_view theirs;
        if (const size_t at = part.find(experts); at != std::string::npos) {
            const size_t number = at + experts.size(), end = part.find('.', number);
            const int64_t expert = std::stoll(part.substr(number, end - number));
            several(expert * place.stored[0], {config.experts.count, place.stored[0], place.stored[1]});
            theirs = name_of(expert_names, part.substr(end + 1));
        } else if (part == "post_attention_layernorm") { // what it is depends on the block
            theirs = config.branch_norms ? "post_attention_norm" : "ffn_norm";
        } else {
            theirs = name_of(layer_names, part);
        }
        result.tensor = fmt::format("blk.{}.{}{}", place.layer, theirs, kind);
    }
    if (place.name.ends_with("norm.weight")) result.blocks.offset = config.norm_offset;
    return result;
}

GgufWeights::GgufWeights(std::shared_ptr<const GgufFile> file, const ModelConfig& config)
    : m_file(std::move(file)) {
    const bool pairs = gguf_rows_in_pairs(*m_file);
    std::set<std::string, std::less<>> known(std::begin(rope_tensors), std::end(rope_tensors));
    LlamaWeights{}.visit(config, [&](const WeightPlace& at, const at::Tensor&) {
        Place place = place_of(config, at);
        place.blocks.tensor = m_file->tensor(place.tensor);
        const bool turned =
            at.name.find(".q_proj.") != std::string::npos || at.name.find(".k_proj.") != std::string::npos;
        place.blocks.head_dim = pairs && turned ? config.head_dim : 0;
        known.insert(place.tensor);
        m_places.emplace(at.name, std::move(place));
    });
    for (const GgufTensor& tensor : m_file->tensors()) {
        m_total_bytes += static_cast<int64_t>(tensor.bytes.size());
        if (!known.contains(tensor.name))
            m_file->fail_tensor(tensor.name, fmt::format("has no place in a {} model of {} layers",
                                                         config.model_type, config.num_layers));
    }
}

const GgufWeights::Place* GgufWeights::find(const std::string& name) const {
    const auto found = m_places.find(name);
    return found == m_places.end() || found->second.blocks.tensor == nullptr ? nullptr : &found->second;
}

std::vector<std::string> GgufWeights::names() const {
    std::vector<std::string> result;
    for (const auto& [name, place] : m_places)
        if (place.blocks.tensor != nullptr) result.push_back(name);
    return result;
}

std::filesystem::path GgufWeights::file_of(const std::string& /*name*/) const {
    return m_file->name();
}

std::string GgufWeights::stored_name(const std::string& name) const {
    const auto found = m_places.find(name);
    return found == m_places.end() ? name : found->second.tensor;
}

void GgufWeights::check(const std::string& name, at::IntArrayRef shape) const {
    const Place* const place = find(name);
    if (place == nullptr) m_file->fail_tensor(stored_name(name), "missing");
    const Blocks& blocks = place->blocks;
    const GgufTensor& tensor = *blocks.tensor;
    const at::IntArrayRef asked = blocks.whole.empty() ? shape : at::IntArrayRef(blocks.whole);
    if (asked != at::IntArrayRef(tensor.shape)) {
        m_file->fail_tensor(tensor.name, fmt::format("its shape is [{}], the metadata ask for [{}]",
                                                     fmt::join(tensor.shape, ", "), fmt::join(asked, ", ")));
    }
    if (!plain_type(*tensor.type) && shape.size() == 1 && blocks.head_dim != 0)
        m_file->fail_tensor(tensor.name, fmt::format("its type is {}, and a bias must be F32, F16 or BF16",
                                                     tensor.type->name));
}

at::Tensor GgufWeights::read(const std::string& name, at::IntArrayRef shape, at::ScalarType wanted) const {
    check(name, shape);
    const Blocks& blocks = find(name)->blocks;
    const GgufTensor& tensor = *blocks.tensor;
    const int64_t rows = shape.front(); // of a vector: its elements
    const int64_t width = shape.size() > 1 ? shape[1] : 1;
    const auto plain = plain_type(*tensor.type);
    const at::ScalarType dtype = plain ? *plain : wanted == at::kBFloat16 ? at::kBFloat16 : at::kFloat;
    at::Tensor result = at::empty(shape, at::TensorOptions().dtype(dtype).device(at::kCPU));
    if (plain) {
        copy_rows(blocks, rows, width * tensor.type->block_bytes,
                  static_cast<std::byte*>(result.mutable_data_ptr()));
    } else if (shape.size() == 1) {
        unpack_into(result, blocks, 1, rows);
    } else {
        unpack_into(result, blocks, rows, width);
    }
    return blocks.offset == 0 ? result : result.to(at::kFloat) - blocks.offset;
}

bool GgufWeights::stays_in_blocks(const std::string& name, at::IntArrayRef shape) const {
    const Place* const place = find(name);
    return place != nullptr && shape.size() == 2 && kernels::can_pack_blocks(shape[0], shape[1]) &&
           packed_type(*place->blocks.tensor->type).has_value();
}

at::Tensor GgufWeights::read_blocks(const std::string& name, at::IntArrayRef shape) const {
    check(name, shape);
    if (!stays_in_blocks(name, shape)) return {};
    const Blocks& blocks = find(name)->blocks;
    const GgufType& type = *blocks.tensor->type;
    const int64_t row_bytes = shape[1] / type.block * type.block_bytes;
    return kernels::pack_blocks(*packed_type(type), shape[0], shape[1], [&](int64_t row) {
        return blocks.tensor->bytes.data() + blocks.source_row(row) * row_bytes;
    });
}

int64_t GgufWeights::stored_bytes(const std::string& name) const {
    const Place* const place = find(name);
    if (place == nullptr) return 0;
    const auto bytes = static_cast<int64_t>(place->blocks.tensor->bytes.size());
    return place->blocks.whole.empty() ? bytes : bytes / rows_of(place->blocks.whole) * place->rows;
}

int64_t GgufWeights::total_bytes() const {
    return m_total_bytes;
}

std::string GgufWeights::stored_types() const {
    std::vector<std::pair<std::string, int64_t>> bytes;
    for (const GgufTensor& tensor : m_file->tensors())
        bytes.emplace_back(tensor.type->name, static_cast<int64_t>(tensor.bytes.size()));
    return types_by_bytes(bytes);
}

const GgufWeights::Blocks& GgufWeights::blocks(const std::string& name) const {
    const Place* const place = find(name);
    RL_ASSERT(place != nullptr);
    return place->blocks;
}

} // namespace refreshlab
