#include "engine/record/trace/file_size_signal.h"

#include <ctime>

namespace refreshlab::trace {

namespace {

sigset_t file_size_signal() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    return set;
}

} // namespace

FileSizeSignalBlock::FileSizeSignalBlock() {
    const sigset_t set = file_size_signal();
    pthread_sigmask(SIG_BLOCK, &set, &m_before);
}

FileSizeSignalBlock::~FileSizeSignalBlock() {
    if (sigismember(&m_before, SIGXFSZ) == 1) return; // it was blocked before, by whoever will take it
    // The kernel sends it to the thread that writes, so what waits here is ours.
    const sigset_t set = file_size_signal();
    const timespec now{0, 0};
    while (sigtimedwait(&set, nullptr, &now) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &m_before, nullptr);
}

} // namespace refreshlab::trace
