#include "engine/remote/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace refreshlab::remote {

namespace {

constexpr uint64_t smallest_window = 32768, largest_window = uint64_t{16} << 20;
constexpr double wait_s = 0.1; ///< that a byte may wait for others before it
/// A word about what has come is due after so many bytes, and after each message.
constexpr uint64_t received_every = 8192;

} // namespace

void LinkRate::sent(uint64_t bytes, Clock::time_point now) {
    m_sent += bytes;
    m_samples.push_back({m_sent, m_received, now, on_the_way() >= window() / 2});
}

void LinkRate::received(uint64_t bytes, Clock::time_point now) {
    if (bytes < m_received || bytes > m_sent) throw ProtocolError("a count of bytes is of no connection");
    m_received = bytes;
    std::optional<Sample> newest;
    for (; !m_samples.empty() && m_samples.front().sent <= bytes; m_samples.pop_front())
        newest = m_samples.front();
    if (!newest) return;
    const double seconds = std::max(1e-5, std::chrono::duration<double>(now - newest->at).count());
    const double rate = static_cast<double>(bytes - newest->received_then) / seconds;
    m_shortest_s = std::min(m_shortest_s, seconds);
    if (rate > m_bytes_per_s)
        m_bytes_per_s = rate;
    else if (newest->busy)
        m_bytes_per_s +=
            0.1 * (rate - m_bytes_per_s); // else little was sent, and the link could have carried more
}

uint64_t LinkRate::window() const {
    const double bytes = m_bytes_per_s * (m_shortest_s + wait_s);
    return std::clamp(static_cast<uint64_t>(std::min(bytes, 1e12)), smallest_window, largest_window);
}

Connection::Connection(Socket socket, size_t longest)
    : m_socket(std::move(socket))
    , m_timer(m_socket.get_executor())
    , m_reader(longest)
    , m_last_read(LinkRate::Clock::now()) {}

void Connection::start(Handlers handlers) {
    m_handlers = std::move(handlers);
    m_waiting_bytes += preamble().size();
    m_waiting.push_back(preamble());
    write();
    read();
    tick();
}

void Connection::send(const nlohmann::json& message) {
    if (ended()) return;
    Bytes bytes = frame(Channel::messages, to_bytes(message));
    m_waiting_bytes += bytes.size();
    m_waiting.push_back(std::move(bytes));
    write();
}

void Connection::send_heavy(const nlohmann::json& message) {
    if (ended()) return;
    m_heavy = to_bytes(message);
    m_heavy_sent = 0;
    write();
}

int64_t Connection::room() const {
    const auto busy = static_cast<int64_t>(m_rate.on_the_way() + m_waiting_bytes);
    return std::max<int64_t>(0, static_cast<int64_t>(m_rate.window()) - busy);
}

void Connection::let_go_of_handlers() {
    asio::post(m_socket.get_executor(), [self = shared_from_this()] { self->m_handlers = {}; });
}

void Connection::close() {
    if (!std::exchange(m_closing, true)) let_go_of_handlers();
    if (m_closed || m_said_all || !m_writing.empty() || !m_waiting.empty()) return;
    m_said_all = true;
    // What the other side is sending still is read and left: a socket that is closed before takes back what it has sent.
    asio::error_code error;
    m_socket.shutdown(Socket::shutdown_send, error);
    if (error) return fail(error.message());
    m_timer.expires_after(end_limit);
    m_timer.async_wait([self = shared_from_this()](asio::error_code aborted) {
        if (!aborted) self->fail("it was closed");
    });
}

void Connection::fail(const std::string& why) {
    if (std::exchange(m_closed, true)) return;
    m_timer.cancel();
    asio::error_code ignored;
    m_socket.close(ignored);
    if (m_closing) return;
    m_handlers.closed(why);
    let_go_of_handlers();
}

void Connection::read() {
    m_socket.async_read_some(asio::buffer(m_piece), [self = shared_from_this()](asio::error_code error,
                                                                                size_t count) {
        if (self->m_closed) return;
        if (error)
            return self->fail(error == asio::error::eof ? "the other side has closed it" : error.message());
        if (self->m_closing) return self->read();
        self->m_received += count;
        self->m_last_read = LinkRate::Clock::now();
        try {
            for (const Incoming& incoming : self->m_reader.feed(std::span(self->m_piece).first(count))) {
                self->take(incoming);
                if (self->ended()) break;
            }
        } catch (const std::exception& e) {
            return self->fail(e.what());
        }
        if (self->m_closed) return;
        if (!self->m_closing && self->m_received - self->m_said_received >= received_every)
            self->say_received();
        self->read();
    });
}

void Connection::take(const Incoming& incoming) {
    switch (incoming.kind) {
    case Incoming::Kind::version:
        if (incoming.number != protocol_version) {
            m_other_version = true;
            throw ProtocolError(
                fmt::format("the other side speaks version {} of the protocol and this program version "
                            "{}: both machines need the same RefreshLab",
                            incoming.number, protocol_version));
        }
        break;
    case Incoming::Kind::received:
        m_rate.received(incoming.number, LinkRate::Clock::now());
        if (room() > 0) m_handlers.room(); // first: parts of a heavy message take the room that is left
        write();
        break;
    case Incoming::Kind::message:
        m_handlers.message(from_bytes(incoming.body));
        if (!ended()) say_received();
        break;
    }
}

void Connection::say_received() {
    m_said_received = m_received;
    Bytes bytes = frame(Channel::received, received_body(m_received));
    m_waiting_bytes += bytes.size();
    m_waiting.push_back(std::move(bytes));
    write();
}

void Connection::write() {
    if (!m_writing.empty() || m_closed) return;
    if (!m_waiting.empty()) {
        m_writing = std::move(m_waiting.front());
        m_waiting.pop_front();
        m_waiting_bytes -= m_writing.size();
    } else if (heavy_on_the_way() && m_rate.on_the_way() < m_rate.window()) {
        const size_t size = std::min(part_bytes, m_heavy.size() - m_heavy_sent);
        const auto part = std::span(m_heavy).subspan(m_heavy_sent, size);
        m_heavy_sent += size;
        m_writing = frame(Channel::heavy, part, m_heavy_sent < m_heavy.size());
    } else {
        if (m_closing) close();
        return;
    }
    m_rate.sent(m_writing.size(), LinkRate::Clock::now());
    asio::async_write(m_socket, asio::buffer(m_writing),
                      [self = shared_from_this()](asio::error_code error, size_t) {
                          if (self->m_closed) return;
                          if (error) return self->fail(error.message());
                          self->m_writing.clear();
                          self->write();
                          if (self->m_writing.empty() && !self->ended() && self->room() > 0)
                              self->m_handlers.room();
                      });
}

void Connection::tick() {
    m_timer.expires_after(alive_every);
    m_timer.async_wait([self = shared_from_this()](asio::error_code error) {
        if (error || self->ended()) return;
        if (LinkRate::Clock::now() - self->m_last_read > silence_limit)
            return self->fail(fmt::format("nothing has come for {} s", silence_limit.count()));
        self->say_received();
        self->tick();
    });
}

} // namespace refreshlab::remote
