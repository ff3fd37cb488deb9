#pragma once

#include "engine/control/run_config.h"
#include "ui/scene/views/views.h"
#include "ui/tour/facts.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

/// What a step of the tour waits for. Facts are compared with what they were when the step began.
struct TourCondition {
    enum class Kind : uint8_t { fact, all, any };
    enum class Test : uint8_t { changed, grows_by, at_least, at_most, is };
    Kind kind = Kind::fact;
    std::string fact;
    Test test = Test::changed;
    FactValue value = 0.0;
    std::vector<TourCondition> parts; ///< of all and any

    /// \param before  values of facts() at the beginning; absent: not known then
    [[nodiscard]] bool holds(const ShellState& state,
                             const std::map<std::string, FactValue, std::less<>>& before) const;
    void collect_facts(std::vector<std::string>& into) const;
};

/// How somebody does what a step asks for: the suite plays a chapter with these, and the page of the tour says them.
struct TourMove {
    enum class Kind : uint8_t {
        click,       ///< the middle of a landmark
        right_click, ///< the same
        drag,        ///< from the middle of a landmark by so many ems
        action,      ///< by its key, or from the palette
        item,        ///< a control by its path: "//Runs/**/Go on"
        wait,        ///< until so many steps have been made
        type,        ///< text into the control of a path, and Enter
        choose,      ///< a line of a list: "//Policy/student/##student cache/RefreshKV"
    };
    Kind kind = Kind::click;
    std::string target; ///< landmark, action id, path
    float dx = 0, dy = 0;
    int64_t steps = 0;
    std::string text;
};

/// What the window looks like when a step begins.
struct TourSetUp {
    bool starts_run = false;
    std::string prompt; ///< empty: the present one
    std::string teacher = {},
                student =
                    {}; ///< paths, or names of published models; empty: the bundled pair. "derive:SPEC":
                        ///< a student made of the teacher
    std::optional<RefreshPolicy> policy = {};
    std::vector<std::pair<std::string, std::string>> set = {}; ///< parameters, by key
    std::optional<CachePolicyConfig> student_cache = {},
                                     teacher_cache = {}; ///< nothing: they keep all entries
    int64_t steps = 0;                                   ///< made at once; then the run waits
    bool goes_on = false;                                ///< it does not wait
    double pace = 0;    ///< tokens a second of a run that goes on; 0: as it is set
    std::string layout; ///< empty: as it is
    std::string coloured_by;
    std::string plots; ///< as `--signals` takes them; empty: as they are
};

struct TourStep {
    std::vector<std::string> anchors;   ///< landmarks; the first one that is drawn
    std::string panel;                  ///< brought to the front; empty: none
    std::string text;                   ///< what to do: one or two sentences, with facts
    std::optional<TourCondition> until; ///< nothing: it is only read
    std::string then; ///< what has happened, with facts; empty: the next step begins at once
    std::optional<TourSetUp> set_up;
    std::vector<TourMove> moves;
};

/// A chapter of the tour: data, so that a lab writes its own (assets/tour/*.json, and the folder `tour` beside the settings).
struct Chapter {
    std::string id; ///< its file's name without .json
    std::string title, about;
    int minutes = 5;
    std::vector<TourStep> steps;
};

/// Throws Error{bad_input} in one line that names file, step and key: what is no JSON, unknown keys, facts, actions, policies and
/// parameters that there are not, a step without text, a chapter without steps.
[[nodiscard]] Chapter read_chapter(const std::filesystem::path& file);
[[nodiscard]] Chapter parse_chapter(const nlohmann::json& json, const std::string& what);

/// All chapters of a folder by their file names. One with a mistake is left out and its line is in `problems`.
[[nodiscard]] std::vector<Chapter> read_chapters(const std::filesystem::path& folder,
                                                 std::vector<std::string>& problems);

/// The bundled ones, then a person's own.
[[nodiscard]] std::vector<Chapter> all_chapters(const ShellState& state, std::vector<std::string>& problems);

} // namespace refreshlab::ui
