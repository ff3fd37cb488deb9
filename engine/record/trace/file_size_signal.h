#pragma once

#include <csignal>

namespace refreshlab::trace {

/// While one of these lives, a write of this thread beyond the process's limit on file sizes (ulimit -f) fails like one on a
/// full disk. Else the system ends the program: SIGXFSZ.
class FileSizeSignalBlock {
public:
    FileSizeSignalBlock();
    ~FileSizeSignalBlock(); ///< takes the signals that came meanwhile
    FileSizeSignalBlock(const FileSizeSignalBlock&) = delete;
    FileSizeSignalBlock& operator=(const FileSizeSignalBlock&) = delete;

private:
    sigset_t m_before{};
};

} // namespace refreshlab::trace
