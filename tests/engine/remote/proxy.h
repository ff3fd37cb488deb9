#pragma once

#include "engine/remote/endpoint.h"

#include <chrono>
#include <cstdint>
#include <memory>

namespace refreshlab::test {

/// A link on the loopback that is as slow as a test wants, and that breaks where it wants. What comes to its port goes to a server, and
/// back, in the same order.
class SlowLink {
public:
    struct Speed {
        double bytes_per_s = 0;             ///< of each direction; 0: as fast as it goes
        std::chrono::milliseconds delay{0}; ///< of each direction
    };
    /// \param to  a TCP port of this machine
    SlowLink(const remote::Endpoint& to, Speed speed);
    ~SlowLink();
    SlowLink(const SlowLink&) = delete;
    SlowLink& operator=(const SlowLink&) = delete;

    [[nodiscard]] remote::Endpoint endpoint() const;
    /// Ends all connections when so many bytes have come from the server since now, wherever that is in a message.
    void cut_after(uint64_t bytes);
    /// Refuses connections from now on, or takes them again.
    void refuse(bool refuses);
    [[nodiscard]] uint64_t bytes_from_server() const;

private:
    struct Impl;
    std::unique_ptr<Impl> m_impl;
};

} // namespace refreshlab::test
