#include "ui/tour/chapter.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/control/parameters.h"
#include "engine/policies/cache_policy_config.h"
#include "engine/refresh/json_fields.h"
#include "engine/refresh/policy.h"
#include "ui/scene/axes/signal_choice.h"
#include "ui/state/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace refreshlab::ui {

namespace {

constexpr size_t most_steps = 100, most_parts = 16;

struct TestName {
    std::string_view key;
    TourCondition::Test test;
};
constexpr std::array<TestName, 4> tests = {{{"grows_by", TourCondition::Test::grows_by},
                                            {"at_least", TourCondition::Test::at_least},
                                            {"at_most", TourCondition::Test::at_most},
                                            {"is", TourCondition::Test::is}}};

/// Reads the values of a chapter, with its name and the place within it for messages.
class Reader {
public:
    explicit Reader(std::string what)
        : m_what(std::move(what)) {}

    [[nodiscard]] Chapter chapter(const nlohmann::json& json) const {
        JsonFields fields(json, m_what);
        Chapter chapter;
        fields.text("title", chapter.title);
        fields.text("about", chapter.about);
        fields.integer("minutes", chapter.minutes, 1, 120);
        if (chapter.title.empty()) fields.fail("title", "is missing");
        for (const auto& step : list(fields, "steps", most_steps))
            chapter.steps.push_back(this->step(step, fmt::format("steps[{}]", chapter.steps.size())));
        if (chapter.steps.empty()) fields.fail("steps", "has no step");
        fields.finish();
        return chapter;
    }

private:
    [[nodiscard]] static std::vector<nlohmann::json> list(JsonFields& fields, std::string_view key,
                                                          size_t most) {
        const nlohmann::json* value = fields.find(key);
        if (value == nullptr) return {};
        if (!value->is_array() || value->size() > most)
            fields.fail(key, fmt::format("must be a list of at most {}", most));
        return {value->begin(), value->end()};
    }

    [[nodiscard]] static std::vector<std::string> words(JsonFields& fields, std::string_view key) {
        const nlohmann::json* value = fields.find(key);
        if (value == nullptr) return {};
        if (value->is_string()) return {value->get<std::string>()};
        std::vector<std::string> all;
        for (const auto& one : list(fields, key, most_parts)) {
            if (!one.is_string()) fields.fail(key, "must be a text or a list of texts");
            all.push_back(one.get<std::string>());
        }
        return all;
    }

    static void text_with_facts(JsonFields& fields, std::string_view key, std::string& out) {
        fields.text(key, out);
        if (const std::string problem = text_fault(out); !problem.empty()) fields.fail(key, problem);
    }

    [[nodiscard]] TourStep step(const nlohmann::json& json, const std::string& path) const {
        JsonFields fields(json, m_what, path);
        TourStep step;
        step.anchors = words(fields, "anchor");
        for (const std::string& anchor : step.anchors)
            if (const std::string problem = text_fault(anchor); !problem.empty())
                fields.fail("anchor", problem);
        fields.text("panel", step.panel);
        text_with_facts(fields, "text", step.text);
        text_with_facts(fields, "then", step.then);
        if (step.text.empty()) fields.fail("text", "is missing");
        if (!step.panel.empty())
            if (const std::string problem = fact_fault("panel:" + step.panel); !problem.empty())
                fields.fail("panel", problem);
        if (const nlohmann::json* until = fields.find("until"))
            step.until = condition(*until, fields.path("until"));
        if (!step.until && !step.then.empty())
            fields.fail("then", "needs until: there is nothing to wait for");
        if (const nlohmann::json* start = fields.find("start"))
            step.set_up = set_up(*start, fields.path("start"));
        const auto moves = list(fields, "do", most_parts);
        for (size_t i = 0; i < moves.size(); ++i)
            step.moves.push_back(move(moves[i], fmt::format("{}[{}]", fields.path("do"), i)));
        fields.finish();
        return step;
    }

    [[nodiscard]] TourCondition condition(const nlohmann::json& json, const std::string& path) const {
        JsonFields fields(json, m_what, path);
        TourCondition condition;
        for (const auto& [key, kind] :
             {std::pair{"all", TourCondition::Kind::all}, {"any", TourCondition::Kind::any}}) {
            const auto parts = list(fields, key, most_parts);
            if (parts.empty()) continue;
            condition.kind = kind;
            for (size_t i = 0; i < parts.size(); ++i)
                condition.parts.push_back(
                    this->condition(parts[i], fmt::format("{}[{}]", fields.path(key), i)));
            fields.finish();
            return condition;
        }
        fields.text("fact", condition.fact);
        if (condition.fact.empty()) fields.fail("fact", "is missing");
        if (const std::string problem = fact_fault(condition.fact); !problem.empty())
            fields.fail("fact", problem);
        bool changed = true;
        fields.boolean("changed", changed);
        if (!changed) fields.fail("changed", "can only be true");
        for (const auto& [key, test] : tests) {
            const nlohmann::json* value = fields.find(key);
            if (value == nullptr) continue;
            if (condition.test != TourCondition::Test::changed) fields.fail(key, "is one test too many");
            condition.test = test;
            if (value->is_number())
                condition.value = value->get<double>();
            else if (value->is_string() && test == TourCondition::Test::is)
                condition.value = value->get<std::string>();
            else
                fields.fail(key, test == TourCondition::Test::is ? "must be a number or a text"
                                                                 : "must be a number");
        }
        fields.finish();
        return condition;
    }

    [[nodiscard]] TourMove move(const nlohmann::json& json, const std::string& path) const {
        JsonFields fields(json, m_what, path);
        TourMove move;
        bool found = false;
        for (const auto& [key, kind] : {std::pair{"click", TourMove::Kind::click},
                                        {"right_click", TourMove::Kind::right_click},
                                        {"drag", TourMove::Kind::drag},
                                        {"action", TourMove::Kind::action},
                                        {"item", TourMove::Kind::item},
                                        {"type", TourMove::Kind::type},
                                        {"choose", TourMove::Kind::choose}}) {
            if (fields.find(key) == nullptr) continue;
            if (found) fields.fail(key, "is one move too many");
            found = true;
            move.kind = kind;
            text_with_facts(fields, key, move.target);
        }
        if (fields.find("wait") != nullptr) {
            if (found) fields.fail("wait", "is one move too many");
            found = true;
            move.kind = TourMove::Kind::wait;
            fields.integer("wait", move.steps, 1, 100000);
        }
        if (move.kind == TourMove::Kind::drag) {
            double dx = 0, dy = 0;
            fields.real("right", dx, -200, 200);
            fields.real("down", dy, -200, 200);
            move.dx = static_cast<float>(dx);
            move.dy = static_cast<float>(dy);
        }
        if (move.kind == TourMove::Kind::type) fields.text("text", move.text);
        if (!found)
            fields.fail("click",
                        "is missing: a move is click, right_click, drag, action, item, choose, type or wait");
        fields.finish();
        return move;
    }

    [[nodiscard]] TourSetUp set_up(const nlohmann::json& json, const std::string& path) const {
        JsonFields fields(json, m_what, path);
        TourSetUp up;
        fields.text("layout", up.layout);
        if (!up.layout.empty() && std::ranges::find(layout_names(), up.layout) == layout_names().end())
            fields.fail("layout", fmt::format("there is no layout \"{}\"", up.layout));
        fields.text("coloured_by", up.coloured_by);
        fields.text("plots", up.plots);
        if (!up.plots.empty()) static_cast<void>(parse_plots(up.plots, m_what + ": " + fields.path("plots")));
        if (const nlohmann::json* run = fields.find("run")) {
            up.starts_run = true;
            read_run(*run, fields.path("run"), up);
        }
        fields.finish();
        return up;
    }

    void read_run(const nlohmann::json& json, const std::string& path, TourSetUp& up) const {
        JsonFields fields(json, m_what, path);
        fields.text("prompt", up.prompt);
        fields.text("teacher", up.teacher);
        fields.text("student", up.student);
        fields.integer("steps", up.steps, 0, 100000);
        fields.boolean("goes_on", up.goes_on);
        fields.real("pace", up.pace, 0, 1000);
        if (const nlohmann::json* policy = fields.find("policy")) up.policy = this->policy(fields, *policy);
        read_cache(fields, "student_cache", up.student_cache);
        read_cache(fields, "teacher_cache", up.teacher_cache);
        if (const nlohmann::json* set = fields.find("set")) {
            if (!set->is_object()) fields.fail("set", "must be an object of parameters");
            for (const auto& [key, value] : set->items()) {
                if (find_parameter(key) == nullptr)
                    fields.fail("set", fmt::format("there is no parameter \"{}\"", key), parameter_hint(key));
                up.set.emplace_back(key, value.is_string() ? value.get<std::string>() : value.dump());
            }
        }
        fields.finish();
    }

    /// A preset's name, or a policy as a file has it.
    [[nodiscard]] RefreshPolicy policy(const JsonFields& fields, const nlohmann::json& json) const {
        try {
            return json.is_string() ? preset_policy(json.get<std::string>())
                                    : policy_from_json(json, m_what + ": " + fields.path("policy"));
        } catch (const Error& e) {
            fields.fail("policy", e.problem(), e.hint());
        }
    }

    void read_cache(JsonFields& fields, std::string_view key, std::optional<CachePolicyConfig>& cache) const {
        std::string name;
        fields.text(key, name);
        if (!name.empty()) cache = cache_policy_defaults(name, m_what + ": " + fields.path(key));
    }

    std::string m_what;
};

} // namespace

bool TourCondition::holds(const ShellState& state,
                          const std::map<std::string, FactValue, std::less<>>& before) const {
    const auto part_holds = [&](const TourCondition& part) { return part.holds(state, before); };
    if (kind == Kind::all) return std::ranges::all_of(parts, part_holds);
    if (kind == Kind::any) return std::ranges::any_of(parts, part_holds);
    const auto now = ui::fact(state, fact);
    const auto was = before.find(fact);
    if (test == Test::changed) {
        if (!now) return was != before.end();
        return was == before.end() || !(was->second == *now);
    }
    if (!now) return false;
    if (test == Test::is) return *now == value;
    const double* const number = std::get_if<double>(&*now);
    if (number == nullptr) return false;
    const double wanted = std::get<double>(value);
    if (test == Test::at_least) return *number >= wanted;
    if (test == Test::at_most) return *number <= wanted;
    const double* const first = was == before.end() ? nullptr : std::get_if<double>(&was->second);
    return *number >= (first != nullptr ? *first : 0) + wanted;
}

void TourCondition::collect_facts(std::vector<std::string>& into) const {
    if (kind == Kind::fact) into.push_back(fact);
    for (const TourCondition& part : parts)
        part.collect_facts(into);
}

Chapter parse_chapter(const nlohmann::json& json, const std::string& what) {
    return Reader(what).chapter(json);
}

Chapter read_chapter(const std::filesystem::path& file) {
    Chapter chapter = parse_chapter(read_json_file(file, 1 << 20), file.string());
    chapter.id = file.stem().string();
    return chapter;
}

std::vector<Chapter> read_chapters(const std::filesystem::path& folder, std::vector<std::string>& problems) {
    std::vector<std::filesystem::path> files;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error))
        if (entry.path().extension() == ".json") files.push_back(entry.path());
    std::ranges::sort(files);
    std::vector<Chapter> chapters;
    for (const auto& file : files) {
        try {
            chapters.push_back(read_chapter(file));
        } catch (const Error& e) {
            problems.emplace_back(e.what());
        }
    }
    return chapters;
}

std::vector<Chapter> all_chapters(const ShellState& state, std::vector<std::string>& problems) {
    std::vector<Chapter> all = read_chapters(state.ctx.host.assets() / "tour", problems);
    const auto own = state.ctx.host.user_folder();
    if (own.empty()) return all;
    for (Chapter& chapter : read_chapters(own / "tour", problems))
        all.push_back(std::move(chapter));
    return all;
}

} // namespace refreshlab::ui
