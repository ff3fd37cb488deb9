#include "engine/record/keep/run_keeper.h"

#include "engine/base/bytes_text.h"
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/record/notes/run_notes.h"
#include "engine/record/trace/trace_notes.h"
#include "engine/record/trace/trace_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace refreshlab {

namespace {

namespace fs = std::filesystem;

/// Between two rounds of the writer.
constexpr std::chrono::milliseconds rest{250};

/// Changes whenever a recording has something that its file lacks; notes tell of themselves.
struct Stamp {
    int64_t steps = 0;
    uint64_t end = 0;
    size_t commands = 0, attention = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
};

Stamp stamp_of(const Recording& recording) {
    return {recording.steps(), recording.end_revision(), recording.commands().size(),
            recording.attention_changes().size()};
}

/// With what SQLite has beside it.
int64_t size_of(const fs::path& trace) {
    int64_t sum = 0;
    for (const char* companion : {"", "-wal"}) {
        std::error_code error;
        const auto size = fs::file_size(trace.string() + companion, error);
        if (!error) sum += static_cast<int64_t>(size);
    }
    return sum;
}

} // namespace

/// Threads  m_thread owns the files and their stores from start to join. The mutex protects what stands below it and is held for
///          moments, never while a file is written.
struct RunKeeper::Impl {
    Impl(fs::path folder, int64_t limit_bytes)
        : m_folder(std::move(folder))
        , m_limit(limit_bytes) {
        m_thread = std::thread([this] { loop(); });
    }
    ~Impl() {
        {
            const std::scoped_lock lock(m_mutex);
            m_stop = true;
        }
        m_changed.notify_all();
        m_thread.join();
    }
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    void watch(const std::shared_ptr<const Recording>& live) {
        if (!live || live->steps() == 0) return;
        const Stamp stamp = stamp_of(*live);
        const std::scoped_lock lock(m_mutex);
        // Not by its address: a new run may stand where one stood that is gone.
        const bool is_new = m_seen_run.lock() != live;
        if (!is_new && stamp == m_seen) return;
        if (is_new) m_new.push_back(live);
        m_seen_run = live;
        m_seen = stamp;
        ask();
    }
    void set_limit(int64_t limit_bytes) {
        const std::scoped_lock lock(m_mutex);
        if (std::exchange(m_limit, limit_bytes) != limit_bytes) ask();
    }
    void write(const std::string& name, std::string text) {
        const std::scoped_lock lock(m_mutex);
        m_texts[name] = std::move(text);
        ask();
    }
    void flush() {
        std::unique_lock lock(m_mutex);
        const uint64_t ticket = m_urgent = ++m_wanted;
        m_changed.notify_all();
        m_changed.wait(lock, [&] { return m_done >= ticket; });
    }
    [[nodiscard]] std::map<std::string, std::string, std::less<>> files() const {
        const std::scoped_lock lock(m_mutex);
        return m_names;
    }
    [[nodiscard]] int64_t bytes() const {
        const std::scoped_lock lock(m_mutex);
        return m_bytes;
    }
    [[nodiscard]] std::vector<std::string> news() {
        const std::scoped_lock lock(m_mutex);
        return std::exchange(m_news, {});
    }

private:
    struct Run {
        std::string id;
        std::shared_ptr<RunNotes> notes;
        uint64_t listener = 0; ///< of the notes
        uint64_t stored = 0;   ///< revision of the notes in the file, once its store is gone
    };
    /// A root run and its branches.
    struct File {
        fs::path path;
        std::vector<Run> runs = {};
        std::unique_ptr<TraceStore> store = {}; ///< null: no step is added any more
        int64_t bytes = 0;
        [[nodiscard]] bool has(const std::string& id) const {
            return std::ranges::find(runs, id, &Run::id) != runs.end();
        }
    };
    using Recordings = std::vector<std::shared_ptr<const Recording>>;

    void ask() { ///< m_mutex held
        ++m_wanted;
        if (m_idle) m_changed.notify_all();
    }

    void loop() {
        std::unique_lock lock(m_mutex);
        while (true) {
            m_idle = true;
            m_changed.wait(lock, [&] { return m_done < m_wanted || m_stop; });
            m_idle = false;
            const bool last = m_stop;
            const uint64_t ticket = m_wanted;
            const bool waited_for = m_urgent > m_done;
            const Recordings added = std::exchange(m_new, {});
            const auto texts = std::exchange(m_texts, {});
            const int64_t limit = m_limit;
            lock.unlock();
            round(added, texts, limit, waited_for);
            if (last)
                while (!m_files.empty())
                    forget_oldest();
            lock.lock();
            publish();
            m_done = ticket;
            m_changed.notify_all();
            if (last) return;
            m_changed.wait_for(lock, rest, [&] { return m_done < m_urgent || m_stop; });
        }
    }

    void round(const Recordings& added, const std::map<std::string, std::string>& texts, int64_t limit,
               bool waited_for) {
        for (const auto& recording : added)
            if (limit > 0) add(recording);
        for (const auto& [name, text] : texts)
            try {
                write_file(m_folder / name, text);
            } catch (const Error& e) {
                tell_once(e.what());
            }
        if (!m_files.empty() && m_files.back().store) {
            TraceStore& store = *m_files.back().store;
            store.notify();
            if (waited_for) store.flush();
            if (const std::string fault = store.error(); !fault.empty()) {
                tell_once("Autosave has stopped for this run: " + fault);
                close(m_files.back());
            }
        }
        for (File& file : m_files)
            if (!file.store) store_later_notes(file);
        keep_to(limit);
    }

    void add(const std::shared_ptr<const Recording>& recording) {
        const RunInfo& info = recording->info();
        try {
            if (m_files.empty() || !m_files.back().store || !m_files.back().has(info.parent_id)) {
                if (!m_files.empty()) close(m_files.back());
                fs::path path = m_folder / fmt::format("runs-{}.rlt", ++m_number);
                auto store = TraceStore::create(path);
                m_files.push_back({.path = std::move(path), .store = std::move(store)});
            }
            m_files.back().store->attach(recording);
            const auto& notes = recording->notes();
            m_files.back().runs.push_back({.id = info.id, .notes = notes, .listener = notes->listen([this] {
                                               const std::scoped_lock lock(m_mutex);
                                               ask();
                                           })});
        } catch (const Error& e) {
            tell_once(fmt::format("Autosave keeps nothing of this run: {}", e.what()));
        }
    }

    /// The store ends with all that there is.
    static void close(File& file) {
        for (Run& run : file.runs)
            run.stored = run.notes->revision(); // one that comes meanwhile is written twice
        file.store.reset();
    }

    /// A person may write a note to a run that another one has replaced.
    void store_later_notes(File& file) {
        for (Run& run : file.runs) {
            const uint64_t revision = run.notes->revision();
            if (std::exchange(run.stored, revision) == revision) continue;
            try {
                store_notes(file.path, *run.notes);
            } catch (const Error& e) {
                tell_once(e.what());
            }
        }
    }

    void forget_oldest() {
        for (const Run& run : m_files.front().runs)
            run.notes->unlisten(run.listener);
        m_files.erase(m_files.begin());
    }

    void keep_to(int64_t limit) {
        int64_t sum = 0;
        for (File& file : m_files)
            sum += file.bytes = size_of(file.path);
        while (sum > limit && m_files.size() > 1) {
            const File& oldest = m_files.front();
            m_lines.push_back(
                fmt::format("Autosave has dropped the oldest run that it kept ({}): its limit is {}",
                            bytes_text(oldest.bytes), bytes_text(limit)));
            sum -= oldest.bytes;
            remove(oldest.path);
            forget_oldest();
        }
        if (m_files.empty() || sum <= limit || !m_files.back().store) return;
        const int64_t steps = m_files.back().store->steps_written();
        close(m_files.back());
        m_lines.push_back(fmt::format(
            "Autosave has reached its limit of {}: it keeps the first {} steps of this run, and no later one",
            bytes_text(limit), steps));
    }

    static void remove(const fs::path& trace) {
        for (const char* companion : {"", "-wal", "-shm", "-journal"}) {
            std::error_code ignored;
            fs::remove(trace.string() + companion, ignored);
        }
    }

    void tell_once(std::string line) {
        if (std::exchange(m_last_line, line) != line) m_lines.push_back(std::move(line));
    }

    void publish() { ///< m_mutex held
        m_bytes = 0;
        m_names.clear();
        for (const File& file : m_files) {
            m_bytes += file.bytes;
            for (const Run& run : file.runs)
                m_names[run.id] = file.path.filename().string();
        }
        std::ranges::move(m_lines, std::back_inserter(m_news));
        m_lines.clear();
    }

    const fs::path m_folder;
    std::vector<File> m_files; ///< the thread's, as the next three
    int m_number = 0;
    std::vector<std::string> m_lines;
    std::string m_last_line;
    std::thread m_thread;

    mutable std::mutex m_mutex;
    std::condition_variable m_changed; ///< work for the thread, or work done for flush()
    int64_t m_limit = 0;
    std::weak_ptr<const Recording> m_seen_run;
    Stamp m_seen;
    Recordings m_new;
    std::map<std::string, std::string> m_texts;
    uint64_t m_wanted = 0, m_done = 0;
    uint64_t m_urgent = 0; ///< somebody waits for this much: no rest before it
    bool m_idle = false, m_stop = false;
    std::map<std::string, std::string, std::less<>> m_names;
    int64_t m_bytes = 0;
    std::vector<std::string> m_news;
};

RunKeeper::RunKeeper(fs::path folder, int64_t limit_bytes)
    : m_impl(std::make_unique<Impl>(std::move(folder), limit_bytes)) {}
RunKeeper::~RunKeeper() = default;

void RunKeeper::watch(const std::shared_ptr<const Recording>& live) {
    m_impl->watch(live);
}
void RunKeeper::set_limit(int64_t limit_bytes) {
    m_impl->set_limit(limit_bytes);
}
void RunKeeper::write(const std::string& name, std::string text) {
    m_impl->write(name, std::move(text));
}
void RunKeeper::flush() {
    m_impl->flush();
}
std::map<std::string, std::string, std::less<>> RunKeeper::files() const {
    return m_impl->files();
}
int64_t RunKeeper::bytes() const {
    return m_impl->bytes();
}
std::vector<std::string> RunKeeper::news() {
    return m_impl->news();
}

} // namespace refreshlab
