#include "engine/model/gates/gate_file.h"

#include "engine/base/check.h"
#include "engine/base/error.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

namespace refreshlab {

namespace {

constexpr const char* gate_format = "refreshlab gate";
constexpr const char* gate_version = "1";
constexpr int64_t widest_gate = 1 << 16;

std::string weight_name(size_t layer, const GateWeight& weight) {
    return weight.shared ? fmt::format("shared.{}", weight.name)
                         : fmt::format("layers.{}.{}", layer, weight.name);
}

/// Reads what a gate's file says; every refusal names the file.
class GateReader {
public:
    explicit GateReader(const std::filesystem::path& path)
        : m_file(path) {
        const auto found = m_file.metadata().find("format");
        if (found == m_file.metadata().end() || found->second != gate_format)
            refuse("is no trained gate", "refreshlab train-gate makes one");
        if (text("version") != gate_version)
            refuse(fmt::format("its version is {}, this program reads {}", text("version"), gate_version),
                   "train it again with this program");
    }
    [[noreturn]] void refuse(const std::string& problem, const std::string& hint = {}) const {
        throw Error("reading a trained gate", m_file.path().string(), problem, hint);
    }
    [[nodiscard]] const std::string& text(const std::string& key) const {
        const auto found = m_file.metadata().find(key);
        if (found == m_file.metadata().end()) refuse(key + " is missing in it");
        return found->second;
    }
    [[nodiscard]] int64_t width() const {
        const std::string& said = text("width");
        int64_t value = 0;
        const auto [end, error] = std::from_chars(said.data(), said.data() + said.size(), value);
        if (error != std::errc() || end != said.data() + said.size() || value < 1 || value > widest_gate)
            refuse(fmt::format("its width '{}' is none", said));
        return value;
    }
    [[nodiscard]] GateSettings settings(const GateKind& kind) const {
        GateSettings settings;
        for (const GateSetting& setting : kind.settings) {
            const std::string& choice = text(std::string(setting.key));
            if (std::ranges::find(setting.choices, choice) == setting.choices.end())
                refuse(fmt::format("its {} '{}' is not one of {}", setting.key, choice,
                                   fmt::join(setting.choices, ", ")));
            settings.emplace(setting.key, choice);
        }
        return settings;
    }
    [[nodiscard]] at::Tensor weight(const std::string& name, const GateWeight& weight) const {
        const at::Tensor tensor = m_file.read(name, weight.shape, at::kBFloat16).to(at::kFloat);
        if (!at::isfinite(tensor).all().item<bool>()) refuse(name + " holds numbers that are not finite");
        return tensor;
    }

private:
    SafetensorsFile m_file;
};

} // namespace

void save_gate(const std::filesystem::path& path, const TokenGate& gate, const ModelConfig& model,
               const GateOrigin& origin) {
    std::map<std::string, std::string> said{{"format", gate_format},
                                            {"version", gate_version},
                                            {"method", std::string(gate.kind().method)},
                                            {"model", origin.model},
                                            {"model_name", origin.model_name},
                                            {"width", std::to_string(gate.width())},
                                            {"recipe", origin.recipe}};
    said.insert(gate.settings().begin(), gate.settings().end());
    const std::vector<GateWeight> places = gate.kind().weights(model, gate.width());
    std::vector<NamedTensor> tensors;
    for (size_t layer = 0; layer < gate.weights().size(); ++layer) {
        for (size_t i = 0; i < places.size(); ++i) {
            if (places[i].shared && layer > 0) continue;
            const at::Tensor weight = unpadded(gate.weights()[layer][i].detach(), places[i]);
            tensors.push_back({weight_name(layer, places[i]), weight.to(at::kBFloat16).contiguous()});
        }
    }
    write_safetensors(path, said, tensors);
}

std::unique_ptr<TokenGate> load_gate(const std::filesystem::path& path, std::string_view method,
                                     const ModelConfig& model, const std::string& fingerprint) {
    const GateReader file(path);
    if (file.text("method") != method)
        file.refuse(fmt::format("is a gate of {}, not of {}", file.text("method"), method));
    if (file.text("model") != fingerprint)
        file.refuse(fmt::format("was trained for another model ({})", file.text("model_name")),
                    fmt::format("refreshlab train-gate {} makes one for this model", method));
    const GateKind* kind = find_gate_kind(method);
    RL_ASSERT(kind != nullptr);
    const int64_t width = file.width();
    std::vector<std::vector<at::Tensor>> layers(static_cast<size_t>(model.num_layers));
    for (size_t layer = 0; layer < layers.size(); ++layer) {
        for (const GateWeight& place : kind->weights(model, width)) {
            if (place.shared && layer > 0) {
                layers[layer].push_back(layers.front()[layers[layer].size()]);
                continue;
            }
            const at::Tensor weight = file.weight(weight_name(layer, place), place);
            layers[layer].push_back(padded(weight, place).contiguous());
        }
    }
    return std::make_unique<TokenGate>(*kind, width, file.settings(*kind), std::move(layers));
}

} // namespace refreshlab
