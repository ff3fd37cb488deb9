#pragma once

#include "engine/control/run_config.h"
#include "engine/record/notes/run_notes.h"
#include "engine/refresh/own_signal.h"
#include "ui/scene/views/views.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

inline constexpr const char* workspace_extension = ".rlw";
inline constexpr int workspace_version = 1;

/// What a window has open and how it shows it, as plain data: the contents of a workspace file (JSON). Runs stay in their traces,
/// which it names. Fields that a file lacks have the defaults. No ImGui.
struct Workspace {
    struct Trace {
        std::filesystem::path path;    ///< in the file relative to it where it lies beside or below it
        std::vector<std::string> runs; ///< ids of those that were open
    };
    struct Run {
        std::string id;
        int64_t steps = 0; ///< at the time: a trace that has fewer now was changed
        std::string name;  ///< by a person; empty: none
        std::optional<uint32_t> colour;
        bool ticked = false;
        std::vector<OwnSignal> signals = {}; ///< that a person added to it, and its trace lacks
    };
    std::vector<Trace> traces;
    std::vector<Run> runs;
    std::vector<std::filesystem::path> tables; ///< CSV files, as paths of traces; the last one is shown
    std::string shown;                         ///< id of the run that is looked at; empty: none
    std::optional<int64_t> step;               ///< that is selected; nothing: the newest
    bool by_position = false;
    std::string layout;      ///< empty: as it is
    std::string arrangement; ///< arrangement_text(); empty: the bundled one
    Views views;
    std::map<std::string, Views, std::less<>> more_panels; ///< by title
    /// What "New run..." begins with and the panel Policy shows: pair, prompt, settings, policy with its thresholds.
    std::optional<RunConfig> next_run;
    /// Notes that are in no trace, by the id of their run.
    std::map<std::string, std::vector<StepNote>, std::less<>> notes;
};

/// \param file  where the text will stand
[[nodiscard]] std::string workspace_text(const Workspace& workspace, const std::filesystem::path& file);
/// Throws Error{bad_input}: no JSON (with line and column), no workspace, of a newer version, a value of another type or out of its
/// range (with its key). A configuration that this version cannot read is left out and told in `faults`, one line each.
/// \param file  where the text stands; the paths of the result are absolute where it is
[[nodiscard]] Workspace workspace_from_text(std::string_view text, const std::filesystem::path& file,
                                            std::vector<std::string>& faults);
[[nodiscard]] Workspace read_workspace(const std::filesystem::path& file, std::vector<std::string>& faults);

} // namespace refreshlab::ui
