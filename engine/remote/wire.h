#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

/// Bytes of a connection (docs/reference/protocol.md): a preamble with the version, then frames. Pure; no socket.
namespace refreshlab::remote {

/// Rises with every change that the other side must know of.
inline constexpr uint32_t protocol_version = 3;

using Bytes = std::vector<uint8_t>;

/// What no program of this protocol has sent.
struct ProtocolError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Messages of a channel come in their order; those of `heavy` may be overtaken.
enum class Channel : uint8_t {
    messages, ///< whole, in one frame
    heavy,    ///< attention rows: a message in parts, between which others may come
    received, ///< no message: how many bytes have come, and that the sender is alive
};

/// The first bytes of each side.
[[nodiscard]] Bytes preamble(uint32_t version = protocol_version);
/// \param more  other parts of the message follow
[[nodiscard]] Bytes frame(Channel channel, std::span<const uint8_t> body, bool more = false);
/// Body of a frame of Channel::received.
[[nodiscard]] Bytes received_body(uint64_t bytes);
inline constexpr size_t frame_header_bytes = 6;
/// A heavy message is sent in parts of this size, so that nothing waits longer than one takes.
inline constexpr size_t part_bytes = 4096;

/// Something that came whole.
struct Incoming {
    enum class Kind : uint8_t {
        version, ///< of the other side, once, at first
        message,
        received
    } kind = Kind::message;
    uint64_t number = 0; ///< the version; bytes that the other side has received
    Bytes body = {};     ///< of a message
};

/// Cuts what comes into frames and puts parts together, whatever the sizes of the pieces.
/// Memory  what has come of one message of each channel, at most `longest` bytes each
class FrameReader {
public:
    explicit FrameReader(size_t longest)
        : m_longest(longest) {}
    /// Throws ProtocolError: no preamble, an unknown channel, a message that is too long. Nothing may follow then.
    [[nodiscard]] std::vector<Incoming> feed(std::span<const uint8_t> bytes);
    /// From now on messages may be that long.
    void set_longest(size_t longest) { m_longest = longest; }

private:
    size_t m_longest;
    Bytes m_buffer; ///< of a frame that is not whole
    Bytes m_heavy;  ///< parts that have come
    bool m_begun = false;
};

/// A message as CBOR (RFC 8949).
[[nodiscard]] Bytes to_bytes(const nlohmann::json& message);
/// Throws ProtocolError: bytes that are no CBOR, more than one value, one that is nested deeper than deepest_message.
[[nodiscard]] nlohmann::json from_bytes(std::span<const uint8_t> bytes);
inline constexpr size_t deepest_message = 32;

} // namespace refreshlab::remote
