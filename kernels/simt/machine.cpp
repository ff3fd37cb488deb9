#include "kernels/simt/machine.h"

#include "kernels/simt/place.h"

#include <link.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <numeric>

namespace refreshlab::simt {

namespace {

std::string text(uint3 at) {
    return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) + ")";
}

uint3 unflatten(uint64_t i, dim3 extent) {
    return {static_cast<unsigned>(i % extent.x), static_cast<unsigned>(i / extent.x % extent.y),
            static_cast<unsigned>(i / (uint64_t{extent.x} * extent.y))};
}

struct ModuleQuery {
    uintptr_t address;
    std::byte* shared = nullptr;
    size_t shared_bytes = 0;
};

/// The thread's storage of the module that an address lies in.
int look_for_module(dl_phdr_info* info, size_t, void* query_) {
    auto& query = *static_cast<ModuleQuery*>(query_);
    bool inside = false;
    size_t bytes = 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr)& part = info->dlpi_phdr[i];
        const uintptr_t first = info->dlpi_addr + part.p_vaddr;
        if (part.p_type == PT_LOAD && query.address >= first && query.address < first + part.p_memsz)
            inside = true;
        if (part.p_type == PT_TLS) bytes = part.p_memsz;
    }
    if (!inside) return 0;
    query.shared = static_cast<std::byte*>(info->dlpi_tls_data);
    query.shared_bytes = query.shared == nullptr ? 0 : bytes;
    return 1;
}

std::mutex one_at_a_time;

} // namespace

size_t most_shared_bytes(int architecture) {
    switch (architecture) {
    case 80:
    case 87:
        return size_t{163} * 1024;
    case 86:
    case 89:
    case 120:
        return size_t{99} * 1024;
    default:
        return size_t{227} * 1024;
    }
}

Machine& Machine::of_process() {
    static Machine machine;
    return machine;
}

std::string Machine::at(const Thread& thread, const void* place) const {
    return name_of(m_launch->kernel) + ", block " + text(m_blocks[thread.rank].index) + ", thread " +
           text(thread.index) + ", " + place_of(place);
}

void Machine::fault(const void* place, const std::string& what) {
    m_fault = at(*m_thread, place) + ": " + what;
    m_faulted = true;
    m_thread->fiber.leave();
    __builtin_unreachable(); // the block is given up
}

Machine::Module& Machine::module_of(const void* kernel) {
    ModuleQuery query{reinterpret_cast<uintptr_t>(kernel)};
    dl_iterate_phdr(look_for_module, &query);
    auto& module = m_modules[query.shared];
    if (module == nullptr) module = std::make_unique<Module>();
    module->shared = query.shared;
    module->shared_bytes = query.shared_bytes;
    module->cells.resize(looks_at_memory() ? query.shared_bytes : 0);
    module->used_first = 0;
    module->used_end = looks_at_memory() ? 0 : query.shared_bytes;
    return *module;
}

void Machine::check_launch(const Launch& launch) {
    const auto refuse = [&](const std::string& what) {
        throw Fault(name_of(launch.kernel) + ", launch: " + what);
    };
    const dim3 g = launch.grid, b = launch.block;
    if (g.count() == 0 || b.count() == 0) refuse("an empty grid or block");
    if (b.count() > 1024) refuse(std::to_string(b.count()) + " threads in a block; 1024 are allowed");
    if (b.z > 64) refuse("a block of " + std::to_string(b.z) + " layers; 64 are allowed");
    if (g.x > 0x7FFFFFFFU || g.y > 65535 || g.z > 65535) refuse("a grid beyond (2^31 - 1, 65535, 65535)");
    const unsigned most_blocks = most_cluster_blocks(launch.kernel);
    if (launch.cluster == 0 || launch.cluster > most_blocks)
        refuse("clusters of " + std::to_string(launch.cluster) + " blocks; sm_" +
               std::to_string(settings.architecture) + " runs " + std::to_string(most_blocks));
    if (g.x % launch.cluster != 0)
        refuse("a grid of " + std::to_string(g.x) + " blocks in clusters of " +
               std::to_string(launch.cluster));
    const size_t most = most_shared_bytes(settings.architecture);
    if (launch.shared_bytes > most)
        refuse(std::to_string(launch.shared_bytes) + " bytes of dynamic shared memory; sm_" +
               std::to_string(settings.architecture) + " has " + std::to_string(most));
}

void Machine::run(const Launch& launch) {
    const std::lock_guard lock(one_at_a_time);
    check_launch(launch);
    LaunchRecord record{name_of(launch.kernel),
                        {launch.grid.x, launch.grid.y, launch.grid.z},
                        {launch.block.x, launch.block.y, launch.block.z},
                        launch.shared_bytes,
                        launch.dependent,
                        launch.cluster};
    activity.launches.push_back(record);

    m_launch = &launch;
    m_module = &module_of(launch.kernel);
    m_in_block = launch.block.count();
    m_slots = (m_in_block + 31) / 32 * 32;
    m_blocks.assign(launch.cluster, Block{});
    for (Block& block : m_blocks) {
        block.memory = make_memory(launch.shared_bytes);
        block.dynamic = static_cast<std::byte*>(block.memory.get());
        block.cells.assign(looks_at_memory() ? launch.shared_bytes : 0, Cell{});
    }
    while (m_threads.size() < m_blocks.size() * m_slots)
        m_threads.push_back(std::make_unique<Thread>());
    m_before.clear();
    const bool overlaps = launch.dependent && settings.architecture >= 90;
    if (overlaps && m_previous != nullptr) {
        m_before.push_back(m_previous);
        if (!m_previous->waited)
            m_before.insert(m_before.end(), m_previous->before.begin(), m_previous->before.end());
    }
    m_launch_first = ++m_now;
    m_released.clear();
    m_any_waited = false;

    std::vector<uint64_t> clusters(launch.grid.count() / launch.cluster);
    std::iota(clusters.begin(), clusters.end(), uint64_t{0});
    if (settings.order != 0) std::shuffle(clusters.begin(), clusters.end(), std::mt19937_64(settings.order));
    set_running(true);
    const auto ended = std::shared_ptr<void>(nullptr, [](void*) { set_running(false); });
    for (const uint64_t cluster : clusters)
        run_cluster(cluster * launch.cluster);

    auto past = std::make_shared<PastLaunch>();
    past->span = {m_launch_first, m_now};
    past->kernel = record.kernel;
    past->waited = !overlaps || m_any_waited;
    past->before = m_before;
    m_previous = std::move(past);
    m_blocks.clear();
    m_launch = nullptr;
}

void Machine::begin_block(uint16_t rank, uint64_t number) {
    const dim3 extent = m_launch->block;
    Block& block = m_blocks[rank];
    block.index = unflatten(number, m_launch->grid);
    block.interval_first = m_cluster_first;
    block.acquired.clear();
    block.ended = false;
    block.needed_until = 0;
    if (m_launch->shared_bytes > 0) std::memset(block.dynamic, poison, m_launch->shared_bytes);
    if (m_blocks.size() == 1) {
        m_module->poison_used(m_module->shared);
    } else {
        // What cells know of earlier clusters is older than this one.
        if (m_module->kept.size() <= rank) m_module->kept.resize(rank + 1U);
        Module::Kept& kept = m_module->kept[rank];
        kept.memory.resize(m_module->shared_bytes);
        m_module->poison_used(kept.memory.data());
        kept.cells.resize(m_module->cells.size());
    }
    block.order.resize(m_in_block);
    std::iota(block.order.begin(), block.order.end(), static_cast<uint32_t>(rank * m_slots));
    for (size_t i = 0; i < m_in_block; ++i) {
        Thread& t = *m_threads[rank * m_slots + i];
        t.index = unflatten(i, extent);
        t.number = static_cast<uint16_t>(rank * m_slots + i);
        t.rank = rank;
        t.first = static_cast<unsigned>(rank * m_slots);
        t.arrived = t.waited = 0;
        t.state = Thread::State::ready;
        t.dependency_waited = false;
        t.fenced = 0;
        t.open.clear();
        t.groups.clear();
        ++m_warps[t.warp()].lanes;
        t.fiber.prepare(
            [](void* self) {
                Machine& machine = *static_cast<Machine*>(self);
                machine.m_launch->body(machine.m_launch->parameters.get());
                Thread& thread = *machine.m_thread;
                if (thread.arrived != thread.waited)
                    machine.fault(
                        thread.place,
                        "ends and has not waited for the barrier of the cluster that it arrived at");
                thread.state = Thread::State::ended;
            },
            this);
    }
}

std::span<const std::unique_ptr<Thread>> Machine::threads_of(const Block& block) const {
    return std::span(m_threads).subspan(static_cast<size_t>(&block - m_blocks.data()) * m_slots, m_in_block);
}
bool Machine::all_of(const Block& block, Thread::State state) const {
    return std::ranges::all_of(threads_of(block), [state](const auto& t) { return t->state == state; });
}
bool Machine::any_of(const Block& block, Thread::State state) const {
    return std::ranges::any_of(threads_of(block), [state](const auto& t) { return t->state == state; });
}

/// As far as it comes without the other blocks of its cluster.
void Machine::run_block(Block& block, std::mt19937_64& random) {
    m_block = &block;
    if (m_blocks.size() > 1) swap_static(block);
    for (;;) {
        resume_ready(random);
        if (all_of(block, Thread::State::ended)) {
            end_block(block);
            break;
        }
        if (finish_warps() || finish_barrier()) continue;
        if (any_of(block, Thread::State::at_cluster)) break;
        deadlock();
    }
    if (m_blocks.size() > 1) swap_static(block);
}

void Machine::resume_ready(std::mt19937_64& random) {
    if (settings.order != 0) std::shuffle(m_block->order.begin(), m_block->order.end(), random);
    for (const uint32_t i : m_block->order) {
        Thread& t = *m_threads[i];
        if (t.state != Thread::State::ready) continue;
        m_thread = &t;
        t.fiber.resume();
        m_thread = nullptr;
        if (m_faulted) {
            m_faulted = false;
            throw Fault(m_fault);
        }
    }
}

int Machine::wait_for_block(Vote vote, int value, const void* place) {
    Thread& t = *m_thread;
    t.state = Thread::State::at_barrier;
    t.place = place;
    t.vote = vote;
    t.ballot = value;
    t.fiber.leave();
    return t.vote_result;
}

bool Machine::finish_barrier() {
    const auto threads = threads_of(*m_block);
    int all = 1, any = 0, count = 0;
    for (const auto& t : threads) {
        if (t->state != Thread::State::at_barrier || t->vote != threads[0]->vote) return false;
        all = all != 0 && t->ballot != 0 ? 1 : 0;
        any = any != 0 || t->ballot != 0 ? 1 : 0;
        count += t->ballot != 0 ? 1 : 0;
    }
    for (const auto& t : threads) {
        t->vote_result = t->vote == Vote::all ? all : t->vote == Vote::any ? any : count;
        t->state = Thread::State::ready;
    }
    m_block->interval_first = ++m_now;
    return true;
}

void Machine::deadlock() {
    // Somebody waits for what does not come. Say who waits where, and for whom.
    using enum Thread::State;
    std::vector<const Thread*> all;
    for (const Block& block : m_blocks) {
        for (const auto& t : threads_of(block))
            all.push_back(t.get());
    }
    const Thread* waiting = nullptr;
    for (const Thread::State state : {at_warp, at_barrier, at_cluster}) {
        const auto found = std::ranges::find(all, state, &Thread::state);
        if (waiting == nullptr && found != all.end()) waiting = *found;
    }
    const auto comes = [&](const Thread& t) {
        switch (waiting->state) {
        case at_warp:
            if (t.warp() != waiting->warp() || (waiting->call->mask >> t.lane() & 1U) == 0) return true;
            return t.state == at_warp && t.call->kind == waiting->call->kind &&
                   t.call->mask == waiting->call->mask;
        case at_barrier:
            return t.rank != waiting->rank || (t.state == at_barrier && t.vote == waiting->vote);
        default:
            return t.arrived >= waiting->arrived;
        }
    };
    const auto* const missing = *std::ranges::find_if(all, [&](const Thread* t) { return !comes(*t); });
    const std::string who =
        (missing->rank == waiting->rank ? "" : "of block " + text(m_blocks[missing->rank].index) + " ") +
        "thread " + text(missing->index);
    const char* const what = waiting->state == at_warp ? ": waits for lanes of its warp that do not come: "
                             : waiting->state == at_barrier
                                 ? ": waits at a barrier that not all threads reach: "
                                 : ": waits at a barrier of the cluster that not all threads reach: ";
    throw Fault(at(*waiting, waiting->place) + what + who +
                (missing->state == ended ? " has ended" : " waits at " + place_of(missing->place)));
}

void Machine::wait_for_dependency() {
    m_thread->dependency_waited = true;
}

void Machine::fence() {
    m_thread->fenced = m_now;
    ++m_now; // what comes after it is not fenced
}

namespace {

/// What is ordered before both: of spans that begin together the longest, each once, however often two variables are changed in turns.
void join(std::vector<Span>& spans, const std::vector<Span>& others) {
    spans.insert(spans.end(), others.begin(), others.end());
    std::ranges::sort(spans, [](const Span& a, const Span& b) {
        return a.first != b.first ? a.first < b.first : a.last > b.last;
    });
    spans.erase(std::ranges::unique(spans, {}, &Span::first).begin(), spans.end());
}

} // namespace

void Machine::synchronise(const void* at) {
    if (m_blocks.size() > 1) return; // moments do not tell the blocks of a cluster apart
    std::vector<Span>& released = m_released[at];
    join(m_block->acquired, released);
    if (m_thread->fenced == 0) return;
    released = m_block->acquired;
    join(released, {{m_cluster_first, m_thread->fenced}});
}

void Machine::copy_async(const AsyncCopy& copy) {
    const bool shared =
        (copy.to >= m_block->dynamic && copy.to < m_block->dynamic + m_launch->shared_bytes) ||
        (copy.to >= m_module->shared && copy.to < m_module->shared + m_module->shared_bytes);
    if (!shared) fault(copy.place, "cp.async to memory that is not shared");
    access(copy.to, copy.bytes, Access::write, copy.place);
    for (Cell& cell : shared_cells(*m_block, copy.to, copy.bytes))
        cell.writer |= Cell::under_way;
    std::memset(copy.to, poison, copy.bytes); // until it arrives
    m_thread->open.push_back(copy);
}

void Machine::commit_async() {
    m_thread->groups.push_back(std::move(m_thread->open));
    m_thread->open.clear();
}

void Machine::finish_async(unsigned groups) {
    auto& waiting = m_thread->groups;
    while (waiting.size() > groups) {
        for (const AsyncCopy& copy : waiting.front()) {
            if (copy.source_bytes > 0) access(copy.from, copy.source_bytes, Access::read, copy.place);
            std::memcpy(copy.to, copy.from, copy.source_bytes);
            std::memset(copy.to + copy.source_bytes, 0, copy.bytes - copy.source_bytes);
            for (Cell& cell : shared_cells(*m_block, copy.to, copy.bytes)) {
                cell.written = m_now;
                cell.writer = m_thread->number;
                cell.write_clock = m_warps[m_thread->warp()].clock;
                cell.write_phase = m_thread->arrived;
            }
        }
        waiting.erase(waiting.begin());
    }
}

} // namespace refreshlab::simt
