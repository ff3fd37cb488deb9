#include "app/options/run_options.h"

#include "app/options/engine_module.h"
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/control/derive/derive_spec.h"
#include "engine/control/named_policies.h"
#include "engine/control/parameters.h"
#include "kernels/execution/cores.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <optional>

namespace refreshlab::app {

namespace {

template <class Enum, size_t N>
Enum named(const std::string& option, const std::string& value, const Enum (&values)[N]) {
    std::string known;
    for (const Enum v : values) {
        if (to_string(v) == value) return v;
        known += (known.empty() ? "" : ", ") + std::string(to_string(v));
    }
    throw Error("reading", option, "'" + value + "' is not one of " + known);
}

/// An editor's byte order mark and final line end are no part of the prompt.
std::string text_of_file(std::string text) {
    if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
    if (text.ends_with("\r\n")) {
        text.resize(text.size() - 2);
    } else if (text.ends_with('\n')) {
        text.pop_back();
    }
    return text;
}

/// ", default 64": what presets give to the key; empty where none has it. A key of a trigger has the value of the preset that
/// it is named after, else of the first that has the trigger. A key that every preset has may differ between them: ", default
/// none (window: 32; burst: 8)".
std::string default_text(const Parameter& parameter) {
    if (parameter.key.find("_cache.") != std::string_view::npos)
        return {};                                           // differ: refreshlab policies has them
    std::vector<std::pair<std::string, std::string>> values; // preset, value
    for (const Preset& preset : presets()) {
        RunConfig config;
        config.policy = preset_policy(preset.name);
        if (auto value = parameter_value(config, parameter.key))
            values.emplace_back(preset.name, std::move(*value));
    }
    if (values.empty()) return {};
    std::string text = values.front().second, others;
    if (values.size() == presets().size()) {
        for (const auto& [preset, value] : values) {
            if (value != text) others += fmt::format("{}{}: {}", others.empty() ? "" : "; ", preset, value);
        }
    } else {
        for (const auto& [preset, value] : values) {
            if (parameter.key.starts_with(preset + ".")) text = value;
        }
    }
    return ", default " + text + (others.empty() ? "" : " (" + others + ")");
}

/// Whole numbers in full: a person should be able to type what stands there.
std::string number(double v) {
    if (v == 18446744073709551616.0) return "18446744073709551615"; // of whole numbers of 64 bits
    if (v == std::floor(v) && std::abs(v) < 1e15) return fmt::format("{:.0f}", v);
    return fmt::format("{:g}", v);
}

} // namespace

bool RunOptions::has_prompt() const {
    return m_prompt_option->count() > 0 || !m_prompt_file.empty() || !m_cache.empty();
}

void RunOptions::add_cache_to(CLI::App& command) {
    command
        .add_option(
            "--cache", m_cache,
            "Continue from a prompt's saved cache (run --save-cache) instead of reading the prompt again: of "
            "the same model, dtype and tokens. Without a prompt, the one that was saved")
        ->type_name("FILE");
}

void RunOptions::add_to(CLI::App& command, const RunConfig& defaults) {
    // The last one wins, so that a script can append to a command line.
    command.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    m_prompt_option = command.add_option("--prompt", m_prompt, "Prompt text")->type_name("TEXT");
    command
        .add_option(
            "--prompt-file", m_prompt_file,
            "Read the prompt from a UTF-8 file; a byte order mark and the final line end do not count")
        ->type_name("FILE")
        ->excludes(m_prompt_option);
    command
        .add_option("--given-file", m_given_file,
                    "Read the continuation from a UTF-8 file instead of drawing it (teacher forcing): "
                    "signals and refreshes work as always, and --max-tokens is the limit; every byte counts, "
                    "also a final line end")
        ->type_name("FILE");
    command.add_flag("--raw-prompt", m_raw_prompt,
                     "Use the prompt as it is, without the model's chat template");
    command
        .add_option("--teacher", m_teacher,
                    "Teacher: a checkpoint folder or a .gguf file (default: the bundled teacher)")
        ->type_name("MODEL");
    command
        .add_option(
            "--student", m_student,
            "Student: a checkpoint folder, a .gguf file, or derive:SPEC, made of the teacher's weights: "
            "derive:bits=3,group=32 (docs/howto/derived-students.md); default: the bundled student")
        ->type_name("MODEL|derive:SPEC");
    command
        .add_option("--mode", m_mode,
                    "Who prefills and decodes: teacher, student, overfill (teacher prefills, student "
                    "decodes); default overfill")
        ->type_name("MODE");
    command
        .add_option("--policy", m_policy,
                    "When to refresh: none, periodic, window, entropy, kl, burst, mc; to verify as well: "
                    "speculative, "
                    "entropy_stop, confidence_stop, verify_when_unsure; or a JSON file "
                    "(docs/reference/refresh-policies.md); default "
                    "none, in the window entropy")
        ->type_name("PRESET|FILE");
    for (auto* const value : {&m_student_cache, &m_teacher_cache}) {
        const bool student = value == &m_student_cache;
        command
            .add_option(student ? "--student-cache" : "--teacher-cache", *value,
                        student ? "Which entries the student's cache keeps and reads: a cache policy "
                                  "(refreshlab policies), a "
                                  "JSON object or a JSON file; default full"
                                : "The same for the teacher's cache, in mode teacher; default full")
            ->type_name("NAME|FILE");
    }
    command
        .add_option("--signal", m_signals,
                    "A signal of your own, recorded and plotted like any other: \"rise = entropy_bits - "
                    "mean(entropy_bits, 16)\" (docs/reference/refresh-policies.md); may be repeated")
        ->type_name("NAME=EXPRESSION")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false);
    command
        .add_option(
            "--trigger", m_triggers,
            "One more trigger of the policy: \"rise > 1.5\", \"top1_prob < 0.3 every 4 cooldown 16\"; may be "
            "repeated")
        ->type_name("SIGNAL>X")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false);
    command.add_option("--set", m_set, "Set one parameter; may be repeated. Keys are listed below")
        ->type_name("KEY=VALUE")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false);
    for (const Parameter& parameter : parameters()) {
        if (parameter.option.empty()) continue;
        const std::string name(parameter.option), key(parameter.key), help(parameter.help);
        if (parameter.kind == Parameter::Kind::boolean) {
            command.add_flag_callback(
                name, [this, key] { m_short[key] = "true"; }, help);
        } else {
            command
                .add_option_function<std::string>(
                    name, [this, key](const std::string& value) { m_short[key] = value; },
                    fmt::format("{} Default {}", help, *parameter_value(defaults, key)))
                ->type_name(parameter.kind == Parameter::Kind::integer ? "N"
                            : parameter.kind == Parameter::Kind::text  ? "FILE"
                                                                       : "X");
        }
    }
    command.add_option("--device", m_device, "Device of both models: auto (the default), cpu, cuda, cuda:N")
        ->type_name("DEVICE");
    command.add_option("--teacher-device", m_teacher_device, "Device of the teacher, if it differs")
        ->type_name("DEVICE");
    command.add_option("--student-device", m_student_device, "Device of the student, if it differs")
        ->type_name("DEVICE");
    command
        .add_option("--dtype", m_dtype,
                    "Weights and caches: f32 (the default), bf16, f16, or native: the blocks of a GGUF file "
                    "as they are")
        ->type_name("DTYPE");
    command
        .add_option("--threads", m_threads,
                    "CPU threads, at most one a core; 0 = OMP_NUM_THREADS, else all cores that this process "
                    "may use. Results do not depend on it")
        ->type_name("N")
        ->check(CLI::Range(0, 4096));
    command.footer(parameter_help());
}

std::vector<NamedFile> RunOptions::inputs(const RunConfig& config) const {
    return {{"--prompt-file", m_prompt_file},
            {"--given-file", m_given_file},
            {"--policy", m_policy},
            {"--student-cache", m_student_cache},
            {"--teacher-cache", m_teacher_cache},
            {"--cache", config.prompt_cache},
            {"--bridge", config.bridge.path},
            {"--teacher", config.teacher_dir},
            {"--student", is_derivation(config.student_dir) ? derivation_of(config.student_dir).text
                                                            : config.student_dir}};
}

RunConfig RunOptions::with_models(RunConfig base) const {
    const std::pair<std::string&, const std::string&> given[] = {
        {base.teacher_dir, m_teacher},
        {base.student_dir, m_student},
        {base.device, m_device},
        {base.teacher_device, m_teacher_device},
        {base.student_device, m_student_device},
    };
    for (const auto& [field, value] : given) {
        if (!value.empty()) field = value;
    }
    if (is_derivation(base.teacher_dir))
        throw Error("reading --teacher", base.teacher_dir, "a teacher cannot be derived",
                    "give a folder or a .gguf file; --student takes derive:SPEC");
    base.student_dir = settled_model(base.student_dir);
    return base;
}

void RunOptions::leave_out_bundled(RunConfig& config) const {
    const bool alone = config.mode == Mode::student   ? m_teacher.empty() && !m_student.empty()
                       : config.mode == Mode::teacher ? m_student.empty() && !m_teacher.empty()
                                                      : false;
    if (is_derivation(config.student_dir)) return; // of whichever teacher there is
    if (!alone || engine_module().same_tokenizer(config.teacher_dir, config.student_dir)) return;
    const bool teacher = config.mode == Mode::student;
    (teacher ? config.teacher_dir : config.student_dir).clear();
    say("note: the bundled {} has another vocabulary and takes no part in this run{}\n",
        teacher ? "teacher" : "student",
        teacher ? ": what needs a teacher (teacher perplexity, KL) stays empty" : "");
}

RunConfig RunOptions::config(RunConfig base) const {
    RunConfig config = with_models(std::move(base));
    if (!m_cache.empty()) {
        config.prompt_cache = m_cache;
        config.prompt.clear(); // where none is given, the one that was saved
    }
    if (m_prompt_option->count() > 0) config.prompt = m_prompt;
    if (!m_prompt_file.empty()) config.prompt = text_of_file(read_file(m_prompt_file, size_t{1} << 26));
    if (!m_given_file.empty()) {
        config.given_text = read_file(m_given_file, size_t{1} << 26);
        if (config.given_text.empty()) throw Error("reading --given-file", m_given_file, "is empty");
    }
    if (m_raw_prompt) config.raw_prompt = true;
    if (!m_mode.empty())
        config.mode = named("--mode", m_mode, {Mode::teacher, Mode::student, Mode::overfill});
    if (!m_dtype.empty())
        config.dtype = named("--dtype", m_dtype, {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::native});
    if (m_threads > 0) config.threads = m_threads;
    note_threads(m_threads);
    if (!m_policy.empty()) config.policy = named_policy(m_policy, "--policy");
    for (const std::string& text : m_signals)
        config.policy.signals.push_back(own_signal_from_text(text, "--signal"));
    if (!m_triggers.empty()) no_longer_none(config.policy);
    for (const std::string& text : m_triggers)
        config.policy.triggers.push_back(trigger_from_text(text, "--trigger", config.policy.signals));
    if (!m_signals.empty() || !m_triggers.empty()) check_policy(config.policy, "the command line");
    if (!m_student_cache.empty())
        config.student_cache = named_cache_policy(m_student_cache, "--student-cache");
    if (!m_teacher_cache.empty())
        config.teacher_cache = named_cache_policy(m_teacher_cache, "--teacher-cache");
    for (const auto& [key, value] : m_short)
        set_parameter(config, key, value);
    for (const std::string& assignment : m_set)
        set_parameter(config, assignment);
    leave_out_bundled(config);
    return config;
}

void note_threads(int threads) {
    const int cores = kernels::usable_cores();
    if (threads <= cores) return;
    say("note: --threads {}: this program may use {} core{} here, and so many threads\n", threads, cores,
        cores == 1 ? "" : "s");
}

std::string parameter_help() {
    std::string text = "Keys of --set:\n";
    for (const Parameter& p : parameters()) {
        std::string range;
        if (p.kind == Parameter::Kind::choice) {
            for (const auto& choice : p.choices)
                range += (range.empty() ? "" : "|") + std::string(choice);
        } else if (p.kind == Parameter::Kind::boolean) {
            range = "true|false";
        } else if (p.kind == Parameter::Kind::text) {
            range = p.form;
        } else if (p.kind == Parameter::Kind::list) {
            range = "whole numbers with commas, or " + std::string(p.choices.front());
        } else {
            range = number(p.min) + ".." + number(p.max) + (p.optional ? " or none" : "");
        }
        text += fmt::format("  {:<24} {}{}{} [{}{}]\n", p.key, p.help,
                            p.unit.empty() ? "" : " Unit: ", p.unit, range, default_text(p));
    }
    return text;
}

} // namespace refreshlab::app
