#include "engine/remote/endpoint.h"
#include "engine/remote/wire.h"
#include "tests/support/refused.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <random>

namespace wire_test {

using namespace refreshlab;
using namespace refreshlab::remote;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

void append(Bytes& to, const Bytes& more) {
    to.insert(to.end(), more.begin(), more.end());
}

/// Fed in pieces of random sizes.
std::vector<Incoming> feed_in_pieces(FrameReader& reader, const Bytes& bytes, std::mt19937& random) {
    std::vector<Incoming> all;
    for (size_t at = 0; at < bytes.size();) {
        const size_t size = std::min<size_t>(bytes.size() - at, 1 + random() % 40);
        for (Incoming& incoming : reader.feed(std::span(bytes).subspan(at, size)))
            all.push_back(std::move(incoming));
        at += size;
    }
    return all;
}

} // namespace

TEST_CASE("messages come whole and in order, whatever the pieces of the stream", "[remote]") {
    std::mt19937 random(test::seed(1));
    Bytes stream = preamble();
    std::vector<Bytes> sent;
    Bytes heavy;
    size_t heavy_at = 0;
    for (int i = 0; i < 200; ++i) {
        Bytes body(random() % 300);
        for (uint8_t& byte : body)
            byte = static_cast<uint8_t>(random());
        switch (random() % 3) {
        case 0:
            append(stream, frame(Channel::messages, body));
            sent.push_back(body);
            break;
        case 1:
            append(stream, frame(Channel::received, received_body(i)));
            break;
        default: { // a part of a heavy message, between the others
            if (heavy_at == heavy.size()) {
                heavy = body;
                heavy.push_back(1);
                heavy_at = 0;
            }
            const size_t size = std::min<size_t>(heavy.size() - heavy_at, 1 + random() % 100);
            const auto part = std::span(heavy).subspan(heavy_at, size);
            heavy_at += size;
            append(stream, frame(Channel::heavy, part, heavy_at < heavy.size()));
            if (heavy_at == heavy.size()) sent.push_back(heavy);
        }
        }
    }
    FrameReader reader(1000);
    const auto came = feed_in_pieces(reader, stream, random);
    REQUIRE(!came.empty());
    CHECK(came.front().kind == Incoming::Kind::version);
    CHECK(came.front().number == protocol_version);
    std::vector<Bytes> messages;
    for (const Incoming& incoming : came)
        if (incoming.kind == Incoming::Kind::message) messages.push_back(incoming.body);
    CHECK(messages == sent);
}

TEST_CASE("a message crosses as it is", "[remote]") {
    const json message = {{"type", "status"},
                          {"numbers", {1, -1, 1.5, 0.1, int64_t{1} << 60, -0.0}},
                          {"bytes", json::binary({0, 255, 7})},
                          {"none", nullptr},
                          {"deep", {{"a", {{"b", json::array()}}}}}};
    CHECK(from_bytes(to_bytes(message)) == message);
    const json nan = from_bytes(to_bytes(json(std::numeric_limits<double>::quiet_NaN())));
    CHECK(std::isnan(nan.get<double>()));
}

TEST_CASE("what is no protocol is refused in words", "[remote]") {
    std::mt19937 random(test::seed(2));
    const auto feed = [&](const Bytes& bytes) {
        FrameReader reader(100);
        return feed_in_pieces(reader, bytes, random);
    };
    const std::string http = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    CHECK_THROWS_WITH(feed(Bytes(http.begin(), http.end())), ContainsSubstring("no RefreshLab"));
    Bytes wrong = preamble();
    append(wrong, frame(static_cast<Channel>(9), {}));
    CHECK_THROWS_WITH(feed(wrong), ContainsSubstring("no known kind"));
    Bytes parts = preamble();
    append(parts, frame(Channel::messages, {}, true));
    CHECK_THROWS_AS(feed(parts), ProtocolError);
    Bytes count = preamble();
    append(count, frame(Channel::received, Bytes{1, 2}));
    CHECK_THROWS_AS(feed(count), ProtocolError);
    SECTION("too long, in one frame or in parts, before it has come") {
        Bytes longer = preamble();
        append(longer, frame(Channel::messages, Bytes(101)));
        longer.resize(longer.size() - 101);
        CHECK_THROWS_WITH(feed(longer), ContainsSubstring("more than 100 bytes"));
        Bytes many = preamble();
        for (int i = 0; i < 3; ++i)
            append(many, frame(Channel::heavy, Bytes(40), true));
        CHECK_THROWS_WITH(feed(many), ContainsSubstring("more than 100 bytes"));
    }
    SECTION("nested deeper than any message") {
        Bytes deep(200'000, 0x81); // arrays of one
        CHECK_THROWS_WITH(from_bytes(deep), ContainsSubstring("too deep"));
        json fits = 1;
        for (size_t i = 0; i < deepest_message; ++i)
            fits = json::array({fits});
        CHECK(from_bytes(to_bytes(fits)) == fits);
        CHECK_THROWS_AS(from_bytes(to_bytes(json::array({fits}))), ProtocolError);
    }
    SECTION("a length that no memory has") {
        CHECK_THROWS_AS(from_bytes(Bytes{0x9B, 0x7F, 255, 255, 255, 255, 255, 255, 255}), ProtocolError);
        CHECK_THROWS_AS(from_bytes(Bytes{0x5B, 0x7F, 255, 255, 255, 255, 255, 255, 255}), ProtocolError);
    }
    CHECK_THROWS_AS(from_bytes(Bytes{}), ProtocolError);
    CHECK_THROWS_AS(from_bytes(Bytes{0x01, 0x01}), ProtocolError); // two values
}

namespace {

/// Damaged messages of a client, each in a stream of its own.
void read_damaged(int count, std::mt19937 random) {
    const json message = {
        {"type", "command"}, {"ticket", 7}, {"command", {{"command", "step"}, {"steps", 3}}}};
    int refused = 0, taken = 0;
    for (int i = 0; i < count; ++i) {
        Bytes stream = preamble();
        append(stream, frame(Channel::messages, to_bytes(message)));
        append(stream, frame(Channel::heavy, to_bytes(message)));
        for (uint32_t change = 1 + random() % 4; change > 0; --change)
            switch (random() % 3) {
            case 0:
                stream[random() % stream.size()] = static_cast<uint8_t>(random());
                break;
            case 1:
                stream.erase(stream.begin() + static_cast<std::ptrdiff_t>(random() % stream.size()));
                break;
            default:
                stream.insert(stream.begin() + static_cast<std::ptrdiff_t>(random() % stream.size()),
                              static_cast<uint8_t>(random()));
            }
        FrameReader reader(4096);
        try {
            for (const Incoming& incoming : reader.feed(stream))
                if (incoming.kind == Incoming::Kind::message) static_cast<void>(from_bytes(incoming.body));
            ++taken;
        } catch (const ProtocolError&) {
            ++refused;
        }
    }
    CHECK(refused > count / 20);
    CHECK(taken > count / 20);
}

} // namespace

TEST_CASE("random and damaged bytes give messages or a ProtocolError, and nothing else", "[remote]") {
    read_damaged(20'000, std::mt19937(test::seed(3)));
}

TEST_CASE("a million damaged messages", "[.fuzz]") {
    read_damaged(1'000'000, std::mt19937(test::seed(31)));
}

TEST_CASE("an address is read and written", "[remote]") {
    for (const char* text :
         {"127.0.0.1:7457", "localhost:1", "[::1]:80", "unix:/run/x.sock", "gpu.example:7457"})
        CHECK(to_string(parse_endpoint(text, "--connect")) == text);
    CHECK(parse_endpoint("gpu", "--connect").port == default_port);
    CHECK(parse_endpoint("[::1]", "--connect").host == "::1");
    CHECK(parse_endpoint("127.0.0.1:0", "--listen").is_local());
    CHECK(parse_endpoint("unix:x", "--listen").is_local());
    CHECK(!parse_endpoint("0.0.0.0:7457", "--listen").is_local());
    CHECK(!parse_endpoint("127x.example:1", "--listen").is_local());
    for (const char* text :
         {"", ":1", "a:", "a:70000", "a:1x", "a b:1", "::1", "[::1", "[::1]x", "unix:", "ada@gpu:1"}) {
        INFO(text);
        CHECK_THROWS_AS(parse_endpoint(text, "--connect"), Error);
    }
    CHECK_THROWS_AS(parse_endpoint("unix:" + std::string(200, 'x'), "--connect"), Error);
}

} // namespace wire_test
