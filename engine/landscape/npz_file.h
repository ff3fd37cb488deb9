#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// A NumPy archive in memory: .npy arrays (format 1.0) in a ZIP without compression. Source: numpy.lib.format; PKWARE APPNOTE.
class NpzFile {
public:
    void add(std::string_view name, std::span<const float> values, const std::vector<int64_t>& shape);
    void add(std::string_view name, std::span<const int32_t> values, const std::vector<int64_t>& shape);
    void add(std::string_view name, std::span<const int64_t> values, const std::vector<int64_t>& shape);
    [[nodiscard]] size_t size() const { return m_bytes.size(); }
    /// Adds the archive's directory and writes the file in one go. Throws Error. Nothing can be added afterwards.
    void write(const std::filesystem::path& path);

private:
    void add_array(std::string_view name, std::string_view type, std::span<const std::byte> values,
                   const std::vector<int64_t>& shape);

    std::string m_bytes, m_directory;
    uint16_t m_files = 0;
};

} // namespace refreshlab
