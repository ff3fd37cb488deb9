#include "app/cli/program.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace {

/// A standard stream that was closed would give its number to the next file that is opened, and what is printed would
/// go there.
void occupy_standard_streams() {
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (fcntl(stream, F_GETFD) == -1)
            static_cast<void>(open("/dev/null", O_RDONLY)); // writes fail, as before
    }
}

/// A decode step gets and frees rows of logits and of attention. The C library would give such memory back to the system after
/// each step, and the next step would wait for pages again.
void keep_freed_memory() {
#if defined(__GLIBC__)
    constexpr int mapped_alone_from = 16 << 20, kept = 256 << 20, asked_for_at_once = 8 << 20; // bytes
    mallopt(M_MMAP_THRESHOLD, mapped_alone_from);
    mallopt(M_TRIM_THRESHOLD, kept);
    mallopt(M_TOP_PAD, asked_for_at_once);
#endif
}

} // namespace

int main(int argc, char** argv) {
    occupy_standard_streams();
    keep_freed_memory();
    std::signal(SIGPIPE, SIG_IGN); // a closed pipe is an error of the write, not the end of the program
    std::signal(SIGXFSZ, SIG_IGN); // so is the limit on file sizes
    const int status = refreshlab::app::run_program(argc, argv);
    // The destructors of libtorch's globals take some 70 ms, for memory that the system takes back anyway. A sanitizer reports there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return status;
#else
    static_cast<void>(std::fflush(nullptr));
    std::_Exit(status);
#endif
}
