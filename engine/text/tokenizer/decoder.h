#pragma once

#include "engine/text/regex/regex.h"
#include "engine/text/tokenizer/json_fields.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// The `decoder` of a tokenizer.json: which text a token stands for, and what happens where tokens join.
///
/// Supported: ByteLevel for byte-level models; for the others Replace, Strip and Metaspace (of each token), then
/// ByteFallback, then Fuse, then Strip (of the whole text). Anything else, and any other order, is refused by name: it
/// could not be decoded token by token.
class Decoder {
public:
    Decoder() = default; ///< ByteLevel
    /// \param byte_level  the model's pieces are spelt in ByteAlphabet
    /// Throws Error{bad_input} naming what is not supported.
    Decoder(const FileFields& fields, bool byte_level);

    struct Piece {
        std::string text;     ///< well-formed UTF-8, or one byte
        bool is_byte = false; ///< ByteFallback: a run of these is a text only as a whole
    };
    /// What a token stands for by itself; the tokens around it may change that. Not for byte-level models.
    /// \param first  no token stands before it
    [[nodiscard]] Piece piece(std::string_view token, bool first) const;

    /// Characters taken from the start of the whole text.
    struct Strip {
        std::string character;
        size_t most; ///< how many
    };
    [[nodiscard]] const std::vector<Strip>& strips() const { return m_strips; } ///< in order
    [[nodiscard]] bool byte_fallback() const { return m_byte_fallback; }
    [[nodiscard]] bool start_is_bare() const; ///< the first token loses its signs for a space

private:
    enum class Kind { replace, strip, metaspace };
    struct Step {
        Kind kind;
        std::vector<Regex> pattern; ///< of replace: exactly one
        std::string text;           ///< put in; taken away; the sign for a space
        size_t most = 0;            ///< of strip
        bool start_is_bare = false; ///< of metaspace: the first token loses its signs
    };
    void add(const FileFields& fields, bool byte_level, int depth);
    void add_strip(const FileFields& fields);

    std::vector<Step> m_steps;
    std::vector<Strip> m_strips;
    bool m_byte_fallback = false;
    bool m_fused = false;
};

/// Joins the texts of tokens as they come, by the rules of a Decoder. It holds back what could still change.
class JoinedText {
public:
    explicit JoinedText(const Decoder& decoder); ///< which must outlive this
    [[nodiscard]] std::string push(std::string_view token);
    [[nodiscard]] std::string finish();

private:
    [[nodiscard]] std::string take_bytes();
    [[nodiscard]] std::string stripped(std::string text);

    const Decoder* m_decoder;
    std::string m_bytes;        ///< of the run of byte tokens that is open
    std::vector<size_t> m_left; ///< by strip: how many characters it may still take
    bool m_first = true;
};

} // namespace refreshlab
