#include "engine/base/error.h"
#include "tests/gui/robot.h"

#include <imgui_te_exporters.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::gui {
namespace {

Stage* stage = nullptr; // the one of the tests that run now; the test engine's functions take no context

void run_case(ImGuiTestContext* test) {
    const Case& chosen = *static_cast<const Case*>(test->Test->UserData);
    std::string problem;
    test->PopupCloseAll(); // a case that failed may have left a dialog open
    try {
        Robot robot(test, *stage);
        chosen.run(robot);
    } catch (const TestFailed&) {
        return; // reported where it was noticed
    } catch (const std::exception& e) {
        problem = e.what();
    } catch (...) {
        problem = "unknown exception";
    }
    if (!problem.empty()) IM_ERRORF("exception: %s", problem.c_str());
}

/// Draws frames until the queue of tests is empty.
void play(Stage& on, ImGuiTestEngine* engine) {
    stage = &on;
    bool painted = false;
    on.window.worth_painting = [&] { return painted = on.picture_wanted; };
    on.window.post_swap = [&, engine] {
        ImGuiTestEngine_PostSwap(engine);
        if (!painted || !on.picture_wanted) return;
        const ImVec2 size = ImGui::GetIO().DisplaySize;
        on.picture.width = static_cast<int>(size.x);
        on.picture.height = static_cast<int>(size.y);
        on.picture.pixels.resize(static_cast<size_t>(on.picture.width) *
                                 static_cast<size_t>(on.picture.height));
        if (on.window.capture(0, 0, on.picture.width, on.picture.height, on.picture.pixels.data()))
            on.picture_wanted = false;
    };
    while (!ImGuiTestEngine_IsTestQueueEmpty(engine))
        on.turn();
    on.window.post_swap = {};
    on.window.worth_painting = {};
    stage = nullptr;
}

/// Lines of the test's log, from errors to `least`, that have PART in them.
std::string lines_of(ImGuiTest& test, ImGuiTestVerboseLevel least, const std::string& part) {
    ImGuiTextBuffer lines;
    test.Output.Log.ExtractLinesForVerboseLevels(ImGuiTestVerboseLevel_Error, least, &lines);
    std::istringstream stream(lines.c_str());
    std::string found;
    for (std::string line; std::getline(stream, line);)
        if (line.find(part) != std::string::npos) found += line + "\n";
    return found;
}
/// What Dear ImGui found wrong with the program's calls while the test ran ("In 'Text': Missing PopStyleColor()"): the test
/// engine only warns of it.
std::string complaints(ImGuiTest& test) {
    return lines_of(test, ImGuiTestVerboseLevel_Warning, "In '");
}

Stage::Kind kind_of(const Case& test) {
    const std::string category = test.category;
    return category == "first start"     ? Stage::Kind::first_start
           : category == "remote"        ? Stage::Kind::remote
           : category == "two processes" ? Stage::Kind::two_processes
                                         : Stage::Kind::usual;
}

const char* report_of(Stage::Kind kind) {
    return kind == Stage::Kind::first_start     ? "/test_gui_first_start.xml"
           : kind == Stage::Kind::remote        ? "/test_gui_remote.xml"
           : kind == Stage::Kind::two_processes ? "/test_gui_two_processes.xml"
                                                : "/test_gui.xml";
}

struct Outcome {
    int tested = 0, passed = 0, left = 0;
    std::vector<Case*> failed;
    std::string faults; ///< names and errors of those that failed
};

/// One window and its tests. The hints of the first start are a property of the window, as is its engine, so they have their own.
/// \param report  file of the results as JUnit's XML; empty: none
Outcome play_window(const std::vector<Case*>& cases, Stage::Kind kind, const std::string& report) {
    ImGuiTestEngine* engine = ImGuiTestEngine_CreateContext();
    Outcome outcome;
    try {
        Stage on(kind);
        ImGuiTestEngineIO& io = ImGuiTestEngine_GetIO(engine);
        io.ConfigVerboseLevel = ImGuiTestVerboseLevel_Warning;
        io.ConfigVerboseLevelOnError = ImGuiTestVerboseLevel_Info;
        io.ConfigLogToTTY = true;
        io.ConfigRunSpeed = ImGuiTestRunSpeed_Fast;
        io.ConfigSavedSettings = false;
        io.ConfigMouseDrawCursor = false; // it would stand in the pictures
        io.ConfigFixedDeltaTime =
            1.0F / 60; // the window's clock counts frames: nothing depends on the machine's speed
        io.ConfigWatchdogWarning = 240;
        io.ConfigWatchdogKillTest = 300; // seconds; a hung test ends here, the suite goes on
        io.ScreenCaptureFunc = [](ImGuiID, int x, int y, int w, int h, unsigned* pixels, void* user) {
            return static_cast<AppWindow*>(user)->capture(x, y, w, h, pixels);
        };
        io.ScreenCaptureUserData = &on.window;
        if (!report.empty()) io.ExportResultsFilename = report.c_str();
        io.ExportResultsFormat = ImGuiTestEngineExportFormat_JUnitXml;
        ImGuiTestEngine_Start(engine, ImGui::GetCurrentContext());
        for (int i = 0; i < 4; ++i)
            on.window.frame(); // docking settles
        std::vector<ImGuiTest*> tests;
        for (Case* test : cases) {
            ImGuiTest* made =
                ImGuiTestEngine_RegisterTest(engine, test->category, test->name, __FILE__, __LINE__);
            made->UserData = test;
            made->TestFunc = run_case;
            ImGuiTestEngine_QueueTest(engine, made, ImGuiTestRunFlags_RunFromCommandLine);
            tests.push_back(made);
        }
        play(on, engine);
        ImGuiTestEngineResultSummary result;
        ImGuiTestEngine_GetResultSummary(engine, &result);
        outcome.tested = result.CountTested;
        outcome.left = result.CountInQueue;
        for (ImGuiTest* test : tests) {
            if (test->Output.Status == ImGuiTestStatus_Success && complaints(*test).empty()) {
                ++outcome.passed;
                std::printf("ok     %s\n", test->Name.c_str());
                continue;
            }
            outcome.failed.push_back(static_cast<Case*>(test->UserData));
            outcome.faults += "FAILED " + std::string(test->Name.c_str()) + "\n" +
                              lines_of(*test, ImGuiTestVerboseLevel_Warning, "");
        }
        ImGuiTestEngine_Stop(engine); // writes the report
    } catch (...) {
        ImGuiTestEngine_DestroyContext(engine);
        throw;
    }
    ImGuiTestEngine_DestroyContext(engine);
    return outcome;
}

/// \param filter  regular expression, found in the names of the tests to run; empty = all
/// \param again   a case that fails is tried once more, in a window of its own. The engine decodes beside the frames in real time, so on a
///                machine that is busy a wait can end too early. What fails at first is told, and more than one is a failure.
int run(const std::string& filter, bool again) {
    std::vector<Case> cases;
    for (auto* list :
         {&run_cases,          &threshold_cases, &plot_cases,   &axis_cases,         &event_cases,
          &layer_cases,        &policy_cases,    &text_cases,   &timeline_cases,     &map_cases,
          &distribution_cases, &window_cases,    &shell_cases,  &file_cases,         &job_cases,
          &workspace_cases,    &settings_cases,  &option_cases, &input_cases,        &landscape_cases,
          &comparison_cases,   &exactness_cases, &runs_cases,   &cache_policy_cases, &table_cases,
          &painted_cases,      &tour_cases,      &remote_cases, &two_process_cases,  &last_cases})
        for (const Case& test : list())
            cases.push_back(test);
    Outcome all;
    bool whole = true;
    std::string unsteady;
    for (const auto kind :
         {Stage::Kind::first_start, Stage::Kind::remote, Stage::Kind::two_processes, Stage::Kind::usual}) {
        std::vector<Case*> chosen;
        for (Case& test : cases)
            if (kind_of(test) == kind && std::regex_search(test.name, std::regex(filter)))
                chosen.push_back(&test);
        Outcome outcome = play_window(chosen, kind, std::string(RL_BUILD_DIR) + report_of(kind));
        whole = whole && (outcome.tested > 0 || !filter.empty());
        if (again && unsteady.empty() && outcome.failed.size() == 1 &&
            play_window(outcome.failed, kind, {}).passed == 1) {
            unsteady = outcome.failed.front()->name;
            ++outcome.passed;
        }
        all.tested += outcome.tested;
        all.passed += outcome.passed;
        all.left += outcome.left;
        all.faults += outcome.faults; // told at the end, where they are seen
    }
    std::printf("%s%d passed, %d failed\n", all.faults.c_str(), all.passed,
                all.tested - all.passed + all.left);
    if (!unsteady.empty()) std::printf("only at the second try: %s\n", unsteady.c_str());
    return whole && all.tested > 0 && all.passed == all.tested && all.left == 0 ? 0 : 1;
}

} // namespace
} // namespace refreshlab::gui

/// test_gui [--again] [PART]: all tests, or those with PART in their names; --again as run() has it.
int main(int argc, char** argv) {
    try {
        const bool again = argc > 1 && std::string_view(argv[1]) == "--again";
        const int at = again ? 2 : 1;
        return refreshlab::gui::run(argc > at ? argv[at] : "", again);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n0 passed, 1 failed\n", e.what());
        return 1;
    }
}
