#include "engine/model/derive/write_folder.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/model/checkpoint/fused_weights.h"
#include "engine/model/checkpoint/llama_weights.h"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

namespace refreshlab {

namespace fs = std::filesystem;

namespace {

constexpr const char* doing = "writing a model folder";

struct DtypeNames {
    std::string config, tensors; ///< in config.json, in safetensors
};
DtypeNames names_of(at::ScalarType dtype) {
    return dtype == at::kFloat      ? DtypeNames{"float32", "F32"}
           : dtype == at::kBFloat16 ? DtypeNames{"bfloat16", "BF16"}
                                    : DtypeNames{"float16", "F16"};
}

/// A sublayer that is left out adds nothing: its last matrix is zero, and so is that one's bias.
bool is_silent(const LlamaWeights& weights, const WeightPlace& place) {
    if (place.layer < 0) return false;
    const LlamaLayer& layer = weights.layers[static_cast<size_t>(place.layer)];
    return (!layer.attends && place.name.find(".o_proj.") != std::string::npos) ||
           (!layer.has_mlp && (place.name.find(".down_proj.") != std::string::npos ||
                               place.name.find(".w2.") != std::string::npos)); // of an expert
}

/// The header of a safetensors file: its length, then JSON, filled with spaces to a multiple of 8.
std::string header_of(const LlamaModel& model) {
    const DtypeNames dtype = names_of(model.dtype());
    const int64_t element = model.dtype() == at::kFloat ? 4 : 2;
    nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
    int64_t begin = 0;
    model.weights().visit(model.config(), [&](const WeightPlace& place, const at::Tensor&) {
        // What one tensor holds follows each other in the order of use, as in it.
        const StoredRows stored = stored_rows(model.config(), place);
        if (stored.first > 0) return;
        int64_t bytes = element;
        for (const int64_t width : stored.shape)
            bytes *= width;
        header[stored.tensor] = {
            {"dtype", dtype.tensors}, {"shape", stored.shape}, {"data_offsets", {begin, begin + bytes}}};
        begin += bytes;
    });
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const auto length = static_cast<uint64_t>(text.size());
    std::string bytes(sizeof(length), '\0');
    std::memcpy(bytes.data(), &length, sizeof(length));
    return bytes + text;
}

void write_weights(const LlamaModel& model, const fs::path& path, const LoadProgress& progress) {
    std::ofstream file(path, std::ios::binary);
    const auto require = [&] {
        if (!file) throw Error(doing, path.string(), std::strerror(errno), {}, ErrorKind::failure);
    };
    const std::string header = header_of(model);
    file.write(header.data(), static_cast<std::streamsize>(header.size()));
    require();
    const auto total = static_cast<double>(LlamaWeights::held_elements(model.config()));
    double done = 0;
    model.weights().visit(model.config(), [&](const WeightPlace& place, const at::Tensor& tensor) {
        if (progress && !progress(done / total, place.name))
            throw Error(doing, path.string(), "cancelled", {}, ErrorKind::failure);
        at::Tensor inside = tensor;
        // config.json says the multipliers, so that they come back when the folder is read.
        if (const double by = LlamaWeights::multiplier(model.config(), place.name); by != 1)
            inside = inside.to(at::kFloat).div(by).to(tensor.scalar_type());
        for (size_t d = 0; d < place.stored.size(); ++d)
            inside = inside.narrow(static_cast<int64_t>(d), 0, place.stored[d]);
        inside = inside.to(at::kCPU).contiguous();
        if (is_silent(model.weights(), place)) inside = at::zeros_like(inside);
        file.write(static_cast<const char*>(inside.const_data_ptr()),
                   static_cast<std::streamsize>(inside.nbytes()));
        require();
        done += static_cast<double>(tensor.numel());
    });
    file.close();
    require();
}

} // namespace

void require_new_folder(const fs::path& folder) {
    std::error_code error;
    if (!fs::exists(fs::symlink_status(folder, error))) return;
    if (!fs::is_directory(folder, error)) throw Error(doing, folder.string(), "a file of that name is there");
    if (!fs::is_empty(folder, error) || error)
        throw Error(doing, folder.string(), "the folder is not empty", "name a new one");
}

void write_folder(const ModelSource& source, const LlamaModel& model, const fs::path& folder,
                  const LoadProgress& progress) {
    const auto texts = source.folder_texts(model.config(), names_of(model.dtype()).config); // may refuse
    require_new_folder(folder);
    std::error_code error;
    fs::create_directories(folder, error);
    if (!fs::is_directory(folder, error))
        throw Error(doing, folder.string(), "cannot be made", {}, ErrorKind::failure);
    const fs::path weights = folder / "model.safetensors";
    try {
        write_weights(model, weights, progress);
        // config.json last: a folder with one is whole.
        for (auto text = texts.rbegin(); text != texts.rend(); ++text)
            write_file(folder / text->name, text->text);
    } catch (...) {
        fs::remove(weights, error);
        throw;
    }
}

} // namespace refreshlab
