#include "engine/landscape/npz_file.h"

#include "engine/base/check.h"
#include "engine/base/json_file.h"

#include <array>
#include <numeric>

namespace refreshlab {

namespace {

/// CRC-32 of ZIP (ISO 3309), by the table of its bytes.
uint32_t crc32(std::string_view bytes) {
    static const auto table = [] {
        std::array<uint32_t, 256> made{};
        for (uint32_t i = 0; i < 256; ++i) {
            uint32_t c = i;
            for (int bit = 0; bit < 8; ++bit)
                c = (c & 1U) != 0 ? 0xEDB88320U ^ (c >> 1U) : c >> 1U;
            made[i] = c;
        }
        return made;
    }();
    uint32_t crc = 0xFFFFFFFFU;
    for (const char byte : bytes)
        crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xFFU] ^ (crc >> 8U);
    return crc ^ 0xFFFFFFFFU;
}

void put(std::string& out, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i)
        out += static_cast<char>(value >> (8 * i) & 0xFFU);
}

/// Magic, version, and a Python dictionary, padded so that the values begin at a multiple of 64.
std::string npy_header(std::string_view type, const std::vector<int64_t>& shape) {
    std::string sizes;
    for (const int64_t n : shape)
        sizes += std::to_string(n) + ",";
    std::string dictionary =
        "{'descr': '" + std::string(type) + "', 'fortran_order': False, 'shape': (" + sizes + "), }";
    dictionary.append(63 - (10 + dictionary.size()) % 64, ' ');
    dictionary += '\n';
    std::string header = "\x93NUMPY";
    put(header, 1, 1);
    put(header, 0, 1);
    put(header, dictionary.size(), 2);
    return header + dictionary;
}

constexpr uint16_t zip_version = 20, first_of_1980 = 0x21; // a date that says nothing

} // namespace

void NpzFile::add(std::string_view name, std::span<const float> values, const std::vector<int64_t>& shape) {
    add_array(name, "<f4", std::as_bytes(values), shape);
}
void NpzFile::add(std::string_view name, std::span<const int32_t> values, const std::vector<int64_t>& shape) {
    add_array(name, "<i4", std::as_bytes(values), shape);
}
void NpzFile::add(std::string_view name, std::span<const int64_t> values, const std::vector<int64_t>& shape) {
    add_array(name, "<i8", std::as_bytes(values), shape);
}

void NpzFile::add_array(std::string_view name, std::string_view type, std::span<const std::byte> values,
                        const std::vector<int64_t>& shape) {
    const std::string header = npy_header(type, shape), file = std::string(name) + ".npy";
    std::string data = header;
    data.append(reinterpret_cast<const char*>(values.data()), values.size());
    const size_t offset = m_bytes.size();
    std::string common; // what stands in both headers of an entry
    put(common, zip_version, 2);
    put(common, 0, 2); // flags
    put(common, 0, 2); // stored
    put(common, 0, 2);
    put(common, first_of_1980, 2);
    put(common, crc32(data), 4);
    put(common, data.size(), 4);
    put(common, data.size(), 4);
    put(common, file.size(), 2);
    put(common, 0, 2); // extra
    m_bytes += "PK\x03\x04" + common + file + data;
    m_directory += "PK\x01\x02";
    put(m_directory, zip_version, 2);
    m_directory += common;
    put(m_directory, 0, 2); // comment
    put(m_directory, 0, 2); // disk
    put(m_directory, 0, 2);
    put(m_directory, 0, 4);
    put(m_directory, offset, 4);
    m_directory += file;
    ++m_files;
}

void NpzFile::write(const std::filesystem::path& path) {
    const size_t offset = m_bytes.size();
    m_bytes += m_directory;
    m_bytes += "PK\x05\x06";
    put(m_bytes, 0, 4);
    put(m_bytes, m_files, 2);
    put(m_bytes, m_files, 2);
    put(m_bytes, m_directory.size(), 4);
    put(m_bytes, offset, 4);
    put(m_bytes, 0, 2);
    write_file(path, m_bytes);
}

} // namespace refreshlab
