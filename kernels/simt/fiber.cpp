#include "kernels/simt/fiber.h"

#include <boost/context/detail/fcontext.hpp>
#include <sys/mman.h>

#include <new>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace refreshlab::simt {

namespace {

namespace context = boost::context::detail;
constexpr size_t guard_bytes = 4096;

} // namespace

struct Fiber::Entry {
    static void enter(context::transfer_t from) {
        Fiber& self = *static_cast<Fiber*>(from.data);
        self.m_host = from.fctx;
#ifdef __SANITIZE_ADDRESS__
        __sanitizer_finish_switch_fiber(nullptr, &self.m_host_stack, &self.m_host_stack_bytes);
#endif
        self.m_body(self.m_argument);
        self.leave();
        __builtin_unreachable();
    }
};

Fiber::~Fiber() {
    if (m_stack != nullptr) munmap(m_stack - guard_bytes, stack_bytes + guard_bytes);
}

void Fiber::prepare(void (*body)(void* argument), void* argument) {
    if (m_stack == nullptr) {
        void* const memory = mmap(nullptr, stack_bytes + guard_bytes, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        mprotect(memory, guard_bytes, PROT_NONE);
        m_stack = static_cast<char*>(memory) + guard_bytes;
    }
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(m_stack, stack_bytes);
#endif
    m_body = body;
    m_argument = argument;
    m_context = context::make_fcontext(m_stack + stack_bytes, stack_bytes, &Entry::enter);
}

void Fiber::resume() {
#ifdef __SANITIZE_ADDRESS__
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, m_stack, stack_bytes);
#endif
    m_context = context::jump_fcontext(m_context, this).fctx;
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void Fiber::leave() {
#ifdef __SANITIZE_ADDRESS__
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, m_host_stack, m_host_stack_bytes);
#endif
    m_host = context::jump_fcontext(m_host, nullptr).fctx;
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake, &m_host_stack, &m_host_stack_bytes);
#endif
}

} // namespace refreshlab::simt
