#pragma once

#include "ui/scene/theme/chosen_colours.h"
#include "ui/scene/views/views.h"

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::ui {

/// What the window remembers of a person: one JSON file in Host::user_folder(), apart from layout and traces. No ImGui.
struct Settings {
    std::string theme = "dark";
    std::string layout = "Explore";
    float user_scale = 1.0F; ///< 0.75 .. 3
    bool layout_locked = false;
    bool hints_seen = false; ///< the card of the first start has been shown and answered
    int steps_at_once = 16;  ///< N of "Step N"
    /// That runs in no file may take in the state folder, of one window; 0 = none.
    int autosave_megabytes = 2000;
    double pace = 20; ///< tokens per second of a run that is watched; 0 = as fast as it goes
    std::map<std::string, int, std::less<>> tour; ///< by chapter: the step to go on with
    /// Where each kind of file dialog was last: PathMemory::folders.
    std::map<std::string, std::string, std::less<>> folders;
    /// Teacher and student of the last started runs, the newest first.
    std::vector<std::pair<std::string, std::string>> recent_pairs;
    /// Keys that a person has given actions: ChosenKeys of ui/state/keys.h.
    std::map<std::string, std::string, std::less<>> keys;
    ColoursOfThemes colours = {}; ///< that a person has chosen
    Views views;
    std::map<std::string, Views, std::less<>>
        more_panels; ///< further panels of a kind, by title: "Signals 2"
};

/// Reads folder/settings.json. A missing file gives the defaults. A damaged file gives the defaults as well, is kept beside as
/// settings.json.bad, and `problem` says so (one line), because settings must never keep the window from opening. Out-of-range values are brought
/// into range.
[[nodiscard]] Settings load_settings(const std::filesystem::path& folder, std::string& problem);
/// Makes the folder if needed. Throws Error.
void store_settings(const std::filesystem::path& folder, const Settings& settings);

/// Puts a pair first; the oldest of more than `kept_pairs` goes.
void remember_pair(Settings& settings, const std::string& teacher, const std::string& student);
inline constexpr size_t kept_pairs = 8;

inline constexpr int most_autosave_megabytes = 1'000'000;
inline constexpr int most_steps_at_once = 100'000;
inline constexpr double min_pace = 1, max_pace = 200; ///< beside "as fast as it goes"
/// Twice or half as fast: 1 .. 200, above that as fast as it goes (0).
[[nodiscard]] double next_pace(double pace, bool faster);
/// "20 a second", "max".
[[nodiscard]] std::string pace_text(double pace);

inline constexpr float min_user_scale = 0.75F, max_user_scale = 3.0F;
/// The next step of the user's scale, up or down: 75, 90, 100, 110, 125, 150, 175, 200, 250, 300 %.
[[nodiscard]] float next_scale(float scale, bool up);

} // namespace refreshlab::ui
