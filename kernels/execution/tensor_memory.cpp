#include "kernels/execution/tensor_memory.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace refreshlab::kernels {

namespace {

constexpr size_t alignment = 64;

/// What malloc() gave stands in front of what it is for.
class TensorMemory final : public c10::Allocator {
public:
    c10::DataPtr allocate(size_t bytes) override {
        constexpr size_t more = alignment - 1 + sizeof(void*);
        if (bytes == 0) return {nullptr, nullptr, &release, c10::Device(c10::DeviceType::CPU)};
        void* const given = bytes > SIZE_MAX - more ? nullptr : std::malloc(bytes + more);
        if (given == nullptr) throw std::bad_alloc();
        const auto aligned = (reinterpret_cast<uintptr_t>(given) + more) / alignment * alignment;
        auto* const data = reinterpret_cast<void**>(aligned);
        data[-1] = given;
        return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
    }
    [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &release; }
    void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }

private:
    static void release(void* data) {
        if (data != nullptr) std::free(static_cast<void**>(data)[-1]);
    }
};

} // namespace

c10::Allocator& tensor_memory() {
    static TensorMemory memory;
    return memory;
}

void use_tensor_memory() {
    constexpr uint8_t above_the_default = 1;
    c10::SetAllocator(c10::DeviceType::CPU, &tensor_memory(), above_the_default);
}

} // namespace refreshlab::kernels
