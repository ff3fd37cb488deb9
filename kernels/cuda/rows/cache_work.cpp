#include "kernels/cuda/rows/cache_work.h"

#include "kernels/cuda/device/runtime.h"
#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/shared/check.h"

#include <algorithm>
#include <bit>
#include <mutex>
#include <utility>

namespace refreshlab::kernels::RL_GPU {
namespace {

/// Pinned memory, and when the device has done with it.
struct Block {
    size_t bytes = 0;
    PinnedMemory memory;
    DeviceEvent used; ///< behind the last write or read
};

/// Blocks that nobody holds. To pin memory stops the device for milliseconds, so what was pinned stays so.
class FreeBlocks {
public:
    [[nodiscard]] Block take(size_t bytes) {
        const size_t size = std::bit_ceil(std::max<size_t>(bytes, 4096));
        {
            const std::lock_guard lock(m_mutex);
            const auto found = std::ranges::find(m_blocks, size, &Block::bytes);
            if (found != m_blocks.end()) {
                Block block = std::move(*found);
                m_blocks.erase(found);
                return block;
            }
        }
        return {size, PinnedMemory(size), make_event()};
    }
    void give_back(Block block) {
        const std::lock_guard lock(m_mutex);
        m_blocks.push_back(std::move(block));
    }

private:
    std::mutex m_mutex; ///< of the list; who drops saved columns may be on any thread
    std::vector<Block> m_blocks;
};

class Saved final : public SavedColumns {
public:
    Saved(std::shared_ptr<FreeBlocks> home, int64_t columns, size_t bytes)
        : m_home(std::move(home))
        , m_columns(columns)
        , m_block(m_home->take(bytes)) {}
    ~Saved() override { m_home->give_back(std::move(m_block)); }
    [[nodiscard]] int64_t bytes() const override { return static_cast<int64_t>(m_block.bytes); }
    [[nodiscard]] int64_t columns() const { return m_columns; }
    [[nodiscard]] const Block& block() const { return m_block; }

private:
    std::shared_ptr<FreeBlocks> m_home;
    int64_t m_columns;
    Block m_block;
};

class CacheWork final : public DeviceCacheWork {
public:
    explicit CacheWork(const CacheShape& shape)
        : m_shape(shape) {}

    std::shared_ptr<const SavedColumns> splice(const DeviceColumns& to, const DeviceColumns& from, int64_t n,
                                               void* stream_) override {
        RL_ASSERT(n > 0 && n <= most_spliced_columns);
        return replace(n, static_cast<size_t>(m_shape.bytes(n)), static_cast<cudaStream_t>(stream_),
                       [&](cudaStream_t stream) {
                           SpliceInputs in = inputs(to, from, n);
                           in.journal = m_staging.data();
                           launch_splice(in, stream);
                       });
    }

    std::shared_ptr<const SavedColumns> splice(const DeviceColumns& to, const DeviceColumns& from,
                                               bool packed, const SelectedColumns& which,
                                               void* stream_) override {
        const auto n = static_cast<int64_t>(which.columns.size());
        RL_ASSERT(n > 0 && n <= most_spliced_columns && !which.heads.empty() && (which.keys || which.values));
        return replace(n, static_cast<size_t>(half_bytes(which, n) * (which.keys && which.values ? 2 : 1)),
                       static_cast<cudaStream_t>(stream_), [&](cudaStream_t stream) {
                           launch_some(to, from, packed, which, static_cast<std::byte*>(m_staging.data()),
                                       stream);
                       });
    }

    void restore(const DeviceColumns& to, const SavedColumns& saved_, const SelectedColumns& which,
                 void* stream_) override {
        auto* const stream = static_cast<cudaStream_t>(stream_);
        const auto& saved = dynamic_cast<const Saved&>(saved_);
        RL_ASSERT(static_cast<int64_t>(which.columns.size()) <= saved.columns());
        const std::lock_guard lock(m_mutex);
        const Block& block = saved.block();
        check(cudaStreamWaitEvent(stream, block.used.get(), 0), "ordering a rewind");
        auto* const first = static_cast<std::byte*>(seen_by_device(block.memory));
        const DeviceColumns from{first, first + (which.keys ? half_bytes(which, saved.columns()) : 0),
                                 saved.columns(), 0};
        launch_some(to, from, true, which, nullptr, stream);
        check(cudaEventRecord(block.used.get(), stream), "ordering a rewind");
    }

    void restore(const DeviceColumns& to, const SavedColumns& saved_, int64_t n, void* stream_) override {
        auto* const stream = static_cast<cudaStream_t>(stream_);
        const auto& saved = dynamic_cast<const Saved&>(saved_);
        RL_ASSERT(n <= saved.columns());
        const std::lock_guard lock(m_mutex);
        const Block& block = saved.block();
        check(cudaStreamWaitEvent(stream, block.used.get(), 0), "ordering a rewind");
        // K and V stand one behind the other, without other columns between.
        auto* const k = static_cast<std::byte*>(seen_by_device(block.memory));
        const DeviceColumns from{k, k + m_shape.bytes(saved.columns()) / 2, saved.columns(), 0};
        launch_splice(inputs(to, from, n), stream);
        check(cudaEventRecord(block.used.get(), stream), "ordering a rewind");
    }

    std::vector<float> distances(const DeviceColumns& a, const DeviceColumns& b, int64_t n,
                                 void* stream_) override {
        auto* const stream = static_cast<cudaStream_t>(stream_);
        const std::lock_guard lock(m_mutex);
        const auto numbers = static_cast<size_t>(m_shape.layers * n * 6);
        if (numbers > m_distance_numbers) {
            const size_t room = std::bit_ceil(numbers);
            m_distances = DeviceMemory(room * sizeof(float));
            m_host_distances = PinnedMemory(room * sizeof(float));
            m_measured = make_event();
            m_distance_numbers = room; // last: memory may run out
        }
        SpliceInputs in = inputs(a, b, n);
        in.copies = false;
        in.drift = static_cast<float*>(m_distances.data());
        launch_splice(in, stream);
        check(cudaMemcpyAsync(m_host_distances.data(), m_distances.data(), numbers * sizeof(float),
                              cudaMemcpyDeviceToHost, stream),
              "copying distances");
        check(cudaEventRecord(m_measured.get(), stream), "waiting for distances");
        check(cudaEventSynchronize(m_measured.get()), "waiting for distances");
        const auto* const result = static_cast<const float*>(m_host_distances.data());
        return {result, result + numbers};
    }

private:
    /// \param launch  puts `bytes` of what it replaces into the staging memory. \return the host's copy of them
    template <typename Launch>
    std::shared_ptr<const SavedColumns> replace(int64_t columns, size_t bytes, cudaStream_t stream,
                                                Launch launch) {
        const std::lock_guard lock(m_mutex);
        if (m_staging.data() == nullptr) {
            m_copying = make_stream();
            m_spliced = make_event();
            m_staging_read = make_event();
            m_staging = DeviceMemory(static_cast<size_t>(m_shape.bytes(most_spliced_columns)));
        }
        auto saved = std::make_shared<Saved>(m_free, columns, bytes);
        const Block& block = saved->block();
        // The copy of the splice in front may still read the staging memory.
        check(cudaStreamWaitEvent(stream, m_staging_read.get(), 0), "ordering a splice");
        launch(stream);
        check(cudaEventRecord(m_spliced.get(), stream), "ordering a splice");
        check(cudaStreamWaitEvent(m_copying.get(), m_spliced.get(), 0), "ordering a splice");
        check(cudaStreamWaitEvent(m_copying.get(), block.used.get(), 0), "ordering a splice"); // by a restore
        check(cudaMemcpyAsync(block.memory.data(), m_staging.data(), bytes, cudaMemcpyDeviceToHost,
                              m_copying.get()),
              "saving columns");
        check(cudaEventRecord(m_staging_read.get(), m_copying.get()), "ordering a splice");
        check(cudaEventRecord(block.used.get(), m_copying.get()), "ordering a splice");
        return saved;
    }

    /// Of n columns of the listed heads, one half.
    [[nodiscard]] int64_t half_bytes(const SelectedColumns& which, int64_t n) const {
        return static_cast<int64_t>(which.heads.size()) * n * m_shape.head_dim * bytes_of(m_shape.type);
    }

    /// \param saved  gets what stood there: keys, then values, of the listed ones; null: not wanted
    void launch_some(const DeviceColumns& to, const DeviceColumns& from, bool packed,
                     const SelectedColumns& which, std::byte* saved, cudaStream_t stream) const {
        const auto n = static_cast<int64_t>(which.columns.size());
        std::byte* const saved_v = saved == nullptr || !which.keys ? saved : saved + half_bytes(which, n);
        const int64_t entry = m_shape.head_dim * bytes_of(m_shape.type);
        for (size_t first = 0; first < which.heads.size(); first += rows::most_spliced_heads) {
            const auto before = static_cast<int64_t>(first);
            const auto behind = [&](auto* memory, int64_t columns, bool wanted) {
                return memory == nullptr || !wanted
                           ? nullptr
                           : static_cast<std::byte*>(memory) + before * columns * entry;
            };
            SpliceSomeInputs in;
            in.type = m_shape.type;
            in.k = which.keys ? to.k : nullptr;
            in.v = which.values ? to.v : nullptr;
            in.packed = packed;
            in.teacher_k = packed ? behind(from.k, from.capacity, which.keys) : from.k;
            in.teacher_v = packed ? behind(from.v, from.capacity, which.values) : from.v;
            in.head_dim = m_shape.head_dim;
            in.capacity = to.capacity;
            in.teacher_capacity = from.capacity;
            in.first = to.first;
            in.teacher_first = from.first;
            in.heads = which.heads.subspan(
                first, std::min<size_t>(rows::most_spliced_heads, which.heads.size() - first));
            in.columns = which.columns;
            in.saved_k = behind(saved, n, which.keys);
            in.saved_v = behind(saved_v, n, which.values);
            launch_splice_some(in, stream);
        }
    }

    [[nodiscard]] SpliceInputs inputs(const DeviceColumns& to, const DeviceColumns& from, int64_t n) const {
        SpliceInputs in;
        in.type = m_shape.type;
        in.k = to.k;
        in.v = to.v;
        in.teacher_k = from.k;
        in.teacher_v = from.v;
        in.layers = m_shape.layers;
        in.kv_heads = m_shape.kv_heads;
        in.head_dim = m_shape.head_dim;
        in.capacity = to.capacity;
        in.teacher_capacity = from.capacity;
        in.first = to.first;
        in.teacher_first = from.first;
        in.n = n;
        return in;
    }

    CacheShape m_shape;
    std::mutex m_mutex; ///< held while a call gives out its launches
    std::shared_ptr<FreeBlocks> m_free = std::make_shared<FreeBlocks>();
    size_t m_distance_numbers = 0;
    PinnedMemory m_host_distances;
    DeviceMemory m_distances;
    DeviceMemory m_staging; ///< of one splice, until it has been copied
    DeviceEvent m_spliced, m_staging_read, m_measured;
    DeviceStream m_copying; ///< to the host
};

} // namespace

std::unique_ptr<DeviceCacheWork> make_cache_work(const CacheShape& shape) {
    return std::make_unique<CacheWork>(shape);
}

} // namespace refreshlab::kernels::RL_GPU
