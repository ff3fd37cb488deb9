#include "kernels/simt/memory.h"

#include "kernels/shared/check.h"

#include <algorithm>

namespace refreshlab::simt {

namespace {

auto first_after(std::vector<std::unique_ptr<Region>>& regions, const void* at) {
    return std::ranges::upper_bound(regions, static_cast<const std::byte*>(at), {},
                                    [](const std::unique_ptr<Region>& region) { return region->first; });
}

} // namespace

void Regions::add(const void* at, size_t bytes, Contents contents, const std::string& name) {
    auto region = std::make_unique<Region>();
    region->first = static_cast<const std::byte*>(at);
    region->bytes = bytes;
    region->read_only = contents == Contents::read_only;
    region->name = name;
    if (!region->read_only) region->cells.resize(looks_at_memory() ? bytes : 0);
    if (contents == Contents::written) {
        for (Cell& cell : region->cells)
            cell.written = 1;
    }
    const auto next = first_after(m_regions, at);
    RL_ASSERT(next == m_regions.end() || (*next)->first >= region->first + bytes || bytes == 0);
    RL_ASSERT(next == m_regions.begin() ||
              (*std::prev(next))->first + (*std::prev(next))->bytes <= region->first);
    m_regions.insert(next, std::move(region));
}

void Regions::remove(const void* at) {
    const auto found = std::ranges::find_if(
        m_regions, [at](const std::unique_ptr<Region>& region) { return region->first == at; });
    RL_ASSERT(found != m_regions.end());
    m_last = nullptr;
    m_regions.erase(found);
}

Region* Regions::find(const void* at) {
    if (m_last != nullptr && m_last->holds(at)) return m_last;
    const auto next = first_after(m_regions, at);
    if (next == m_regions.begin() || !(*std::prev(next))->holds(at)) return nullptr;
    m_last = std::prev(next)->get();
    return m_last;
}

const Region* Regions::nearest(const void* at) const {
    const auto* const byte = static_cast<const std::byte*>(at);
    const Region* best = nullptr;
    ptrdiff_t distance = 0;
    for (const auto& region : m_regions) {
        const ptrdiff_t d =
            byte < region->first ? region->first - byte : byte - (region->first + region->bytes);
        if (best == nullptr || d < distance) {
            best = region.get();
            distance = d;
        }
    }
    return best;
}

void Regions::note(const void* at, size_t bytes, bool written) {
    Region* const region = find(at);
    if (region == nullptr || region->cells.empty()) return;
    const auto first = static_cast<size_t>(static_cast<const std::byte*>(at) - region->first);
    RL_ASSERT(first + bytes <= region->bytes);
    Cell fresh;
    fresh.written = written ? 1 : 0;
    std::fill_n(region->cells.begin() + static_cast<ptrdiff_t>(first), bytes, fresh);
}

} // namespace refreshlab::simt
