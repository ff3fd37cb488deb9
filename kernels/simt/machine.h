#pragma once

#include "kernels/simt/fiber.h"
#include "kernels/simt/memory.h"
#include "kernels/simt/runtime_api.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
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

/// A thread of the cluster that runs. Most launches have clusters of one block.
struct Thread {
    enum class State : uint8_t { ready, at_barrier, at_warp, at_cluster, ended };
    uint3 index{};
    uint16_t number = 0; ///< in the cluster, whose blocks have whole warps
    uint16_t rank = 0;   ///< of its block in the cluster
    unsigned first = 0;  ///< number of its block's first thread
    /// Barriers of the cluster: it has arrived at so many, and waited for so many.
    uint16_t arrived = 0, waited = 0;
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
    [[nodiscard]] unsigned warp() const { return number / 32; } ///< of the cluster
};

/// Moments of one cluster or launch.
struct Span {
    Epoch first = 0, last = 0;
    [[nodiscard]] bool holds(Epoch epoch) const { return epoch >= first && epoch <= last; }
};

/// A block of the cluster that runs.
struct Block {
    uint3 index{};
    std::shared_ptr<void> memory; ///< dynamic shared memory, exactly as long as asked for
    std::byte* dynamic = nullptr;
    std::vector<Cell> cells;  ///< of it
    Epoch interval_first = 0; ///< its last barrier
    std::vector<Span> acquired;
    std::vector<uint32_t> order; ///< numbers of its threads
    bool ended = false;
    /// The last access of another block's thread to its shared memory: the block has to wait for that barrier of the cluster.
    uint16_t needed_until = 0;
    const Thread* user = nullptr;
    const void* user_place = nullptr;
};

/// A launch that a later one may run beside.
struct PastLaunch {
    Span span;
    std::string kernel;
    bool waited =
        true; ///< some block has waited for what was in front of it, so its own end is behind that one's
    std::vector<std::shared_ptr<const PastLaunch>> before; ///< may still run when this one begins
};

/// Runs grids, one cluster of blocks after the other, a fiber a thread; and looks at each access. One grid at a time (mutex of run()).
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
    [[nodiscard]] uint3 block() const { return m_block->index; }
    [[nodiscard]] void* dynamic_shared() const { return m_block->dynamic; }
    int wait_for_block(Vote vote, int value, const void* place);
    void wait_for_warp(WarpCall& call, const void* place);
    void arrive_at_cluster(const void* place);
    void wait_for_cluster(const void* place);
    [[nodiscard]] void* in_cluster_block(const void* mine, unsigned rank, const void* place);
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

    // --- called by launchers ---
    void allow_large_clusters(const void* kernel, bool allowed);
    /// 1: the architecture has no clusters.
    [[nodiscard]] unsigned most_cluster_blocks(const void* kernel) const;

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
        /// What the present launch has used, from the first byte to the last. It is a small part, as the variables of all kernels stand
        /// beside each other, and only this part is poisoned and changes places. All of it where the machine sees no accesses.
        size_t used_first = 0, used_end = 0;
        /// \param memory  of a block: the module's own, or what is kept of it
        void poison_used(std::byte* memory) const {
            std::fill(memory + used_first, memory + used_end, static_cast<std::byte>(poison));
        }
        /// Those of the blocks of a cluster, by rank, while another block has their place.
        struct Kept {
            std::vector<std::byte> memory;
            std::vector<Cell> cells;
        };
        std::vector<Kept> kept;
        std::vector<std::byte> moved; ///< while two change places
    };

    void check_launch(const Launch& launch);
    void run_cluster(uint64_t first);
    void begin_block(uint16_t rank, uint64_t number);
    void run_block(Block& block, std::mt19937_64& random);
    void end_block(Block& block);
    void swap_static(Block& block);
    void use_static(size_t first, size_t bytes);
    void resume_ready(std::mt19937_64& random);
    bool finish_warps();
    bool finish_warp_call(unsigned warp, uint32_t mask);
    bool finish_barrier();
    bool finish_cluster_barrier();
    [[noreturn]] void deadlock();
    /// The threads of a block, or of all.
    [[nodiscard]] std::span<const std::unique_ptr<Thread>> threads_of(const Block& block) const;
    [[nodiscard]] bool all_of(const Block& block, Thread::State state) const;
    [[nodiscard]] bool any_of(const Block& block, Thread::State state) const;
    [[nodiscard]] Block* block_of(const void* at, size_t bytes);
    void look_at_other_block(Block& block, const void* place);
    [[nodiscard]] bool of_my_block(uint16_t number) const {
        return unsigned{number} - m_thread->first < m_slots;
    }
    [[nodiscard]] std::string at(const Thread& thread, const void* place) const;
    [[nodiscard]] Module& module_of(const void* kernel);

    void look_at(Cell& cell, Access access, const void* at, const Region* region, const void* place);
    void look_at_bytes(std::span<Cell> cells, Access access, const void* at, const Region* region,
                       const void* place);
    [[nodiscard]] bool ordered(uint16_t other, uint16_t clock) const;
    [[nodiscard]] std::string bytes_text(const void* at, const Region* region);
    [[nodiscard]] const void* whole_place(uint32_t low) const;
    [[noreturn]] void race(const Cell& cell, bool with_write, Access access, const void* at,
                           const Region* region, const void* place, const std::string& why);
    void check_other_launches(const Cell& cell, bool with_write, Access access, const void* at,
                              const Region* region, const void* place);
    [[nodiscard]] bool constant(const void* at, size_t bytes);
    std::span<Cell> shared_cells(Block& block, const void* at, size_t bytes);

    const Launch* m_launch = nullptr;
    Module* m_module = nullptr;
    std::unordered_map<const void*, std::unique_ptr<Module>> m_modules; ///< by their shared variables
    std::unordered_set<const void*> m_large_clusters;                   ///< kernels that may have some
    std::vector<std::unique_ptr<Thread>> m_threads; ///< by number: as many as the largest cluster had
    size_t m_in_block = 0, m_slots = 0;             ///< threads of a block; numbers that it takes
    std::vector<Block> m_blocks;                    ///< of the cluster
    std::vector<Warp> m_warps;
    Thread* m_thread = nullptr;
    Block* m_block = nullptr; ///< that runs
    uint16_t m_phase = 0;     ///< barriers of the cluster that are over

    Epoch m_now = 1, m_launch_first = 2, m_cluster_first = 2;
    bool m_any_waited = false;
    std::vector<std::shared_ptr<const PastLaunch>> m_before; ///< of the launch that runs
    std::shared_ptr<const PastLaunch> m_previous;
    std::unordered_map<const void*, std::vector<Span>> m_released; ///< by atomic variable
    std::string m_fault;
    bool m_faulted = false;
    const std::byte *m_constant_first = nullptr, *m_constant_end = nullptr;
};

/// Blocks that any cluster may have, and one of a kernel that is allowed what not every device has. Source: CUDA C++ Programming Guide,
/// "Thread Block Clusters".
inline constexpr unsigned portable_cluster_blocks = 8, most_cluster_blocks_of_any = 16;
/// Shared memory that a block may have, dynamic and opted in for. Source: CUDA C++ Programming Guide, table "Technical specifications".
[[nodiscard]] size_t most_shared_bytes(int architecture);
/// Kernels run on this thread of the host: what the compiler calls for their accesses is meant for the machine.
void set_running(bool runs);

} // namespace refreshlab::simt
