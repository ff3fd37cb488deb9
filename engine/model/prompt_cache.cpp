#include "engine/model/prompt_cache.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/cache/kv_cache.h"
#include "engine/policies/bit_codes.h"
#include "engine/policies/methods/storage/few_bits.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace refreshlab {

namespace {

constexpr const char* format_name = "refreshlab prompt cache";
constexpr const char* format_version = "1";
constexpr const char* going_on = "going on from a saved cache";
constexpr std::array<const char*, 2> halves = {"keys", "values"};
constexpr int64_t bits = 4, most_channels = 64; // 36 B for 64 numbers

FewBits codec_of(int64_t head_dim) {
    return {bits, FewBits::Groups::rows, std::min(most_channels, head_dim)};
}
int64_t groups_of(int64_t head_dim) {
    return (head_dim + most_channels - 1) / most_channels;
}
std::string tensor_name(int64_t layer, const char* half, const char* part = "") {
    return fmt::format("layers.{}.{}{}", layer, half, part);
}

const std::string& text_of(const SafetensorsFile& file, const std::string& key) {
    const auto found = file.metadata().find(key);
    if (found == file.metadata().end())
        throw Error(going_on, file.path().string(), key + " is missing in it");
    return found->second;
}

/// Codes and scales of one half of a layer. \param rows  [kv_heads, n, head_dim]
std::array<at::Tensor, 2> encoded(const at::Tensor& rows) {
    const int64_t heads = rows.size(0), n = rows.size(1), d = rows.size(2);
    const FewBits codec = codec_of(d);
    at::Tensor codes =
        at::empty({heads, static_cast<int64_t>(bytes_of_codes(n * d, bits))}, at::TensorOptions(at::kByte));
    at::Tensor scales = at::empty({heads, n * groups_of(d), 2}, at::TensorOptions(at::kHalf));
    const at::Tensor numbers = rows.to(at::kCPU, at::kFloat).contiguous();
    for (int64_t head = 0; head < heads; ++head) {
        const EncodedBlock block =
            codec.encode({numbers[head].const_data_ptr<float>(), static_cast<size_t>(n * d)}, {n, d});
        std::memcpy(codes[head].mutable_data_ptr(), block.payload.data(), block.payload.size());
        std::memcpy(scales[head].mutable_data_ptr(), block.metadata.data(), block.metadata.size());
    }
    return {codes, scales};
}

at::Tensor decoded(const at::Tensor& codes, const at::Tensor& scales, int64_t n, int64_t d) {
    const int64_t heads = codes.size(0);
    const FewBits codec = codec_of(d);
    const auto bytes_of = [](const at::Tensor& tensor) {
        const auto* first = static_cast<const uint8_t*>(tensor.const_data_ptr());
        return std::vector<uint8_t>(first, first + tensor.nbytes());
    };
    at::Tensor rows = at::empty({heads, n, d}, at::TensorOptions(at::kFloat));
    for (int64_t head = 0; head < heads; ++head)
        codec.decode({bytes_of(codes[head]), bytes_of(scales[head])}, {n, d},
                     {rows[head].mutable_data_ptr<float>(), static_cast<size_t>(n * d)});
    return rows;
}

} // namespace

std::string_view to_string(CacheForm form) {
    return form == CacheForm::exact ? "exact" : "four_bits";
}

PromptCacheFile::PromptCacheFile(const std::filesystem::path& path)
    : m_file(path) {
    const auto refuse = [&](const std::string& problem, const std::string& hint = {}) {
        throw Error(going_on, path.string(), problem, hint);
    };
    const auto format = m_file.metadata().find("format");
    if (format == m_file.metadata().end() || format->second != format_name)
        refuse("is no saved prompt cache", "refreshlab run --save-cache FILE makes one");
    if (const std::string& version = text_of(m_file, "version"); version != format_version)
        refuse(fmt::format("its version is {}, this program reads {}", version, format_version),
               "save it again with this program");
    const std::string& form = text_of(m_file, "form");
    if (form != to_string(CacheForm::exact) && form != to_string(CacheForm::four_bits))
        refuse(fmt::format("its form '{}' is not known", form));
    m_form = form == to_string(CacheForm::exact) ? CacheForm::exact : CacheForm::four_bits;
    m_origin.prompt = text_of(m_file, "prompt");
    m_origin.raw_prompt = text_of(m_file, "raw_prompt") == "true";
    m_origin.model = text_of(m_file, "model");
    m_origin.model_name = text_of(m_file, "model_name");
    m_origin.dtype = text_of(m_file, "dtype");
    const auto shape = m_file.shape("tokens");
    const int64_t n = shape.size() == 1 ? shape[0] : 0;
    if (n == 0) refuse("holds no tokens");
    const at::Tensor tokens = m_file.read("tokens", {n}, at::kInt);
    m_origin.tokens.assign(tokens.const_data_ptr<int32_t>(), tokens.const_data_ptr<int32_t>() + n);
    if (!at::equal(m_file.read("positions", {n}, at::kLong), at::arange(n, at::kLong)))
        refuse("its positions are not those of a prompt, 0, 1, ...");
}

void PromptCacheFile::check(const std::string& model, const std::string& dtype,
                            std::span<const int32_t> prompt) const {
    const auto refuse = [&](const std::string& problem, const std::string& hint) {
        throw Error(going_on, m_file.path().string(), problem, hint);
    };
    if (model != m_origin.model)
        refuse(fmt::format("another model than the one that reads this prompt made it ({})",
                           m_origin.model_name),
               "take that model, or read the prompt (without --cache)");
    if (dtype != m_origin.dtype)
        refuse(fmt::format("it was made in {}, and this run computes in {}", m_origin.dtype, dtype),
               "take that dtype, or read the prompt (without --cache)");
    const auto [mine, theirs] = std::ranges::mismatch(m_origin.tokens, prompt);
    if (mine != m_origin.tokens.end())
        refuse(theirs == prompt.end()
                   ? fmt::format("it holds {} tokens, and the prompt has {}", m_origin.tokens.size(),
                                 prompt.size())
                   : fmt::format("its token {} is not the prompt's", mine - m_origin.tokens.begin() + 1),
               "the prompt must begin with what was saved");
}

at::Tensor PromptCacheFile::half(const KvCache& cache, int64_t layer, const char* name, int64_t n) const {
    const auto all = static_cast<int64_t>(m_origin.tokens.size());
    const int64_t heads = cache.num_kv_heads(), d = cache.head_dim();
    at::Tensor rows;
    if (m_form == CacheForm::exact) {
        rows = m_file.read(tensor_name(layer, name), {heads, all, d}, cache.dtype());
    } else {
        const auto bytes = static_cast<int64_t>(bytes_of_codes(all * d, bits));
        rows = decoded(
            m_file.read(tensor_name(layer, name, ".codes"), {heads, bytes}, at::kByte),
            m_file.read(tensor_name(layer, name, ".scales"), {heads, all * groups_of(d), 2}, at::kHalf), all,
            d);
    }
    return rows.narrow(1, 0, n).transpose(0, 1).to(cache.device());
}

void PromptCacheFile::load(KvCache& cache, int64_t n, Origin origin) const {
    RL_ASSERT(cache.length() == 0 && n > 0 && n <= std::ssize(m_origin.tokens));
    for (int64_t layer = 0; layer < cache.num_layers(); ++layer)
        cache.write(layer, half(cache, layer, halves[0], n), half(cache, layer, halves[1], n));
    cache.commit(n, origin);
}

void save_prompt_cache(const std::filesystem::path& path, const PromptCacheOrigin& origin, CacheForm form,
                       const KvCache& cache) {
    const int64_t n = std::ssize(origin.tokens);
    RL_ASSERT(cache.layout() == CacheLayout::dense && n > 0 && n <= cache.length());
    std::vector<NamedTensor> tensors = {
        {"tokens", at::tensor(at::ArrayRef<int32_t>(origin.tokens), at::kInt)},
        {"positions", at::arange(n, at::kLong)},
    };
    for (int64_t layer = 0; layer < cache.num_layers(); ++layer) {
        for (const char* half : halves) {
            const at::Tensor rows =
                (half == halves[0] ? cache.keys(layer) : cache.values(layer)).narrow(1, 0, n);
            if (form == CacheForm::exact) {
                tensors.push_back({tensor_name(layer, half), rows.contiguous()});
                continue;
            }
            auto [codes, scales] = encoded(rows);
            tensors.push_back({tensor_name(layer, half, ".codes"), std::move(codes)});
            tensors.push_back({tensor_name(layer, half, ".scales"), std::move(scales)});
        }
    }
    write_safetensors(path,
                      {{"format", format_name},
                       {"version", format_version},
                       {"form", std::string(to_string(form))},
                       {"prompt", origin.prompt},
                       {"raw_prompt", origin.raw_prompt ? "true" : "false"},
                       {"model", origin.model},
                       {"model_name", origin.model_name},
                       {"dtype", origin.dtype}},
                      tensors);
}

RunConfig with_saved_prompt(RunConfig config) {
    if (config.prompt_cache.empty()) return config;
    const PromptCacheFile saved(
        config.prompt_cache); // a file that is none is refused before weights are loaded
    if (!config.prompt.empty()) return config;
    config.prompt = saved.origin().prompt;
    config.raw_prompt = saved.origin().raw_prompt;
    return config;
}

} // namespace refreshlab
