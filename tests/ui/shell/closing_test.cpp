// The window is closed while a dialog still waits for an answer.
#include "ui/dialogs/dialogs.h"
#include "ui/state/dialog.h"
#include "ui/state/shell_state.h"

#include <catch2/catch_test_macros.hpp>
#include <imgui.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace closing_test {

using namespace refreshlab;
using namespace refreshlab::ui;

namespace {

/// Answers the question about a run that was not started when the test says so.
class AskedEngine final : public EngineLink {
public:
    uint64_t send(Command) override { return 0; }
    std::shared_ptr<const EngineStatus> status() const override { return m_status; }
    std::shared_ptr<const Recording> recording() const override { return nullptr; }
    void on_news(std::function<void()>) override {}
    RunOutlook outlook(const RunConfig&) const override {
        std::unique_lock lock(m_mutex);
        m_asked = true;
        m_changed.notify_all();
        m_changed.wait(lock, [&] { return m_may_answer; });
        m_answered = true;
        return {};
    }
    [[nodiscard]] bool asked() const {
        const std::scoped_lock lock(m_mutex);
        return m_asked;
    }
    void wait_for_question() const {
        std::unique_lock lock(m_mutex);
        m_changed.wait(lock, [&] { return m_asked; });
    }
    void answer() {
        const std::scoped_lock lock(m_mutex);
        m_may_answer = true;
        m_changed.notify_all();
    }
    [[nodiscard]] bool answered() const { return m_answered; }

private:
    std::shared_ptr<const EngineStatus> m_status = std::make_shared<EngineStatus>();
    mutable std::mutex m_mutex;
    mutable std::condition_variable m_changed;
    mutable bool m_asked = false;
    bool m_may_answer = false;
    mutable std::atomic<bool> m_answered = false;
};

class PlainHost final : public Host {
public:
    ImTextureID texture(const std::string&, int, int, std::span<const uint32_t>, uint64_t) override {
        return {};
    }
    void save_picture(const Picture&) override {}
    void quit() override {}
    void set_window_title(const std::string&) override {}
    std::filesystem::path assets() const override { return std::filesystem::path(RL_SOURCE_DIR) / "assets"; }
    std::filesystem::path user_folder() const override { return {}; }
    std::filesystem::path state_folder() const override { return {}; }
    void keep_awake(double) override {}
    int64_t memory_bytes() const override { return 0; }
    FrameStats frame_stats() const override { return {}; }
};

/// Frames without a window: nothing is drawn of them.
struct Frames {
    Frames() {
        ImGui::CreateContext();
        ImGuiIO& io = ImGui::GetIO();
        io.DisplaySize = {1200, 900};
        io.DeltaTime = 0.5F;
        io.IniFilename = nullptr;
        io.BackendFlags |= ImGuiBackendFlags_RendererHasTextures;
    }
    ~Frames() { ImGui::DestroyContext(); }
    Frames(const Frames&) = delete;
    Frames& operator=(const Frames&) = delete;
};

} // namespace

TEST_CASE("closing the window waits for what New run still asks the engine", "[ui][RB11]") {
    const Frames frames;
    AskedEngine engine;
    PlainHost host;
    auto state = std::make_unique<ShellState>(engine, host, ShellOptions{});
    state->dialog = make_new_run_dialog(*state);
    for (int i = 0; i < 50 && !engine.asked(); ++i) { // the fields rest a moment first
        ImGui::NewFrame();
        draw_dialog(*state);
        ImGui::EndFrame();
        if (i > 10) std::this_thread::yield();
    }
    engine.wait_for_question();
    std::thread later([&] { engine.answer(); });
    state.reset();
    CHECK(engine.answered()); // nobody asks an engine that may be gone
    later.join();
}

} // namespace closing_test
