#pragma once

#include <nanobind/nanobind.h>

namespace refreshlab::python {

/// One piece of work of the engine that lets the interpreter's lock go, from before it does until it has it again. At the end of the program
/// end_all_work() lets nothing new begin and waits for what is under way: a thread that asks for the lock of an interpreter that is gone ends
/// the process with a fault.
class WorkUnderWay {
public:
    WorkUnderWay(); ///< throws SystemExit after end_all_work(): it ends a thread without a word
    ~WorkUnderWay();
    WorkUnderWay(const WorkUnderWay&) = delete;
    WorkUnderWay& operator=(const WorkUnderWay&) = delete;
};
/// For atexit, in every module by itself.
void end_all_work();

/// Does it while other threads of Python run.
template <class Work>
auto without_lock(const Work& work) {
    const WorkUnderWay under_way;
    const nanobind::gil_scoped_release others;
    return work();
}

} // namespace refreshlab::python
