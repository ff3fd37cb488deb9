#include "ui/state/workspace.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/record/runs/run_label.h"
#include "ui/state/json_value.h"
#include "ui/state/view_settings.h"

#include <fmt/format.h>

#include <utility>

namespace refreshlab::ui {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* version_key = "refreshlab_workspace";
constexpr size_t largest_file = size_t{64} << 20;

/// Beside or below the file by its relative path, so that both can move together.
std::string stored_path(const fs::path& path, const fs::path& file) {
    const fs::path folder = fs::absolute(file).parent_path().lexically_normal();
    const fs::path whole = fs::absolute(path).lexically_normal();
    const fs::path relative = whole.lexically_relative(folder);
    return (relative.empty() || *relative.begin() == ".." ? whole : relative).string();
}

/// Reads the parts of a file; what is wrong in one is an Error that names its key.
class Reader {
public:
    explicit Reader(const fs::path& file)
        : m_file(file) {}

    [[noreturn]] void refuse(const std::string& key, const std::string& problem) const {
        throw Error("reading workspace", m_file.string(), fmt::format("\"{}\" {}", key, problem));
    }
    template <class T>
    void value(const json& object, const char* key, T& target) const {
        part(key, [&] { ui::read(object, key, target); });
    }
    /// \param take  gets what stands under the key, where there is something
    template <class Take>
    void each(const json& object, const char* key, Take&& take) const {
        const auto found = object.find(key);
        if (found == object.end()) return;
        if (!found->is_array()) refuse(key, "is no list");
        for (const json& element : *found) {
            if (!element.is_object()) refuse(key, "has an element that is no object");
            part(key, [&] { take(element); });
        }
    }
    template <class Work>
    void part(const std::string& key, Work&& work) const {
        try {
            work();
        } catch (const json::exception&) {
            refuse(key, "has another type than expected");
        }
    }

    [[nodiscard]] std::string file() const { return m_file.string(); }

private:
    const fs::path& m_file;
};

json json_of(const StepNote& note) {
    return {{"first_step", note.first_step},
            {"last_step", note.last_step},
            {"colour", note.colour},
            {"text", note.text},
            {"made_at", note.made_at}};
}

StepNote note_from(const json& object, const Reader& reader) {
    StepNote note;
    reader.value(object, "first_step", note.first_step);
    note.last_step = note.first_step;
    reader.value(object, "last_step", note.last_step);
    reader.value(object, "colour", note.colour);
    reader.value(object, "text", note.text);
    reader.value(object, "made_at", note.made_at);
    note.text = clean_note_text(note.text);
    if (const std::string fault = note_fault(note); !fault.empty())
        reader.refuse("notes", "has a note whose " + fault);
    return note;
}

void read_runs(const json& object, const Reader& reader, const fs::path& folder, Workspace& workspace) {
    reader.each(object, "traces", [&](const json& element) {
        std::string path;
        Workspace::Trace trace;
        reader.value(element, "path", path);
        reader.value(element, "runs", trace.runs);
        if (path.empty()) reader.refuse("traces", "has a trace without a path");
        trace.path = (folder / path).lexically_normal(); // an absolute path stays
        workspace.traces.push_back(std::move(trace));
    });
    reader.each(object, "tables", [&](const json& element) {
        std::string path;
        reader.value(element, "path", path);
        if (path.empty()) reader.refuse("tables", "has a table without a path");
        workspace.tables.push_back((folder / path).lexically_normal());
    });
    reader.each(object, "runs", [&](const json& element) {
        Workspace::Run run;
        reader.value(element, "id", run.id);
        reader.value(element, "steps", run.steps);
        reader.value(element, "name", run.name);
        reader.value(element, "ticked", run.ticked);
        if (const auto colour = element.find("colour"); colour != element.end()) {
            run.colour = colour->get<uint32_t>();
            if (*run.colour >= run_colours)
                reader.refuse("colour", fmt::format("is not below {}", run_colours));
        }
        if (const auto signals = element.find("signals"); signals != element.end())
            run.signals = own_signals_from_json(*signals, "signals of a run in " + reader.file());
        workspace.runs.push_back(std::move(run));
    });
    if (const auto notes = object.find("notes"); notes != object.end())
        reader.part("notes", [&] {
            for (const auto& [id, list] : notes->items())
                for (const json& note : list)
                    workspace.notes[id].push_back(note_from(note, reader));
        });
}

} // namespace

std::string workspace_text(const Workspace& workspace, const fs::path& file) {
    json object = {{version_key, workspace_version}, {"traces", json::array()},
                   {"runs", json::array()},          {"by_position", workspace.by_position},
                   {"layout", workspace.layout},     {"arrangement", workspace.arrangement}};
    for (const Workspace::Trace& trace : workspace.traces)
        object["traces"].push_back({{"path", stored_path(trace.path, file)}, {"runs", trace.runs}});
    for (const Workspace::Run& run : workspace.runs) {
        json element = {{"id", run.id}, {"steps", run.steps}, {"ticked", run.ticked}};
        if (!run.name.empty()) element["name"] = run.name;
        if (run.colour) element["colour"] = *run.colour;
        if (!run.signals.empty()) element["signals"] = own_signals_to_json(run.signals);
        object["runs"].push_back(std::move(element));
    }
    for (const fs::path& table : workspace.tables)
        object["tables"].push_back({{"path", stored_path(table, file)}});
    if (!workspace.shown.empty()) object["shown"] = workspace.shown;
    if (workspace.step) object["step"] = *workspace.step;
    add_views(object["views"], workspace.views);
    for (const auto& [title, views] : workspace.more_panels)
        add_views(object["more_panels"][title], views);
    if (workspace.next_run) object["next_run"] = to_json(*workspace.next_run);
    for (const auto& [id, notes] : workspace.notes)
        for (const StepNote& note : notes)
            object["notes"][id].push_back(json_of(note));
    return json_text(object, 2) + "\n";
}

Workspace workspace_from_text(std::string_view text, const fs::path& file, std::vector<std::string>& faults) {
    const json object = parse_json(text, file.string());
    const Reader reader(file);
    const auto version = object.is_object() ? object.find(version_key) : object.end();
    if (!object.is_object() || version == object.end() || !version->is_number_integer())
        throw Error("reading workspace", file.string(), "this is no workspace of RefreshLab");
    if (version->get<int64_t>() > workspace_version)
        throw Error("reading workspace", file.string(),
                    fmt::format("written by a newer version (workspace {}, this program reads up to {})",
                                version->get<int64_t>(), workspace_version));
    Workspace workspace;
    read_runs(object, reader, fs::absolute(file).parent_path(), workspace);
    reader.value(object, "shown", workspace.shown);
    reader.value(object, "by_position", workspace.by_position);
    reader.value(object, "layout", workspace.layout);
    reader.value(object, "arrangement", workspace.arrangement);
    if (const auto step = object.find("step"); step != object.end())
        reader.part("step", [&] { workspace.step = step->get<int64_t>(); });
    if (workspace.step && *workspace.step < 0) reader.refuse("step", "is negative");
    if (const auto views = object.find("views"); views != object.end())
        reader.part("views", [&] { workspace.views = views_from_json(*views); });
    if (const auto more = object.find("more_panels"); more != object.end())
        reader.part("more_panels", [&] {
            for (const auto& [title, views] : more->items())
                workspace.more_panels[title] = views_from_json(views);
        });
    if (const auto run = object.find("next_run"); run != object.end()) {
        try {
            workspace.next_run = run_config_from_json(*run, "next_run of " + file.string());
        } catch (const Error& e) {
            faults.emplace_back(e.what());
        }
    }
    return workspace;
}

Workspace read_workspace(const fs::path& file, std::vector<std::string>& faults) {
    return workspace_from_text(read_file(file, largest_file), file, faults);
}

} // namespace refreshlab::ui
