#include "kernels/simt/harness.h"

#include "kernels/simt/machine.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace refreshlab::simt {

Settings set_settings(const Settings& settings) {
    return std::exchange(Machine::of_process().settings, settings);
}

void in_orders(int orders, const std::function<void(uint64_t order)>& body) {
    const Settings before = Machine::of_process().settings;
    const auto put_back =
        std::shared_ptr<void>(nullptr, [before](void*) { Machine::of_process().settings = before; });
    for (int i = 0; i < orders; ++i) {
        Settings settings = before;
        settings.order = static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15U;
        Machine::of_process().settings = settings;
        body(settings.order);
    }
}

Visible::Visible(const void* at, size_t bytes, Contents contents, std::string name)
    : m_at(at) {
    Machine::of_process().regions.add(at, bytes, contents, name);
}
Visible::~Visible() {
    Machine::of_process().regions.remove(m_at);
}

void note_written(const void* at, size_t bytes) {
    Machine::of_process().regions.note(at, bytes, true);
}
void note_unwritten(const void* at, size_t bytes) {
    Machine::of_process().regions.note(at, bytes, false);
}

std::shared_ptr<void> make_memory(size_t bytes) {
    // aligned_alloc wants a multiple of the alignment, and the sanitizer guards what was asked for; so the end is exact with posix_memalign.
    void* memory = nullptr;
    if (posix_memalign(&memory, 256, bytes == 0 ? 1 : bytes) != 0) throw std::bad_alloc();
    std::memset(memory, poison, bytes);
    return {memory, std::free};
}

Activity take_activity() {
    return std::exchange(Machine::of_process().activity, {});
}

bool looks_at_memory() {
#ifdef __SANITIZE_ADDRESS__
    return false;
#else
    return true;
#endif
}

} // namespace refreshlab::simt
