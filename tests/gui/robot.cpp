#include "tests/gui/robot.h"

#include "engine/control/parameters.h"
#include "engine/record/recording/recording.h"
#include "engine/remote/offered_parts.h"
#include "ui/scene/runs/run_set.h"

#include <imgui_internal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <unordered_set>

namespace refreshlab::gui {

namespace {

AppWindow::Options window_options(Stage::Kind kind) {
    AppWindow::Options options;
    options.headless = true;
    options.width = 1280;
    options.height = 800;
    options.shell.restore_user_layout = false;
    options.shell.first_start_hints = kind == Stage::Kind::first_start;
    options.shell.remote = kind == Stage::Kind::remote || kind == Stage::Kind::two_processes;
    options.state_folder = std::filesystem::path(RL_BUILD_DIR) / "test_gui_state";
    options.command_line = "test_gui";
    options.shell.ask_before_closing = true;
    return options;
}

// How long the loop waits for news of the engine between two frames of a waiting test. No test depends on it: the
// limits count frames.
constexpr double wait_for_news_s = 0.05;
// Of a limit: frames that nobody paints come so fast that the engine, or a busy disk, would have no time.
constexpr std::chrono::milliseconds least_frame(35);

} // namespace

// --- Image ---

uint32_t Image::at(int x, int y) const {
    return pixels[static_cast<size_t>(std::clamp(y, 0, height - 1)) * static_cast<size_t>(width) +
                  static_cast<size_t>(std::clamp(x, 0, width - 1))];
}

uint32_t Image::at(double x, double y) const {
    return at(static_cast<int>(std::floor(x)), static_cast<int>(std::floor(y)));
}

size_t Image::colours() const {
    return std::unordered_set<uint32_t>(pixels.begin(), pixels.end()).size();
}

int colour_distance(uint32_t a, uint32_t b) {
    int sum = 0;
    for (const unsigned shift : {0U, 8U, 16U})
        sum += std::abs(static_cast<int>(a >> shift & 0xFFU) - static_cast<int>(b >> shift & 0xFFU));
    return sum;
}

// --- Stage ---

Stage::Stage(Kind kind)
    : link([&]() -> std::unique_ptr<remote::RemoteEngine> {
        remote::RemoteEngine::Options options;
        if (kind == Kind::remote) {
            serve();
            options.server = server->endpoint();
        } else if (kind == Kind::two_processes) {
            const auto folder = Robot::scratch("far");
            std::filesystem::remove_all(folder);
            far = std::make_unique<ServerProcess>(folder);
            options.server = remote::parse_endpoint(far->address(), "--connect");
        } else {
            return nullptr;
        }
        options.name = "the window";
        return std::make_unique<remote::RemoteEngine>(options);
    }())
    , window(link ? static_cast<EngineLink&>(*link) : engine, window_options(kind)) {
    window.context().landmarks.watch();
}

void Stage::serve(const std::string& on) {
    remote::EngineServer::Options options;
    options.listen = remote::parse_endpoint(on, "--listen");
    const auto assets = std::filesystem::path(RL_BUILD_DIR).parent_path() / "assets";
    options.models = [assets] { return models_in(assets / "models"); };
    options.files = Robot::scratch("served");
    options.parts = [] { return remote::parts_in(Robot::scratch("parts")); };
    server = std::make_unique<remote::EngineServer>(engine, options);
}

std::filesystem::path Stage::far_trace() {
    for (const auto& entry : std::filesystem::directory_iterator(Robot::scratch("far")))
        if (entry.path().extension() == ".rlt") return entry.path();
    throw std::runtime_error("the server has recorded nothing");
}

void Stage::turn() {
    window.frame();
    if (std::exchange(waiting, false)) window.wait(wait_for_news_s);
}

// --- the run ---

RunConfig Robot::config(int32_t max_tokens) {
    const auto models = window().assets() / "models";
    RunConfig run;
    run.teacher_dir = (models / "llama-tales-teacher").string();
    run.student_dir = (models / "llama-tales-student").string();
    run.device = "cpu";
    run.threads = 1;
    run.prompt = "Write a chronicle of 6 companies.";
    run.max_tokens = max_tokens;
    run.ignore_stop = true;
    run.seed = 11;
    run.policy = preset_policy("entropy");
    set_parameter(run, "entropy.threshold", "6");
    set_parameter(run, "entropy.every", "1");
    set_parameter(run, "entropy.cooldown", "4");
    set_parameter(run, "on_fire", "redraw");
    return run;
}

RunConfig Robot::slow_config() {
    RunConfig run = config(1900);
    run.shadow = true;
    run.mc.measure = true;
    run.mc.every = 1;
    run.mc.samples = 16;
    return run;
}

void Robot::start(const RunConfig& run, int32_t steps) {
    // What an earlier test left open is closed; the panels go back to their first places.
    te->KeyPress(ImGuiKey_Escape);
    for (const char* title : {"New run", "Save picture", "Export CSV", "Export plotted values", "Open trace",
                              "Save trace", "Save workspace", "Open workspace", "Last session", "Settings",
                              "Unsaved run", "Shortcuts and gestures", "Find a command", "About RefreshLab"})
        if (dialog_open(title)) close_dialog(title);
    ctx().toasts.dismiss_all();
    ctx().run_action("file.close_trace");
    ctx().runs.untick_all();
    ctx().runs.by_position = false;
    ctx().run_action("view.scale_reset");
    ctx().run_action("view.layout.explore");
    frames(2);
    ctx().run_action("view.layout.reset");
    frames(2);
    move_away();

    const auto before = recording();
    engine().send(command::StartRun{run, true});
    if (steps > 0) engine().send(command::Step{steps});
    const bool stands = until([&] {
        const auto now = recording();
        return now && now != before && now->steps() == steps && status()->state == EngineState::paused &&
               status()->queued_commands == 0;
    });
    if (!stands)
        te->LogError("the engine is %s after %d of %d steps, %d commands wait; newest error: %s",
                     to_string(status()->state), recording() ? static_cast<int>(recording()->steps()) : -1,
                     steps, static_cast<int>(status()->queued_commands), status()->error.c_str());
    GUI_CHECK(stands);
    ctx().select_step(std::nullopt);
    ctx().run_action("view.follow");
    GUI_CHECK(until([&] { return ctx().recording == recording() && ctx().steps == steps; }, 10));
    frames(3);
}

void Robot::forget_other_runs() {
    for (const RunTree::Row& row : ctx().runs.tree().rows())
        if (ctx().runs.live() != row.key) ctx().runs.remove(row.key);
    frames(2);
}

void Robot::step(int32_t steps) {
    const int64_t target = recording()->steps() + steps;
    engine().send(command::Step{steps});
    GUI_CHECK(
        until([&] { return status()->state == EngineState::paused && recording()->steps() == target; }));
    GUI_CHECK(until([&] { return ctx().steps == target; }, 10));
}

bool Robot::until(const std::function<bool()>& condition, int max_frames) {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + max_frames * least_frame;
    for (int i = 0; i < max_frames || Clock::now() < end; ++i) {
        if (te->IsError())
            throw TestFailed{}; // a helper of the test engine has failed: nothing more to wait for
        if (condition()) return true;
        m_stage.waiting = true;
        te->Yield();
    }
    return condition();
}

// --- actions ---

const ui::Action& Robot::action(std::string_view id) {
    const auto& all = window().shell().actions();
    const auto found = std::ranges::find_if(all, [&](const ui::Action& a) { return a.id == id; });
    if (found == all.end()) {
        IM_ERRORF("there is no action %s", std::string(id).c_str());
        throw TestFailed{};
    }
    return *found;
}

bool Robot::enabled(std::string_view id) {
    return action(id).enabled(ctx());
}

bool Robot::checked(std::string_view id) {
    const ui::Action& a = action(id);
    return a.checked && a.checked(ctx());
}

void Robot::act(std::string_view id) {
    const ui::Action& a = action(id);
    if (a.shortcut == 0) return act_by_palette(id);
    constexpr int frames_to_wait = 60; // the engine may be ahead of what the window knows of it
    if (!until([&] { return enabled(id); }, frames_to_wait)) {
        IM_ERRORF("action %s is disabled: %s", a.id.c_str(), a.reason(ctx()).c_str());
        throw TestFailed{};
    }
    te->KeyPress(a.shortcut);
    m_stage.ran.insert(std::string(id));
    frames(2);
}

void Robot::act_by_palette(std::string_view id) {
    const ui::Action& a = action(id);
    GUI_CHECK(enabled(id));
    if (id != "help.palette") {
        act("help.palette");
        ImGuiWindow* hits = te->WindowInfo("//Find a command/hits").Window;
        GUI_CHECK(hits != nullptr);
        te->SetRef(hits);
        te->ItemClick(("###" + a.id).c_str());
        te->SetRef("");
    }
    m_stage.ran.insert(std::string(id));
    frames(2);
}

void Robot::act_by_item(std::string_view id, const char* item) {
    GUI_CHECK(enabled(id));
    te->ItemClick(item);
    m_stage.ran.insert(std::string(id));
    frames(1);
}

// --- the mouse ---

std::optional<ui::Landmarks::Box> Robot::find(const std::string& landmark) {
    return ctx().landmarks.find(landmark);
}

ui::Landmarks::Box Robot::box(const std::string& landmark) {
    const auto found = find(landmark);
    if (!found) {
        IM_ERRORF("nothing is drawn as \"%s\"", landmark.c_str());
        throw TestFailed{};
    }
    return *found;
}

void Robot::move(float x, float y) {
    te->MouseMoveToPos(ImVec2(x, y));
    frames(2);
}

void Robot::move_away() {
    const auto bar = box("panel/Run bar");
    move(bar.x + 2, bar.y + 1);
}

void Robot::click(const ui::Landmarks::Box& at) {
    move(at.x + at.width / 2, at.y + at.height / 2);
    te->MouseClick(0);
    frames(2);
}

void Robot::drag_by(float dx, float dy, int moves) {
    const ImVec2 from = ImGui::GetIO().MousePos;
    te->MouseDown(0);
    frames(1);
    for (int i = 1; i <= moves; ++i) {
        const float share = static_cast<float>(i) / static_cast<float>(moves);
        te->MouseMoveToPos(ImVec2(from.x + dx * share, from.y + dy * share));
        frames(1);
    }
    frames(1);
}

// --- looking ---

std::string Robot::text() {
    // ImGui's own text log, over one whole frame: it would end with the window in which it began, so it gets none.
    ImGuiContext& context = *ImGui::GetCurrentContext();
    ImGui::LogToBuffer();
    context.LogWindow = nullptr;
    te->Yield();
    std::string all = context.LogBuffer.c_str();
    ImGui::LogFinish();
    return all;
}

Image Robot::look() {
    m_stage.picture_wanted = true;
    GUI_CHECK(until([&] { return !m_stage.picture_wanted; }, 5));
    return m_stage.picture;
}

void Robot::without_frames_until(const std::function<bool()>& condition) {
    while (!condition()) {
        if (te->IsError()) throw TestFailed{};
        m_stage.window.wait_without_frame(wait_for_news_s);
    }
}

bool Robot::dialog_open(const char* title) {
    const auto info = te->WindowInfo((std::string("//") + title).c_str(), ImGuiTestOpFlags_NoError);
    return info.ID != 0 && info.Window != nullptr && info.Window->WasActive;
}

void Robot::close_dialog(const char* title) {
    const std::string window = std::string("//") + title;
    // What is left in "New run" by its cross comes back with it: that is for the tests that mean it.
    if (const std::string cancel = window + "/Cancel"; te->ItemExists(cancel.c_str()))
        te->ItemClick(cancel.c_str());
    else
        te->WindowClose(window.c_str());
    frames(2);
    GUI_CHECK(!dialog_open(title));
}

int Robot::count_log_lines(std::string_view part) {
    return static_cast<int>(std::ranges::count_if(ctx().toasts.lines(), [&](const ui::Toasts::Line& line) {
        return line.text.find(part) != std::string::npos;
    }));
}

std::filesystem::path Robot::scratch(const std::string& name) {
    const std::filesystem::path folder = std::filesystem::path(RL_BUILD_DIR) / "gui-test-files";
    std::filesystem::create_directories(folder);
    return folder / name;
}

} // namespace refreshlab::gui
