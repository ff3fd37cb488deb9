#include "engine/base/json_file.h"

#include "engine/base/error.h"
#include "engine/base/regular_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

namespace refreshlab {

namespace {

using json = nlohmann::json;

constexpr size_t max_depth = 256;

/// Input iterator that leaves its place behind, so that a handler of parser events knows how far the lexer has read.
class Cursor {
public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;

    Cursor(const char* at, const char** furthest)
        : m_at(at)
        , m_furthest(furthest) {}
    reference operator*() const { return *m_at; }
    Cursor& operator++() {
        *m_furthest = ++m_at;
        return *this;
    }
    Cursor operator++(int) {
        const Cursor before = *this;
        ++*this;
        return before;
    }
    bool operator==(const Cursor& other) const { return m_at == other.m_at; }
    bool operator!=(const Cursor& other) const { return m_at != other.m_at; }

private:
    const char* m_at;
    const char** m_furthest;
};

/// "line 3, column 14" of the byte at offset; columns count characters, as editors do.
std::string place(std::string_view text, size_t offset) {
    const std::string_view before = text.substr(0, std::min(offset, text.size()));
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t newline = before.rfind('\n');
    const std::string_view in_line = newline == std::string_view::npos ? before : before.substr(newline + 1);
    const auto column = 1 + std::count_if(in_line.begin(), in_line.end(), [](char c) {
                            return (static_cast<unsigned char>(c) & 0xC0) !=
                                   0x80; // continuation bytes belong to their first byte
                        });
    return fmt::format("line {}, column {}", line, column);
}

/// A piece of the file in a message: short and printable, whatever it is.
std::string shown(std::string_view text) {
    constexpr size_t max_chars = 160;
    std::string out;
    for (const char c : text.substr(0, max_chars)) {
        const auto byte = static_cast<unsigned char>(c);
        out += byte < 0x20 || byte >= 0x7F ? fmt::format("\\x{:02X}", byte) : std::string(1, c);
    }
    return text.size() > max_chars ? out + "..." : out;
}

/// The library's sentence without its code and place: "syntax error while parsing value - ...".
std::string plain_problem(std::string_view message) {
    if (const size_t code = message.find("] "); message.starts_with('[') && code != std::string_view::npos) {
        message.remove_prefix(code + 2);
    }
    if (message.starts_with("parse error")) {
        if (const size_t colon = message.find(": "); colon != std::string_view::npos)
            message.remove_prefix(colon + 2);
    }
    return shown(message);
}

/// Builds the document from parser events; adds the two checks that the library's own builder has not.
class Builder final : public nlohmann::json_sax<json> {
public:
    Builder(std::string_view text, const std::string& what)
        : m_text(text)
        , m_what(what)
        , m_furthest(text.data()) {}

    [[nodiscard]] const char** furthest() { return &m_furthest; }
    [[nodiscard]] json take() { return std::move(m_root); }

    bool null() override { return add(nullptr); }
    bool boolean(bool value) override { return add(value); }
    bool number_integer(number_integer_t value) override { return add(value); }
    bool number_unsigned(number_unsigned_t value) override { return add(value); }
    bool number_float(number_float_t value, const string_t&) override { return add(value); }
    bool string(string_t& value) override { return add(std::move(value)); }
    bool binary(binary_t&) override { return false; } // not in JSON text
    bool start_object(std::size_t) override { return open(json::object()); }
    bool start_array(std::size_t) override { return open(json::array()); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }

    bool key(string_t& name) override {
        const auto [slot, fresh] =
            m_open.back()->get_ref<json::object_t&>().emplace(std::move(name), nullptr);
        if (!fresh) refuse(here(), fmt::format("key \"{}\" appears twice in one object", shown(slot->first)));
        m_slot = &slot->second;
        return true;
    }

    bool parse_error(std::size_t position, const std::string&,
                     const nlohmann::detail::exception& error) override {
        refuse(position == 0 ? 0 : position - 1, plain_problem(error.what()));
    }

private:
    [[nodiscard]] size_t here() const {
        const auto read = static_cast<size_t>(m_furthest - m_text.data());
        return read == 0 ? 0 : read - 1;
    }

    [[noreturn]] void refuse(size_t offset, const std::string& problem) const {
        throw Error("reading", m_what, place(m_text, offset) + ": " + problem);
    }

    json* place_value(json value) {
        if (m_open.empty()) {
            m_root = std::move(value);
            return &m_root;
        }
        if (m_open.back()->is_array()) {
            auto& items = m_open.back()->get_ref<json::array_t&>();
            items.push_back(std::move(value));
            return &items.back();
        }
        *m_slot = std::move(value);
        return m_slot;
    }

    bool add(json value) {
        place_value(std::move(value));
        return true;
    }

    bool open(json value) {
        if (m_open.size() == max_depth)
            refuse(here(), fmt::format("nested deeper than {} levels", max_depth));
        // Stays valid while open: only the innermost container grows, and that is this one.
        m_open.push_back(place_value(std::move(value)));
        return true;
    }

    bool close() {
        m_open.pop_back();
        return true;
    }

    std::string_view m_text;
    const std::string& m_what;
    const char* m_furthest;
    json m_root;
    std::vector<json*> m_open;
    json* m_slot = nullptr;
};

/// A file descriptor that closes itself.
class Descriptor {
public:
    explicit Descriptor(int fd)
        : m_fd(fd) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (m_fd >= 0) ::close(m_fd);
    }
    [[nodiscard]] int fd() const { return m_fd; }
    [[nodiscard]] int close_now() { return ::close(std::exchange(m_fd, -1)); }

private:
    int m_fd;
};

void write_all(int fd, std::string_view text, const std::filesystem::path& path) {
    while (!text.empty()) {
        const ssize_t written = ::write(fd, text.data(), text.size());
        if (written < 0) {
            if (errno == EINTR) continue;
            fail_with_errno("writing", path, errno);
        }
        text.remove_prefix(static_cast<size_t>(written));
    }
}

} // namespace

json parse_json(std::string_view text, const std::string& what) {
    if (text.data() == nullptr) text = "";
    Builder builder(text, what);
    const char* end = text.data() + text.size();
    json::sax_parse(Cursor(text.data(), builder.furthest()), Cursor(end, builder.furthest()), &builder);
    return builder.take();
}

json read_json_file(const std::filesystem::path& path, size_t max_bytes) {
    return parse_json(read_file(path, max_bytes), path.string());
}

std::string read_file(const std::filesystem::path& path, size_t max_bytes) {
    return RegularFile(path, max_bytes).read_all();
}

std::filesystem::path temporary_beside(const std::filesystem::path& path) {
    static std::atomic<unsigned> counter{0};
    while (true) {
        std::filesystem::path name = path;
        name += fmt::format(".{}-{}.tmp", ::getpid(), counter.fetch_add(1));
        std::error_code unreadable; // then whoever writes there learns why
        if (!std::filesystem::exists(std::filesystem::symlink_status(name, unreadable))) return name;
    }
}

void write_file(const std::filesystem::path& path, std::string_view text) {
    // Devices and pipes (a terminal, /dev/stdout whatever is behind it) have nothing to preserve or to rename.
    const std::string& name = path.native();
    struct stat old {};
    const bool exists = ::stat(path.c_str(), &old) == 0;
    if (exists && S_ISDIR(old.st_mode)) throw Error("writing", path.string(), "is a folder, not a file");
    if (exists && (!S_ISREG(old.st_mode) || name.starts_with("/dev/") || name.starts_with("/proc/"))) {
        const Descriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
        if (file.fd() < 0) fail_with_errno("writing", path, errno);
        write_all(file.fd(), text, path);
        return;
    }
    // Through a link the file behind it is replaced, not the link.
    std::error_code unresolved;
    std::filesystem::path target = exists ? std::filesystem::canonical(path, unresolved) : path;
    if (unresolved) target = path;
    if (exists && ::access(target.c_str(), W_OK) != 0) fail_with_errno("writing", path, errno);
    const std::filesystem::path temporary = temporary_beside(target);
    Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file.fd() < 0) fail_with_errno("writing", path, errno);
    try {
        write_all(file.fd(), text, path);
        if (exists && ::fchmod(file.fd(), old.st_mode & 07777) != 0) fail_with_errno("writing", path, errno);
        // Before the rename: otherwise a crash can leave the new name with an empty file.
        if (::fsync(file.fd()) != 0 && errno != EINVAL) fail_with_errno("writing", path, errno);
        if (file.close_now() != 0) fail_with_errno("writing", path, errno);
        if (::rename(temporary.c_str(), target.c_str()) != 0) fail_with_errno("writing", path, errno);
    } catch (...) {
        ::unlink(temporary.c_str());
        throw;
    }
}

} // namespace refreshlab
