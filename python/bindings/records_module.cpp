// refreshlab._records: traces, recordings and configurations. On librefreshlab_plain.so, without libtorch.
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/base/model_path.h"
#include "engine/control/derive/derive_spec.h"
#include "engine/control/named_policies.h"
#include "engine/control/parameters.h"
#include "engine/fetch/published_models.h"
#include "engine/policies/cache_scores.h"
#include "engine/tasks/prompt_file.h"
#include "python/bindings/arrays.h"
#include "python/bindings/python_errors.h"
#include "python/bindings/recording_bindings.h"
#include "python/bindings/without_lock.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace refreshlab::python {

namespace {

namespace nb = nanobind;
using Scores = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

RunConfig config_of(const std::string& json) {
    return run_config_from_json(parse_json(json, "the configuration"), "the configuration");
}

std::string with_settings(const std::string& json,
                          const std::vector<std::pair<std::string, std::string>>& settings) {
    RunConfig config = config_of(json);
    for (const auto& [key, value] : settings)
        set_parameter(config, key, value);
    return json_text(to_json(config));
}

/// A prompt of a bundled task is scored token by token, as `refreshlab run` does.
std::string with_task(const std::string& json, const std::string& prompts) {
    RunConfig config = config_of(json);
    if (const auto task = find_task(config.prompt, prompts)) config.task = *task;
    return json_text(to_json(config));
}

std::vector<std::tuple<std::string, std::string, std::string, bool>> parameter_list() {
    std::vector<std::tuple<std::string, std::string, std::string, bool>> all;
    for (const Parameter& p : parameters())
        all.emplace_back(p.key, p.unit, p.help, p.live);
    return all;
}

} // namespace

NB_MODULE(_records, module) {
    nb::set_leak_warnings(false); // at the end of a program, which need not let everything go
    translate_errors();
    bind_recording(module);
    bind_trace(module);
    module.def("default_config", [] { return json_text(to_json(RunConfig{})); });
    module.def("with_settings", &with_settings);
    module.def("with_task", &with_task);
    module.def("setting", [](const std::string& json, const std::string& key) {
        return parameter_value(config_of(json), key);
    });
    module.def("parameters", &parameter_list);
    module.def("named_policy", [](const std::string& name) {
        return json_text(policy_to_json(named_policy(name, "policy")));
    });
    module.def("policy_from_json", [](const std::string& json) {
        return json_text(policy_to_json(policy_from_json(parse_json(json, "policy"), "policy")));
    });
    module.def("named_cache_policy",
               [](const std::string& name) { return json_text(to_json(named_cache_policy(name, "cache"))); });
    module.def(
        "top",
        [](const Scores& scores, int64_t k) {
            return array_of(cache_scores::top({scores.data(), scores.shape(0)}, k));
        },
        nb::sig("def top(scores: numpy.typing.NDArray[numpy.float32], k: int, /) -> "
                "numpy.typing.NDArray[numpy.int64]"));
    module.def(
        "pooled",
        [](const Scores& scores, int64_t kernel, bool mean) {
            using cache_scores::Pooling;
            return array_of(cache_scores::pooled({scores.data(), scores.shape(0)}, kernel,
                                                 mean ? Pooling::mean : Pooling::max));
        },
        nb::sig("def pooled(scores: numpy.typing.NDArray[numpy.float32], kernel: int, mean: bool, /) -> "
                "numpy.typing.NDArray[numpy.float32]"));
    module.def("cache_policy_from_json", [](const std::string& json) {
        return json_text(to_json(cache_policy_from_json(parse_json(json, "cache"), "cache")));
    });
    module.def("settled_model", [](const std::string& model) { return settled_model(model); });
    module.def("published_models", [](const std::string& assets) {
        const std::filesystem::path folder = models_folder(assets);
        std::vector<std::pair<std::string, std::string>> all; // name, path where it has been fetched
        for (const PublishedModel& model : published_models())
            all.emplace_back(model.name, is_fetched(model, folder) ? (folder / model.file).string() : "");
        return all;
    });
    module.def("bundled_pair", [](const std::string& assets) {
        const BundledPair pair = bundled_pair(assets);
        return std::pair(pair.teacher, pair.student);
    });
    nb::module_::import_("atexit").attr("register")(nb::cpp_function(&end_all_work));
    module.def("policy_presets", [] {
        std::vector<std::string> names;
        for (const Preset& preset : presets())
            names.emplace_back(preset.name);
        return names;
    });
}

} // namespace refreshlab::python
