#include "engine/text/tokenizer/tokenizer.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/text/digest.h"
#include "engine/text/tokenizer/added_tokens.h"
#include "engine/text/tokenizer/bpe.h"
#include "engine/text/tokenizer/byte_alphabet.h"
#include "engine/text/tokenizer/decoder.h"
#include "engine/text/tokenizer/json_fields.h"
#include "engine/text/tokenizer/normalizer.h"
#include "engine/text/tokenizer/pre_tokenizer.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

namespace refreshlab {

namespace {

constexpr size_t max_file_bytes = size_t{256} << 20;
constexpr size_t max_table_bytes = size_t{1} << 30;
constexpr size_t max_text_bytes = size_t{1} << 30; // places in a word are 32-bit numbers
constexpr const char* reading = "reading tokenizer.json of";

/// The `post_processor`: ids around the text's own. Steps of a sequence nest from the inside out.
class PostProcessor {
public:
    PostProcessor() = default;
    PostProcessor(const FileFields& fields, int64_t vocab_size) { add(fields, vocab_size, 0); }

    [[nodiscard]] std::vector<int32_t> apply(std::vector<int32_t> ids) const {
        for (const std::vector<Part>& single : m_templates) {
            std::vector<int32_t> out;
            for (const Part& part : single) {
                const std::vector<int32_t>& from = part.is_text ? ids : part.ids;
                out.insert(out.end(), from.begin(), from.end());
            }
            ids = std::move(out);
        }
        return ids;
    }

    /// What stands before the text.
    [[nodiscard]] std::vector<int32_t> before() const {
        std::vector<int32_t> ids;
        for (const std::vector<Part>& single : m_templates) {
            std::vector<int32_t> outer;
            for (const Part& part : single) {
                if (part.is_text) break;
                outer.insert(outer.end(), part.ids.begin(), part.ids.end());
            }
            ids.insert(ids.begin(), outer.begin(), outer.end());
        }
        return ids;
    }

private:
    struct Part {
        bool is_text;
        std::vector<int32_t> ids;
    };

    void add(const FileFields& fields, int64_t vocab_size, int depth) {
        const std::string type = fields.text("type");
        if (type == "ByteLevel") return; // moves offsets, not ids
        if (type == "Sequence" && depth < 8) {
            const size_t count = fields.array("processors").size();
            for (size_t i = 0; i < count; ++i)
                add(fields.element("processors", i), vocab_size, depth + 1);
        } else if (type == "TemplateProcessing") {
            if (m_templates.size() == 4) fields.fail("", "more than 4 templates");
            m_templates.push_back(read_template(fields, vocab_size));
        } else {
            fields.fail("type", fmt::format("post-processor {} is not supported", visible_text(type, 60)),
                        "supported are ByteLevel, TemplateProcessing and Sequence");
        }
    }

    static std::vector<Part> read_template(const FileFields& fields, int64_t vocab_size) {
        std::vector<Part> parts;
        size_t texts = 0;
        const size_t count = fields.array("single").size();
        if (count > 64) fields.fail("single", "more than 64 parts");
        for (size_t i = 0; i < count; ++i) {
            const FileFields entry = fields.element("single", i);
            if (entry.find("Sequence") != nullptr) {
                if (entry.object("Sequence").text("id") != "A")
                    entry.fail("Sequence", "only A stands in a single text");
                if (++texts > 1) entry.fail("Sequence", "the text appears twice");
                parts.push_back({true, {}});
                continue;
            }
            const std::string name = entry.object("SpecialToken").text("id");
            const FileFields tokens = fields.object("special_tokens");
            if (tokens.find(name.c_str()) == nullptr) {
                tokens.fail("", fmt::format("\"{}\" missing", visible_text(name, 60)));
            }
            Part part{false, {}};
            const FileFields token = tokens.object(name.c_str());
            for (const nlohmann::json& id : token.array("ids")) {
                if (!id.is_number_integer() || id < 0 || id >= vocab_size) {
                    token.fail("ids", fmt::format("ids from 0 to {} expected", vocab_size - 1));
                }
                part.ids.push_back(id.get<int32_t>());
            }
            parts.push_back(std::move(part));
        }
        return parts;
    }

    std::vector<std::vector<Part>> m_templates;
};

} // namespace

struct Tokenizer::Impl {
    Normalizer normalizer;
    PreTokenizer pre_tokenizer;
    bool byte_level = false;
    std::optional<Bpe> bpe;
    AddedTokens added;
    PostProcessor post_processor;
    Decoder decoder;
    std::vector<const std::string*> pieces; ///< by id, as the file spells them; null: no such id
    std::string bytes;                      ///< of all tokens, one after the other
    std::vector<uint32_t> offsets;          ///< by id, and one more: where in `bytes`
    std::unordered_map<std::string, int32_t> added_ids;
    std::unordered_set<int32_t> special;
    std::vector<int32_t> begin_ids;
    std::string fingerprint;

    explicit Impl(const FileFields& root);
    void read_decoder(const FileFields& root);
    void make_byte_table();
    void make_fingerprint();
    [[nodiscard]] int32_t vocab_size() const { return static_cast<int32_t>(offsets.size()) - 1; }
    [[nodiscard]] std::string_view token_bytes(int32_t id) const {
        if (id < 0 || id >= vocab_size()) return {};
        const auto i = static_cast<size_t>(id);
        return std::string_view(bytes).substr(offsets[i], offsets[i + 1] - offsets[i]);
    }
    [[nodiscard]] const std::string* piece(int32_t id) const {
        return id < 0 || id >= vocab_size() ? nullptr : pieces[static_cast<size_t>(id)];
    }
};

Tokenizer::Impl::Impl(const FileFields& root) {
    if (root.find("normalizer") != nullptr) normalizer = Normalizer(root.object("normalizer"));
    if (root.find("pre_tokenizer") != nullptr) pre_tokenizer = PreTokenizer(root.object("pre_tokenizer"));
    byte_level = pre_tokenizer.is_byte_level();
    if (pre_tokenizer.needs_start() && !normalizer.only_nfc()) {
        root.fail("pre_tokenizer",
                  "Metaspace with prepend_scheme first after a normalizer that puts in or replaces "
                  "text is not supported");
    }
    bpe.emplace(root.object("model"), byte_level ? Bpe::Alphabet::bytes : Bpe::Alphabet::characters);
    added = AddedTokens(root, *bpe, normalizer);
    read_decoder(root);
    make_byte_table();
    if (root.find("post_processor") != nullptr) {
        post_processor = PostProcessor(root.object("post_processor"), vocab_size());
        begin_ids = post_processor.before();
    }
    make_fingerprint();
}

void Tokenizer::Impl::read_decoder(const FileFields& root) {
    if (root.find("decoder") != nullptr) {
        decoder = Decoder(root.object("decoder"), byte_level);
    } else if (!byte_level) {
        root.fail("decoder", "missing; without one it is not known how tokens join",
                  "is the pre_tokenizer ByteLevel missing?");
    }
}

void Tokenizer::Impl::make_byte_table() {
    const int32_t largest =
        std::max(bpe->largest_id(), added.by_id().empty() ? -1 : added.by_id().rbegin()->first);
    pieces.resize(static_cast<size_t>(largest) + 1, nullptr);
    for (const auto& [piece, id] : bpe->vocab())
        pieces[static_cast<size_t>(id)] = &piece;
    for (const auto& [id, token] : added.by_id()) {
        pieces[static_cast<size_t>(id)] = &token.content;
        added_ids.emplace(token.content, id);
        if (token.special) special.insert(id);
    }
    offsets.reserve(pieces.size() + 1);
    for (size_t i = 0; i < pieces.size(); ++i) {
        if (bytes.size() > max_table_bytes) // a decoder may make each token longer
            throw Error(reading, {}, fmt::format("its tokens stand for more than {} bytes", max_table_bytes));
        offsets.push_back(static_cast<uint32_t>(bytes.size()));
        if (pieces[i] == nullptr) continue;
        if (!byte_level) {
            bytes += decoder.piece(*pieces[i], false).text;
        } else if (added.by_id().contains(static_cast<int32_t>(i))) { // as it stands in the text
            bytes += *pieces[i];
        } else { // a piece with characters outside the alphabet can only be a name; it stands for itself
            bytes += ByteAlphabet::bytes(*pieces[i]).value_or(*pieces[i]);
        }
    }
    offsets.push_back(static_cast<uint32_t>(bytes.size()));
}

void Tokenizer::Impl::make_fingerprint() {
    Digest digest;
    // Pieces by id: whether a file lists its added tokens in the vocabulary as well makes no difference to ids.
    for (size_t i = 0; i < pieces.size(); ++i) {
        if (pieces[i] == nullptr) continue;
        digest.add(uint64_t{i});
        digest.add(*pieces[i]);
    }
    bpe->describe(digest);
    // Where nothing is normalised, and for one kind alone, the two passes over added tokens find the same.
    const auto& listed = added.listed();
    const bool one_pass =
        normalizer.is_identity() && std::all_of(listed.begin(), listed.end(), [&](const auto& token) {
            return token.normalized == listed.front().normalized;
        });
    for (const auto& [id, token] : added.by_id()) {
        digest.add(uint64_t{static_cast<uint32_t>(id)});
        for (const bool flag : {token.single_word, token.lstrip, token.rstrip, !one_pass && token.normalized})
            digest.add(uint64_t{flag});
    }
    normalizer.describe(digest);
    pre_tokenizer.describe(digest);
    constexpr int32_t text = -1;
    for (const int32_t id : post_processor.apply({text}))
        digest.add(static_cast<uint64_t>(int64_t{id}));
    fingerprint = digest.hex();
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl)
    : m_impl(std::move(impl)) {}

Tokenizer::~Tokenizer() = default;

std::shared_ptr<const Tokenizer> Tokenizer::load(const std::filesystem::path& folder) {
    const std::filesystem::path file = folder / "tokenizer.json";
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored) &&
        std::filesystem::exists(folder / "tokenizer.model", ignored)) {
        throw Error(reading, folder.string(), "no such file, only SentencePiece's tokenizer.model",
                    "save the tokenizer with transformers, which writes a tokenizer.json");
    }
    const nlohmann::json json = read_json_file(file, max_file_bytes);
    return std::shared_ptr<const Tokenizer>(
        new Tokenizer(std::make_unique<Impl>(FileFields(json, reading, folder.string(), ""))));
}

std::shared_ptr<const Tokenizer> Tokenizer::parse(std::string_view json, const std::string& what) {
    return make(parse_json(json, what), reading, what);
}

std::shared_ptr<const Tokenizer> Tokenizer::make(const nlohmann::json& document, const std::string& doing,
                                                 const std::string& what) {
    return std::shared_ptr<const Tokenizer>(
        new Tokenizer(std::make_unique<Impl>(FileFields(document, doing, what, ""))));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
    if (text.size() > max_text_bytes) {
        throw Error("tokenizing text", {}, fmt::format("longer than {} bytes", max_text_bytes));
    }
    if (const auto offset = first_invalid_utf8(text)) {
        throw Error("tokenizing text", {}, fmt::format("not UTF-8 at byte {}", *offset));
    }
    std::vector<int32_t> ids;
    // Words repeat: within one text each is merged once. Its own table per call keeps the tokenizer free of locks.
    std::unordered_map<std::string, std::pair<uint32_t, uint32_t>>
        known; // where in ids a word's first result stands
    const auto word = [&](std::string_view bytes) {
        constexpr size_t longest_known = 64;
        if (bytes.size() < 2 || bytes.size() > longest_known) {
            m_impl->bpe->encode_word(bytes, ids);
            return;
        }
        const auto begin = static_cast<uint32_t>(ids.size());
        const auto [entry, fresh] = known.try_emplace(std::string(bytes));
        if (fresh) {
            m_impl->bpe->encode_word(bytes, ids);
            entry->second = {begin, static_cast<uint32_t>(ids.size()) - begin};
            return;
        }
        const auto [from, count] = entry->second;
        for (uint32_t i = 0; i < count; ++i)
            ids.push_back(ids[from + i]);
    };
    m_impl->added.split(
        text, m_impl->normalizer, [&](int32_t id) { ids.push_back(id); },
        [&](std::string_view piece, bool at_start) { m_impl->pre_tokenizer.split(piece, at_start, word); });
    return add_special_tokens ? m_impl->post_processor.apply(std::move(ids)) : ids;
}

const std::vector<int32_t>& Tokenizer::begin_ids() const {
    return m_impl->begin_ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
    std::string text;
    JoinedText joined(m_impl->decoder);
    for (const int32_t id : ids) {
        if (skip_special && is_special(id)) continue;
        if (m_impl->byte_level) {
            text += m_impl->token_bytes(id);
        } else if (const std::string* piece = m_impl->piece(id)) {
            text += joined.push(*piece);
        }
    }
    return text + joined.finish();
}

struct TextStream::State {
    explicit State(const Decoder& decoder)
        : joined(decoder) {}
    Utf8Stream utf8; ///< of a byte-level model
    JoinedText joined;
};

TextStream::TextStream(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special)
    : m_tokenizer(std::move(tokenizer))
    , m_state(std::make_unique<State>(m_tokenizer->m_impl->decoder))
    , m_skip_special(skip_special) {}
TextStream::TextStream(TextStream&&) noexcept = default;
TextStream& TextStream::operator=(TextStream&&) noexcept = default;
TextStream::~TextStream() = default;

std::string TextStream::push(int32_t id) {
    const Tokenizer::Impl& impl = *m_tokenizer->m_impl;
    if (m_skip_special && impl.special.contains(id)) return {};
    if (impl.byte_level) return m_state->utf8.push(impl.token_bytes(id));
    const std::string* piece = impl.piece(id);
    return piece == nullptr ? std::string() : m_state->joined.push(*piece);
}

std::string TextStream::finish() {
    return m_state->utf8.finish() + m_state->joined.finish();
}

int32_t Tokenizer::vocab_size() const {
    return m_impl->vocab_size();
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
    return m_impl->token_bytes(id);
}

bool Tokenizer::is_special(int32_t id) const {
    return m_impl->special.contains(id);
}

std::optional<int32_t> Tokenizer::id_of(std::string_view added_token) const {
    const auto found = m_impl->added_ids.find(std::string(added_token));
    return found == m_impl->added_ids.end() ? std::nullopt : std::optional<int32_t>(found->second);
}

TextRule Tokenizer::text_rule() const {
    TextRule rule;
    if (m_impl->byte_level) return rule;
    for (const Decoder::Strip& strip : m_impl->decoder.strips()) {
        if (strip.character == " ") rule.leading_spaces += static_cast<int32_t>(strip.most);
    }
    if (m_impl->decoder.start_is_bare()) rule.leading_spaces += 1;
    rule.byte_fallback = m_impl->decoder.byte_fallback();
    return rule;
}

std::string joined_text(const TokenTable& table, const TextRule& rule, std::span<const int32_t> ids) {
    std::string bytes;
    for (const int32_t id : ids) {
        if (!table.is_special(id)) bytes += table.token_bytes(id);
    }
    size_t at = 0;
    for (int32_t left = rule.leading_spaces; left > 0 && at < bytes.size() && bytes[at] == ' '; --left)
        ++at;
    std::string text;
    while (at < bytes.size()) {
        const Utf8Step step = utf8_step(bytes, at);
        if (step.kind == Utf8Step::Kind::character) {
            text.append(bytes, at, step.length);
        } else {
            for (size_t i = 0; i < (rule.byte_fallback ? step.length : 1); ++i)
                append_utf8(text, U'\uFFFD');
        }
        at += step.length;
    }
    return text;
}

const std::string& Tokenizer::fingerprint() const {
    return m_impl->fingerprint;
}

} // namespace refreshlab
