#include "engine/study/sweep/sweep_cells.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/base/regular_file.h"
#include "engine/control/derive/derive_spec.h"
#include "engine/control/stored_config.h"
#include "engine/model/model_source.h"
#include "engine/session/pair/run_execution.h"
#include "engine/text/digest.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace refreshlab {

namespace fs = std::filesystem;

std::string run_id(const RunConfig& config, const std::string& almanac_digest, const SweepModels& models) {
    nlohmann::json json = stored_json(config);
    for (const char* key : {"teacher_dir", "student_dir", "device", "teacher_device", "student_device",
                            "threads", "kernels", "capture"})
        json.erase(key);
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

namespace {

/// Of what a derivation says, and the bytes of its text instead of where it lies. The teacher has a fingerprint of its own.
std::string derivation_fingerprint(DeriveSpec spec) {
    Digest digest;
    digest.add("refreshlab derivation 1");
    if (!spec.text.empty()) digest.add(read_file(spec.text, size_t{1} << 26));
    spec.text = spec.text.empty() ? "" : "text";
    digest.add(derive_text(spec));
    return digest.hex();
}

} // namespace

std::string model_fingerprint(const fs::path& model) {
    if (model.empty()) return {};
    if (is_derivation(model.string())) return derivation_fingerprint(derivation_of(model.string()));
    Digest digest;
    digest.add("refreshlab model 1");
    constexpr uint64_t whole = uint64_t{64} << 20, end_bytes = uint64_t{4} << 20,
                       sample_bytes = uint64_t{1} << 16, samples = 64;
    for (const auto& [label, path] : ModelSource::open(model)->files()) {
        const RegularFile file(path);
        const uint64_t size = file.size();
        digest.add(label);
        digest.add(size);
        const auto add = [&](uint64_t first, uint64_t bytes) {
            const std::string part = file.read(first, bytes);
            if (part.size() != bytes) throw Error("reading a model", path.string(), "ended early");
            digest.add(part);
        };
        if (size <= whole) {
            add(0, size);
            continue;
        }
        add(0, end_bytes);
        for (uint64_t i = 0; i < samples; ++i)
            add(end_bytes + (size - 2 * end_bytes) / samples * i, sample_bytes);
        add(size - end_bytes, end_bytes);
    }
    return digest.hex();
}

} // namespace refreshlab
