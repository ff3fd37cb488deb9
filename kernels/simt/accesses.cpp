#include "kernels/simt/machine.h"
#include "kernels/simt/place.h"

#include <link.h>

#include <algorithm>
#include <string>

/// What a thread may read and write, byte by byte.
///
/// Two accesses of one block are ordered by a barrier of the block between them, or, within a warp, by a barrier of all its lanes.
/// Accesses of two blocks of a cluster are ordered by a barrier of the cluster: by the arrival of the one behind its access, and the
/// wait of the other in front of its own. That orders threads of one block, too.
/// Accesses of two blocks of one grid are ordered only where one block changed an atomic variable after a fence and the other one
/// changed it afterwards. Accesses of two launches are ordered, except that a dependent launch has to wait for those in front of it.
namespace refreshlab::simt {

namespace {

struct ConstantQuery {
    uintptr_t address;
    uintptr_t first = 0, end = 0;
};

/// The part of a module that nobody writes and that holds an address: tables of constants.
int look_for_constants(dl_phdr_info* info, size_t, void* query_) {
    auto& query = *static_cast<ConstantQuery*>(query_);
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr)& part = info->dlpi_phdr[i];
        const uintptr_t first = info->dlpi_addr + part.p_vaddr;
        const bool kept =
            (part.p_type == PT_LOAD && (part.p_flags & PF_W) == 0) || part.p_type == PT_GNU_RELRO;
        if (!kept || query.address < first || query.address >= first + part.p_memsz) continue;
        query.first = first;
        query.end = first + part.p_memsz;
        return 1;
    }
    return 0;
}

const char* verb(Machine::Access access) {
    return access == Machine::Access::read    ? "reads"
           : access == Machine::Access::write ? "writes"
                                              : "changes atomically";
}

} // namespace

bool Machine::constant(const void* at, size_t bytes) {
    const auto* const first = static_cast<const std::byte*>(at);
    if (first >= m_constant_first && first + bytes <= m_constant_end) return true;
    ConstantQuery query{reinterpret_cast<uintptr_t>(at)};
    if (dl_iterate_phdr(look_for_constants, &query) == 0) return false;
    m_constant_first = reinterpret_cast<const std::byte*>(query.first);
    m_constant_end = reinterpret_cast<const std::byte*>(query.end);
    return first + bytes <= m_constant_end;
}

std::span<Cell> Machine::shared_cells(Block& block, const void* at, size_t bytes) {
    const auto* const byte = static_cast<const std::byte*>(at);
    auto& cells = block.cells;
    if (byte >= block.dynamic && byte + bytes <= block.dynamic + cells.size())
        return std::span(cells).subspan(static_cast<size_t>(byte - block.dynamic), bytes);
    if (byte >= m_module->shared && byte + bytes <= m_module->shared + m_module->cells.size()) {
        const auto first = static_cast<size_t>(byte - m_module->shared);
        if (first < m_module->used_first || first + bytes > m_module->used_end) use_static(first, bytes);
        return std::span(m_module->cells).subspan(first, bytes);
    }
    return {};
}

std::string Machine::bytes_text(const void* at, const Region* region) {
    const auto* const byte = static_cast<const std::byte*>(at);
    if (region != nullptr) return "byte " + std::to_string(byte - region->first) + " of " + region->name;
    if (const Block* const block = block_of(at, 1))
        return "byte " + std::to_string(byte - block->dynamic) + " of dynamic shared memory" +
               (block == m_block ? "" : " of another block of its cluster");
    if (byte >= m_module->shared && byte < m_module->shared + m_module->shared_bytes)
        return "byte " + std::to_string(byte - m_module->shared) + " of static shared memory";
    return "shared memory";
}

const void* Machine::whole_place(uint32_t low) const {
    // A module is far smaller than 2 GB, so the kernel's own address tells the upper half.
    const auto near = reinterpret_cast<uint64_t>(m_launch->kernel);
    uint64_t place = (near & ~uint64_t{0xFFFFFFFF}) | low;
    if (place + 0x80000000U < near) place += uint64_t{1} << 32U;
    if (place > near + 0x80000000U) place -= uint64_t{1} << 32U;
    return reinterpret_cast<const void*>(place);
}

bool Machine::ordered(uint16_t other, uint16_t clock) const {
    if (other / 32 != m_thread->warp()) return false;
    return other == m_thread->number || clock < m_warps[m_thread->warp()].clock;
}

void Machine::race(const Cell& cell, bool with_write, Access access, const void* at, const Region* region,
                   const void* place, const std::string& why) {
    fault(place, std::string(verb(access)) + " " + bytes_text(at, region) + ", which " + why +
                     (with_write ? " writes at " : " reads at ") +
                     place_of(whole_place(with_write ? cell.write_place : cell.read_place)));
}

void Machine::check_other_launches(const Cell& cell, bool with_write, Access access, const void* at,
                                   const Region* region, const void* place) {
    const Epoch epoch = with_write ? cell.written : cell.read;
    for (size_t i = 0; i < m_before.size(); ++i) {
        const PastLaunch& past = *m_before[i];
        if (!past.span.holds(epoch)) continue;
        // The first is the launch in front; a wait is for it, and for those before it if it has waited itself.
        if (m_thread->dependency_waited && (i == 0 || m_before[0]->waited)) continue;
        race(cell, with_write, access, at, region, place,
             "the launch of " + past.kernel + " in front, " +
                 (m_thread->dependency_waited ? "whose end nobody has waited for,"
                                              : "before a wait for its end (grid dependency),"));
    }
}

void Machine::look_at(Cell& cell, Access access, const void* at, const Region* region, const void* place) {
    // What is said of a fault is made outside of the way of all other accesses.
    const auto unwritten = [&]() __attribute__((noinline, cold)) {
        fault(place, std::string(verb(access)) + " " + bytes_text(at, region) + ", which nobody has written");
    };
    const auto thread_text = [&](uint16_t number) __attribute__((noinline, cold)) {
        const uint3 i = m_threads[number & Cell::number]->index;
        return "thread (" + std::to_string(i.x) + ", " + std::to_string(i.y) + ", " + std::to_string(i.z) +
               ")";
    };
    const auto copying = [&]() __attribute__((noinline, cold)) {
        fault(place, std::string(verb(access)) + " " + bytes_text(at, region) + ", where a copy of " +
                         thread_text(cell.writer) + " is under way (cp.async without a wait)");
    };
    const auto unordered = [&](bool with_write) __attribute__((noinline, cold)) {
        race(cell, with_write, access, at, region, place,
             thread_text(with_write ? cell.writer : cell.reader) + " (no barrier between)");
    };
    const auto of_another_block = [&](bool with_write) __attribute__((noinline, cold)) {
        race(cell, with_write, access, at, region, place, "another block");
    };
    const auto of_the_cluster = [&](bool with_write) __attribute__((noinline, cold)) {
        race(cell, with_write, access, at, region, place,
             "another block of its cluster (no barrier of the cluster between)");
    };
    const auto other_block = [&](Epoch epoch) {
        return std::ranges::none_of(m_block->acquired,
                                    [epoch](const Span& span) { return span.holds(epoch); });
    };
    const Epoch exists_from = region != nullptr ? 1 : m_cluster_first;
    const uint16_t clock = m_warps[m_thread->warp()].clock;
    const Epoch interval_first = m_block->interval_first;
    // A barrier of the cluster orders what was done before the arrival at it and what comes after the wait for it.
    const uint16_t waited = m_thread->waited;
    const bool atomic = access == Access::atomic;

    if (access != Access::write && cell.written < exists_from) unwritten();
    if (cell.written >= exists_from && (cell.writer & Cell::under_way) != 0 &&
        cell.written >= m_cluster_first)
        copying();
    // Against the last write.
    if (cell.written >= m_cluster_first) {
        const bool both_atomic = atomic && (cell.writer & Cell::atomic) != 0;
        const uint16_t writer = cell.writer & Cell::number;
        if (!both_atomic && cell.write_phase >= waited) {
            if (!of_my_block(writer)) of_the_cluster(true);
            if (cell.written >= interval_first && !ordered(writer, cell.write_clock)) unordered(true);
        }
    } else if (cell.written >= exists_from) {
        if (cell.written >= m_launch_first) {
            const bool both_atomic = atomic && (cell.writer & Cell::atomic) != 0;
            if (!both_atomic && other_block(cell.written)) of_another_block(true);
        } else if (!m_before.empty()) {
            check_other_launches(cell, true, access, at, region, place);
        }
    }
    // Against reads: only a write minds them.
    if (access != Access::read && cell.read >= exists_from && cell.read != 0) {
        if (cell.read >= m_cluster_first) {
            if ((cell.read_phase & Cell::phase) >= waited) {
                const uint16_t reader = cell.reader & Cell::number;
                if ((cell.read_phase & Cell::several_blocks) != 0 || !of_my_block(reader))
                    of_the_cluster(false);
                const bool several = (cell.reader & Cell::several_warps) != 0;
                // Several lanes of a warp: the newest reading counts, older ones stand before a barrier of the warp.
                const bool lanes = (cell.reader & Cell::several_lanes) != 0;
                const bool before =
                    !several && (lanes ? reader / 32 == m_thread->warp() && cell.read_clock < clock
                                       : ordered(reader, cell.read_clock));
                if (cell.read >= interval_first && !before) unordered(false);
            }
        } else if (cell.read >= m_launch_first) {
            if (other_block(cell.read)) of_another_block(false);
        } else if (!m_before.empty()) {
            check_other_launches(cell, false, access, at, region, place);
        }
    }
    const auto low = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(place));
    if (access == Access::read) {
        // Readings that no barrier orders before this one are kept beside it.
        const uint16_t known = cell.reader & Cell::number;
        const bool same_phase = cell.read >= m_cluster_first && (cell.read_phase & Cell::phase) >= waited;
        const bool blocks =
            same_phase && ((cell.read_phase & Cell::several_blocks) != 0 || !of_my_block(known));
        const bool same_interval = blocks || (same_phase && cell.read >= interval_first);
        const uint16_t phase = same_interval
                                   ? std::max<uint16_t>(cell.read_phase & Cell::phase, m_thread->arrived)
                                   : m_thread->arrived;
        cell.read_phase = static_cast<uint16_t>(phase | (blocks ? Cell::several_blocks : 0));
        if (same_interval && (cell.reader & Cell::several_warps) != 0) {
            // stays so
        } else if (same_interval && known / 32 != m_thread->warp()) {
            cell.reader = static_cast<uint16_t>(m_thread->number | Cell::several_warps);
        } else if (same_interval && cell.read_clock == clock &&
                   (known != m_thread->number || (cell.reader & Cell::several_lanes) != 0)) {
            cell.reader = static_cast<uint16_t>(m_thread->number | Cell::several_lanes);
        } else {
            cell.reader = m_thread->number;
        }
        cell.read = m_now;
        cell.read_clock = clock;
        cell.read_place = low;
    } else {
        cell.written = m_now;
        cell.writer = static_cast<uint16_t>(m_thread->number | (atomic ? Cell::atomic : 0));
        cell.write_clock = clock;
        cell.write_phase = m_thread->arrived;
        cell.write_place = low;
    }
}

void Machine::look_at_bytes(std::span<Cell> cells, Access access, const void* at, const Region* region,
                            const void* place) {
    // The bytes of a number have mostly the same past, and then the same is to be said of them.
    Cell past, present;
    for (size_t i = 0; i < cells.size(); ++i) {
        if (i > 0 && cells[i] == past) {
            cells[i] = present;
            continue;
        }
        past = cells[i];
        look_at(cells[i], access, static_cast<const std::byte*>(at) + i, region, place);
        present = cells[i];
    }
}

void Machine::access(const void* at, size_t bytes, Access access, const void* place) {
    if (is_local(at)) return;
    if (!looks_at_memory()) return; // of the machine's own calls, in a build without
    const auto* const first = static_cast<const std::byte*>(at);
    if (const std::span<Cell> cells = shared_cells(*m_block, at, bytes); !cells.empty())
        return look_at_bytes(cells, access, at, nullptr, place);
    if (m_blocks.size() > 1) {
        if (Block* const other = block_of(at, bytes)) {
            look_at_other_block(*other, place);
            return look_at_bytes(shared_cells(*other, at, bytes), access, at, nullptr, place);
        }
    }
    if (Region* const region = regions.find(at)) {
        if (first + bytes > region->first + region->bytes)
            fault(place, std::string(verb(access)) + " " + std::to_string(bytes) + " bytes over the end of " +
                             region->name + " (" + std::to_string(region->bytes) + " bytes)");
        if (region->read_only) {
            if (access != Access::read)
                fault(place, std::string(verb(access)) + " " + bytes_text(at, region) +
                                 ", which is to be read only");
            return;
        }
        return look_at_bytes(
            std::span(region->cells).subspan(static_cast<size_t>(first - region->first), bytes), access, at,
            region, place);
    }
    const auto* const parameters = static_cast<const std::byte*>(m_launch->parameters.get());
    if (access == Access::read && first >= parameters &&
        first + bytes <= parameters + m_launch->parameter_bytes)
        return;
    if (access == Access::read && constant(at, bytes)) return;
    for (const Block& block : m_blocks) {
        for (const auto& t : threads_of(block)) {
            if (t->fiber.holds(at))
                fault(place, std::string(verb(access)) + " a local variable of another thread");
        }
    }
    // What it most likely means: the array that is nearest.
    std::string where = "memory that is not the device's";
    ptrdiff_t nearest = ptrdiff_t{1} << 24;
    const auto consider = [&](const std::byte* array, size_t array_bytes, const std::string& name) {
        const ptrdiff_t distance = first < array ? array - first : first - (array + array_bytes);
        if (distance >= nearest) return;
        nearest = distance;
        where = "byte " + std::to_string(first - array) + " of " + name + ", which has " +
                std::to_string(array_bytes);
    };
    if (const Region* const region = regions.nearest(at))
        consider(region->first, region->bytes, region->name);
    if (m_launch->shared_bytes > 0)
        consider(m_block->dynamic, m_launch->shared_bytes, "dynamic shared memory");
    fault(place,
          std::string(verb(access)) + " " + std::to_string(bytes) + " bytes outside of all arrays: " + where);
}

} // namespace refreshlab::simt
