#include "kernels/simt/machine.h"

#include "kernels/simt/place.h"

#include <link.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <numeric>

namespace refreshlab::simt {

namespace {

constexpr int poison = 0xFF; // of floats a NaN, of indices far outside

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
    return name_of(m_launch->kernel) + ", block " + text(m_block) + ", thread " + text(thread.index) + ", " +
           place_of(place);
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
                        launch.dependent};
    activity.launches.push_back(record);

    m_launch = &launch;
    m_module = &module_of(launch.kernel);
    // Exactly as long as asked for, so that what lies behind is not the block's.
    const auto dynamic = make_memory(launch.shared_bytes);
    m_dynamic = static_cast<std::byte*>(dynamic.get());
    m_dynamic_cells.assign(looks_at_memory() ? launch.shared_bytes : 0, Cell{});
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

    std::vector<uint64_t> blocks(launch.grid.count());
    std::iota(blocks.begin(), blocks.end(), uint64_t{0});
    if (settings.order != 0) std::shuffle(blocks.begin(), blocks.end(), std::mt19937_64(settings.order));
    set_running(true);
    const auto ended = std::shared_ptr<void>(nullptr, [](void*) { set_running(false); });
    for (const uint64_t block : blocks)
        run_block(block);

    auto past = std::make_shared<PastLaunch>();
    past->span = {m_launch_first, m_now};
    past->kernel = record.kernel;
    past->waited = !overlaps || m_any_waited;
    past->before = m_before;
    m_previous = std::move(past);
    m_launch = nullptr;
}

void Machine::run_block(uint64_t number) {
    const dim3 extent = m_launch->block;
    m_block = unflatten(number, m_launch->grid);
    m_block_first = m_interval_first = ++m_now;
    m_acquired.clear();
    if (m_module->shared != nullptr) std::memset(m_module->shared, poison, m_module->shared_bytes);
    if (m_launch->shared_bytes > 0) std::memset(m_dynamic, poison, m_launch->shared_bytes);

    m_live = extent.count();
    while (m_threads.size() < m_live)
        m_threads.push_back(std::make_unique<Thread>());
    m_warps.assign((m_live + 31) / 32, {});
    for (size_t i = 0; i < m_live; ++i) {
        Thread& t = *m_threads[i];
        t.index = unflatten(i, extent);
        t.number = static_cast<uint16_t>(i);
        t.state = Thread::State::ready;
        t.dependency_waited = false;
        t.fenced = 0;
        t.open.clear();
        t.groups.clear();
        ++m_warps[i / 32].lanes;
        t.fiber.prepare(
            [](void* self) {
                Machine& machine = *static_cast<Machine*>(self);
                machine.m_launch->body(machine.m_launch->parameters.get());
                machine.m_thread->state = Thread::State::ended;
            },
            this);
    }
    m_order.resize(m_live);
    std::iota(m_order.begin(), m_order.end(), 0U);
    std::mt19937_64 random(settings.order ^ (number * 0x9E3779B97F4A7C15U));
    const auto ended = [&] {
        return std::all_of(m_threads.begin(), m_threads.begin() + static_cast<ptrdiff_t>(m_live),
                           [](const auto& t) { return t->state == Thread::State::ended; });
    };
    for (;;) {
        resume_ready(random);
        if (ended()) break;
        const bool warps = finish_warps();
        if (!warps && !finish_barrier()) deadlock();
    }
    m_any_waited =
        m_any_waited || std::any_of(m_threads.begin(), m_threads.begin() + static_cast<ptrdiff_t>(m_live),
                                    [](const auto& t) { return t->dependency_waited; });
}

void Machine::resume_ready(std::mt19937_64& random) {
    if (settings.order != 0) std::shuffle(m_order.begin(), m_order.end(), random);
    for (const uint32_t i : m_order) {
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
    int all = 1, any = 0, count = 0;
    for (size_t i = 0; i < m_live; ++i) {
        const Thread& t = *m_threads[i];
        if (t.state != Thread::State::at_barrier || t.vote != m_threads[0]->vote) return false;
        all = all != 0 && t.ballot != 0 ? 1 : 0;
        any = any != 0 || t.ballot != 0 ? 1 : 0;
        count += t.ballot != 0 ? 1 : 0;
    }
    for (size_t i = 0; i < m_live; ++i) {
        Thread& t = *m_threads[i];
        t.vote_result = t.vote == Vote::all ? all : t.vote == Vote::any ? any : count;
        t.state = Thread::State::ready;
    }
    m_interval_first = ++m_now;
    return true;
}

void Machine::deadlock() {
    // Somebody waits for what does not come. Say who waits where, and for whom.
    const Thread* waiting = nullptr;
    for (size_t i = 0; i < m_live && waiting == nullptr; ++i) {
        if (m_threads[i]->state == Thread::State::at_warp) waiting = m_threads[i].get();
    }
    for (size_t i = 0; i < m_live && waiting == nullptr; ++i) {
        if (m_threads[i]->state == Thread::State::at_barrier) waiting = m_threads[i].get();
    }
    const bool in_warp = waiting->state == Thread::State::at_warp;
    std::string missing;
    for (size_t i = 0; i < m_live && missing.empty(); ++i) {
        const Thread& t = *m_threads[i];
        if (in_warp && (t.warp() != waiting->warp() || (waiting->call->mask >> t.lane() & 1U) == 0)) continue;
        if (t.state == Thread::State::ended)
            missing = "thread " + text(t.index) + " has ended";
        else if (t.state != waiting->state ||
                 (in_warp && (t.call->kind != waiting->call->kind || t.call->mask != waiting->call->mask)) ||
                 (!in_warp && t.vote != waiting->vote))
            missing = "thread " + text(t.index) + " waits at " + place_of(t.place);
    }
    throw Fault(at(*waiting, waiting->place) +
                (in_warp ? ": waits for lanes of its warp that do not come: "
                         : ": waits at a barrier that not all threads reach: ") +
                missing);
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
    std::vector<Span>& released = m_released[at];
    join(m_acquired, released);
    if (m_thread->fenced == 0) return;
    released = m_acquired;
    join(released, {{m_block_first, m_thread->fenced}});
}

void Machine::copy_async(const AsyncCopy& copy) {
    const bool shared = (copy.to >= m_dynamic && copy.to < m_dynamic + m_launch->shared_bytes) ||
                        (copy.to >= m_module->shared && copy.to < m_module->shared + m_module->shared_bytes);
    if (!shared) fault(copy.place, "cp.async to memory that is not shared");
    access(copy.to, copy.bytes, Access::write, copy.place);
    for (Cell& cell : shared_cells(copy.to, copy.bytes))
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
            for (Cell& cell : shared_cells(copy.to, copy.bytes)) {
                cell.written = m_now;
                cell.writer = m_thread->number;
                cell.write_clock = m_warps[m_thread->warp()].clock;
            }
        }
        waiting.erase(waiting.begin());
    }
}

} // namespace refreshlab::simt
