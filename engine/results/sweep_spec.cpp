#include "engine/results/sweep_spec.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/control/derive/derive_spec.h"
#include "engine/control/parameters.h"
#include "engine/refresh/json_fields.h"
#include "engine/results/sweep_prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace refreshlab {

namespace {

using json = nlohmann::json;
using Pairs = std::vector<std::pair<std::string, std::string>>; ///< parameters in the order they are set

/// One key with the values it goes through.
struct Axis {
    std::string key;
    std::vector<std::string> values;
};

/// A mode with, for overfill, a policy and its own parameters.
struct Arm {
    Mode mode = Mode::overfill;
    RefreshPolicy policy;
    Pairs pairs;
};

/// What is not of the policy: applies to all arms.
struct Setting {
    std::optional<SamplerConfig> sampler;
    std::optional<int32_t> max_tokens;
    Pairs pairs;
    std::string label; ///< of what varies; empty when nothing does
};

/// A policy of the list, with the keys that it alone goes through.
struct PolicyEntry {
    RefreshPolicy policy;
    std::vector<Axis> axes;
};

[[noreturn]] void refuse(const std::string& what, const std::string& key, const std::string& problem,
                         const std::string& hint = {}) {
    throw Error("reading", what, key + ": " + problem, hint);
}

const char* symbol(Comparison comparison) {
    switch (comparison) {
    case Comparison::above:
        return ">";
    case Comparison::at_least:
        return ">=";
    case Comparison::below:
        return "<";
    case Comparison::at_most:
        return "<=";
    }
    return "?";
}

/// A list of at least one element; one element may stand without its brackets.
std::vector<const json*> elements(const json& value, const std::string& what, const std::string& key) {
    if (!value.is_array()) return {&value};
    if (value.empty()) refuse(what, key, "is an empty list", "leave the key out or give at least one value");
    std::vector<const json*> list;
    for (const json& element : value)
        list.push_back(&element);
    return list;
}

std::string item(const std::string& key, size_t i, size_t n) {
    return n == 1 ? key : fmt::format("{}[{}]", key, i);
}

/// A value of "set" as --set takes it.
std::string parameter_text(const json& value, const std::string& what, const std::string& key) {
    if (value.is_null()) return "none";
    if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
    if (value.is_number()) return value.dump();
    if (value.is_string()) return value.get<std::string>();
    refuse(what, key, "must be a number, a text, true, false or null, not " + shown(value));
}

Axis read_axis(const std::string& key, const json& values, const std::string& what, const std::string& path) {
    const std::string where = path + "." + key;
    if (key == "seed" || key == "max_tokens") {
        refuse(what, where, "has a list of its own",
               fmt::format("use \"{}\" beside \"{}\"", key == "seed" ? "seeds" : key, path));
    }
    // Exactly, as every key of a JSON file: set_parameter() would put up with blanks around it.
    if (find_parameter(key) == nullptr)
        refuse(what, where, "there is no such parameter", parameter_hint(key));
    Axis axis;
    axis.key = key;
    for (const json* value : elements(values, what, where)) {
        axis.values.push_back(parameter_text(*value, what, where));
        if (std::count(axis.values.begin(), axis.values.end(), axis.values.back()) > 1)
            refuse(what, where, axis.values.back() + " stands twice");
    }
    return axis;
}

std::vector<Axis> read_axes(const json& object, const std::string& what, const std::string& path) {
    if (!object.is_object())
        refuse(what, path, "must be an object {\"KEY\": [values]}, not " + shown(object));
    std::vector<Axis> axes;
    for (const auto& [key, values] : object.items())
        axes.push_back(read_axis(key, values, what, path));
    return axes;
}

/// Saturating product of the axes' lengths.
int64_t combinations(const std::vector<Axis>& axes) {
    int64_t n = 1;
    for (const Axis& axis : axes)
        n = std::min<int64_t>(n * static_cast<int64_t>(axis.values.size()), int64_t{1} << 31);
    return n;
}

/// Combination number i in row-major order: the last axis runs fastest.
Pairs combination(const std::vector<Axis>& axes, int64_t i) {
    Pairs pairs(axes.size());
    for (size_t a = axes.size(); a-- > 0;) {
        const auto n = static_cast<int64_t>(axes[a].values.size());
        pairs[a] = {axes[a].key, axes[a].values[static_cast<size_t>(i % n)]};
        i /= n;
    }
    return pairs;
}

class SpecReader {
public:
    SpecReader(const std::string& what, const RunConfig& defaults, const SweepFiles& files)
        : m_what(what)
        , m_defaults(defaults)
        , m_files(files) {}

    SweepSpec read(std::string_view text) {
        SweepSpec spec;
        spec.text = text;
        const json document = parse_json(text, m_what);
        JsonFields fields(document, m_what);
        std::string about; // for people
        fields.text("about", about);
        fields.text("name", spec.name);
        read_base(fields.find("base"));
        const std::vector<Mode> modes = read_modes(fields.find("modes"));
        const json* policy_list = fields.find("policies");
        std::vector<PolicyEntry> policies = read_policies(policy_list);
        const json* window_list = fields.find("windows");
        std::vector<Axis> axes = read_set(fields.find("set"));
        if (window_list != nullptr) axes.push_back(read_windows(*window_list));
        const std::vector<Setting> settings =
            read_settings(fields.find("samplers"), fields.find("max_tokens"), axes);
        const bool overfill = std::find(modes.begin(), modes.end(), Mode::overfill) != modes.end();
        if (policy_list != nullptr && !overfill)
            fields.fail("policies", "none of the modes takes a policy", "add \"overfill\" to \"modes\"");
        make_rows(spec, settings, make_arms(modes, policies, axes, overfill));

        const json* prompts = fields.find("prompts");
        if (prompts == nullptr)
            fields.fail("prompts", "missing", "a text, a list of texts or {\"file\": ...}");
        spec.prompts = read_sweep_prompts(*prompts, m_what, m_files, spec.repeated_prompts);
        read_seeds(fields.find("seeds"), spec);
        if (const json* timing = fields.find("timing")) read_timing(*timing, spec);
        if (const json* bootstrap = fields.find("bootstrap")) read_bootstrap(*bootstrap, spec);
        fields.finish();

        const auto cells = static_cast<double>(spec.rows.size()) * static_cast<double>(spec.prompts.size()) *
                           static_cast<double>(spec.seeds.size());
        if (cells > static_cast<double>(sweep_limits::cells)) {
            throw Error("reading", m_what,
                        fmt::format("a grid of {} rows x {} prompts x {} seeds = {:.0f} runs",
                                    spec.rows.size(), spec.prompts.size(), spec.seeds.size(), cells),
                        fmt::format("at most {} runs; split the sweep", sweep_limits::cells));
        }
        return spec;
    }

private:
    void read_base(const json* base) {
        if (base != nullptr) {
            m_base = run_config_from_json(*base, m_what + ", base");
            if (!base->contains("capture")) m_base.capture.attention = false;
            if (!m_base.prompt.empty() || m_base.reads_given() || m_base.task != TaskConfig{})
                refuse(m_what, "base", "holds a prompt, a given text or a task",
                       "they belong into \"prompts\"");
            if (!m_base.prompt_cache.empty())
                refuse(m_what, "base", "holds prompt_cache, the saved cache of one prompt", "leave it out");
        } else {
            m_base.capture.attention = false;
        }
        if (m_base.teacher_dir.empty() && m_base.student_dir.empty()) {
            m_base.teacher_dir = m_defaults.teacher_dir;
            m_base.student_dir = m_defaults.student_dir;
        } else {
            for (std::string* folder : {&m_base.teacher_dir, &m_base.student_dir}) {
                if (is_derivation(*folder)) {
                    *folder = settled_model(*folder,
                                            [this](const std::string& file) { return m_files.find(file); });
                } else if (!folder->empty()) {
                    *folder = m_files.find(*folder);
                }
            }
        }
    }

    std::vector<Mode> read_modes(const json* list) {
        if (list == nullptr) return {m_base.mode};
        std::vector<Mode> modes;
        const auto items = elements(*list, m_what, "modes");
        for (size_t i = 0; i < items.size(); ++i) {
            const std::string key = item("modes", i, items.size());
            std::optional<Mode> found;
            for (const Mode mode : {Mode::teacher, Mode::student, Mode::overfill}) {
                if (items[i]->is_string() && items[i]->get_ref<const std::string&>() == to_string(mode))
                    found = mode;
            }
            if (!found)
                refuse(m_what, key, "must be one of teacher, student, overfill, not " + shown(*items[i]));
            if (std::find(modes.begin(), modes.end(), *found) != modes.end())
                refuse(m_what, key, fmt::format("{} stands twice", to_string(*found)));
            modes.push_back(*found);
        }
        return modes;
    }

    PolicyEntry read_policy(const json& entry, const std::string& key) {
        PolicyEntry read;
        if (entry.is_string()) {
            read.policy = known_preset(entry.get<std::string>(), key);
            return read;
        }
        const bool wrapped = entry.is_object() &&
                             (entry.contains("preset") || entry.contains("file") || entry.contains("policy"));
        if (!wrapped) {
            read.policy = policy_from_json(entry, m_what + ", " + key);
            return read;
        }
        JsonFields fields(entry, m_what, key);
        std::string preset, file, name;
        fields.text("preset", preset);
        fields.text("file", file);
        const json* inline_policy = fields.find("policy");
        fields.text("name", name);
        const json* set = fields.find("set");
        fields.finish();
        if ((preset.empty() ? 0 : 1) + (file.empty() ? 0 : 1) + (inline_policy != nullptr ? 1 : 0) != 1)
            refuse(m_what, key, "takes one of preset, file and policy");
        if (!preset.empty()) read.policy = known_preset(preset, key + ".preset");
        if (!file.empty()) {
            const std::string path = m_files.find(file);
            read.policy = policy_from_json(parse_json(m_files.read(path), path), path);
        }
        if (inline_policy != nullptr)
            read.policy = policy_from_json(*inline_policy, m_what + ", " + key + ".policy");
        if (!name.empty()) read.policy.name = name;
        if (set != nullptr) read.axes = read_axes(*set, m_what, key + ".set");
        return read;
    }

    RefreshPolicy known_preset(const std::string& name, const std::string& key) {
        for (const Preset& preset : presets()) {
            if (preset.name == name) return preset_policy(name);
        }
        std::string known;
        for (const Preset& preset : presets())
            known += (known.empty() ? "" : ", ") + std::string(preset.name);
        refuse(m_what, key, fmt::format("there is no preset {}", shown(json(name))),
               "the presets are " + known);
    }

    std::vector<PolicyEntry> read_policies(const json* list) {
        if (list == nullptr) return {{m_base.policy, {}}};
        std::vector<PolicyEntry> policies;
        const auto items = elements(*list, m_what, "policies");
        for (size_t i = 0; i < items.size(); ++i)
            policies.push_back(read_policy(*items[i], item("policies", i, items.size())));
        return policies;
    }

    Axis read_windows(const json& list) {
        Axis axis;
        axis.key = "window.size";
        for (const json* value : elements(list, m_what, "windows"))
            axis.values.push_back(parameter_text(*value, m_what, "windows"));
        return axis;
    }

    std::vector<Axis> read_set(const json* object) {
        return object == nullptr ? std::vector<Axis>{} : read_axes(*object, m_what, "set");
    }

    /// Takes the axes that are not of the policy out of `axes`.
    std::vector<Setting> read_settings(const json* sampler_list, const json* length_list,
                                       std::vector<Axis>& axes) {
        std::vector<std::optional<SamplerConfig>> samplers;
        if (sampler_list != nullptr) {
            const auto items = elements(*sampler_list, m_what, "samplers");
            for (size_t i = 0; i < items.size(); ++i) {
                const std::string where = m_what + ", " + item("samplers", i, items.size());
                samplers.emplace_back(run_config_from_json(json{{"sampler", *items[i]}}, where).sampler);
            }
        } else {
            samplers.emplace_back(std::nullopt);
        }
        std::vector<std::optional<int32_t>> lengths;
        if (length_list != nullptr) {
            for (const json* value : elements(*length_list, m_what, "max_tokens"))
                lengths.emplace_back(run_config_from_json(json{{"max_tokens", *value}}, m_what).max_tokens);
        } else {
            lengths.emplace_back(std::nullopt);
        }
        std::vector<Axis> own;
        std::vector<Axis> of_policy;
        for (Axis& axis : axes)
            (find_parameter(axis.key)->of_policy ? of_policy : own).push_back(std::move(axis));
        axes = std::move(of_policy);
        const int64_t combined = combinations(own);
        require_rows(combined * static_cast<int64_t>(samplers.size()) * static_cast<int64_t>(lengths.size()));
        std::vector<Setting> settings;
        for (const auto& sampler : samplers) {
            for (const auto& length : lengths) {
                for (int64_t i = 0; i < combined; ++i) {
                    Setting setting{sampler, length, combination(own, i), {}};
                    std::vector<std::string> parts;
                    if (samplers.size() > 1) parts.push_back(sampler_label(*sampler));
                    if (lengths.size() > 1) parts.push_back(fmt::format("N = {}", *length));
                    for (size_t a = 0; a < own.size(); ++a) {
                        if (own[a].values.size() > 1)
                            parts.push_back(fmt::format("{} = {}", own[a].key, setting.pairs[a].second));
                    }
                    setting.label = fmt::format("{}", fmt::join(parts, ", "));
                    settings.push_back(std::move(setting));
                }
            }
        }
        return settings;
    }

    static std::string sampler_label(const SamplerConfig& sampler) {
        if (sampler == SamplerConfig{}) return "greedy";
        std::string label = fmt::format("temperature {}", sampler.temperature);
        if (sampler.top_k != 0) label += fmt::format(" top-k {}", sampler.top_k);
        if (sampler.top_p < 1) label += fmt::format(" top-p {}", sampler.top_p);
        if (sampler.min_p > 0) label += fmt::format(" min-p {}", sampler.min_p);
        return label;
    }

    /// Modes in the order of the table's rows; of overfill one arm for each policy and its parameters.
    std::vector<Arm> make_arms(const std::vector<Mode>& modes, const std::vector<PolicyEntry>& policies,
                               const std::vector<Axis>& shared_axes, bool overfill) {
        std::set<std::string> used;
        std::vector<Arm> arms;
        for (const Mode mode : modes) {
            if (mode != Mode::overfill) {
                arms.push_back({mode, RefreshPolicy{}, {}});
                continue;
            }
            for (const PolicyEntry& entry : policies) {
                std::vector<Axis> axes;
                RunConfig probe = m_base;
                probe.policy = entry.policy;
                for (const Axis& axis : shared_axes) { // its own list of a key stands over the shared one
                    const bool own = std::any_of(entry.axes.begin(), entry.axes.end(),
                                                 [&](const Axis& a) { return same_key(a.key, axis.key); });
                    if (!refreshes_by_itself(entry.policy) || !parameter_value(probe, axis.key)) continue;
                    used.insert(axis.key);
                    if (!own) axes.push_back(axis);
                }
                axes.insert(axes.end(), entry.axes.begin(), entry.axes.end());
                const int64_t combined = combinations(axes);
                require_rows(combined + static_cast<int64_t>(arms.size()));
                for (int64_t i = 0; i < combined; ++i)
                    arms.push_back({mode, entry.policy, combination(axes, i)});
            }
        }
        for (const Axis& axis : shared_axes) {
            if (used.contains(axis.key)) continue;
            refuse(m_what, axis.key == "window.size" ? "windows" : "set." + axis.key,
                   overfill ? "no policy of the grid has it" : "none of the modes takes a policy",
                   "add a policy that does, or leave it out");
        }
        return arms;
    }

    static bool same_key(const std::string& a, const std::string& b) {
        return find_parameter(a)->key == find_parameter(b)->key;
    }

    void make_rows(SweepSpec& spec, const std::vector<Setting>& settings, const std::vector<Arm>& arms) {
        require_rows(static_cast<int64_t>(settings.size()) * static_cast<int64_t>(arms.size()));
        std::set<std::string> labels;
        for (const Setting& setting : settings) {
            const size_t first = spec.rows.size();
            std::optional<size_t> none;
            for (const Arm& arm : arms) {
                SweepRow row;
                row.config = m_base;
                row.config.mode = arm.mode;
                row.config.policy = arm.policy;
                if (setting.sampler) row.config.sampler = *setting.sampler;
                if (setting.max_tokens) row.config.max_tokens = *setting.max_tokens;
                std::string extras;
                for (const Pairs* pairs : {&setting.pairs, &arm.pairs}) {
                    for (const auto& [key, value] : *pairs) {
                        set(row.config, key, value);
                        if (pairs == &arm.pairs && !find_parameter(key)->of_policy)
                            extras += fmt::format(", {} = {}", key, value);
                    }
                }
                check_run_config(row.config, m_what);
                const bool policy = arm.mode == Mode::overfill && refreshes_by_itself(row.config.policy);
                row.label = arm.mode == Mode::teacher   ? "Teacher"
                            : arm.mode == Mode::student ? "Student"
                                                        : "OverFill";
                if (policy) row.label += " + " + policy_label(row.config.policy);
                row.label += extras;
                if (!setting.label.empty()) row.label += ", " + setting.label;
                if (!labels.insert(row.label).second)
                    throw Error("reading", m_what, "two rows of the grid are the same: " + row.label);
                if (arm.mode == Mode::overfill && !policy && extras.empty() && !none) none = spec.rows.size();
                spec.rows.push_back(std::move(row));
            }
            for (size_t r = first; none && r < spec.rows.size(); ++r) {
                const RunConfig& config = spec.rows[r].config;
                if (config.mode == Mode::overfill && refreshes_by_itself(config.policy))
                    spec.rows[r].none_row = none;
            }
        }
    }

    void set(RunConfig& config, const std::string& key, const std::string& value) {
        try {
            set_parameter(config, key, value);
        } catch (const Error& e) {
            throw Error("reading", m_what, fmt::format("{}: {}", key, e.problem()), e.hint());
        }
    }

    void require_rows(int64_t rows) const {
        if (rows <= sweep_limits::rows) return;
        throw Error("reading", m_what, "the grid has too many rows",
                    fmt::format("at most {}; split the sweep", sweep_limits::rows));
    }

    void read_seeds(const json* value, SweepSpec& spec) {
        if (value == nullptr) {
            spec.seeds = {m_base.seed};
            return;
        }
        if (value->is_object()) {
            JsonFields fields(*value, m_what, "seeds");
            uint64_t from = 0;
            int64_t count = 1;
            fields.unsigned_integer("from", from);
            fields.integer("count", count, 1, sweep_limits::cells);
            fields.finish();
            for (int64_t i = 0; i < count; ++i)
                spec.seeds.push_back(from + static_cast<uint64_t>(i));
            return;
        }
        const auto items = elements(*value, m_what, "seeds");
        std::set<uint64_t> seen;
        for (size_t i = 0; i < items.size(); ++i) {
            const std::string key = item("seeds", i, items.size());
            const json one{{"seed", *items[i]}};
            JsonFields fields(one, m_what, key);
            uint64_t seed = 0;
            fields.unsigned_integer("seed", seed);
            if (!seen.insert(seed).second) refuse(m_what, key, fmt::format("{} stands twice", seed));
            spec.seeds.push_back(seed);
        }
    }

    void read_timing(const json& object, SweepSpec& spec) {
        JsonFields fields(object, m_what, "timing");
        int64_t prompts = sweep_limits::prompts;
        spec.timing.pairs = 5;
        fields.integer("pairs", spec.timing.pairs, 5, 1000); // refresh.md, section 7: a median of at least 5
        fields.integer("prompts", prompts, 1, sweep_limits::prompts);
        fields.finish();
        spec.timing.prompts = static_cast<size_t>(prompts);
    }

    void read_bootstrap(const json& object, SweepSpec& spec) {
        JsonFields fields(object, m_what, "bootstrap");
        fields.integer("resamples", spec.bootstrap.resamples, 100, 100'000);
        fields.unsigned_integer("seed", spec.bootstrap.seed);
        fields.real("level", spec.bootstrap.level, 0.5, 0.999);
        fields.finish();
    }

    const std::string& m_what;
    const RunConfig& m_defaults;
    const SweepFiles& m_files;
    RunConfig m_base;
};

} // namespace

bool refreshes_by_itself(const RefreshPolicy& policy) {
    return !policy.at.empty() || std::any_of(policy.triggers.begin(), policy.triggers.end(),
                                             [](const Trigger& t) { return t.enabled; });
}

std::string policy_label(const RefreshPolicy& policy) {
    std::vector<std::string> triggers;
    for (const Trigger& t : policy.triggers) {
        if (!t.enabled) continue;
        std::string text = fmt::format("{} {} {}", t.signal, symbol(t.comparison), t.threshold);
        if (t.every != 1) text += fmt::format(" every {}", t.every);
        if (t.cooldown != 0) text += fmt::format(" cool-down {}", t.cooldown);
        triggers.push_back(std::move(text));
    }
    const char* join = policy.combine == Combine::any ? " or " : " and ";
    std::string label = fmt::format("{} ({}", policy.name, fmt::join(triggers, join));
    if (!policy.at.empty())
        label += fmt::format("{}at steps {}", triggers.empty() ? "" : "; ", fmt::join(policy.at, " "));
    if (policy.window) label += fmt::format("; window {}", *policy.window);
    if (!policy.scope.whole()) label += "; " + scope_text(policy.scope);
    if (policy.on_fire != OnFire::keep) label += fmt::format("; {}", to_string(policy.on_fire));
    if (verifies(policy)) {
        const Verification& verify = policy.verify;
        label += fmt::format(" {}", to_string(verify.rule));
        if (verify.rule == VerifyRule::near_best) label += fmt::format(" {}", verify.share);
        if (verify.rule == VerifyRule::top_k) label += fmt::format(" {}", verify.rank);
        if (verify.target) label += fmt::format(" target {}", *verify.target);
        if (!verify.splice) label += " without splice";
    }
    if (policy.budget.refreshes)
        label += fmt::format("; at most {} per {}", *policy.budget.refreshes, policy.budget.per_tokens);
    return label + ")";
}

RunConfig SweepSpec::config(size_t row, size_t prompt, uint64_t seed) const {
    RunConfig config = rows.at(row).config;
    const SweepPrompt& p = prompts.at(prompt);
    config.prompt = p.text;
    config.given_text = p.given;
    config.task = p.task;
    config.seed = seed;
    return config;
}

SweepSpec parse_sweep_spec(std::string_view text, const std::string& what, const RunConfig& defaults,
                           const SweepFiles& files) {
    return SpecReader(what, defaults, files).read(text);
}

} // namespace refreshlab
