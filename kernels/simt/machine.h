#pragma once

#include "kernels/simt/fiber.h"
#include "kernels/simt/memory.h"
#include "kernels/simt/runtime_api.h"

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

namespace refreshlab::simt {

/// What a lane brings to an operation of its warp, and takes from it.
struct WarpCall {
    enum class Kind : uint8_t {
        barrier,
        shuffle,
        ballot,
        reduce,
        multiply,
        load_matrix
    } kind = Kind::barrier;
    uint32_t mask = 0;
    Shuffle shuffle{};
    Reduce reduce{};
    int argument = 0, width = 32; ///< of a shuffle; of load_matrix: matrices, and 1 for transposed
    uint64_t value = 0;           ///< of a shuffle, a vote, a sum
    uint64_t result = 0;
    const uint32_t *a = nullptr, *b = nullptr; ///< of a product: [4], [2]
    float* d = nullptr;                        ///< [4]
    bool bf16 = false;
    const void* row = nullptr; ///< of load_matrix
    uint32_t* registers = nullptr;
};

struct AsyncCopy {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    unsigned bytes = 0, source_bytes = 0;
    const void* place = nullptr;
};

/// A thread of the block that runs.
struct Thread {
    enum class State : uint8_t { ready, at_barrier, at_warp, ended };
    uint3 index{};
    uint16_t number = 0;
    State state = State::ready;
    Fiber fiber;
    const void* place = nullptr; ///< where it waits
    Vote vote = Vote::none;
    int ballot = 0, vote_result = 0;
    WarpCall* call = nullptr;
    bool dependency_waited = false;
    Epoch fenced = 0; ///< of its last fence; 0: none
    std::vector<AsyncCopy> open;
    std::vector<std::vector<AsyncCopy>> groups;

    [[nodiscard]] unsigned lane() const { return number % 32; }
    [[nodiscard]] unsigned warp() const { return number / 32; }
};

/// Moments of one block or launch.
struct Span {
    Epoch first = 0, last = 0;
    [[nodiscard]] bool holds(Epoch epoch) const { return epoch >= first && epoch <= last; }
};

/// A launch that a later one may run beside.
struct PastLaunch {
    Span span;
    std::string kernel;
    bool waited =
        true; ///< some block has waited for what was in front of it, so its own end is behind that one's
    std::vector<std::shared_ptr<const PastLaunch>> before; ///< may still run when this one begins
};

/// Runs grids, one block after the other, a fiber a thread; and looks at each access. One grid at a time (mutex of run()).
class Machine {
public:
    static Machine& of_process();

    Settings settings;
    Regions regions;
    Activity activity;

    /// Throws Fault.
    void run(const Launch& launch);
    /// All launches have ended: the host has waited, or something else stands between them.
    void forget_launches() { m_previous.reset(); }

    // --- called by kernels, on fibers ---
    [[nodiscard]] Thread& thread() const { return *m_thread; }
    [[nodiscard]] const Launch& launch() const { return *m_launch; }
    [[nodiscard]] uint3 block() const { return m_block; }
    [[nodiscard]] void* dynamic_shared() const { return m_dynamic; }
    int wait_for_block(Vote vote, int value, const void* place);
    void wait_for_warp(WarpCall& call, const void* place);
    void wait_for_dependency();
    void fence();
    void copy_async(const AsyncCopy& copy);
    void commit_async();
    void finish_async(unsigned groups);

    enum class Access : uint8_t { read, write, atomic };
    void access(const void* at, size_t bytes, Access access, const void* place);
    /// A local variable of the thread that runs: most accesses are.
    [[nodiscard]] bool is_local(const void* at) const { return m_thread->fiber.holds(at); }
    /// Synchronises through an atomic variable: acquires what others have released there, and releases what the thread has fenced.
    void synchronise(const void* at);
    /// Ends the kernel, from one of its threads.
    [[noreturn]] void fault(const void* place, const std::string& what);

private:
    struct Warp {
        uint16_t clock = 0; ///< barriers of all its lanes
        uint16_t lanes = 0;
    };
    /// Memory that belongs to the kernel's module: its static shared variables.
    struct Module {
        std::byte* shared = nullptr;
        size_t shared_bytes = 0;
        std::vector<Cell> cells;
    };

    void check_launch(const Launch& launch);
    void run_block(uint64_t number);
    void resume_ready(std::mt19937_64& random);
    bool finish_warps();
    bool finish_warp_call(unsigned warp, uint32_t mask);
    bool finish_barrier();
    [[noreturn]] void deadlock();
    [[nodiscard]] std::string at(const Thread& thread, const void* place) const;
    [[nodiscard]] Module& module_of(const void* kernel);

    void look_at(Cell& cell, Access access, const void* at, const Region* region, const void* place);
    void look_at_bytes(std::span<Cell> cells, Access access, const void* at, const Region* region,
                       const void* place);
    [[nodiscard]] bool ordered(uint16_t other, uint16_t clock) const;
    [[nodiscard]] std::string bytes_text(const void* at, const Region* region) const;
    [[nodiscard]] const void* whole_place(uint32_t low) const;
    [[noreturn]] void race(const Cell& cell, bool with_write, Access access, const void* at,
                           const Region* region, const void* place, const std::string& why);
    void check_other_launches(const Cell& cell, bool with_write, Access access, const void* at,
                              const Region* region, const void* place);
    [[nodiscard]] bool constant(const void* at, size_t bytes);
    std::span<Cell> shared_cells(const void* at, size_t bytes);

    const Launch* m_launch = nullptr;
    Module* m_module = nullptr;
    std::unordered_map<const void*, std::unique_ptr<Module>> m_modules; ///< by their shared variables
    std::vector<std::unique_ptr<Thread>> m_threads;                     ///< as many as the largest block had
    size_t m_live = 0;                                                  ///< threads of the block
    std::vector<Warp> m_warps;
    std::vector<uint32_t> m_order;
    Thread* m_thread = nullptr;
    uint3 m_block{};
    std::byte* m_dynamic = nullptr;
    std::vector<Cell> m_dynamic_cells;

    Epoch m_now = 1, m_launch_first = 2, m_block_first = 2, m_interval_first = 2;
    bool m_any_waited = false;
    std::vector<std::shared_ptr<const PastLaunch>> m_before; ///< of the launch that runs
    std::shared_ptr<const PastLaunch> m_previous;
    std::unordered_map<const void*, std::vector<Span>> m_released; ///< by atomic variable
    std::vector<Span> m_acquired;                                  ///< by the block that runs
    std::string m_fault;
    bool m_faulted = false;
    const std::byte *m_constant_first = nullptr, *m_constant_end = nullptr;
};

/// Shared memory that a block may have, dynamic and opted in for. Source: CUDA C++ Programming Guide, table "Technical specifications".
[[nodiscard]] size_t most_shared_bytes(int architecture);
/// Kernels run on this thread of the host: what the compiler calls for their accesses is meant for the machine.
void set_running(bool runs);

} // namespace refreshlab::simt
