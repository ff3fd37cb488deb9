#include "engine/remote/note_receiver.h"

#include "engine/remote/note_json.h"

#include <fmt/format.h>

namespace refreshlab::remote {

using nlohmann::json;

NoteReceiver::NoteReceiver(std::string name, std::function<void()> changed)
    : m_name(std::move(name))
    , m_changed(std::move(changed)) {}

NoteReceiver::~NoteReceiver() {
    forget_runs();
}

void NoteReceiver::add(const std::shared_ptr<const Recording>& recording) {
    const std::string& id = recording->info().id;
    look_for_changes();
    if (const auto former = m_runs.find(id); former != m_runs.end()) {
        former->second.notes->unlisten(former->second.listener);
        m_runs.erase(former);
    }
    Run& run = m_runs[id];
    run.notes = recording->notes();
    run.listener = run.notes->listen(m_changed);
}

void NoteReceiver::forget_runs() {
    look_for_changes();
    for (const auto& [id, run] : m_runs)
        run.notes->unlisten(run.listener);
    m_runs.clear();
}

void NoteReceiver::begin_connection() {
    for (auto& [place, change] : m_waiting)
        change.number = 0;
}

void NoteReceiver::look_for_changes() {
    for (auto& [run_id, run] : m_runs) {
        const uint64_t revision = run.notes->revision(); // first: what changes now is found the next time
        if (run.revision == revision) continue;
        run.revision = revision;
        std::map<std::string, StepNote> now;
        for (StepNote& note : run.notes->own()) {
            std::string& key = run.keys[note.id];
            if (key.empty()) {
                key = fmt::format("{}-{}", m_name, ++m_last_key);
                run.ids[key] = note.id;
            }
            const auto before = run.known.find(key);
            if (before == run.known.end() || before->second != note) m_waiting[{run_id, key}] = {note, 0};
            now.emplace(key, std::move(note));
        }
        for (const auto& [key, note] : run.known)
            if (!now.contains(key)) m_waiting[{run_id, key}] = {};
        run.known = std::move(now);
    }
}

std::vector<json> NoteReceiver::changes() {
    look_for_changes();
    std::vector<json> messages;
    for (auto& [place, change] : m_waiting) {
        if (change.number > 0) continue;
        change.number = ++m_last_number;
        messages.push_back({{"number", change.number},
                            {"run", place.first},
                            {"key", place.second},
                            {"note", note_json(change.note)}});
    }
    return messages;
}

void NoteReceiver::put(const std::string& run_id, Run& run, const std::string& key,
                       const std::optional<StepNote>& note) {
    if (m_waiting.contains({run_id, key})) return; // the server will have that one, and says what it then has
    const auto id = run.ids.find(key);
    if (id == run.ids.end()) {
        if (!note) return;
        const int64_t made = run.notes->add(*note);
        run.ids[key] = made;
        run.keys[made] = key;
        run.known[key] = *note;
        run.known[key].id = made;
        return;
    }
    const auto known = run.known.find(key);
    const std::optional<StepNote> from =
        known == run.known.end() ? std::nullopt : std::optional(known->second);
    std::optional<StepNote> to = note;
    if (to) to->id = id->second;
    if (from == to || !run.notes->change(id->second, from, to)) return; // changed here at this moment
    if (to)
        run.known[key] = std::move(*to);
    else
        run.known.erase(known);
}

std::string NoteReceiver::take(const json& message) {
    look_for_changes();
    const auto taken = message.at("taken").get<uint64_t>();
    std::erase_if(m_waiting,
                  [&](const auto& waits) { return waits.second.number > 0 && waits.second.number <= taken; });
    const auto problem = message.value("problem", std::string());
    if (!message.contains("run")) return problem;
    const auto run_id = message.at("run").get<std::string>();
    const auto found = m_runs.find(run_id);
    if (found == m_runs.end()) return problem;
    Run& run = found->second;
    const json& notes = message.at("notes");
    for (const auto& [key, note] : notes.items())
        put(run_id, run, key, note_of(note));
    for (const json& key : message.at("gone"))
        put(run_id, run, key.get<std::string>(), std::nullopt);
    if (message.at("whole").get<bool>()) { // somebody has erased it meanwhile
        const auto known = run.known;
        for (const auto& [key, note] : known)
            if (!notes.contains(key)) put(run_id, run, key, std::nullopt);
    }
    return problem;
}

} // namespace refreshlab::remote
