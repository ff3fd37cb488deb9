#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// Bytes of token ids, without anything else of a tokenizer: what a recording keeps, so that a trace can be read where
/// the model is not. Thread-safe to read.
class TokenTable {
public:
    virtual ~TokenTable() = default;
    /// Raw bytes of one id (may be part of a UTF-8 sequence); empty for an unknown id.
    [[nodiscard]] virtual std::string_view token_bytes(int32_t id) const = 0;
    [[nodiscard]] virtual bool is_special(int32_t id) const = 0;
};

/// Byte-level BPE of a Hugging Face tokenizer.json: added tokens, pre-tokenizers, merges, post-processor. Ids are
/// identical to those of the `tokenizers` library. Immutable and thread-safe after load.
///
/// Supported: model BPE (merges in both spellings, ignore_merges, byte_fallback refused with a clear message until it is
/// there), pre-tokenizers ByteLevel, Split (regex via PCRE2, all behaviours), Digits, Sequence; normalizers NFC, Prepend,
/// Replace, Sequence, none; post-processors ByteLevel, TemplateProcessing, Sequence; added tokens with lstrip, rstrip,
/// single_word, normalized. Anything else is refused by name. The file's truncation and padding are left aside.
/// Source: Sennrich et al. 2016 (BPE); Radford et al. 2019 (byte level).
class Tokenizer final : public TokenTable {
public:
    /// Reads folder/tokenizer.json. Throws Error{bad_input} naming the file and what is missing or unsupported.
    [[nodiscard]] static std::shared_ptr<const Tokenizer> load(const std::filesystem::path& folder);

    Tokenizer(const Tokenizer&) = delete;
    Tokenizer& operator=(const Tokenizer&) = delete;
    ~Tokenizer() override;

    /// Ids of text. Added tokens in the text are recognised, special ones too (a chat template writes them literally).
    /// \param text  valid UTF-8, else Error{bad_input} naming the byte offset
    /// \param add_special_tokens  run the post-processor (adds e.g. a begin token); false behind a chat template
    [[nodiscard]] std::vector<int32_t> encode(std::string_view text, bool add_special_tokens = false) const;

    /// Bytes of ids; special tokens skipped unless asked for. Invalid UTF-8 is kept as it is (see Utf8Stream). An added
    /// token gives its content as it stands in the text (the library garbles letters beyond ASCII in one).
    [[nodiscard]] std::string decode(std::span<const int32_t> ids, bool skip_special = true) const;

    [[nodiscard]] int32_t vocab_size() const; ///< largest id + 1, added tokens included
    [[nodiscard]] std::string_view token_bytes(int32_t id) const override;
    [[nodiscard]] bool is_special(int32_t id) const override;
    [[nodiscard]] std::optional<int32_t>
    id_of(std::string_view added_token) const; ///< exact content of an added token

    /// A digest of everything that maps text to ids: equal digests mean equal ids for equal text.
    [[nodiscard]] const std::string& fingerprint() const;

private:
    struct Impl;
    explicit Tokenizer(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> m_impl;
};

} // namespace refreshlab
