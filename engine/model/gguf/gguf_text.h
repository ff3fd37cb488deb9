#pragma once

#include "engine/model/gguf/gguf_file.h"

#include <memory>
#include <string>

namespace refreshlab {

class ChatTemplate;
class Tokenizer;

/// The tokenizer that the metadata describe, made as the tokenizer.json of the same model would make it: ids are those of
/// the `tokenizers` library with that file.
///
/// tokenizer.ggml.model  gpt2: byte-level BPE, cut into words as tokenizer.ggml.pre says. llama: SentencePiece's BPE, merges
///                       made from the scores, bytes for what has no piece.
/// special tokens        control and unknown tokens are special, user-defined ones are cut out of a text as well. A begin
///                       or end token is added as add_bos_token and add_eos_token say, or where they are silent, as the
///                       model family does.
/// Throws Error{bad_input} naming the key: another model, a `pre` that is not known here, a list that does not fit.
/// Source: llama.cpp, src/llama-vocab.cpp (`pre`, flags); transformers, convert_slow_tokenizer.py (merges from scores).
[[nodiscard]] std::shared_ptr<const Tokenizer> gguf_tokenizer(const GgufFile& file);

/// The text of tokenizer.json and of tokenizer_config.json (begin and end token, chat template) of the same model, as the
/// `tokenizers` and `transformers` libraries read them. Throws as gguf_tokenizer().
[[nodiscard]] std::string gguf_tokenizer_json(const GgufFile& file);
[[nodiscard]] std::string gguf_tokenizer_config_json(const GgufFile& file);

/// tokenizer.chat_template; null where there is none. Throws Error{bad_input} as ChatTemplate does.
[[nodiscard]] std::shared_ptr<const ChatTemplate> gguf_chat_template(const GgufFile& file);

/// A digest of all that gguf_tokenizer() reads. Files with equal digests have equal tokenizers.
[[nodiscard]] std::string gguf_tokenizer_digest(const GgufFile& file);

} // namespace refreshlab
