#pragma once

#include "engine/remote/endpoint.h"

#include <string>

namespace refreshlab::remote {

/// A way to a server that has to be made before its address can be reached.
class Road {
public:
    virtual ~Road() = default;
    /// What a person calls the server: "ssh://ada@server".
    [[nodiscard]] virtual std::string name() const = 0;
    /// Makes the way where it is not there, or not any more, and waits for it. One thread. Throws Error.
    /// \return where the server is to be reached now
    [[nodiscard]] virtual Endpoint open() = 0;
    /// open() ends soon, with an Error, now and from now on. Any thread.
    virtual void give_up() = 0;
};

} // namespace refreshlab::remote
