#pragma once

#include "kernels/execution/isa.h"
#include "kernels/execution/thread_pool.h"

namespace refreshlab::kernels {

/// How the CPU kernels of one piece of work run: how many threads, and which kernel set. It is handed to what computes:
/// a session, a check, a job, the loading of weights. That opens an ExecutionScope, and the kernels find the context
/// there. Two pieces of work, each with its own context, do not disturb each other.
///
/// Results   never depend on the number of threads: one thread computes an output element, in one fixed order. They
///           depend on the kernel set as Isa says.
/// Device    belongs to the tensors, and a GPU's stream to the thread (libtorch's guards): neither is in here.
/// Threads   any thread may open a scope, several at a time; their calls of parallel_for then queue for the one pool.
/// Lifetime  outlives its scopes. Cost: the workers start with the first parallel work and end with the context.
class ExecutionContext {
public:
    /// \param num_threads  the caller included, at most 1024 count; 0: default_threads()
    /// \param isa          the processor must have it (is_available)                                  (asserted)
    explicit ExecutionContext(int num_threads = 0, Isa isa = widest_isa());
    ExecutionContext(const ExecutionContext&) = delete;
    ExecutionContext& operator=(const ExecutionContext&) = delete;

    [[nodiscard]] int num_threads() const { return m_pool.size(); }
    [[nodiscard]] Isa isa() const { return m_isa; }
    [[nodiscard]] ThreadPool& pool() const { return m_pool; }

    /// The context of the innermost scope that is open on the calling thread; in a body of parallel_for, the caller's.
    /// Where no scope is open, it is one for the whole process, with default_threads() and widest_isa().
    [[nodiscard]] static const ExecutionContext& current();

private:
    const Isa m_isa;
    mutable ThreadPool m_pool;
};

/// Makes a context the calling thread's, as long as the object lives. Scopes nest; they close in the reverse order, on the
/// thread that opened them.
///
/// Inside, libtorch's own operations on this thread use one thread (with Isa::reference all of the context's, because
/// there they do the kernels' work). The former number comes back at the end. The reason: a step leaves only small
/// copies to libtorch. Its OpenMP workers meet at barriers, and wait there for tens of milliseconds as soon as another
/// thread (the window's, for example) has the core. The number belongs to one thread; other threads keep theirs.
class ExecutionScope {
public:
    explicit ExecutionScope(const ExecutionContext& context);
    ~ExecutionScope();
    ExecutionScope(const ExecutionScope&) = delete;
    ExecutionScope& operator=(const ExecutionScope&) = delete;

private:
    const ExecutionContext* m_outer;
    int m_libtorch_before;
};

/// As many threads for libtorch's operations on the calling thread as its context has, as long as the object lives: for
/// bulk work such as converting weights.
class LibtorchThreads {
public:
    LibtorchThreads();
    ~LibtorchThreads();
    LibtorchThreads(const LibtorchThreads&) = delete;
    LibtorchThreads& operator=(const LibtorchThreads&) = delete;

private:
    int m_before;
};

} // namespace refreshlab::kernels
