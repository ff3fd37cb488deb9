#include "engine/remote/note_sender.h"

#include "engine/remote/note_json.h"

#include <fmt/format.h>

#include <algorithm>

namespace refreshlab::remote {

using nlohmann::json;

SharedNotes::SharedNotes(std::function<void()> changed)
    : m_changed(std::move(changed)) {}

SharedNotes::~SharedNotes() {
    for (const auto& [id, run] : m_runs)
        run.notes->unlisten(run.listener);
}

void SharedNotes::add(const std::shared_ptr<const Recording>& run) {
    const std::string& id = run->info().id;
    if (const auto known = m_runs.find(id); known != m_runs.end()) {
        if (known->second.notes == run->notes()) return;
        remove(id);
    }
    m_runs.emplace(id, Run{run->notes(), run->notes()->listen(m_changed)});
}

void SharedNotes::remove(const std::string& run_id) {
    const auto found = m_runs.find(run_id);
    if (found == m_runs.end()) return;
    found->second.notes->unlisten(found->second.listener);
    m_runs.erase(found);
}

void SharedNotes::keep(const std::function<bool(const std::string& run_id)>& kept) {
    for (auto run = m_runs.begin(); run != m_runs.end();) {
        const auto next = std::next(run);
        if (!kept(run->first)) remove(std::string(run->first));
        run = next;
    }
}

const std::string& SharedNotes::key_of(const std::shared_ptr<RunNotes>& owner, int64_t id) {
    std::string& key = m_keys[{owner.get(), id}];
    if (key.empty()) {
        key = fmt::format("{}", m_next_key++); // those of clients have a name before it
        m_places[key] = {owner, id};
    }
    return key;
}

bool SharedNotes::change(const std::string& run_id, const std::string& key, std::optional<StepNote> note) {
    const auto run = m_runs.find(run_id);
    if (run == m_runs.end()) return false;
    const std::shared_ptr<RunNotes>& own = run->second.notes;
    const auto known = m_places.find(key);
    if (known == m_places.end()) {
        if (!note) return true; // it was never here
        const int64_t id = own->add(std::move(*note));
        m_places[key] = {own, id};
        m_keys[{own.get(), id}] = key;
        return true;
    }
    const auto [owner, id] = known->second;
    if (!note) {
        owner->erase(id);
        return true;
    }
    // A branch sees a note of its parent up to the fork. One that was not made shorter stays as long as it is.
    if (const auto whole = owner->find(id); whole && owner != own)
        for (const RunNotes::Seen& seen : own->seen())
            if (seen.owner == owner && seen.note.id == id && seen.note.last_step == note->last_step)
                note->last_step = whole->last_step;
    note->id = id;
    owner->put(std::move(*note));
    return true;
}

std::map<std::string, StepNote> SharedNotes::notes(const std::string& run_id, bool alone) {
    const std::shared_ptr<RunNotes>& own = m_runs.at(run_id).notes;
    std::map<std::string, StepNote> all;
    if (!alone) {
        for (StepNote& note : own->own())
            all.emplace(key_of(own, note.id), std::move(note));
        return all;
    }
    for (RunNotes::Seen& seen : own->seen())
        all.emplace(key_of(seen.owner ? seen.owner : own, seen.note.id), std::move(seen.note));
    return all;
}

uint64_t SharedNotes::revision(const std::string& run_id, bool alone) const {
    const RunNotes& notes = *m_runs.at(run_id).notes;
    return alone ? notes.seen_revision() : notes.revision();
}

void NoteSender::begin(const std::string& run_id, bool alone) {
    m_runs[run_id] = {alone, {}, {}, {}};
}

void NoteSender::answer(uint64_t number, const std::string& run_id, const std::string& key,
                        std::string problem) {
    m_taken = std::max(m_taken, number);
    if (!problem.empty())
        m_problem = std::move(problem);
    else if (const auto run = m_runs.find(run_id); run != m_runs.end())
        run->second.taken.insert(key);
}

json NoteSender::next(SharedNotes& shared) {
    json message = json::object();
    std::erase_if(m_runs,
                  [&](const auto& run) { return !shared.knows(run.first); }); // the client keeps its notes
    for (auto& [id, told] : m_runs) {
        const uint64_t revision = shared.revision(id, told.alone); // first: what changes now comes again
        if (told.revision == revision && told.taken.empty()) continue;
        auto now = shared.notes(id, told.alone);
        const auto taken = std::exchange(told.taken, {});
        json notes = json::object();
        for (const auto& [key, note] : now)
            if (const auto before = told.notes.find(key);
                before == told.notes.end() || before->second != note || taken.contains(key))
                notes[key] = note_json(note);
        std::set<std::string> gone = taken;
        for (const auto& [key, note] : told.notes)
            gone.insert(key);
        std::erase_if(gone, [&](const std::string& key) { return now.contains(key); });
        const bool whole = !told.revision;
        told.revision = revision;
        told.notes = std::move(now);
        if (!whole && notes.empty() && gone.empty()) continue;
        message = {{"run", id}, {"whole", whole}, {"notes", std::move(notes)}, {"gone", gone}};
        break;
    }
    if (message.empty() && m_taken == m_told_taken && m_problem.empty()) return nullptr;
    message["taken"] = m_told_taken = m_taken;
    if (!m_problem.empty()) message["problem"] = std::exchange(m_problem, {});
    return message;
}

} // namespace refreshlab::remote
