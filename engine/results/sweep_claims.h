#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace refreshlab {

/// Which process works on what, on one machine: locks on bytes of a file beside the sweep's own (NAME.lock), one byte per
/// piece of work. The kernel drops a dead process's locks, so that a kill -9 leaves no claim behind. Two pieces may share
/// a byte (64-bit hashes): one of them then waits for a later start.
///
/// Threads  any. Locks belong to this object's open file (F_OFD_SETLK), so two objects of one process exclude each other.
/// File     removed by the last one that uses it.
class SweepClaims {
public:
    /// Throws Error{bad_input} if the file cannot be made.
    explicit SweepClaims(const std::filesystem::path& sweep_file);
    ~SweepClaims();
    SweepClaims(const SweepClaims&) = delete;
    SweepClaims& operator=(const SweepClaims&) = delete;

    /// Holds a piece of work until it goes.
    class Claim {
    public:
        Claim(Claim&& other) noexcept;
        Claim& operator=(Claim&&) = delete;
        Claim(const Claim&) = delete;
        Claim& operator=(const Claim&) = delete;
        ~Claim();

    private:
        friend class SweepClaims;
        Claim(int file, int64_t byte)
            : m_file(file)
            , m_byte(byte) {}
        int m_file;
        int64_t m_byte;
    };
    /// Nothing if another process (or object) holds it.
    [[nodiscard]] std::optional<Claim> try_claim(std::string_view work) const;
    /// Waits for it. For short pieces only: setting up the file.
    [[nodiscard]] Claim wait(std::string_view work) const;

private:
    std::filesystem::path m_path;
    int m_file = -1;
};

} // namespace refreshlab
