#include "engine/results/sweep_prompts.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/refresh/json_fields.h"
#include "engine/text/digest.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace refreshlab {

namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

constexpr size_t max_file_bytes = size_t{1} << 26;

class PromptReader {
public:
    PromptReader(const std::string& what, const SweepFiles& files, int64_t& repeated)
        : m_what(what)
        , m_files(files)
        , m_repeated(repeated) {}

    std::vector<SweepPrompt> read(const json& value) {
        if (!value.is_array()) {
            entry(value, "prompts");
        } else {
            for (size_t i = 0; i < value.size(); ++i)
                entry(value[i], fmt::format("prompts[{}]", i));
        }
        if (m_prompts.empty()) fail("prompts", "there is none");
        return std::move(m_prompts);
    }

private:
    [[noreturn]] void fail(const std::string& key, const std::string& problem,
                           const std::string& hint = {}) const {
        throw Error("reading", m_what, key + ": " + problem, hint);
    }

    void entry(const json& value, const std::string& key) {
        if (value.is_string()) {
            SweepPrompt prompt;
            prompt.text = value.get<std::string>();
            prompt.group = "prompts";
            add(std::move(prompt), key);
            return;
        }
        if (!value.is_object()) fail(key, "must be a text or an object {...}, not " + shown(value));
        if (value.contains("file")) {
            file_entry(value, key);
        } else {
            text_entry(value, key);
        }
    }

    void text_entry(const json& value, const std::string& key) {
        JsonFields fields(value, m_what, key);
        SweepPrompt prompt;
        prompt.group = "prompts";
        fields.text("text", prompt.text);
        fields.text("given", prompt.given);
        fields.text("group", prompt.group);
        if (const json* task = fields.find("task")) {
            // Read by the reader of configurations, so that the keys of a task stand once.
            prompt.task = run_config_from_json(json{{"task", *task}}, m_what + ", " + key).task;
            if (!prompt.task.almanac.empty()) use_almanac(prompt, m_files.find(prompt.task.almanac));
        }
        fields.finish();
        add(std::move(prompt), key);
    }

    struct FileOptions {
        std::string file, field = "prompt", given, group;
        int64_t from = 0, limit = sweep_limits::prompts;
        bool task = false, distinct = false;
    };

    void file_entry(const json& value, const std::string& key) {
        JsonFields fields(value, m_what, key);
        FileOptions o;
        fields.text("file", o.file);
        fields.text("field", o.field);
        fields.text("given", o.given);
        fields.text("group", o.group);
        fields.boolean("task", o.task);
        fields.boolean("distinct", o.distinct);
        fields.integer("from", o.from, 0, sweep_limits::prompts);
        fields.integer("limit", o.limit, 1, sweep_limits::prompts);
        fields.finish();
        const std::string path = m_files.find(o.file);
        if (o.group.empty()) o.group = fs::path(path).stem().string();
        const std::string text = m_files.read(path);
        if (const auto bad = first_invalid_utf8(text)) {
            throw Error("reading", path, fmt::format("byte {} is not UTF-8", *bad), "save the file as UTF-8");
        }
        if (fs::path(path).extension() == ".jsonl") {
            rows(o, path, text, key);
            return;
        }
        if (value.contains("field") || value.contains("from") || value.contains("limit") ||
            value.contains("given") || o.task || o.distinct) {
            fail(key, "only a .jsonl file has rows, so only \"group\" can be said of this one",
                 "rename the file if it holds one JSON object a line");
        }
        SweepPrompt prompt;
        prompt.text = text;
        prompt.group = o.group;
        add(std::move(prompt), key);
    }

    void rows(const FileOptions& o, const std::string& path, const std::string& text,
              const std::string& key) {
        int64_t row = 0, taken = 0;
        std::set<std::string> texts;
        for (size_t begin = 0, line = 1; begin < text.size() && taken < o.limit; ++line) {
            const size_t end = std::min(text.find('\n', begin), text.size());
            const std::string_view one = std::string_view(text).substr(begin, end - begin);
            begin = end + 1;
            if (one.find_first_not_of(" \t\r") == std::string_view::npos) continue;
            if (row++ < o.from) continue;
            const std::string where = fmt::format("{}, row {}", path, line);
            const json object = parse_json(one, where);
            SweepPrompt prompt;
            prompt.group = o.group;
            prompt.text = field(object, o.field, where);
            if (o.distinct && !texts.insert(prompt.text).second) continue;
            if (!o.given.empty()) prompt.given = field(object, o.given, where);
            if (o.task) {
                prompt.task.kind = field(object, "kind", where);
                prompt.task.reference = field(object, "response", where);
                use_almanac(prompt, almanac_beside(path));
            }
            ++taken;
            add(std::move(prompt), key);
        }
        if (taken == 0) fail(key, fmt::format("{} gives no prompt after row {}", path, o.from));
    }

    /// A key of the row, or a JSON pointer ("/turns/0").
    std::string field(const json& row, const std::string& name, const std::string& where) const {
        if (!row.is_object()) throw Error("reading", where, "must be an object {...}, not " + shown(row));
        const json* value = nullptr;
        if (!name.empty() && name.front() == '/') {
            try {
                const json::json_pointer pointer(name);
                if (row.contains(pointer)) value = &row.at(pointer);
            } catch (const json::exception&) {
                throw Error("reading", where, shown(json(name)) + " is not a JSON pointer",
                            "for example /turns/0");
            }
        } else if (const auto found = row.find(name); found != row.end()) {
            value = &*found;
        }
        if (value == nullptr) throw Error("reading", where, "has no field " + shown(json(name)));
        if (!value->is_string())
            throw Error("reading", where, fmt::format("{} must be a text, not {}", name, shown(*value)));
        return value->get<std::string>();
    }

    /// almanac.json in the folder of the prompts; nothing where there is none (the kinds that need it say so).
    std::string almanac_beside(const std::string& path) {
        const auto known = m_almanacs.find(path);
        if (known != m_almanacs.end()) return known->second;
        std::string found;
        try {
            found = m_files.find((fs::path(path).parent_path() / "almanac.json").string());
        } catch (const Error&) {
            found.clear(); // absent
        }
        return m_almanacs[path] = found;
    }

    void use_almanac(SweepPrompt& prompt, const std::string& path) {
        prompt.task.almanac = path;
        if (path.empty()) return;
        std::string& digest = m_digests[path];
        if (digest.empty()) {
            Digest d;
            d.add(m_files.read(path));
            digest = d.hex();
        }
        prompt.almanac_digest = digest;
    }

    void add(SweepPrompt prompt, const std::string& key) {
        if (prompt.text.empty()) fail(key, "the prompt is empty");
        if (prompt.group.empty()) fail(key, "the group has no name");
        if (static_cast<int64_t>(m_prompts.size()) >= sweep_limits::prompts)
            fail(key, fmt::format("more than {} prompts", sweep_limits::prompts));
        if (!m_seen.insert({prompt.group, prompt.text, prompt.given, prompt.task.kind, prompt.task.reference})
                 .second) {
            ++m_repeated;
            return;
        }
        m_prompts.push_back(std::move(prompt));
    }

    const std::string& m_what;
    const SweepFiles& m_files;
    int64_t& m_repeated;
    std::vector<SweepPrompt> m_prompts;
    std::set<std::tuple<std::string, std::string, std::string, std::string, std::string>> m_seen;
    std::map<std::string, std::string> m_almanacs, m_digests; ///< by path: the almanac beside it, its digest
};

} // namespace

std::vector<SweepPrompt> read_sweep_prompts(const json& value, const std::string& what,
                                            const SweepFiles& files, int64_t& repeated) {
    return PromptReader(what, files, repeated).read(value);
}

SweepFiles sweep_files(const fs::path& spec_folder, const fs::path& assets) {
    SweepFiles files;
    files.find = [spec_folder, assets](const std::string& name) {
        std::vector<fs::path> candidates;
        const fs::path path(name);
        if (path.is_absolute()) {
            candidates = {path};
        } else {
            candidates = {spec_folder / path, path};
            if (!assets.empty() && !path.empty() && *path.begin() == "assets")
                candidates.push_back(assets / path.lexically_relative("assets"));
        }
        std::error_code ignored;
        for (const fs::path& candidate : candidates) {
            if (!name.empty() && fs::exists(candidate, ignored)) return candidate.lexically_normal().string();
        }
        throw Error("reading", name.empty() ? "a file without a name" : name, "no such file or folder",
                    path.is_absolute() ? "" : "looked beside the spec and in the current folder");
    };
    files.read = [](const std::string& path) { return read_file(path, max_file_bytes); };
    return files;
}

} // namespace refreshlab
