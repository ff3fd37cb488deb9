#include "engine/base/mapped_file.h"

#include "engine/base/error.h"
#include "engine/base/regular_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace refreshlab {

MappedFile::MappedFile(const std::filesystem::path& path) {
    const RegularFile file(path);
    m_size = file.size();
    if (m_size == 0) return;
    void* const address = ::mmap(nullptr, m_size, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
    if (address == MAP_FAILED) {
        const int code = errno;
        throw Error("reading", path.string(), std::string("cannot be mapped: ") + std::strerror(code), {},
                    kind_of_errno(code));
    }
    m_data = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
    if (m_data != nullptr) ::munmap(const_cast<std::byte*>(m_data), m_size);
}

} // namespace refreshlab
