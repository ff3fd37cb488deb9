#include "engine/record/trace/trace_store.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/record/notes/run_notes.h"
#include "engine/record/trace/file_size_signal.h"
#include "engine/record/trace/sqlite.h"
#include "engine/record/trace/trace_kind.h"
#include "engine/record/trace/write/trace_tables.h"
#include "engine/record/trace/write/trace_target.h"
#include "engine/record/trace/write/trace_writer.h"

#include <sqlite3.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace refreshlab {

namespace {

using trace::check_target;
using trace::CreationLock;
using trace::new_database;
using trace::remove_companions;
using trace::to_disk;
using trace::writing_error;

} // namespace

/// Threads  The owner of the TraceStore attaches and notifies; m_thread writes and owns m_db and m_writer from start to
///          join. The mutex protects the members below it and is held for moments, never while a file is written.
struct TraceStore::Impl {
    /// \param database  null: an older trace stands at the path, to be replaced when the first run comes
    Impl(const std::filesystem::path& file, std::unique_ptr<sqlite::Database> database)
        : m_path(file)
        , m_db(std::move(database)) {
        m_thread = std::thread([this] { loop(); });
    }

    ~Impl() {
        for (const auto& [notes, listener] : m_heard)
            notes->unlisten(listener);
        {
            const std::scoped_lock lock(m_mutex);
            m_stop = true;
        }
        m_changed.notify_all();
        m_thread.join();
    }

    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    void attach(std::shared_ptr<const Recording> recording, RunLabel label) {
        // A note may be made while no step is.
        m_heard.emplace_back(recording->notes(), recording->notes()->listen([this] { notify(); }));
        {
            const std::scoped_lock lock(m_mutex);
            m_attached.push_back({std::move(recording), {}, 0, std::move(label)});
            m_steps_written = -1;
            m_urgent = ++m_wanted;
        }
        m_changed.notify_all();
    }

    void notify() {
        const std::scoped_lock lock(m_mutex);
        ++m_wanted;
        if (m_idle)
            m_changed.notify_all(); // a resting writer sees it by itself: no call to the system for a step
    }

    void flush() {
        std::unique_lock lock(m_mutex);
        const uint64_t ticket = m_urgent = ++m_wanted;
        m_changed.notify_all();
        m_changed.wait(lock, [&] { return m_written >= ticket || !m_error.empty(); });
    }

    int64_t steps_written(std::chrono::milliseconds at_most) {
        std::unique_lock lock(m_mutex);
        const uint64_t ticket = m_wanted;
        const auto done = [&] { return m_written >= ticket || !m_error.empty(); };
        if (!done() && at_most.count() > 0) {
            m_urgent = ticket;
            m_changed.notify_all();
            m_changed.wait_for(lock, at_most, done);
        }
        return m_steps_written;
    }

    [[nodiscard]] std::string error() const {
        const std::scoped_lock lock(m_mutex);
        return m_error;
    }

    [[nodiscard]] bool moved() const { return m_moved.load(); }

private:
    /// Between two rounds. A round per step of a small model would cost several percent of its decode.
    static constexpr std::chrono::milliseconds rest{20};

    void loop() {
        const trace::FileSizeSignalBlock block;
        std::unique_lock lock(m_mutex);
        while (true) {
            m_idle = true;
            m_changed.wait(lock, [&] { return m_written < m_wanted || m_stop; });
            m_idle = false;
            const bool last = m_stop;
            const uint64_t ticket = m_wanted;
            const auto attached = std::exchange(m_attached, {});
            lock.unlock();
            std::string problem = m_failed ? std::string() : write(attached);
            if (last) {
                close();
                return;
            }
            lock.lock();
            m_written = ticket;
            // Of a run that came after `ticket` nothing is in the file yet.
            m_steps_written = m_writer && m_attached.empty() ? m_writer->newest_steps() : -1;
            if (!problem.empty()) m_error = std::move(problem);
            m_changed.notify_all();
            m_changed.wait_for(lock, rest, [&] { return m_written < m_urgent || m_stop; });
        }
    }

    /// One round. \return what went wrong, or ""; after an error nothing is written any more
    std::string write(const std::vector<SavedRun>& attached) {
        try {
            if (!attached.empty() && !m_writer) {
                if (!m_db) {
                    const CreationLock lock(m_path);
                    check_target(m_path, true);
                    m_db = new_database(m_path);
                }
                m_writer = std::make_unique<trace::TraceWriter>(*m_db);
            }
            if (m_writer && m_db->has_moved()) { // what is written from now on nobody would find
                m_failed = true;
                m_moved = true;
                m_db->leave_as_it_is();
                return Error(trace::writing_trace, m_path.string(),
                             "the file was removed or renamed while it was being recorded",
                             "save the run again")
                    .what();
            }
            for (const SavedRun& run : attached)
                m_writer->add_run(run.recording, run.parent_id, run.fork_step, run.label);
            if (m_writer) m_writer->write_new();
            return {};
        } catch (const sqlite::SqlError& e) {
            m_failed = true;
            return writing_error(m_path, e).what();
        } catch (const Error& e) { // something else has come to stand at the path
            m_failed = true;
            return e.what();
        } catch (const std::exception& e) { // memory, a broken invariant: the decode goes on all the same
            m_failed = true;
            return Error(trace::writing_trace, m_path.string(), e.what()).what();
        }
    }

    /// Leaves one file: everything out of the WAL, the WAL gone.
    void close() {
        if (!m_db) return;
        const bool holds_runs = m_writer != nullptr;
        m_writer.reset(); // its statements first
        try {
            if (m_failed && sqlite3_get_autocommit(m_db->handle()) == 0) m_db->exec("ROLLBACK");
            if (m_db->has_moved()) {
                m_db->leave_as_it_is();
                m_db.reset();
                return;
            }
            m_db->busy_timeout(0); // a reader that has the file open keeps it in WAL form, which is as good
            m_db->exec("PRAGMA wal_checkpoint(TRUNCATE)");
            m_db->exec("PRAGMA journal_mode = DELETE");
        } catch (const std::exception&) {
            // The trace is complete without this; the WAL is read by whoever opens it.
        }
        if (holds_runs) {
            m_db.reset();
            return;
        }
        try {
            const CreationLock lock(m_path); // nobody else's file is removed
            m_db.reset();
            std::filesystem::remove(m_path);
            remove_companions(m_path);
        } catch (const std::exception&) { // an empty trace is left
            m_db.reset();
        }
    }

    std::vector<std::pair<std::shared_ptr<RunNotes>, uint64_t>> m_heard; ///< the owner's
    const std::filesystem::path m_path;
    std::unique_ptr<sqlite::Database> m_db;
    std::unique_ptr<trace::TraceWriter> m_writer;
    bool m_failed = false;            ///< the writer thread's own copy of "there is an error"
    std::atomic<bool> m_moved{false}; ///< written by m_thread before the error that says so is published
    std::thread m_thread;

    mutable std::mutex m_mutex;
    std::condition_variable m_changed; ///< work for the writer, or work done for flush()
    std::vector<SavedRun> m_attached;
    uint64_t m_wanted = 0, m_written = 0;
    uint64_t m_urgent = 0;        ///< somebody waits for this much: no rest before it
    bool m_idle = false;          ///< the writer sleeps until it is told that there is something
    int64_t m_steps_written = -1; ///< of the run attached last
    bool m_stop = false;
    std::string m_error;
};

std::unique_ptr<TraceStore> TraceStore::create(const std::filesystem::path& path, bool overwrite) {
    try {
        const trace::FileSizeSignalBlock block;
        const CreationLock lock(path);
        check_target(path, overwrite);
        std::unique_ptr<sqlite::Database> db;
        if (trace::file_kind(path) != trace::FileKind::trace) db = new_database(path);
        return std::unique_ptr<TraceStore>(new TraceStore(std::make_unique<Impl>(path, std::move(db))));
    } catch (const sqlite::SqlError& e) {
        throw writing_error(path, e);
    }
}

TraceStore::TraceStore(std::unique_ptr<Impl> impl)
    : m_impl(std::move(impl)) {}
TraceStore::~TraceStore() = default;

void TraceStore::attach(std::shared_ptr<const Recording> recording, RunLabel label) {
    m_impl->attach(std::move(recording), std::move(label));
}
void TraceStore::notify() {
    m_impl->notify();
}
void TraceStore::flush() {
    m_impl->flush();
}
int64_t TraceStore::steps_written(std::chrono::milliseconds at_most) {
    return m_impl->steps_written(at_most);
}
bool TraceStore::moved() const {
    return m_impl->moved();
}
std::string TraceStore::error() const {
    return m_impl->error();
}

namespace {

/// The whole recordings into a new file, on the disk when it returns.
void write_once(const std::filesystem::path& path, std::span<const SavedRun> runs,
                const std::atomic<bool>* cancelled) {
    {
        sqlite::Database db(path, sqlite::Open::create);
        trace::create_tables(db, trace::Writing::once);
        trace::TraceWriter writer(db, cancelled);
        for (const SavedRun& run : runs)
            writer.add_run(run.recording, run.parent_id, run.fork_step, run.label);
        writer.write_new();
    }
    to_disk(path); // SQLite was told not to wait for it: once is enough, before the file gets its name
}

} // namespace

bool save_trace(const std::filesystem::path& path, const std::shared_ptr<const Recording>& recording,
                const std::atomic<bool>* cancelled) {
    const SavedRun run{.recording = recording, .parent_id = {}, .fork_step = 0};
    return save_traces(path, std::span(&run, 1), cancelled);
}

bool save_traces(const std::filesystem::path& path, std::span<const SavedRun> runs,
                 const std::atomic<bool>* cancelled) {
    const trace::FileSizeSignalBlock block;
    const std::filesystem::path partial = temporary_beside(path);
    std::error_code ignored;
    const auto clean = [&] {
        std::filesystem::remove(partial, ignored);
        remove_companions(partial);
    };
    try { // apart from the writing: nothing is to be cleaned up when a target is refused
        check_target(path, true);
    } catch (const sqlite::SqlError& e) {
        throw writing_error(path, e);
    }
    try {
        write_once(partial, runs, cancelled);
        remove_companions(path);
        std::filesystem::rename(partial, path);
        return true;
    } catch (const trace::Cancelled&) {
        clean();
        return false;
    } catch (const sqlite::SqlError& e) {
        clean();
        throw writing_error(path, e);
    } catch (const std::system_error& e) { // filesystem_error is one
        clean();
        throw Error("saving trace", path.string(), e.code().message(), {}, ErrorKind::failure);
    }
}

void replace_trace(const std::filesystem::path& path, const std::filesystem::path& by) {
    const trace::FileSizeSignalBlock block;
    try {
        if (load_trace(by).empty()) throw Error("reading trace", by.string(), "it holds no run");
    } catch (const Error& e) {
        throw Error("saving trace", path.string(), e.what(), "it stays as it was", ErrorKind::failure);
    }
    try {
        const CreationLock lock(path);
        check_target(path, true);
        std::error_code missing;
        if (std::filesystem::exists(by.string() + "-wal", missing))
            throw Error(trace::writing_trace, by.string(), "another program is using this trace", "close it");
        if (const auto old = std::filesystem::status(path, missing); std::filesystem::exists(old))
            std::filesystem::permissions(by, old.permissions());
        to_disk(by);
        remove_companions(path);
        std::filesystem::rename(by, path);
    } catch (const sqlite::SqlError& e) {
        throw writing_error(path, e);
    } catch (const std::system_error& e) { // filesystem_error is one
        throw Error("saving trace", path.string(), e.code().message(), {}, ErrorKind::failure);
    }
}

} // namespace refreshlab
