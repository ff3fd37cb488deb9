#include "tests/engine/model/parity_support.h"

#include "engine/base/json_file.h"
#include "kernels/execution/cuda_devices.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>

namespace refreshlab::test {

bool parity_full() {
    const char* const wanted = std::getenv("REFRESHLAB_PARITY");
    return wanted != nullptr && std::string_view(wanted) == "full";
}

const std::vector<ParityCase>& parity_cases() {
    static const std::vector<ParityCase> cases = [] {
        const std::string extent = parity_full() ? "full" : "short";
        const auto out = std::filesystem::path(RL_BUILD_DIR) / ("parity-" + extent);
        const auto models = std::filesystem::path(RL_SOURCE_DIR) / "assets" / "models";
        const std::string command = fmt::format(
            "'{}' '{}/tests/engine/model/transformers_reference.py' '{}' {} 'teacher={}' 'student={}'",
            RL_PYTHON, RL_SOURCE_DIR, out.string(), extent, (models / "llama-tales-teacher").string(),
            (models / "llama-tales-student").string());
        std::vector<ParityCase> result;
        if (std::system(command.c_str()) != 0) return result;
        for (const auto& entry : read_json_file(out / "manifest.json")) {
            const auto name = entry.at("name").get<std::string>();
            result.push_back({name, entry.at("folder").get<std::string>(), out / (name + "-reference"),
                              entry.at("prompt").get<int64_t>(), entry.at("steps").get<int64_t>()});
        }
        return result;
    }();
    if (cases.empty()) FAIL("transformers_reference.py failed; its message is above");
    return cases;
}

const ParityCase& parity_case(const std::string& name) {
    const auto& cases = parity_cases();
    const auto it = std::find_if(cases.begin(), cases.end(), [&](const auto& c) { return c.name == name; });
    if (it == cases.end()) FAIL("there is no parity case " + name);
    return *it;
}

std::vector<int32_t> ids_of(const Checkpoint& reference, const std::string& name, int64_t n) {
    const at::Tensor ids = reference.read(name, {n});
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < n; ++i)
        tokens.push_back(static_cast<int32_t>(ids.const_data_ptr<double>()[i]));
    return tokens;
}

std::vector<at::Device> parity_devices() {
    std::vector<at::Device> result = {at::kCPU};
    if (kernels::cuda_devices() > 0) result.emplace_back(at::kCUDA, 0);
    return result;
}

} // namespace refreshlab::test
