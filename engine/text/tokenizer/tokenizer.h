#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// What a tokenizer's decoder does to a text as a whole, beyond joining the bytes of its tokens.
struct TextRule {
    int32_t leading_spaces =
        0; ///< a text loses so many spaces in front (SentencePiece puts one before a prompt)
    bool byte_fallback =
        false; ///< each ill-formed byte becomes U+FFFD; else each maximal ill-formed sequence does
    bool operator==(const TextRule&) const = default;
};

/// Bytes of token ids, and nothing else of a tokenizer. A recording keeps these, so a trace can be read where the model
/// is not. Thread-safe to read.
class TokenTable {
public:
    virtual ~TokenTable() = default;
    /// Raw bytes of one id inside a text (may be part of a UTF-8 sequence); empty for an unknown id.
    [[nodiscard]] virtual std::string_view token_bytes(int32_t id) const = 0;
    [[nodiscard]] virtual bool is_special(int32_t id) const = 0;
};

/// Text of ids, from what a trace keeps. It is what `transformers`' decode(ids, skip_special_tokens=True) gives, with
/// two differences. The clean_up_tokenization_spaces of some folders (Llama 3) is left out: it takes spaces out of what
/// the model wrote. And in a model with byte fallback, a run of byte tokens that is ill-formed in part keeps its
/// well-formed part; the library replaces all of it.
[[nodiscard]] std::string joined_text(const TokenTable& table, const TextRule& rule,
                                      std::span<const int32_t> ids);

/// BPE of a Hugging Face tokenizer.json: added tokens, normalizer, pre-tokenizers, merges, post-processor, decoder. Ids are
/// identical to those of the `tokenizers` library. Immutable and thread-safe after load.
///
/// Byte-level models (GPT-2, Llama 3, Qwen): pre-tokenizers Split (regex via PCRE2, all behaviours), Digits, Metaspace and
/// at last ByteLevel. Models of characters with byte fallback (Llama 2, Mistral: SentencePiece's BPE): no pre-tokenizer, or
/// Metaspace, Split, Digits. For both: merges in both spellings, ignore_merges, unk_token, fuse_unk; normalizers NFC,
/// Prepend, Replace, Sequence, none; post-processors ByteLevel, TemplateProcessing, Sequence; added tokens with lstrip,
/// rstrip, single_word, normalized. Decoders: decoder.h. Anything else is refused by name. The file's truncation and
/// padding are ignored. tokenizer_config.json is not read, as in `transformers` 5 where a folder has a tokenizer.json.
/// In published folders (Llama 2 and 3, Mistral, Qwen) its add_bos_token, add_eos_token, legacy and add_prefix_space do
/// not change ids. Special tokens that only tokenizer_config.json knows are not added.
/// Source: Sennrich et al. 2016 (BPE); Radford et al. 2019 (byte level); Kudo and Richardson 2018 (SentencePiece).
class Tokenizer final : public TokenTable {
public:
    /// Reads folder/tokenizer.json. Throws Error{bad_input} naming the file and what is missing or unsupported.
    [[nodiscard]] static std::shared_ptr<const Tokenizer> load(const std::filesystem::path& folder);
    /// The same from the text of a tokenizer.json. \param what  whose it is, for messages
    [[nodiscard]] static std::shared_ptr<const Tokenizer> parse(std::string_view json,
                                                                const std::string& what);
    /// The same from a document. \param doing, what  for messages: "reading the tokenizer of", a file
    [[nodiscard]] static std::shared_ptr<const Tokenizer>
    make(const nlohmann::json& document, const std::string& doing, const std::string& what);

    Tokenizer(const Tokenizer&) = delete;
    Tokenizer& operator=(const Tokenizer&) = delete;
    ~Tokenizer() override;

    /// Ids of text. Added tokens in the text are recognised, special ones too (a chat template writes them literally).
    /// \param text  valid UTF-8, else Error{bad_input} naming the byte offset
    /// \param add_special_tokens  run the post-processor (it adds a begin token, for example); false after a chat template
    [[nodiscard]] std::vector<int32_t> encode(std::string_view text, bool add_special_tokens = false) const;

    /// Ids that `encode(text, true)` puts before those of the text: a begin token, mostly, or nothing.
    [[nodiscard]] const std::vector<int32_t>& begin_ids() const;

    /// Text of ids; special tokens skipped unless asked for. A byte-level model gives bytes, and invalid UTF-8 stays as
    /// it is (see Utf8Stream and TextStream). Other models give text as the library does. An added token of a
    /// byte-level model gives its content as it stands in the text (the library garbles its letters beyond ASCII).
    [[nodiscard]] std::string decode(std::span<const int32_t> ids, bool skip_special = true) const;

    [[nodiscard]] TextRule text_rule() const;

    [[nodiscard]] int32_t vocab_size() const; ///< largest id + 1, added tokens included
    [[nodiscard]] std::string_view token_bytes(int32_t id) const override;
    [[nodiscard]] bool is_special(int32_t id) const override;
    [[nodiscard]] std::optional<int32_t>
    id_of(std::string_view added_token) const; ///< exact content of an added token

    /// A digest of everything that maps text to ids, however the file spells it: equal digests mean equal ids for equal
    /// text. There is one exception, in models of characters. The scores of a SentencePiece model do not order the
    /// merges that make one piece, nor runs of one character with one score ("  ", "    "). Converters of different
    /// ages wrote different orders, so these orders do not count. A long run could then be cut in another way.
    [[nodiscard]] const std::string& fingerprint() const;

private:
    friend class TextStream;
    struct Impl;
    explicit Tokenizer(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> m_impl;
};

/// Gives the text of ids as they come, always as well-formed UTF-8. What push() and finish() return, joined, is what the
/// library's decode gives for all ids at once. The stream holds back what is not certain yet: the bytes of an unfinished
/// character and, with byte fallback, the whole run of byte tokens (one bad byte turns each of its bytes into U+FFFD).
///
/// It also drops the space that a SentencePiece model puts before a text. token_bytes() cannot: it sees one token
/// alone.
class TextStream {
public:
    explicit TextStream(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special = true);
    TextStream(TextStream&&) noexcept;
    TextStream& operator=(TextStream&&) noexcept;
    ~TextStream();
    [[nodiscard]] std::string push(int32_t id); ///< an unknown id gives nothing
    [[nodiscard]] std::string finish();         ///< what is left; call once, at the end

private:
    struct State;
    std::shared_ptr<const Tokenizer> m_tokenizer;
    std::unique_ptr<State> m_state;
    bool m_skip_special;
};

} // namespace refreshlab
