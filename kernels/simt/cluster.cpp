#include "kernels/simt/machine.h"
#include "kernels/simt/place.h"

#include <algorithm>
#include <cstring>
#include <numeric>

/// Clusters: blocks that run beside each other, wait for each other, and see each other's dynamic shared memory.
///
/// A block runs until all its threads have ended or it can go on only behind a barrier of the cluster; then the next one has its turn.
/// What one block does between two such barriers must not hang on the others, and the checks (accesses.cpp) go by barriers and not by
/// turns. So the turns change nothing about what is found.
namespace refreshlab::simt {

void Machine::allow_large_clusters(const void* kernel, bool allowed) {
    if (allowed) {
        m_large_clusters.insert(kernel);
    } else {
        m_large_clusters.erase(kernel);
    }
}

unsigned Machine::most_cluster_blocks(const void* kernel) const {
    if (settings.architecture < 90) return 1;
    // Above 8 where the programming guide or a data sheet says so: the GPUs of data centers.
    const bool large = settings.architecture < 120 && m_large_clusters.contains(kernel);
    return large ? most_cluster_blocks_of_any : portable_cluster_blocks;
}

void Machine::run_cluster(uint64_t first) {
    m_cluster_first = ++m_now;
    m_phase = 0;
    m_warps.assign(m_blocks.size() * m_slots / 32, {});
    std::vector<uint16_t> order(m_blocks.size());
    std::iota(order.begin(), order.end(), uint16_t{0});
    for (const uint16_t rank : order)
        begin_block(rank, first + rank);
    std::mt19937_64 random(settings.order ^ (first * 0x9E3779B97F4A7C15U));
    for (;;) {
        if (settings.order != 0 && order.size() > 1) std::ranges::shuffle(order, random);
        for (const uint16_t rank : order) {
            if (!m_blocks[rank].ended) run_block(m_blocks[rank], random);
        }
        if (std::ranges::all_of(m_blocks, &Block::ended)) break;
        if (!finish_cluster_barrier()) deadlock();
    }
}

void Machine::end_block(Block& block) {
    block.ended = true;
    uint16_t waited = 0; // it is there until its last thread ends
    for (const auto& t : threads_of(block)) {
        waited = std::max(waited, t->waited);
        m_any_waited = m_any_waited || t->dependency_waited;
    }
    if (block.needed_until > waited)
        throw Fault(at(*block.user, block.user_place) +
                    ": is in shared memory of another block of its cluster, which may have ended: no barrier "
                    "of the cluster comes after it");
}

/// Static shared memory is the thread's of the host, so blocks take turns with it.
void Machine::swap_static(Block& block) {
    Module::Kept& kept = m_module->kept[static_cast<size_t>(&block - m_blocks.data())];
    std::byte* const ours = kept.memory.data() + m_module->used_first;
    std::byte* const place = m_module->shared + m_module->used_first;
    const size_t bytes = m_module->used_end - m_module->used_first;
    // Whole copies: byte by byte it takes a quarter of a suite's time where all of it changes places.
    m_module->moved.assign(ours, ours + bytes);
    std::copy_n(place, bytes, ours);
    std::ranges::copy(m_module->moved, place);
    std::swap(kept.cells, m_module->cells);
}

/// Static shared memory that the launch has not used before holds poison for all of its blocks.
void Machine::use_static(size_t first, size_t bytes) {
    Module& module = *m_module;
    const bool none = module.used_first == module.used_end;
    const size_t old_first = none ? first : module.used_first, old_end = none ? first : module.used_end;
    module.used_first = std::min(first, old_first);
    module.used_end = std::max(first + bytes, old_end);
    const auto fill = [&](std::byte* memory) {
        std::memset(memory + module.used_first, poison, old_first - module.used_first);
        std::memset(memory + old_end, poison, module.used_end - old_end);
    };
    fill(module.shared);
    if (m_blocks.size() == 1) return;
    for (size_t rank = 0; rank < m_blocks.size(); ++rank)
        fill(module.kept[rank].memory.data());
}

void Machine::arrive_at_cluster(const void* place) {
    Thread& t = *m_thread;
    if (t.arrived != t.waited)
        fault(place, "arrives at a barrier of the cluster and has not waited for the one before");
    t.place = place;
    ++t.arrived;
    ++m_now; // what comes after it is not released by it
}

void Machine::wait_for_cluster(const void* place) {
    Thread& t = *m_thread;
    if (t.arrived == t.waited) fault(place, "waits for a barrier of the cluster and has not arrived at it");
    t.place = place;
    if (m_phase < t.arrived) {
        t.state = Thread::State::at_cluster;
        t.fiber.leave();
    }
    ++t.waited;
}

bool Machine::finish_cluster_barrier() {
    for (const Block& block : m_blocks) {
        for (const auto& t : threads_of(block)) {
            if (t->arrived <= m_phase) return false;
        }
    }
    ++m_phase;
    for (const Block& block : m_blocks) {
        for (const auto& t : threads_of(block)) {
            if (t->state == Thread::State::at_cluster) t->state = Thread::State::ready;
        }
    }
    return true;
}

void* Machine::in_cluster_block(const void* mine, unsigned rank, const void* place) {
    const auto* const byte = static_cast<const std::byte*>(mine);
    if (rank >= m_blocks.size())
        fault(place, "asks for block " + std::to_string(rank) + " of a cluster that has " +
                         std::to_string(m_blocks.size()));
    if (byte < m_block->dynamic || byte > m_block->dynamic + m_launch->shared_bytes)
        fault(place, "asks for another block's share of what is not its own dynamic shared memory");
    return m_blocks[rank].dynamic + (byte - m_block->dynamic);
}

Block* Machine::block_of(const void* at, size_t bytes) {
    const auto* const byte = static_cast<const std::byte*>(at);
    const auto found = std::ranges::find_if(m_blocks, [&](const Block& block) {
        return byte >= block.dynamic && byte + bytes <= block.dynamic + m_launch->shared_bytes;
    });
    return found == m_blocks.end() ? nullptr : &*found;
}

/// An access to another block's shared memory: it must have begun, and not end before.
void Machine::look_at_other_block(Block& block, const void* place) {
    if (m_thread->waited == 0)
        fault(place,
              "is in shared memory of another block of its cluster, which may not have begun: no barrier of "
              "the cluster comes before it");
    if (block.ended)
        fault(place, "is in shared memory of another block of its cluster, which may have ended: no barrier "
                     "of the cluster comes after it");
    const auto until = static_cast<uint16_t>(m_thread->arrived + 1);
    if (until <= block.needed_until) return;
    block.needed_until = until;
    block.user = m_thread;
    block.user_place = place;
}

} // namespace refreshlab::simt
