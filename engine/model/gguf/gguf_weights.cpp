#include "engine/model/gguf/gguf_weights.h"

#include "engine/base/check.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "kernels/blocks/blocks.h"
#include "kernels/execution/thread_pool.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace refreshlab {

namespace {

constexpr const char* rope_factors = "rope_freqs.weight"; // read by gguf_config()

/// What a tensor of a layer is called elsewhere, without "blk.N." and "model.layers.N.".
constexpr std::pair<std::string_view, std::string_view> layer_names[] = {
    {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"}};

constexpr std::pair<std::string_view, std::string_view> other_names[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"}};

/// The Hugging Face name of a tensor; nothing for one that no model of ours has.
std::optional<std::string> hugging_face_name(std::string_view name) {
    for (const auto& [theirs, ours] : other_names) {
        if (theirs == name) return std::string(ours);
    }
    constexpr std::string_view block = "blk.";
    if (!name.starts_with(block)) return std::nullopt;
    const char* const digits = name.data() + block.size();
    const char* const end = name.data() + name.size();
    int64_t layer = 0;
    const auto [stop, code] = std::from_chars(digits, end, layer);
    const bool spelt_once =
        code == std::errc() && (*digits != '0' || stop == digits + 1); // "00" is no other spelling of 0
    if (!spelt_once || layer < 0 || stop == end || *stop != '.') return std::nullopt;
    const std::string_view rest(stop + 1, static_cast<size_t>(end - stop - 1));
    const size_t dot = rest.rfind('.');
    if (dot == std::string_view::npos) return std::nullopt;
    const std::string_view part = rest.substr(0, dot), kind = rest.substr(dot);
    if (kind != ".weight" && kind != ".bias") return std::nullopt;
    for (const auto& [theirs, ours] : layer_names) {
        if (theirs == part) return fmt::format("model.layers.{}.{}{}", layer, ours, kind);
    }
    return std::nullopt;
}

/// The other way round, for messages about what is not there.
std::string name_in_file(std::string_view name) {
    for (const auto& [theirs, ours] : other_names) {
        if (ours == name) return std::string(theirs);
    }
    constexpr std::string_view layers = "model.layers.";
    const size_t number = name.find('.', layers.size()), kind = name.rfind('.');
    if (!name.starts_with(layers) || number >= kind) return std::string(name);
    for (const auto& [theirs, ours] : layer_names) {
        if (ours == name.substr(number + 1, kind - number - 1))
            return fmt::format("blk.{}.{}{}", name.substr(layers.size(), number - layers.size()), theirs,
                               name.substr(kind));
    }
    return std::string(name);
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
        std::memcpy(out, from, static_cast<size_t>(rows * row_bytes));
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
    if (head_dim == 0) return row;
    const int64_t within = row % head_dim, half = head_dim / 2;
    return row - within + 2 * (within % half) + within / half;
}

GgufWeights::GgufWeights(std::shared_ptr<const GgufFile> file, const ModelConfig& config)
    : m_file(std::move(file)) {
    const bool pairs = config.model_type == "llama";
    const std::vector<std::string> wanted = LlamaWeights::names(config);
    const std::set<std::string> places(wanted.begin(), wanted.end());
    for (const GgufTensor& tensor : m_file->tensors()) {
        m_total_bytes += static_cast<int64_t>(tensor.bytes.size());
        if (tensor.name == rope_factors) continue;
        const auto name = hugging_face_name(tensor.name);
        if (!name || !places.contains(*name)) {
            m_file->fail_tensor(tensor.name, fmt::format("has no place in a {} model of {} layers",
                                                         config.model_type, config.num_layers));
        }
        const bool turned =
            name->find(".q_proj.") != std::string::npos || name->find(".k_proj.") != std::string::npos;
        m_blocks.emplace(*name, Blocks{&tensor, pairs && turned ? config.head_dim : 0});
    }
}

std::vector<std::string> GgufWeights::names() const {
    std::vector<std::string> result;
    result.reserve(m_blocks.size());
    for (const auto& [name, blocks] : m_blocks)
        result.push_back(name);
    return result;
}

std::filesystem::path GgufWeights::file_of(const std::string& /*name*/) const {
    return m_file->name();
}

std::string GgufWeights::stored_name(const std::string& name) const {
    const auto found = m_blocks.find(name);
    return found == m_blocks.end() ? name_in_file(name) : found->second.tensor->name;
}

void GgufWeights::check(const std::string& name, at::IntArrayRef shape) const {
    const auto found = m_blocks.find(name);
    if (found == m_blocks.end()) m_file->fail_tensor(name_in_file(name), "missing");
    const Blocks& blocks = found->second;
    const GgufTensor& tensor = *blocks.tensor;
    if (shape != at::IntArrayRef(tensor.shape)) {
        m_file->fail_tensor(tensor.name, fmt::format("its shape is [{}], the metadata ask for [{}]",
                                                     fmt::join(tensor.shape, ", "), fmt::join(shape, ", ")));
    }
    if (!plain_type(*tensor.type) && shape.size() == 1 && blocks.head_dim != 0)
        m_file->fail_tensor(tensor.name, fmt::format("its type is {}, and a bias must be F32, F16 or BF16",
                                                     tensor.type->name));
}

at::Tensor GgufWeights::read(const std::string& name, at::IntArrayRef shape, at::ScalarType wanted) const {
    check(name, shape);
    const Blocks& blocks = m_blocks.at(name);
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
    return result;
}

bool GgufWeights::stays_in_blocks(const std::string& name, at::IntArrayRef shape) const {
    const auto found = m_blocks.find(name);
    return found != m_blocks.end() && shape.size() == 2 && kernels::can_pack_blocks(shape[0], shape[1]) &&
           packed_type(*found->second.tensor->type).has_value();
}

at::Tensor GgufWeights::read_blocks(const std::string& name, at::IntArrayRef shape) const {
    check(name, shape);
    if (!stays_in_blocks(name, shape)) return {};
    const Blocks& blocks = m_blocks.at(name);
    const GgufType& type = *blocks.tensor->type;
    const int64_t row_bytes = shape[1] / type.block * type.block_bytes;
    return kernels::pack_blocks(*packed_type(type), shape[0], shape[1], [&](int64_t row) {
        return blocks.tensor->bytes.data() + blocks.source_row(row) * row_bytes;
    });
}

int64_t GgufWeights::stored_bytes(const std::string& name) const {
    const auto found = m_blocks.find(name);
    return found == m_blocks.end() ? 0 : static_cast<int64_t>(found->second.tensor->bytes.size());
}

int64_t GgufWeights::total_bytes() const {
    return m_total_bytes;
}

std::string GgufWeights::stored_types() const {
    std::vector<std::pair<std::string, int64_t>> bytes;
    for (const auto& [name, blocks] : m_blocks)
        bytes.emplace_back(blocks.tensor->type->name, stored_bytes(name));
    return types_by_bytes(bytes);
}

const GgufWeights::Blocks& GgufWeights::blocks(const std::string& name) const {
    const auto found = m_blocks.find(name);
    RL_ASSERT(found != m_blocks.end());
    return found->second;
}

} // namespace refreshlab
