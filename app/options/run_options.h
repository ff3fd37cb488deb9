#pragma once

#include "app/base/output.h"
#include "engine/control/run_config.h"

#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace refreshlab::app {

/// The options of a run, the same for `run` and `gui`. Values go through set_parameter(), so that ranges and messages
/// are those of --set, JSON and the window.
class RunOptions {
public:
    /// \param defaults  the values of options that are not given, for the help
    void add_to(CLI::App& command, const RunConfig& defaults = {});
    /// `--cache`, of commands whose runs may go on from a prompt's saved cache.
    void add_cache_to(CLI::App& command);

    /// `base` with what was given on the command line on top: models and prompt, then the policy, then --set in order. A
    /// bundled model that cannot take part in a run of the other mode is left out, with a note. Throws Error{bad_input}.
    [[nodiscard]] RunConfig config(RunConfig base) const;
    /// `base` with only the model folders and devices given on the command line: a trace from another machine.
    [[nodiscard]] RunConfig with_models(RunConfig base) const;
    [[nodiscard]] bool has_prompt() const; ///< as text, or in a saved cache
    /// What a run with this configuration reads; for check_outputs().
    [[nodiscard]] std::vector<NamedFile> inputs(const RunConfig& config) const;
    /// Both model folders are given: nothing of the bundled models is needed.
    [[nodiscard]] bool names_models() const { return !m_teacher.empty() && !m_student.empty(); }

private:
    /// A model alone, given by its folder, needs no other model. The bundled counterpart scores it where both have one
    /// vocabulary; where they have not, it is left out with a note instead of refusing the run.
    void leave_out_bundled(RunConfig& config) const;

    std::string m_prompt, m_prompt_file, m_given_file, m_teacher, m_student, m_mode, m_policy,
        m_student_cache, m_teacher_cache, m_cache, m_device, m_teacher_device, m_student_device, m_dtype;
    std::map<std::string, std::string> m_short; ///< of Parameter::option: key, value
    std::vector<std::string> m_set, m_signals, m_triggers;
    int m_threads = 0;
    bool m_raw_prompt = false;
    CLI::Option* m_prompt_option = nullptr;
};

/// Says in one line on stderr when `--threads` asks for more than this machine lets the program use.
void note_threads(int threads);

/// The text below an option list: every --set key with unit, range and meaning.
[[nodiscard]] std::string parameter_help();

} // namespace refreshlab::app
