#pragma once

#include <cstdint>
#include <filesystem>

namespace refreshlab::trace {

/// What a path holds. This asks SQLite and does not read the file's first bytes: closing a descriptor of our own would
/// drop the locks of any connection that this process has to the file. It reads the header only of a file that SQLite
/// refuses, to tell a trace that was cut or overwritten (`damaged`) from a file that never was one (`foreign`). Throws
/// SqlError (locked, no permission).
enum class FileKind : uint8_t { missing, folder, special, empty, foreign, foreign_sqlite, damaged, trace };
[[nodiscard]] FileKind file_kind(const std::filesystem::path& path);

} // namespace refreshlab::trace
