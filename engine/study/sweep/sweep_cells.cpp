#include "engine/study/sweep/sweep_cells.h"

#include "engine/base/json_text.h"
#include "engine/control/model_files.h"
#include "engine/control/stored_config.h"
#include "engine/session/pair/run_execution.h"
#include "engine/text/digest.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <set>

namespace refreshlab {

std::string run_id(const RunConfig& config, const std::string& almanac_digest, const SweepModels& models) {
    nlohmann::json json = stored_json(with_file_digests(config));
    for (const char* key : {"teacher_dir", "student_dir", "device", "teacher_device", "student_device",
                            "threads", "kernels", "capture"})
        json.erase(key);
    for (const char* cache : {"student_cache", "teacher_cache"}) {
        for (const char* gate : {"gate", "step_gate"}) // what it is, not where it lies
            if (json.contains(cache) && json[cache].contains(fmt::format("{}_digest", gate)))
                json[cache].erase(gate);
    }
    if (json.contains("bridge") && config.bridge.path != no_bridge) {
        json.erase("bridge");
        json["bridge_digest"] = file_digest(config.bridge.path);
    }
    json["policy"].erase("name");
    json["task"]["almanac"] = almanac_digest;
    Digest digest;
    digest.add("refreshlab sweep cell 1");
    digest.add(models.teacher);
    digest.add(models.student);
    digest.add(models.device);
    digest.add(json_text(json));
    return digest.hex();
}

std::string kernel_bits(const RunConfig& config, const SweepModels& models) {
    if (models.device == "cuda") return {};
    return std::string(kernels::bit_class(resolve_kernels(config.kernels)));
}

std::string cell_id(const std::string& run_id, const std::string& kernel_bits) {
    if (kernel_bits.empty() || kernel_bits == kernels::bit_class(kernels::Isa::avx2)) return run_id;
    Digest digest;
    digest.add("refreshlab sweep kernels 1");
    digest.add(kernel_bits);
    digest.add(run_id);
    return digest.hex();
}

std::string cell_id(const RunConfig& config, const std::string& almanac_digest, const SweepModels& models) {
    return cell_id(run_id(config, almanac_digest, models), kernel_bits(config, models));
}

SweepPlan make_sweep_plan(const SweepSpec& spec, const SweepModels& models) {
    SweepPlan plan;
    plan.name = spec.name;
    plan.spec_text = spec.text;
    plan.models = models;
    plan.timing = spec.timing;
    plan.bootstrap = spec.bootstrap;
    for (const SweepRow& row : spec.rows) {
        const bool policy = row.config.mode == Mode::overfill && refreshes_by_itself(row.config.policy);
        plan.rows.push_back({row.label, std::string(to_string(row.config.mode)), policy, row.none_row});
    }
    for (const SweepPrompt& prompt : spec.prompts)
        plan.prompts.push_back({prompt.group, prompt.text});
    plan.cells.reserve(static_cast<size_t>(spec.num_cells()));
    std::set<std::string> all_bits;
    Digest runs;
    for (size_t row = 0; row < spec.rows.size(); ++row) {
        const std::string bits = kernel_bits(spec.rows[row].config, models);
        if (!bits.empty()) all_bits.insert(bits);
        for (size_t prompt = 0; prompt < spec.prompts.size(); ++prompt) {
            for (const uint64_t seed : spec.seeds) {
                const RunConfig config = spec.config(row, prompt, seed);
                const std::string run = run_id(config, spec.prompts[prompt].almanac_digest, models);
                runs.add(run);
                plan.cells.push_back({cell_id(run, bits), row, prompt, seed});
            }
        }
    }
    plan.kernels.assign(all_bits.begin(), all_bits.end());
    plan.runs = runs.hex();
    return plan;
}

} // namespace refreshlab
