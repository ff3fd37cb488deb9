// What people type and do by mistake: every time one line, nothing lost, nothing half done.
#include "engine/base/json_file.h"
#include "engine/model/bridge/bridge_file.h"
#include "engine/model/model_fingerprint.h"
#include "engine/record/recording/recording.h"
#include "engine/record/trace/trace_store.h"
#include "tests/gui/robot.h"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::gui {

namespace {

namespace fs = std::filesystem;

/// Fills the New run dialog by `fill`, and checks that it says what is wrong, in one line that has `part` in it, before anything
/// is started: the dialog stays, and so does the run that stood there.
void refused(Robot& r, const std::function<void()>& fill, const char* part) {
    const auto before = r.recording();
    const uint64_t errors = r.status()->errors;
    r.act("run.new");
    GUI_CHECK(
        r.until([&] { return r.shows("needed"); }, 3000)); // of the present pair: nothing is wrong with it
    GUI_CHECK(!r.find("dialog/fault"));
    fill();
    GUI_CHECK(r.until([&] { return r.find("dialog/fault").has_value(); }, 4000));
    // An answer about half of what was typed may come first.
    r.frames(200);
    GUI_CHECK(r.until([&] { return r.find("dialog/fault").has_value(); }, 4000));
    GUI_CHECK(r.shows(part));
    GUI_CHECK(r.shows("What is wrong is said above, beside its field"));
    r.te->ItemClick("//New run/Start"); // cannot be pressed
    r.frames(3);
    GUI_CHECK(r.dialog_open("New run") && r.status()->errors == errors);
    GUI_CHECK(r.recording() == before && r.status()->state == EngineState::paused);
    r.close_dialog("New run");
    r.frames(2);
}

void bad_models(Robot& r) {
    r.start(r.config(), 9);
    refused(
        r, [&] { r.te->ItemInputValue("//New run/##student", r.scratch("nowhere").string().c_str()); },
        "no such model folder");
    const fs::path folder = r.scratch("no-model");
    fs::create_directories(folder);
    refused(
        r, [&] { r.te->ItemInputValue("//New run/##teacher", folder.string().c_str()); },
        "holds no model: no config.json, and no .gguf file");
    const fs::path file = r.scratch("a-file");
    write_file(file, "no model");
    refused(
        r, [&] { r.te->ItemInputValue("//New run/##teacher", file.string().c_str()); }, "is no GGUF file");
    // Another vocabulary: told before any weights are read.
    const fs::path student = r.config().student_dir, other = r.scratch("other-words");
    fs::remove_all(other);
    fs::create_directories(other);
    for (const auto& entry : fs::directory_iterator(student))
        if (entry.path().filename() != "tokenizer.json")
            fs::create_symlink(entry.path(), other / entry.path().filename());
    nlohmann::json tokenizer = read_json_file(student / "tokenizer.json");
    std::vector<std::string> words; // two ids change places
    for (const auto& [word, id] : tokenizer["model"]["vocab"].items()) {
        if (id.get<int>() > 300 && words.size() < 2) words.push_back(word);
    }
    std::swap(tokenizer["model"]["vocab"][words[0]], tokenizer["model"]["vocab"][words[1]]);
    write_file(other / "tokenizer.json", tokenizer.dump());
    refused(
        r, [&] { r.te->ItemInputValue("//New run/##student", other.string().c_str()); }, "vocabular");
    r.step(2);
    GUI_CHECK(r.recording()->steps() == 11);
}

/// What only loading shows: the dialog comes back with the reason and all that was typed.
void weights_that_cannot_be_read(Robot& r) {
    r.start(r.config(), 9);
    const auto before = r.recording();
    const fs::path student = r.config().student_dir, broken = r.scratch("broken-weights");
    fs::remove_all(broken);
    fs::create_directories(broken);
    for (const auto& entry : fs::directory_iterator(student))
        if (entry.path().extension() != ".safetensors")
            fs::create_symlink(entry.path(), broken / entry.path().filename());
    r.act("run.new");
    r.te->ItemInputValue("//New run/##student", broken.string().c_str());
    r.te->ItemInputValue("//New run/##max tokens", 77);
    GUI_CHECK(r.until([&] { return r.find("dialog/outlook").has_value(); }, 4000));
    GUI_CHECK(r.shows("needed") && r.shows("2.285 M parameters"));
    const uint64_t errors = r.status()->errors;
    r.te->ItemClick("//New run/Start");
    GUI_CHECK(r.until([&] { return r.status()->errors == errors + 1; }, 3000));
    GUI_CHECK(r.until([&] { return r.te->ItemExists("//New run/Start"); }, 60));
    GUI_CHECK(r.dialog_open("New run") && r.shows("broken-weights"));
    GUI_CHECK(r.te->ItemReadAsInt("//New run/##max tokens") == 77);
    GUI_CHECK(std::ranges::none_of(r.ctx().toasts.lines(), [](const ui::Toasts::Line& line) {
        return line.shown_as_toast && line.text.find("broken-weights") != std::string::npos;
    }));
    GUI_CHECK(r.recording() == before && r.status()->state == EngineState::paused);
    // Another student, and it starts.
    r.te->ItemInputValue("//New run/##student", student.string().c_str());
    r.te->ItemInputValue("//New run/##max tokens", 5);
    r.te->ItemClick("//New run/Start");
    GUI_CHECK(r.until([&] { return r.recording() != before && r.status()->state == EngineState::finished; }));
    GUI_CHECK(r.until([&] { return !r.dialog_open("New run"); }, 60));
    // The pair is remembered.
    r.act("run.new");
    r.te->ItemClick("//New run/Recent pairs");
    r.frames(2);
    GUI_CHECK(r.shows("llama-tales-teacher > llama-tales-student"));
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(2);
    GUI_CHECK(r.dialog_open("New run")); // Esc has closed the list alone
    r.close_dialog("New run");
}

/// The field Bridge is there where the geometries differ. What is typed is judged at once; the run that starts has the bridge.
void a_bridge_is_typed(Robot& r) {
    const fs::path teacher = r.config().teacher_dir, student = r.scratch("bridged-student"),
                   bridge = r.scratch("bridge.safetensors");
    fs::remove_all(student);
    fs::copy(r.config().student_dir, student, fs::copy_options::recursive);
    nlohmann::json json = read_json_file(student / "config.json");
    json["rope_theta"] = 20000.0;
    write_file(student / "config.json", json.dump());
    // Each layer's own entries, as they are: as bridges go, a good one of this pair.
    const int64_t width = 3 * 64;
    Bridge own{BridgeInputs::own, {}};
    for (int64_t layer = 0; layer < 5; ++layer)
        own.layers.push_back(
            {{layer}, at::eye(width), at::eye(width), at::zeros({width}), at::zeros({width})});
    save_bridge(bridge, own,
                {model_fingerprint(teacher), model_fingerprint(student), "teacher", "student", "{}"});

    r.start(r.config(), 3);
    const auto before = r.recording();
    r.act("run.new");
    r.te->SetRef("//New run");
    GUI_CHECK(!r.te->ItemExists("##bridge"));
    r.te->ItemInputValue("##student", student.string().c_str());
    GUI_CHECK(r.until([&] { return r.te->ItemExists("##bridge"); }, 4000));
    GUI_CHECK(r.shows("rebuild mode"));
    r.te->ItemInputValue("##bridge", r.scratch("no-bridge").string().c_str());
    GUI_CHECK(r.until([&] { return r.shows("no-bridge") && r.shows("no such file"); }, 4000));
    GUI_CHECK((r.te->ItemInfo("Start").ItemFlags & ImGuiItemFlags_Disabled) != 0);
    r.te->ItemInputValue("##bridge", bridge.string().c_str());
    GUI_CHECK(r.until([&] { return r.shows("bridge: the KV geometries differ"); }, 4000));
    r.te->ItemInputValue("##max tokens", 4);
    r.te->ItemClick("Start");
    GUI_CHECK(r.until([&] { return r.recording() != before && r.status()->state == EngineState::finished; }));
    GUI_CHECK(r.until([&] { return !r.dialog_open("New run"); }, 60));
    GUI_CHECK(r.recording()->info().config.bridge.path == bridge.string() && !r.status()->rebuild_mode);
    r.start(r.config(), 2);
    fs::remove_all(student);
    fs::remove(bridge);
}

/// One Esc, one layer; what was typed stays.
void esc_closes_one_layer(Robot& r) {
    r.start(r.config(), 5);
    r.act("run.new");
    r.te->ItemClick("//New run/##prompt");
    r.te->KeyPress(ImGuiMod_Ctrl | ImGuiKey_A);
    r.te->KeyChars("A sentence of my own.");
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(3);
    GUI_CHECK(r.dialog_open("New run") && !ImGui::GetIO().WantTextInput);
    r.te->ItemClick("//New run/##mode");
    r.frames(3);
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(3);
    GUI_CHECK(r.dialog_open("New run")); // the list alone is closed
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(3);
    GUI_CHECK(!r.dialog_open("New run"));
    r.act("run.new");
    r.frames(2);
    GUI_CHECK(r.shows("As you left it"));
    const auto before = r.recording();
    r.te->ItemInputValue("//New run/##max tokens", 4);
    r.te->ItemClick("//New run/Start");
    GUI_CHECK(r.until([&] { return r.recording() != before && r.status()->state == EngineState::finished; }));
    GUI_CHECK(r.recording()->info().config.prompt == "A sentence of my own.");
    GUI_CHECK(r.until([&] { return !r.dialog_open("New run"); }, 60));
    r.act("run.new");
    r.frames(2);
    GUI_CHECK(!r.shows("As you left it"));
    r.close_dialog("New run");
    // The same with a path: Esc leaves the entry as it is, then the dialog, and the path comes back with it.
    r.act("file.save_trace");
    r.te->ItemClick("//Save trace/##path");
    r.te->KeyPress(ImGuiMod_Ctrl | ImGuiKey_A);
    const std::string typed = r.scratch("typed-and-left.rlt").string();
    r.te->KeyChars(typed.c_str());
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(3);
    GUI_CHECK(r.dialog_open("Save trace"));
    r.te->KeyPress(ImGuiKey_Escape);
    r.frames(3);
    GUI_CHECK(!r.dialog_open("Save trace"));
    r.act("file.save_trace");
    r.frames(2);
    r.te->ItemClick("//Save trace/Save");
    GUI_CHECK(r.until([&] { return r.count_log_lines("Trace saved as " + typed) == 1; }));
    GUI_CHECK(fs::exists(typed));
    fs::remove(typed);
}

/// A fault stands in the dialog, beside the path, and names nothing that nobody has typed; replacing asks.
void a_save_that_fails(Robot& r) {
    r.start(r.config(), 8);
    const fs::path folder = r.scratch("to-save");
    fs::remove_all(folder);
    fs::create_directories(folder);
    r.act("file.save_trace");
    // A name that the file system refuses.
    const std::string name(300, 'n');
    r.te->ItemInputValue("//Save trace/##path", (folder / (name + ".rlt")).string().c_str());
    GUI_CHECK(r.until([&] { return r.find("dialog/fault").has_value(); }));
    GUI_CHECK(r.dialog_open("Save trace"));
    GUI_CHECK(r.shows("unable to open") && !r.shows(".part") && !r.shows("temporary"));
    // Another name without an extension gets it; the second time it asks.
    const fs::path file = folder / "mine.rlt";
    fs::file_time_type written;
    for (const bool again : {false, true}) {
        if (again) r.act("file.save_trace");
        r.te->ItemInputValue("//Save trace/##path", (folder / "mine").string().c_str());
        if (again) {
            r.frames(3);
            GUI_CHECK(r.shows("mine.rlt already exists: replace it?"));
            r.te->KeyPress(ImGuiKey_Enter); // not by Enter
            r.frames(3);
            GUI_CHECK(r.dialog_open("Save trace") && fs::last_write_time(file) == written);
            r.te->ItemClick("//Save trace/Keep it");
            r.frames(3);
            GUI_CHECK(r.dialog_open("Save trace") && r.te->ItemExists("//Save trace/Save"));
            r.te->ItemClick("//Save trace/Save");
            r.frames(3);
            r.te->ItemClick("//Save trace/Replace");
        }
        GUI_CHECK(r.until([&] { return !r.dialog_open("Save trace"); }, 60));
        GUI_CHECK(fs::exists(file) && (!again || fs::last_write_time(file) > written));
        written = fs::last_write_time(file);
    }
    // The next one begins in that folder.
    GUI_CHECK(r.ctx().paths.folders["trace"] == folder.string());
}

void absurd_numbers(Robot& r) {
    r.start(r.config(), 9);
    r.act("run.new");
    // Brought into range, whatever the low 32 bits of a number are that is too large.
    for (const auto& [typed, taken] :
         {std::pair{"-5", 1}, std::pair{"4294967301", 1'000'000}, std::pair{"-4294967290", 1},
          std::pair{"99999999999999999999", 1'000'000}, std::pair{"20", 20}}) {
        r.te->ItemInputValue("//New run/##max tokens", typed);
        GUI_CHECK(r.te->ItemReadAsInt("//New run/##max tokens") == taken);
    }
    for (const char* seed : {"99999999999999999999999", "1.5"}) {
        r.te->ItemInputValue("//New run/##seed", seed);
        r.frames(2);
        GUI_CHECK(r.shows("Seed: "));
    }
    r.close_dialog("New run");
    // Steps at once: brought into range.
    r.te->ItemInputValue("//Run bar/##steps at once", -7);
    r.frames(2);
    GUI_CHECK(r.te->ItemReadAsInt("//Run bar/##steps at once") == 1);
    r.te->ItemInputValue("//Run bar/##steps at once", std::numeric_limits<int>::max());
    r.frames(2);
    GUI_CHECK(r.te->ItemReadAsInt("//Run bar/##steps at once") == 100000);
    r.te->ItemInputValue("//Run bar/##steps at once", 16);
    // A threshold and a temperature that make no sense: refused or brought into range, never applied as typed.
    for (const char* typed : {"-3", "1e300", "nan", "hello"}) {
        r.te->ItemInputValue("//Policy/**/threshold/##entry", typed);
        r.te->ItemInputValue("//Run bar/temperature/##entry", typed);
        r.frames(10);
        const RunConfig& applied = r.status()->applied;
        GUI_CHECK(applied.policy.triggers.at(0).threshold >= 0 &&
                  applied.policy.triggers.at(0).threshold <= 1e9);
        GUI_CHECK(applied.sampler.temperature >= 0 && applied.sampler.temperature <= 100);
    }
    GUI_CHECK(r.status()->state == EngineState::paused);
    r.ctx().toasts.dismiss_all();
    r.step(2);
    GUI_CHECK(r.recording()->steps() == 11);
}

void absurd_prompts(Robot& r) {
    r.start(r.config(), 9);
    // Longer than any context: refused in one line. (Typed by setting it: nobody waits for a million key presses.)
    std::string endless;
    for (int i = 0; i < 60000; ++i)
        endless += "word ";
    ImGui::SetClipboardText(endless.c_str());
    refused(
        r,
        [&] {
            r.te->ItemClick("//New run/##prompt");
            r.te->KeyPress(ImGuiMod_Ctrl | ImGuiKey_A);
            r.te->KeyPress(ImGuiMod_Ctrl | ImGuiKey_V);
            r.frames(2);
        },
        "2048");
    // Bytes that are no UTF-8 in the clipboard: they become replacement characters or go, the run starts.
    const auto before = r.recording();
    ImGui::SetClipboardText("Write \xC3\x28 a \xF0\x9F\x98\x80 story \xFF\xFE.");
    r.act("run.new");
    r.te->ItemInputValue("//New run/##max tokens", 5);
    r.te->ItemClick("//New run/##prompt");
    r.te->KeyPress(ImGuiMod_Ctrl | ImGuiKey_A);
    r.te->KeyPress(ImGuiMod_Ctrl | ImGuiKey_V);
    r.frames(2);
    r.te->ItemClick("//New run/Start");
    GUI_CHECK(r.until([&] { return r.recording() != before && r.status()->state == EngineState::finished; }));
    const std::string& prompt = r.recording()->info().config.prompt;
    GUI_CHECK(prompt.starts_with("Write ") && prompt.find(" story ") != std::string::npos);
    GUI_CHECK(prompt.find("\xF0\x9F\x98\x80") != std::string::npos);
    GUI_CHECK(prompt.find('\xFF') == std::string::npos);
    // No prompt at all: said in the dialog, nothing starts.
    r.act("run.new");
    r.te->ItemClick("//New run/##prompt");
    r.te->KeyPress(ImGuiMod_Ctrl | ImGuiKey_A);
    r.te->KeyPress(ImGuiKey_Delete);
    r.frames(2);
    GUI_CHECK(r.shows("The prompt is empty"));
    r.close_dialog("New run");
}

void a_prompt_brings_its_task(Robot& r) {
    r.start(r.config(), 5);
    const auto start_with = [&](const char* prompt) {
        const auto before = r.recording();
        ImGui::SetClipboardText(prompt);
        r.act("run.new");
        r.te->ItemInputValue("//New run/##max tokens", 6);
        r.te->ItemClick("//New run/##prompt");
        r.te->KeyPress(ImGuiMod_Ctrl | ImGuiKey_A);
        r.te->KeyPress(ImGuiMod_Ctrl | ImGuiKey_V);
        r.te->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Enter); // leaves the entry
        r.frames(3);
        const bool belongs = r.shows("bundled task chronicle");
        r.te->ItemClick("//New run/Start");
        GUI_CHECK(
            r.until([&] { return r.recording() != before && r.status()->state == EngineState::finished; }));
        return belongs;
    };
    GUI_CHECK(start_with("Write a chronicle of 4 companies."));
    GUI_CHECK(r.recording()->info().config.task.kind == "chronicle");
    GUI_CHECK(!start_with("Tell me about the sea."));
    GUI_CHECK(r.recording()->info().config.task.kind.empty());
    // A prompt picked from the list is one of a task as well.
    const auto before = r.recording();
    r.act("run.new");
    r.te->ItemClick("//New run/Bundled prompts");
    r.te->SetRef("//$FOCUSED");
    r.te->MenuClick("Company/Gather a company of 4 travelers and tell about them.");
    r.te->SetRef("");
    r.frames(2);
    GUI_CHECK(r.shows("bundled task company"));
    r.te->ItemInputValue("//New run/##max tokens", 6);
    r.te->ItemClick("//New run/Start");
    GUI_CHECK(r.until([&] { return r.recording() != before && r.status()->state == EngineState::finished; }));
    GUI_CHECK(r.recording()->info().config.task.kind == "company");
}

void models_are_dropped(Robot& r) {
    r.start(r.config(), 4);
    const auto model = r.ctx().host.assets() / "models" / "llama-tales-teacher";
    r.window().shell().open_dropped(model);
    r.frames(3);
    GUI_CHECK(r.dialog_open("New run"));
    GUI_CHECK(r.shows("Teacher { " + model.string() + " }"));
    // The list beside the student's path has the bundled student.
    r.te->SetRef("//New run");
    r.te->ItemClick("##student/##known");
    r.te->ItemClick("//$FOCUSED/llama-tales-student");
    r.te->SetRef("");
    r.te->ItemClick("//New run/Start");
    GUI_CHECK(r.until([&] { return r.status()->student.name == "llama-tales-student"; }));
    GUI_CHECK(r.status()->teacher.name == "llama-tales-teacher");
    // What is no model is taken for a trace.
    const int told = r.count_log_lines("not a RefreshLab trace");
    r.window().shell().open_dropped(r.ctx().host.assets() / "prompts" / "chronicle.jsonl");
    GUI_CHECK(r.until([&] { return r.count_log_lines("not a RefreshLab trace") > told; }));
}

void damaged_traces(Robot& r) {
    r.start(r.config(), 30);
    const auto live = r.recording();
    const fs::path whole = r.scratch("whole.rlt"), damaged = r.scratch("damaged.rlt");
    GUI_CHECK(save_trace(whole, live));
    std::string bytes = read_file(whole, size_t{1} << 28);
    const size_t size = bytes.size();
    const auto drop = [&](const std::string& content) {
        write_file(damaged, content);
        r.ctx().toasts.dismiss_all();
        r.window().shell().open_trace(damaged); // as a file that is dropped on the window
        const int told = r.count_log_lines("damaged.rlt");
        GUI_CHECK(
            r.until([&] { return r.count_log_lines("damaged.rlt") > told || r.ctx().recording != live; }));
        GUI_CHECK(r.ctx().recording == live);
        GUI_CHECK(r.find("signals/plot/entropy_bits"));
    };
    drop(bytes.substr(0, size / 2));
    std::string garbled = bytes;
    for (size_t i = size / 3; i < size * 2 / 3; i += 7)
        garbled[i] = static_cast<char>(garbled[i] ^ 0x5A);
    drop(garbled);
    drop("");
    // The whole one opens the same way, and closes.
    r.window().shell().open_trace(whole);
    GUI_CHECK(r.until([&] { return r.ctx().recording && r.ctx().recording != live; }));
    GUI_CHECK(r.te->ItemExists("//Run bar/###close trace"));
    GUI_CHECK(r.shows("Back to the live run"));
    r.te->ItemClick("//Run bar/###close trace");
    GUI_CHECK(r.until([&] { return r.ctx().recording == live; }, 10));
}

} // namespace

std::vector<Case> input_cases() {
    return {
        {"input", "LG1 models that are none, or of another vocabulary, are refused in one line", bad_models},
        {"input", "RB7 LG1 weights that cannot be read bring New run back with the reason",
         weights_that_cannot_be_read},
        {"input", "RB7 a bridge is typed where the geometries differ, and the run has it", a_bridge_is_typed},
        {"input", "LG1 Esc closes one layer and loses nothing that was typed", esc_closes_one_layer},
        {"input", "LG1 EX4 a save that fails says so beside its path, and replacing asks", a_save_that_fails},
        {"input", "LG1 absurd numbers are refused or brought into range", absurd_numbers},
        {"input", "LG1 endless, broken and empty prompts", absurd_prompts},
        {"input", "RB7 a prompt brings its task along", a_prompt_brings_its_task},
        {"input", "RB7 HL4 a model that is dropped on the window begins a new run", models_are_dropped},
        {"input", "HL4 damaged traces dropped on the window are one line each", damaged_traces},
    };
}

} // namespace refreshlab::gui
