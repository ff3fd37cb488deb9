#include "app/engine/training_run.h"

#include "app/base/output.h"
#include "app/engine/work_progress.h"
#include "engine/base/error.h"
#include "engine/base/interrupt.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <numeric>

namespace refreshlab::app {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr Seconds between_checkpoints{20};
constexpr double writing_share = 0.05;
constexpr Seconds between_losses{1}; ///< as often a window that shows them sees new ones

std::string time_left(double seconds) {
    if (seconds < 90) return fmt::format("{:.0f} s", seconds);
    if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
    return fmt::format("{:.1f} h", seconds / 3600);
}

/// The losses so far into the folder of tables, as they stand there at the end: what a window follows. Nothing without a folder, or in one
/// that cannot be written, which is said at the end.
void show_losses(const TrainingFiles& files, const std::function<StudyTable()>& losses) {
    if (files.csv.empty()) return;
    StudyResult so_far;
    so_far.figures.push_back(losses());
    try {
        write_study(so_far, files.csv);
    } catch (const Error&) { // the training is worth more
    }
}

/// Gives large blocks back to the system when they are free. The program keeps them for decode steps, which want the same sizes again; the
/// tensors of a training have other sizes in each step. On the bundled teacher's shape the heap had grown to 3.2 GB after 290 steps, and a
/// quarter of the time went into its lists. So it stays at 1.3 GB. The time is about the same: pages are made instead.
void return_large_blocks() {
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

int64_t tokens_of(const std::vector<TrainingText>& texts) {
    return std::accumulate(texts.begin(), texts.end(), int64_t{0},
                           [](int64_t sum, const TrainingText& text) { return sum + std::ssize(text.ids); });
}

/// Runs a part of the training; what it throws says where the training before it is.
template <class Part>
void kept(const fs::path& part, const Part& run) {
    try {
        run();
    } catch (const Error& e) {
        if (!fs::exists(part)) throw;
        throw Error(e.doing(), e.object(), e.problem(),
                    fmt::format("{}{}{} holds the training before it", e.hint(), e.hint().empty() ? "" : "; ",
                                part.string()),
                    e.kind());
    }
}

} // namespace

TrainingLock::TrainingLock(const fs::path& part)
    : m_path(part.string() + ".lock") {
    const auto fail = [&](const std::string& problem, ErrorKind kind) {
        if (m_file >= 0) close(m_file);
        throw Error("beginning a training", m_path.string(), problem,
                    kind == ErrorKind::bad_input ? "wait for it, or name another --out" : "", kind);
    };
    for (;;) {
        m_file = open(m_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        if (m_file < 0) fail(std::strerror(errno), ErrorKind::failure);
        if (flock(m_file, LOCK_EX | LOCK_NB) != 0)
            fail("another program trains into the same output", ErrorKind::bad_input);
        // Whoever had it may have removed the file between the two calls: then this lock is of no name.
        struct stat mine {
        }, named{};
        if (fstat(m_file, &mine) == 0 && stat(m_path.c_str(), &named) == 0 && mine.st_ino == named.st_ino)
            return;
        close(m_file);
    }
}

TrainingLock::~TrainingLock() {
    unlink(m_path.c_str());
    close(m_file);
}

void begin_training(Trainer& trainer, const TrainingFiles& files, bool restart,
                    const std::array<std::vector<TrainingText>, 2>& texts) {
    if (!restart && fs::exists(files.part)) trainer.resume(files.part);
    say("{} texts, {} tokens; {} more, {} tokens, held out\n", texts[1].size(), tokens_of(texts[1]),
        texts[0].size(), tokens_of(texts[0]));
    if (trainer.steps_done() > 0)
        say("going on after step {} of {} ({})\n", trainer.steps_done(), trainer.steps(),
            files.part.string());
    note_interrupts();
    return_large_blocks();
}

bool train_to_end(Trainer& trainer, const TrainingFiles& files, const std::function<StudyTable()>& losses,
                  const std::function<void()>& stepped) {
    const int64_t steps = trainer.steps(), before = trainer.steps_done();
    const auto start = Clock::now();
    auto shown = start, next_save = start + std::chrono::duration_cast<Clock::duration>(between_checkpoints);
    show_losses(files, losses);
    const auto save = [&] {
        const auto begin = Clock::now();
        kept(files.part, [&] { trainer.checkpoint(files.part); });
        const Seconds took = Clock::now() - begin;
        next_save = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                       std::max(between_checkpoints, took / writing_share));
    };
    WorkProgress progress;
    while (trainer.steps_done() < steps) {
        if (interrupted() != 0) {
            if (trainer.steps_done() > 0) save();
            show_losses(files, losses);
            say("interrupted after step {}: {} holds it, and the same command goes on\n",
                trainer.steps_done(), files.part.string());
            return false;
        }
        kept(files.part, [&] { trainer.step(); });
        if (stepped) stepped();
        const int64_t done = trainer.steps_done();
        const Seconds took = Clock::now() - start;
        progress.show(static_cast<double>(done) / static_cast<double>(steps),
                      fmt::format("step {} of {}, loss {:.5g}, {} left", done, steps,
                                  newest_loss(trainer.losses()),
                                  time_left(took.count() / static_cast<double>(done - before) *
                                            static_cast<double>(steps - done))));
        if (Clock::now() - shown >= between_losses) {
            show_losses(files, losses);
            shown = Clock::now();
        }
        if (Clock::now() >= next_save) save();
    }
    save();
    return true;
}

double newest_loss(const std::vector<TrainingStep>& losses) {
    const auto n = std::min<int64_t>(50, std::ssize(losses));
    double sum = 0;
    for (auto step = losses.end() - n; step != losses.end(); ++step)
        sum += step->total;
    return n > 0 ? sum / static_cast<double>(n) : 0;
}

} // namespace refreshlab::app
