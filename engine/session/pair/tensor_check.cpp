#include "engine/session/pair/tensor_check.h"

#include "engine/base/error.h"
#include "engine/base/regular_file.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/checkpoint/safetensors_header.h"
#include "engine/model/checkpoint/weight_checks.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <utility>

namespace refreshlab {

namespace {

/// Tables of contents of a checkpoint's files, each read once.
class Headers {
public:
    const std::map<std::string, StoredTensor>& of(const std::filesystem::path& path) {
        const auto known = m_headers.find(path);
        return (known != m_headers.end() ? known : m_headers.emplace(path, read(path)).first)->second.tensors;
    }

private:
    static SafetensorsHeader read(const std::filesystem::path& path) {
        const RegularFile file(path);
        const size_t size = file.size();
        void* const address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
        if (address == MAP_FAILED) fail_with_errno("reading", path, errno);
        const struct Mapping {
            void* address;
            size_t size;
            ~Mapping() { munmap(address, size); }
        } mapping{address, size};
        return SafetensorsHeader::parse({static_cast<const std::byte*>(mapping.address), size},
                                        path.string());
    }

    std::map<std::filesystem::path, SafetensorsHeader> m_headers;
};

} // namespace

void check_tensors(const ModelConfig& config, const Checkpoint& checkpoint) {
    refuse_unread_weights(config, checkpoint);
    Headers headers;
    const auto check = [&](const std::string& name, at::IntArrayRef shape) {
        const std::filesystem::path path = checkpoint.file_of(name);
        if (!checkpoint.contains(name)) fail_tensor(path.string(), name, "missing");
        const StoredTensor& tensor = headers.of(path).at(name);
        if (shape != at::IntArrayRef(tensor.shape)) {
            fail_tensor(path.string(), name,
                        fmt::format("its shape is [{}], config.json asks for [{}]",
                                    fmt::join(tensor.shape, ", "), fmt::join(shape, ", ")));
        }
        if (!tensor.dtype->type)
            fail_tensor(
                path.string(), name,
                fmt::format("its dtype is {}, weights must be F64, F32, BF16 or F16", tensor.dtype->name));
        return at::empty(shape, at::TensorOptions().device(at::kMeta)); // a shape without memory
    };
    static_cast<void>(LlamaWeights::gather(config, check, at::Device(at::kMeta), at::kFloat));
}

} // namespace refreshlab
