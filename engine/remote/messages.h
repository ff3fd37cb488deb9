#pragma once

/// Names of the messages (docs/reference/protocol.md): {"type": NAME, ...}.
namespace refreshlab::remote::message {

// from the client
inline constexpr auto hello = "hello", command = "command", outlook_asked = "outlook_asked", wheel = "wheel",
                      look = "look", bye = "bye", offers_asked = "offers_asked", file_asked = "file_asked",
                      file_left = "file_left", note = "note", look_score = "look_score";
// from the server
inline constexpr auto welcome = "welcome", refused = "refused", status = "status", rows = "rows",
                      link = "link", outlook = "outlook", taken = "taken", refusal = "refusal",
                      offers = "offers", file = "file", notes = "notes", scores = "scores";

} // namespace refreshlab::remote::message
