#include "python/bindings/without_lock.h"

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace refreshlab::python {

namespace {

struct Work {
    std::mutex mutex; ///< protects what follows; held for a look-up
    std::condition_variable none_left;
    int64_t under_way = 0;
    bool ended = false;
};

Work& all_work() {
    static Work* const one = new Work; // never destroyed: a thread may look while the process ends
    return *one;
}

} // namespace

WorkUnderWay::WorkUnderWay() {
    const std::lock_guard lock(all_work().mutex);
    if (all_work().ended) {
        PyErr_SetNone(PyExc_SystemExit);
        throw nanobind::python_error();
    }
    ++all_work().under_way;
}

WorkUnderWay::~WorkUnderWay() {
    const std::lock_guard lock(all_work().mutex);
    if (--all_work().under_way == 0) all_work().none_left.notify_all();
}

void end_all_work() {
    const nanobind::gil_scoped_release others;
    std::unique_lock lock(all_work().mutex);
    all_work().ended = true;
    all_work().none_left.wait(lock, [] { return all_work().under_way == 0; });
}

} // namespace refreshlab::python
