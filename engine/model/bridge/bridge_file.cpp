#include "engine/model/bridge/bridge_file.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/model/checkpoint/safetensors_file.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace refreshlab {

namespace {

constexpr const char* bridge_format = "refreshlab bridge";
constexpr const char* bridge_version = "1";
constexpr const char* making = "refreshlab train bridge makes one for these two";

/// Reads what a bridge's file says; every refusal names the file.
class BridgeReader {
public:
    explicit BridgeReader(const std::filesystem::path& path)
        : m_file(path) {
        const auto found = m_file.metadata().find("format");
        if (found == m_file.metadata().end() || found->second != bridge_format)
            refuse("is no bridge", making);
        if (text("version") != bridge_version)
            refuse(fmt::format("its version is {}, this program reads {}", text("version"), bridge_version),
                   "make it again with this program");
    }
    [[noreturn]] void refuse(const std::string& problem, const std::string& hint = {}) const {
        throw Error("reading a bridge", m_file.path().string(), problem, hint);
    }
    [[nodiscard]] const std::string& text(const std::string& key) const {
        const auto found = m_file.metadata().find(key);
        if (found == m_file.metadata().end()) refuse(key + " is missing in it");
        return found->second;
    }
    [[nodiscard]] BridgeInputs inputs() const {
        for (const BridgeInputs inputs : {BridgeInputs::both, BridgeInputs::own})
            if (text("inputs") == to_string(inputs)) return inputs;
        refuse(fmt::format("its inputs '{}' are neither both nor own", text("inputs")));
    }
    /// Of each student's layer the teacher's layers that it is made of.
    [[nodiscard]] std::vector<std::vector<int64_t>> from(int64_t student_layers,
                                                         int64_t teacher_layers) const {
        const nlohmann::json list = nlohmann::json::parse(text("layers"), nullptr, false);
        std::vector<std::vector<int64_t>> all;
        const auto is_layer = [&](const nlohmann::json& layer) {
            return layer.is_number_unsigned() &&
                   layer.get<uint64_t>() < static_cast<uint64_t>(teacher_layers);
        };
        const bool good =
            list.is_array() && std::cmp_equal(list.size(), student_layers) &&
            std::ranges::all_of(list, [&](const nlohmann::json& layers) {
                if (!layers.is_array() || layers.empty() || !std::ranges::all_of(layers, is_layer))
                    return false;
                all.push_back(layers.get<std::vector<int64_t>>());
                return std::ranges::adjacent_find(all.back(), std::greater_equal{}) == all.back().end();
            });
        if (!good) refuse("its layers are not those of the two models", making);
        return all;
    }
    [[nodiscard]] at::Tensor tensor(const std::string& name, at::IntArrayRef shape) const {
        const at::Tensor tensor = m_file.read(name, shape, at::kFloat);
        if (!at::isfinite(tensor).all().item<bool>()) refuse(name + " holds numbers that are not finite");
        return tensor;
    }

private:
    SafetensorsFile m_file;
};

std::string name_of(size_t layer, const char* part) {
    return fmt::format("layers.{}.{}", layer, part);
}

} // namespace

void save_bridge(const std::filesystem::path& path, const Bridge& bridge, const BridgeOrigin& origin) {
    nlohmann::json from = nlohmann::json::array();
    std::vector<NamedTensor> tensors;
    for (size_t l = 0; l < bridge.layers.size(); ++l) {
        const Bridge::Layer& layer = bridge.layers[l];
        from.push_back(layer.from);
        tensors.push_back({name_of(l, "keys.weight"), layer.key_weight});
        tensors.push_back({name_of(l, "keys.bias"), layer.key_bias});
        tensors.push_back({name_of(l, "values.weight"), layer.value_weight});
        tensors.push_back({name_of(l, "values.bias"), layer.value_bias});
    }
    write_safetensors(path,
                      {{"format", bridge_format},
                       {"version", bridge_version},
                       {"teacher", origin.teacher},
                       {"teacher_name", origin.teacher_name},
                       {"student", origin.student},
                       {"student_name", origin.student_name},
                       {"inputs", std::string(to_string(bridge.inputs))},
                       {"layers", from.dump()},
                       {"recipe", origin.recipe}},
                      tensors);
}

BridgeOrigin bridge_origin(const std::filesystem::path& path) {
    const BridgeReader file(path);
    return {file.text("teacher"), file.text("student"), file.text("teacher_name"), file.text("student_name"),
            file.text("recipe")};
}

void check_bridge_of(const std::filesystem::path& path, const BridgeOrigin& origin,
                     const std::string& teacher, const std::string& student) {
    if (origin.teacher == teacher && origin.student == student) return;
    throw Error("reading a bridge", path.string(),
                fmt::format("was made for other models ({} to {})", origin.teacher_name, origin.student_name),
                making);
}

Bridge load_bridge(const std::filesystem::path& path, const ModelConfig& teacher,
                   const ModelConfig& student) {
    const BridgeReader file(path);
    Bridge bridge;
    bridge.inputs = file.inputs();
    const int64_t in_width = teacher.num_kv_heads * teacher.head_dim,
                  out_width = student.num_kv_heads * student.head_dim;
    for (auto& from : file.from(student.num_layers, teacher.num_layers)) {
        const size_t l = bridge.layers.size();
        const int64_t in = std::ssize(from) * in_width * (bridge.inputs == BridgeInputs::both ? 2 : 1);
        bridge.layers.push_back({std::move(from), file.tensor(name_of(l, "keys.weight"), {out_width, in}),
                                 file.tensor(name_of(l, "values.weight"), {out_width, in}),
                                 file.tensor(name_of(l, "keys.bias"), {out_width}),
                                 file.tensor(name_of(l, "values.bias"), {out_width})});
    }
    return bridge;
}

} // namespace refreshlab
