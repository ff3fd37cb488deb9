#include "tests/engine/remote/proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace refreshlab::test {

namespace {

using Clock = std::chrono::steady_clock;

sockaddr_in address_of(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/// One direction: bytes go out when their time has come. What is under way is bounded, as in a real link's buffers.
class Pipe {
public:
    Pipe(int from, int to, SlowLink::Speed speed, std::function<bool(uint64_t)> may_pass)
        : m_from(from)
        , m_to(to)
        , m_speed(speed)
        , m_may_pass(std::move(may_pass)) {
        m_reader = std::thread([this] { read(); });
        m_writer = std::thread([this] { write(); });
    }
    ~Pipe() {
        m_reader.join();
        m_writer.join();
    }

private:
    static constexpr size_t most_under_way = 65536;
    struct Piece {
        Clock::time_point due;
        std::vector<char> bytes;
    };

    void read() {
        Clock::time_point free_at = Clock::now(); // when the link has sent what it has taken
        std::vector<char> buffer(4096);
        while (true) {
            const ssize_t count = ::recv(m_from, buffer.data(), buffer.size(), 0);
            if (count <= 0 || !m_may_pass(static_cast<uint64_t>(count))) break;
            free_at = std::max(free_at, Clock::now());
            if (m_speed.bytes_per_s > 0)
                free_at += std::chrono::duration_cast<Clock::duration>(
                    std::chrono::duration<double>(static_cast<double>(count) / m_speed.bytes_per_s));
            std::unique_lock lock(m_mutex);
            m_changed.wait(lock, [this] { return m_under_way < most_under_way || m_ended; });
            m_pieces.push_back({free_at + m_speed.delay, {buffer.begin(), buffer.begin() + count}});
            m_under_way += static_cast<size_t>(count);
            m_changed.notify_all();
        }
        end();
    }
    void write() {
        while (true) {
            std::unique_lock lock(m_mutex);
            m_changed.wait(lock, [this] { return !m_pieces.empty() || m_ended; });
            if (m_ended) return;
            Piece piece = std::move(m_pieces.front());
            m_pieces.pop_front();
            m_changed.wait_until(lock, piece.due, [this] { return m_ended; });
            if (m_ended) return;
            m_under_way -= piece.bytes.size();
            m_changed.notify_all();
            lock.unlock();
            for (size_t sent = 0; sent < piece.bytes.size();) {
                const ssize_t count =
                    ::send(m_to, piece.bytes.data() + sent, piece.bytes.size() - sent, MSG_NOSIGNAL);
                if (count <= 0) return end();
                sent += static_cast<size_t>(count);
            }
        }
    }
    void end() {
        {
            const std::lock_guard lock(m_mutex);
            m_ended = true;
        }
        m_changed.notify_all();
        ::shutdown(m_from, SHUT_RDWR);
        ::shutdown(m_to, SHUT_RDWR);
    }

    const int m_from, m_to;
    const SlowLink::Speed m_speed;
    const std::function<bool(uint64_t)> m_may_pass;
    std::mutex m_mutex;
    std::condition_variable m_changed;
    std::deque<Piece> m_pieces;
    size_t m_under_way = 0;
    bool m_ended = false;
    std::thread m_reader, m_writer;
};

} // namespace

struct SlowLink::Impl {
    Impl(const remote::Endpoint& to, Speed given)
        : target(to)
        , speed(given) {
        listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address = address_of(0);
        socklen_t size = sizeof address;
        if (listener < 0 || ::bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
            ::listen(listener, 8) != 0 ||
            ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0)
            throw std::runtime_error("no port for a slow link");
        port = ntohs(address.sin_port);
        thread = std::thread([this] { accept(); });
    }
    ~Impl() {
        ::shutdown(listener, SHUT_RDWR);
        thread.join();
        ::close(listener);
        cut();
        const std::lock_guard lock(mutex);
        pipes.clear();
        for (const int socket : sockets)
            ::close(socket);
    }
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    void accept() {
        while (true) {
            const int client = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
            if (client < 0) return;
            const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            sockaddr_in address = address_of(target.port);
            if (refuses || ::connect(server, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
                ::close(client);
                ::close(server);
                continue;
            }
            const int
                on = 1,
                small =
                    65536; // fuller ones would wait 0.2 s for each other, as Linux does when a window is shut
            for (const int socket : {client, server}) {
                ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                ::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
                ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
            }
            const std::lock_guard lock(mutex);
            sockets.insert(sockets.end(), {client, server});
            pipes.push_back(std::make_unique<Pipe>(client, server, speed, [](uint64_t) { return true; }));
            pipes.push_back(std::make_unique<Pipe>(server, client, speed, [this](uint64_t bytes) {
                const uint64_t all = from_server += bytes;
                if (all < cut_at) return true;
                cut_at = UINT64_MAX;
                return false;
            }));
        }
    }
    void cut() {
        const std::lock_guard lock(mutex);
        for (const int socket : sockets)
            ::shutdown(socket, SHUT_RDWR);
    }

    const remote::Endpoint target;
    const Speed speed;
    int listener = -1;
    uint16_t port = 0;
    std::atomic<bool> refuses = false;
    std::atomic<uint64_t> from_server = 0, cut_at = UINT64_MAX;
    std::thread thread;
    std::mutex mutex; ///< what follows; threads of pipes do not take it
    std::vector<int> sockets;
    std::vector<std::unique_ptr<Pipe>> pipes;
};

SlowLink::SlowLink(const remote::Endpoint& to, Speed speed)
    : m_impl(std::make_unique<Impl>(to, speed)) {}

SlowLink::~SlowLink() = default;

remote::Endpoint SlowLink::endpoint() const {
    return {.host = "127.0.0.1", .port = m_impl->port, .path = {}};
}

void SlowLink::cut_after(uint64_t bytes) {
    if (bytes == 0) return m_impl->cut();
    m_impl->cut_at = m_impl->from_server + bytes;
}

void SlowLink::refuse(bool refuses) {
    m_impl->refuses = refuses;
}

uint64_t SlowLink::bytes_from_server() const {
    return m_impl->from_server;
}

} // namespace refreshlab::test
