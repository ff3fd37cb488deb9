#include "engine/remote/wire.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace refreshlab::remote {

namespace {

using nlohmann::json;

constexpr std::string_view magic = "RLabLink";
constexpr size_t preamble_bytes = magic.size() + 4;

template <class Number>
void put(Bytes& bytes, Number number) {
    for (size_t i = 0; i < sizeof(Number); ++i)
        bytes.push_back(static_cast<uint8_t>(number >> (8 * i)));
}

template <class Number>
Number number_of(std::span<const uint8_t> bytes) {
    Number number = 0;
    for (size_t i = 0; i < sizeof(Number); ++i)
        number |= static_cast<Number>(Number{bytes[i]} << (8 * i));
    return number;
}

/// Builds a value and counts how deep it is: the parser calls itself for every level, and a message is not to take the stack.
class MessageBuilder final : public nlohmann::json_sax<json> {
public:
    bool null() override { return put(nullptr); }
    bool boolean(bool value) override { return put(value); }
    bool number_integer(number_integer_t value) override { return put(value); }
    bool number_unsigned(number_unsigned_t value) override { return put(value); }
    bool number_float(number_float_t value, const string_t&) override { return put(value); }
    bool string(string_t& value) override { return put(std::move(value)); }
    bool binary(binary_t& value) override { return put(std::move(value)); }
    bool start_object(std::size_t) override { return open(json::object()); }
    bool start_array(std::size_t) override { return open(json::array()); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }
    bool key(string_t& value) override {
        m_keys.back() = std::move(value);
        return true;
    }
    bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
        return false;
    }
    [[nodiscard]] bool too_deep() const { return m_too_deep; }
    [[nodiscard]] json take() { return std::move(m_root); }

private:
    json* add(json value) {
        if (m_open.empty()) {
            m_root = std::move(value);
            return &m_root;
        }
        json& holder = *m_open.back();
        if (holder.is_object()) return &(holder[m_keys.back()] = std::move(value));
        holder.push_back(std::move(value));
        return &holder.back();
    }
    template <class Value>
    bool put(Value&& value) {
        static_cast<void>(add(json(std::forward<Value>(value))));
        return true;
    }
    /// What is added to a holder leaves those around it where they are: only the innermost grows.
    bool open(json value) {
        if (m_open.size() == deepest_message) {
            m_too_deep = true;
            return false;
        }
        m_open.push_back(add(std::move(value)));
        m_keys.emplace_back();
        return true;
    }
    bool close() {
        m_open.pop_back();
        m_keys.pop_back();
        return true;
    }

    json m_root;
    std::vector<json*> m_open;
    std::vector<std::string> m_keys;
    bool m_too_deep = false;
};

} // namespace

Bytes preamble(uint32_t version) {
    Bytes bytes(magic.begin(), magic.end());
    put(bytes, version);
    return bytes;
}

Bytes frame(Channel channel, std::span<const uint8_t> body, bool more) {
    Bytes bytes;
    bytes.reserve(frame_header_bytes + body.size());
    put(bytes, static_cast<uint32_t>(body.size()));
    bytes.push_back(static_cast<uint8_t>(channel));
    bytes.push_back(more ? 1 : 0);
    bytes.insert(bytes.end(), body.begin(), body.end());
    return bytes;
}

Bytes received_body(uint64_t bytes) {
    Bytes body;
    put(body, bytes);
    return body;
}

std::vector<Incoming> FrameReader::feed(std::span<const uint8_t> bytes) {
    std::vector<Incoming> whole;
    m_buffer.insert(m_buffer.end(), bytes.begin(), bytes.end());
    std::span<const uint8_t> rest = m_buffer;
    if (!m_begun) {
        const size_t known = std::min(rest.size(), magic.size());
        if (!std::equal(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(known), magic.begin(),
                        [](uint8_t a, char b) { return a == static_cast<uint8_t>(b); }))
            throw ProtocolError("what answers there is no RefreshLab");
        if (rest.size() < preamble_bytes) return whole;
        m_begun = true;
        whole.push_back({Incoming::Kind::version, number_of<uint32_t>(rest.subspan(magic.size()))});
        rest = rest.subspan(preamble_bytes);
    }
    while (rest.size() >= frame_header_bytes) {
        const size_t size = number_of<uint32_t>(rest);
        const uint8_t channel = rest[4], flags = rest[5];
        if (channel > static_cast<uint8_t>(Channel::received) || flags > 1)
            throw ProtocolError("a frame is of no known kind");
        const bool heavy = channel == static_cast<uint8_t>(Channel::heavy), more = flags == 1;
        if (more && !heavy) throw ProtocolError("a message is in parts that has none");
        if (size > m_longest - std::min(m_longest, heavy ? m_heavy.size() : 0))
            throw ProtocolError(fmt::format("a message has more than {} bytes", m_longest));
        if (rest.size() - frame_header_bytes < size) break;
        const auto body = rest.subspan(frame_header_bytes, size);
        rest = rest.subspan(frame_header_bytes + size);
        if (channel == static_cast<uint8_t>(Channel::received)) {
            if (body.size() != sizeof(uint64_t)) throw ProtocolError("a count of bytes is none");
            whole.push_back({Incoming::Kind::received, number_of<uint64_t>(body)});
        } else if (heavy) {
            m_heavy.insert(m_heavy.end(), body.begin(), body.end());
            if (!more) whole.push_back({Incoming::Kind::message, 0, std::exchange(m_heavy, {})});
        } else {
            whole.push_back({Incoming::Kind::message, 0, Bytes(body.begin(), body.end())});
        }
    }
    m_buffer.erase(m_buffer.begin(), m_buffer.end() - static_cast<std::ptrdiff_t>(rest.size()));
    return whole;
}

Bytes to_bytes(const json& message) {
    return json::to_cbor(message);
}

json from_bytes(std::span<const uint8_t> bytes) {
    MessageBuilder builder;
    const bool whole = json::sax_parse(bytes.begin(), bytes.end(), &builder, json::input_format_t::cbor);
    if (builder.too_deep()) throw ProtocolError("a message is nested too deep");
    if (!whole) throw ProtocolError("a message is no CBOR");
    return builder.take();
}

} // namespace refreshlab::remote
