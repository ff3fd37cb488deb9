#include "tests/fuzz/fuzz_support.h"

#include "engine/base/error.h"
#include "tests/support/seed.h"
#include "tests/support/share.h"

#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

namespace refreshlab::fuzz {

namespace {

using json = nlohmann::json;

constexpr size_t max_threads = 8;

uint64_t number_of(const char* variable, uint64_t otherwise) {
    const char* text = std::getenv(variable);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// Pointers to all values of a document, the root first.
void collect(json& value, std::vector<json*>& all) {
    all.push_back(&value);
    if (!value.is_structured()) return;
    for (json& child : value)
        collect(child, all);
}

/// Values that readers tend to get wrong, as JSON text.
const char* const extremes[] = {"0",
                                "-0",
                                "-1",
                                "1",
                                "0.5",
                                "-0.0",
                                "1e-400",
                                "1e308",
                                "-1e308",
                                "1e999",
                                "127",
                                "128",
                                "255",
                                "256",
                                "32768",
                                "65536",
                                "2147483647",
                                "2147483648",
                                "-2147483649",
                                "4294967295",
                                "4294967296",
                                "9007199254740993",
                                "9223372036854775807",
                                "9223372036854775808",
                                "-9223372036854775808",
                                "-9223372036854775809",
                                "18446744073709551615",
                                "18446744073709551616",
                                "NaN",
                                "1.",
                                "01",
                                "null",
                                "true",
                                "false",
                                "{}",
                                "[]",
                                "[[]]",
                                "{\"\":null}",
                                "\"\"",
                                "\"\\u0000\"",
                                "\"\\ud800\"",
                                "\"\\udc00\\ud800\"",
                                "\"\xFF\"",
                                "\"\xC3(\"",
                                "\"\xED\xA0\x80\"",
                                "\"\xF4\x90\x80\x80\"",
                                "\"\xE2\x82\"",
                                "\"a\\nb\\rc\"",
                                "\"\xE2\x96\x81\"",
                                "\"\xEF\xBB\xBF\"",
                                "\"\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9\"",
                                "\"../../x\"",
                                "\"nan\"",
                                "\"1\"",
                                "\"{}\""};

const char* const bytes_of_any_format[] = {"{",
                                           "}",
                                           "[",
                                           "]",
                                           "\"",
                                           ":",
                                           ",",
                                           "null",
                                           "true",
                                           "-1",
                                           "1e9",
                                           "\\u0",
                                           "\\",
                                           "\xFF",
                                           "\xC3",
                                           "\n",
                                           "\r",
                                           "\t",
                                           " ",
                                           "-",
                                           "0",
                                           "9",
                                           "1e",
                                           "\xEF\xBB\xBF",
                                           "\"\"",
                                           "{}",
                                           "[]",
                                           "[[",
                                           "]]",
                                           "//",
                                           "/*",
                                           "'",
                                           "%",
                                           "\x7F",
                                           "\xE2",
                                           "\xF4",
                                           "\xED\xA0\x80",
                                           "99999999999999999999"};

/// Stands for raw JSON text while a document is built: the text itself may be no JSON at all.
class RawTexts {
public:
    json put(std::string text) {
        m_texts.push_back(std::move(text));
        return fmt::format("\x02{}\x02", m_texts.size() - 1);
    }
    /// Doubles a key: what follows \x03 disappears when the document is written.
    static std::string again(const std::string& key) { return key + "\x03"; }

    [[nodiscard]] std::string write(const json& document) const {
        const std::string dumped = document.dump(-1, ' ', false, json::error_handler_t::replace);
        std::string out;
        out.reserve(dumped.size());
        constexpr std::string_view raw = "\"\\u0002", key_end = "\\u0003";
        for (size_t at = 0; at < dumped.size();) {
            const std::string_view rest = std::string_view(dumped).substr(at);
            if (rest.starts_with(key_end)) {
                at += key_end.size();
            } else if (rest.starts_with(raw)) {
                size_t index = 0;
                size_t length = raw.size();
                for (; length < rest.size() && rest[length] >= '0' && rest[length] <= '9'; ++length)
                    index = index * 10 + static_cast<size_t>(rest[length] - '0');
                if (index < m_texts.size()) out += m_texts[index];
                at += std::min(rest.size(), length + key_end.size() + 1);
            } else {
                out += dumped[at++];
            }
        }
        return out;
    }

private:
    std::vector<std::string> m_texts;
};

std::string deep(Random& random) {
    constexpr std::array<size_t, 5> depths = {3, 60, 255, 257, 2000};
    const size_t depth = depths[random.below(depths.size())];
    const bool lists = random.one_in(2);
    std::string text;
    for (size_t i = 0; i < depth; ++i)
        text += lists ? "[" : "{\"type\":";
    text += "1";
    text.append(depth, lists ? ']' : '}');
    return text;
}

std::string long_text(Random& random) {
    static const char* const units[] = {"a", "ab ", "\xC3\xA9", "\xE2\x96\x81", "(", "(a|", "9", "\\\\", " "};
    const char* unit = units[random.below(std::size(units))];
    const size_t times = size_t{1} << random.below(12);
    std::string text = "\"";
    for (size_t i = 0; i < times; ++i)
        text += unit;
    return text + "\"";
}

// What each thread is reading, for the handler of a crash: it may not allocate, so places are fixed.
struct Current {
    std::atomic<const char*> data; // release in run_one; acquired by the handler
    std::atomic<size_t> size;
    char file[512];
};
std::array<Current, max_threads> current;

extern "C" void save_current(int signal) {
    for (const Current& one : current) {
        const char* data = one.data.load(std::memory_order_acquire);
        if (data == nullptr) continue;
        const int fd = ::open(one.file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (fd < 0) continue;
        size_t left = one.size.load(std::memory_order_relaxed);
        while (left > 0) {
            const ssize_t written = ::write(fd, data, left);
            if (written <= 0) break;
            data += written;
            left -= static_cast<size_t>(written);
        }
        ::close(fd);
        constexpr std::string_view message = "fuzz: an input that was being read is saved in ";
        ssize_t ignored = ::write(STDERR_FILENO, message.data(), message.size());
        ignored = ::write(STDERR_FILENO, one.file, std::char_traits<char>::length(one.file));
        ignored = ::write(STDERR_FILENO, "\n", 1);
        static_cast<void>(ignored);
    }
    ::signal(signal, SIG_DFL);
    ::raise(signal);
}

/// Our handler for as long as a target runs.
class CrashSaver {
public:
    CrashSaver() {
        struct sigaction action {};
        action.sa_handler = save_current;
        action.sa_flags = SA_ONSTACK; // a stack that has overflown has no room for a handler
        for (size_t i = 0; i < signals.size(); ++i)
            ::sigaction(signals[i], &action, &m_old[i]);
    }
    CrashSaver(const CrashSaver&) = delete;
    CrashSaver& operator=(const CrashSaver&) = delete;
    ~CrashSaver() {
        for (size_t i = 0; i < signals.size(); ++i)
            ::sigaction(signals[i], &m_old[i], nullptr);
    }

private:
    static constexpr std::array<int, 7> signals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGINT};
    std::array<struct sigaction, 7> m_old{};
};

class OwnSignalStack {
public:
    OwnSignalStack()
        : m_memory(size_t{64} << 10) {
        stack_t stack{};
        stack.ss_sp = m_memory.data();
        stack.ss_size = m_memory.size();
        ::sigaltstack(&stack, &m_old);
    }
    OwnSignalStack(const OwnSignalStack&) = delete;
    OwnSignalStack& operator=(const OwnSignalStack&) = delete;
    ~OwnSignalStack() { ::sigaltstack(&m_old, nullptr); }

private:
    std::vector<char> m_memory;
    stack_t m_old{};
};

std::filesystem::path failures() {
    const std::filesystem::path folder = std::filesystem::path(RL_BUILD_DIR) / "fuzz-failures";
    std::filesystem::create_directories(folder);
    return folder;
}

/// \return what broke, or ""
std::string run_one(const Target& target, const std::string& input, size_t thread, Outcome& outcome) {
    Current& mine = current[thread];
    mine.size.store(input.size(), std::memory_order_relaxed);
    mine.data.store(input.data(), std::memory_order_release);
    std::string problem;
    try {
        target(input, thread);
        ++outcome.accepted;
    } catch (const Error& error) {
        ++outcome.refused;
        const std::string text = error.what();
        if (text.empty() || text.find('\n') != std::string::npos)
            problem = "an error that is not one line: " + text;
    } catch (const std::exception& error) {
        problem = std::string("an exception that is no refreshlab::Error: ") + error.what();
    } catch (...) {
        problem = "an exception of an unknown type";
    }
    mine.data.store(nullptr, std::memory_order_release);
    return problem;
}

} // namespace

int64_t fuzz_runs() {
    return static_cast<int64_t>(number_of("REFRESHLAB_FUZZ_RUNS", 100'000));
}

uint64_t Random::next() {
    uint64_t z = (m_state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

std::vector<CorpusFile> read_corpus(const std::string& reader) {
    const std::filesystem::path folder = std::filesystem::path(RL_SOURCE_DIR) / "tests/fuzz/corpus" / reader;
    std::vector<CorpusFile> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (!entry.is_regular_file()) continue;
        std::ifstream in(entry.path(), std::ios::binary);
        std::ostringstream bytes;
        bytes << in.rdbuf();
        files.push_back({entry.path().filename().string(), bytes.str()});
    }
    if (files.empty()) throw std::runtime_error("no corpus in " + folder.string());
    std::sort(files.begin(), files.end(),
              [](const CorpusFile& a, const CorpusFile& b) { return a.name < b.name; });
    return files;
}

Mutator::Mutator(const std::vector<CorpusFile>& corpus, std::vector<std::string> words)
    : m_words(std::move(words)) {
    for (const char* word : bytes_of_any_format)
        m_words.emplace_back(word);
    std::set<std::string> keys, texts;
    for (const CorpusFile& file : corpus) {
        m_files.push_back(file.bytes);
        m_documents.push_back(json::parse(file.bytes, nullptr, false));
        json& document = m_documents.back();
        if (document.is_discarded()) continue;
        std::vector<json*> all;
        collect(document, all);
        for (const json* value : all) {
            if (value->is_object()) {
                for (const auto& [key, unused] : value->items())
                    keys.insert(key);
            }
            if (value->size() <= 8 && m_values.size() < 20'000) m_values.push_back(*value);
            if (value->is_string()) texts.insert(value->get<std::string>());
        }
    }
    m_keys.assign(keys.begin(), keys.end());
    for (const std::set<std::string>& found : {keys, texts}) {
        for (const std::string& text : found) {
            if (text.size() < 40 && m_words.size() < 2000) m_words.push_back(text);
        }
    }
}

const std::string& Mutator::pick(Random& random) const {
    return m_files[random.below(m_files.size())];
}

std::string Mutator::make(Random& random) const {
    const size_t file = random.below(m_files.size());
    const json& document = m_documents[file];
    if (document.is_discarded() || random.one_in(4)) return mutate_bytes(m_files[file], random);
    std::string text = mutate_json(document, random);
    return random.one_in(6) ? mutate_bytes(std::move(text), random) : text;
}

std::string Mutator::mutate_json(json document, Random& random) const {
    RawTexts raw;
    const size_t mutations = random.one_in(2) ? 1 : 1 + random.below(4);
    for (size_t i = 0; i < mutations; ++i) {
        std::vector<json*> all;
        collect(document, all);
        json& target = *all[random.below(all.size())];
        // Most values of a large file lie in one list; keep the sections in play.
        json& place = random.one_in(2) ? target : *all[random.below(std::min<size_t>(all.size(), 40))];
        const auto child = [&](json& of) {
            return std::next(of.begin(), static_cast<std::ptrdiff_t>(random.below(of.size())));
        };
        const auto key = [&] {
            return m_keys.empty() ? std::string("x") : m_keys[random.below(m_keys.size())];
        };
        const auto other = [&] {
            return m_values.empty() ? json() : m_values[random.below(m_values.size())];
        };
        switch (random.below(12)) {
        case 0: // drop
            if (place.is_structured() && !place.empty()) place.erase(child(place));
            break;
        case 1: // double a key, or an element many times
            if (place.is_object() && !place.empty()) {
                const auto at = child(place);
                const std::string again = RawTexts::again(at.key());
                json value = *at;
                place[again] = std::move(value);
            } else if (place.is_array() && !place.empty()) {
                const json value = *child(place);
                const size_t times = size_t{1} << random.below(8);
                for (size_t n = 0; n < times; ++n)
                    place.push_back(value);
            }
            break;
        case 2: // rename, or a key more
            if (place.is_object()) {
                if (!place.empty() && random.one_in(2)) {
                    const auto at = child(place);
                    json value = *at;
                    place.erase(at);
                    place[key()] = std::move(value);
                } else {
                    place[key()] = other();
                }
            } else if (place.is_array()) {
                place.insert(place.begin(), other());
            }
            break;
        case 3: { // swap two values, or copy one onto another that may hold it
            const json first = target;
            json& second = *all[random.below(all.size())];
            target = json(second);
            if (!first.is_structured()) second = first; // then it does not hold the second
            break;
        }
        case 4:
        case 5:
            target = raw.put(extremes[random.below(std::size(extremes))]);
            break;
        case 6:
            place = raw.put(extremes[random.below(std::size(extremes))]);
            break;
        case 7:
            place = other();
            break;
        case 8:
            if (random.one_in(4))
                target = raw.put(deep(random));
            else
                target = other();
            break;
        case 9:
            target = raw.put(long_text(random));
            break;
        case 10: // a number beside the old one
            if (target.is_number_integer()) {
                constexpr std::array<int64_t, 6> steps = {-1, 1, 2, -2, 255, -1000};
                target = static_cast<int64_t>(target.get<uint64_t>() +
                                              static_cast<uint64_t>(steps[random.below(steps.size())]));
            } else if (target.is_number_float()) {
                target = -target.get<double>();
            } else if (target.is_boolean()) {
                target = !target.get<bool>();
            } else {
                target = m_words[random.below(m_words.size())];
            }
            break;
        default: // a text of the format, whole or inside the old one
            if (target.is_string() && random.one_in(2)) {
                auto text = target.get<std::string>();
                text.insert(random.below(text.size() + 1), m_words[random.below(m_words.size())]);
                target = std::move(text);
            } else {
                target = m_words[random.below(m_words.size())];
            }
        }
    }
    return raw.write(document);
}

std::string Mutator::mutate_bytes(std::string text, Random& random) const {
    const size_t mutations = random.one_in(2) ? 1 : 1 + random.below(4);
    for (size_t i = 0; i < mutations; ++i) {
        const size_t at = random.below(text.size() + 1);
        const size_t left = text.size() - at;
        const size_t length = left == 0 ? 0 : std::min(left, 1 + random.below(random.one_in(4) ? 200 : 8));
        switch (random.below(9)) {
        case 0:
            if (left > 0)
                text[at] = static_cast<char>(static_cast<unsigned char>(text[at]) ^ (1u << random.below(8)));
            break;
        case 1:
            if (left > 0) text[at] = static_cast<char>(random.below(256));
            break;
        case 2:
            text.insert(at, 1 + random.below(4), static_cast<char>(random.below(256)));
            break;
        case 3:
            text.erase(at, length);
            break;
        case 4:
            text.insert(at, text.substr(at, length));
            break;
        case 5: { // a piece of another file, in place of as much or between
            const std::string& donor = pick(random);
            if (donor.empty()) break;
            const size_t from = random.below(donor.size());
            const size_t count = std::min(donor.size() - from, 1 + random.below(64));
            text.replace(at, random.one_in(2) ? std::min(left, count) : 0, donor, from, count);
            break;
        }
        case 6: // the head of this and the tail of another
            if (random.one_in(4)) {
                const std::string& donor = pick(random);
                text = text.substr(0, at) + donor.substr(random.below(donor.size() + 1));
            } else if (random.one_in(8)) {
                text.resize(at);
            }
            break;
        default:
            text.replace(at, random.one_in(2) ? std::min<size_t>(left, 2) : 0,
                         m_words[random.below(m_words.size())]);
        }
    }
    return text;
}

Outcome run_target(const std::string& name, const std::vector<CorpusFile>& corpus,
                   const std::function<std::string(Random&)>& make, const Target& target) {
    const std::filesystem::path folder = failures();
    const size_t threads = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, max_threads);
    for (size_t i = 0; i < threads; ++i) {
        const std::string file = (folder / fmt::format("{}-crash-{}", name, i)).string();
        REQUIRE(file.size() < sizeof current[i].file);
        file.copy(current[i].file, file.size());
        current[i].file[file.size()] = 0;
    }
    const CrashSaver saver;
    Outcome sum;
    if (const char* one = std::getenv("REFRESHLAB_FUZZ_FILE"); one != nullptr) {
        std::ifstream in(one, std::ios::binary);
        std::ostringstream bytes;
        bytes << in.rdbuf();
        INFO("target " << name << ", file " << one);
        CHECK(run_one(target, bytes.str(), 0, sum).empty());
        return sum;
    }
    for (const CorpusFile& file : corpus) {
        INFO("target " << name << ", corpus file " << file.name);
        CHECK(run_one(target, file.bytes, 0, sum).empty());
    }
    // Each share has inputs of its own.
    const int64_t begin = test::share_of_run().share * fuzz_runs(), end = begin + fuzz_runs();
    const uint64_t seed = test::seed(0);
    std::atomic<int64_t> next = begin;
    std::atomic<bool> stop = false; // relaxed: only saves work
    std::mutex mutex;               // guards sum and failure
    std::string failure;
    const auto work = [&](size_t thread) {
        const OwnSignalStack stack;
        Outcome mine;
        constexpr int64_t batch = 64;
        while (!stop.load(std::memory_order_relaxed)) {
            const int64_t first = next.fetch_add(batch, std::memory_order_relaxed);
            if (first >= end) break;
            for (int64_t run = first; run < std::min(first + batch, end); ++run) {
                Random random(seed * 0x9E3779B97F4A7C15ull + static_cast<uint64_t>(run));
                const std::string input = make(random);
                const std::string problem = run_one(target, input, thread, mine);
                if (problem.empty()) continue;
                const std::scoped_lock lock(mutex);
                stop.store(true, std::memory_order_relaxed);
                if (!failure.empty()) break;
                const std::filesystem::path saved = folder / fmt::format("{}-{}", name, run);
                std::ofstream(saved, std::ios::binary) << input;
                failure = fmt::format("target {}, --rng-seed {}, run {}: {}; input saved in {}", name,
                                      Catch::getSeed(), run, problem, saved.string());
                break;
            }
        }
        const std::scoped_lock lock(mutex);
        sum.accepted += mine.accepted;
        sum.refused += mine.refused;
    };
    std::vector<std::thread> helpers;
    for (size_t thread = 1; thread < threads; ++thread)
        helpers.emplace_back(work, thread);
    work(0);
    for (std::thread& helper : helpers)
        helper.join();
    UNSCOPED_INFO(name << ": " << sum.accepted << " accepted, " << sum.refused << " refused");
    if (!failure.empty()) FAIL(failure);
    CHECK(sum.accepted + sum.refused == fuzz_runs() + static_cast<int64_t>(corpus.size()));
    return sum;
}

Outcome run_target(const std::string& name, const Target& target, std::vector<std::string> words) {
    const std::vector<CorpusFile> corpus = read_corpus(name);
    const Mutator mutator(corpus, std::move(words));
    return run_target(
        name, corpus, [&](Random& random) { return mutator.make(random); }, target);
}

} // namespace refreshlab::fuzz
