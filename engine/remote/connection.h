#pragma once

#include "engine/remote/asio_headers.h"
#include "engine/remote/wire.h"

#include <nlohmann/json.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace refreshlab::remote {

/// How long nothing may come before the other side is taken for gone. Each side says every alive_every that it is there.
inline constexpr std::chrono::seconds silence_limit{10}, alive_every{1}, end_limit{1};

/// What the link carries, from what the other side says it has received: the largest rate of delivery of late, and the shortest time
/// from a byte's sending to that word. Source: Cardwell et al. 2016 (BBR), its model without its probing.
class LinkRate {
public:
    using Clock = std::chrono::steady_clock;
    void sent(uint64_t bytes, Clock::time_point now);
    void received(uint64_t bytes, Clock::time_point now);
    [[nodiscard]] uint64_t on_the_way() const { return m_sent - m_received; }
    /// Bytes on the way with which the link is busy and nothing waits much longer than it takes anyway.
    [[nodiscard]] uint64_t window() const;

private:
    struct Sample {
        uint64_t sent, received_then;
        Clock::time_point at;
        bool busy;
    };
    std::deque<Sample> m_samples;
    uint64_t m_sent = 0, m_received = 0;
    double m_bytes_per_s = 0;
    double m_shortest_s = 1;
};

/// Messages over a socket, both ways. Threads: that of the io_context, for everything.
class Connection : public std::enable_shared_from_this<Connection> {
public:
    using Socket = asio::generic::stream_protocol::socket;
    struct Handlers {
        std::function<void(nlohmann::json)> message; ///< may throw: the connection ends with what it says
        std::function<void()> room;                  ///< there is room() again
        std::function<void(const std::string& why)> closed; ///< once, unless close() came before
    };

    /// \param longest  message that is taken, bytes
    Connection(Socket socket, size_t longest);
    void start(Handlers handlers);
    void set_longest(size_t longest) { m_reader.set_longest(longest); }

    void send(const nlohmann::json& message);
    /// One at a time: not while heavy_on_the_way().
    void send_heavy(const nlohmann::json& message);
    [[nodiscard]] bool heavy_on_the_way() const { return m_heavy_sent < m_heavy.size(); }
    /// Bytes that the link takes before anything has to wait; 0: it is busy.
    [[nodiscard]] int64_t room() const;
    /// Why it was closed: the other side speaks another version of the protocol.
    [[nodiscard]] bool of_another_version() const { return m_other_version; }
    /// Ends it when what was sent has gone and the other side has closed too, at most end_limit later. No handler is called any more.
    void close();

private:
    void read();
    void take(const Incoming& incoming);
    void write();
    void tick();
    void say_received();
    void fail(const std::string& why);
    /// It may be a handler that ends the connection, so they go later.
    void let_go_of_handlers();
    [[nodiscard]] bool ended() const { return m_closing || m_closed; }

    Socket m_socket;
    asio::steady_timer m_timer;
    FrameReader m_reader;
    Handlers m_handlers;
    std::array<uint8_t, 65536> m_piece{};
    std::deque<Bytes> m_waiting; ///< frames
    size_t m_waiting_bytes = 0;
    Bytes m_heavy;
    size_t m_heavy_sent = 0;
    Bytes m_writing;
    LinkRate m_rate;
    uint64_t m_received = 0, m_said_received = 0;
    std::chrono::steady_clock::time_point m_last_read;
    bool m_said_all = false, m_closing = false, m_closed = false, m_other_version = false;
};

} // namespace refreshlab::remote
