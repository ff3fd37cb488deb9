#pragma once

#include "engine/control/engine_link.h"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab::remote {

/// The traces of one folder, which a server offers. Nothing else can be read through it: a name is that of a regular file in the folder
/// itself, and ends with .rlt; links are no regular files.
/// Threads  any
class OfferedFiles {
public:
    /// \param folder  empty: nothing is offered
    explicit OfferedFiles(std::filesystem::path folder);
    /// The newest first.
    [[nodiscard]] std::vector<LinkOffers::File> list() const;

    /// A trace as it was at one moment, also one that grows: a copy that has no name, and ends with the object.
    class Copy {
    public:
        explicit Copy(int file);
        ~Copy();
        Copy(const Copy&) = delete;
        Copy& operator=(const Copy&) = delete;
        [[nodiscard]] int64_t bytes() const { return m_bytes; }
        /// At most so many bytes from there. Throws Error{failure}.
        [[nodiscard]] std::vector<uint8_t> read(int64_t offset, int64_t most) const;
        /// Whether so many bytes at its front have this ByteDigest. Reads them; throws as read().
        [[nodiscard]] bool begins_with(int64_t count, uint64_t digest) const;

    private:
        int m_file;
        int64_t m_bytes = 0;
    };
    /// Takes as long as reading and writing it. Throws Error: {bad_input} it is not offered; {failure} it cannot be read, the disk is full.
    [[nodiscard]] std::unique_ptr<Copy> copy(const std::string& name) const;

private:
    std::filesystem::path m_folder;
};

} // namespace refreshlab::remote
