#include "app/base/assets.h"
#include "app/base/output.h"
#include "app/engine/carry_out.h"
#include "app/options/run_options.h"
#include "app/options/study_options.h"
#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/control/parameters.h"
#include "engine/study/studies/simulation.h"
#include "engine/study/studies/study_catalog.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>

namespace refreshlab::app {

namespace {

/// What goes on, on stderr: one line that overwrites itself on a terminal, else a line for every twentieth of the work.
class StudyProgress {
public:
    void operator()(double done, const std::string& what) {
        const int twentieth = static_cast<int>(20 * done);
        if (m_terminal) {
            draw_line(fmt::format("{:3.0f} % {}", 100 * done, what));
            m_shown = true;
        } else if (twentieth != m_twentieth) {
            m_twentieth = twentieth;
            say("{:3.0f} % {}\n", 100 * done, what);
        }
    }
    void clear() {
        if (m_shown) draw_line("");
        m_shown = false;
    }

private:
    bool m_terminal = isatty(fileno(stderr)) != 0;
    bool m_shown = false;
    int m_twentieth = -1;
};

Dtype dtype_of(const std::string& name) {
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::native}) {
        if (to_string(dtype) == name) return dtype;
    }
    throw Error("reading", "--dtype", "'" + name + "' is not one of f32, bf16, f16, native");
}

/// Before minutes of work: a folder that cannot be made is known at once.
void require_folder(const std::string& folder, const std::string& option) {
    if (folder.empty()) return;
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    if (failed || !std::filesystem::is_directory(folder) || access(folder.c_str(), W_OK) != 0)
        throw Error("writing " + option, folder, "is not a folder that can be written");
}

int run_study(const StudyCommandOptions& options,
              const std::function<StudyResult(const StudyOptions&)>& study, bool needs_models) {
    require_folder(options.out, "--out");
    require_folder(options.traces, "--traces");
    StudyOptions settings;
    settings.limit = options.limit;
    settings.seed = options.seed;
    settings.mc_samples = options.mc_samples;
    settings.length = options.length;
    settings.parts = options.parts;
    settings.methods = options.methods;
    settings.traces = options.traces;
    if (needs_models) {
        const bool bundled = options.prompts.empty() || options.teacher.empty() || options.student.empty();
        const std::filesystem::path assets = bundled ? find_assets() : std::filesystem::path();
        settings.base = first_start_config(assets);
        settings.prompts =
            options.prompts.empty() ? assets / "prompts" : std::filesystem::path(options.prompts);
        if (!options.teacher.empty()) settings.base.teacher_dir = options.teacher;
        if (!options.student.empty()) settings.base.student_dir = settled_model(options.student);
        settings.student_given = !options.student.empty();
        if (!options.device.empty()) settings.base.device = options.device;
        if (!options.dtype.empty()) settings.base.dtype = dtype_of(options.dtype);
        if (!options.kernels.empty()) set_parameter(settings.base, "kernels", options.kernels);
        settings.base.threads = options.threads;
        note_threads(options.threads);
        if (!std::filesystem::is_directory(settings.prompts))
            throw Error("reading --prompts", settings.prompts.string(), "is not a folder");
    }
    StudyProgress progress;
    settings.progress = std::ref(progress);
    const auto start = std::chrono::steady_clock::now();
    const StudyResult result = study(settings);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    progress.clear();
    print(to_markdown(result));
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
        throw Error("writing the table", {}, "standard output is closed", {}, ErrorKind::failure);
    if (!options.out.empty()) write_study(result, options.out);
    say("{:.0f} s{}\n", took.count(),
        options.out.empty() ? std::string() : "; tables and figure data in " + options.out);
    return 0;
}

struct NamedStudy {
    std::function<StudyResult(const StudyOptions&)> run;
    bool needs_models = true;
};

NamedStudy study_of(const std::string& name) {
    if (name == "simulation") return {[](const StudyOptions& o) { return study_simulation(o.seed); }, false};
    if (name == "tasks") return {study_tasks};
    if (name == "thresholds") return {study_thresholds};
    if (name == "drift") return {study_drift};
    if (name == "landscape") return {study_landscape};
    if (name == "derived") return {study_derived};
    if (name == "scope") return {study_scope};
    if (name == "cache") return {study_cache};
    throw InvariantError("a study that app/cli names and app/engine lacks: " + name);
}

} // namespace

int carry_out(const StudyCommandOptions& options) {
    const NamedStudy study = study_of(options.name);
    return run_study(options, study.run, study.needs_models);
}

} // namespace refreshlab::app
