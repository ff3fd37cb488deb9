#include "kernels/execution/execution_context.h"

#include "kernels/execution/cores.h"
#include "kernels/shared/check.h"

#include <ATen/Parallel.h>

#include <algorithm>

namespace refreshlab::kernels {
namespace {

// The context of the innermost open scope; in a pool's worker, the context that owns the pool.
thread_local const ExecutionContext* t_context = nullptr;

/// Never destroyed (static destructors may still compute). Its workers are joined at exit, after which everything runs
/// inline.
const ExecutionContext& process_context() {
    static const ExecutionContext* const context = new ExecutionContext; // reachable for ever
    static const struct Guard {
        const ExecutionContext* m_context;
        ~Guard() { m_context->pool().stop(); }
    } guard{context};
    return *context;
}

/// libtorch drops caches of its own at every call, so that none is made for nothing.
void set_libtorch_threads(int num_threads) {
    if (at::get_num_threads() != num_threads) at::set_num_threads(num_threads);
}

} // namespace

ExecutionContext::ExecutionContext(int num_threads, Isa isa)
    : m_isa(isa)
    , m_pool(std::min(num_threads == 0 ? default_threads() : num_threads, 1024),
             [this] { t_context = this; }) {
    RL_ASSERT(is_available(isa));
}

const ExecutionContext& ExecutionContext::current() {
    return t_context != nullptr ? *t_context : process_context();
}

ExecutionScope::ExecutionScope(const ExecutionContext& context)
    : m_outer(t_context)
    , m_libtorch_before(at::get_num_threads()) { // also makes libtorch take its number for this thread, once
    t_context = &context;
    set_libtorch_threads(context.isa() == Isa::reference ? context.num_threads() : 1);
}

ExecutionScope::~ExecutionScope() {
    t_context = m_outer;
    set_libtorch_threads(m_libtorch_before);
}

LibtorchThreads::LibtorchThreads()
    : m_before(at::get_num_threads()) {
    set_libtorch_threads(num_threads());
}

LibtorchThreads::~LibtorchThreads() {
    set_libtorch_threads(m_before);
}

Isa isa() {
    return ExecutionContext::current().isa();
}

int num_threads() {
    return ExecutionContext::current().num_threads();
}

void parallel_for(int64_t n, int64_t grain, RangeBody body) {
    if (n <= 0) return;
    grain = std::max<int64_t>(grain, 1);
    const ExecutionContext& context = ExecutionContext::current();
    if (ThreadPool::inside() || n <= grain || context.num_threads() == 1) {
        body(0, n);
        return;
    }
    context.pool().run(n, grain, body);
}

} // namespace refreshlab::kernels
