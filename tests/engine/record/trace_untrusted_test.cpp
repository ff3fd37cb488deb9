// Traces that somebody else made: what a reader must not do for them, and what it says where it cannot.
#include "engine/base/error.h"
#include "engine/record/trace/sqlite.h"
#include "engine/record/trace/trace_store.h"
#include "tests/engine/record/file_bytes.h"
#include "tests/engine/record/random_recording.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace trace_untrusted_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;
using sqlite::Database;

namespace {

std::string load_error(const std::filesystem::path& path, ErrorKind kind = ErrorKind::bad_input) {
    try {
        (void)load_trace(path);
        return {};
    } catch (const Error& e) {
        const std::string line = e.what();
        CHECK(e.kind() == kind);
        CHECK(line.find('\n') == std::string::npos);
        CHECK_THAT(line, ContainsSubstring(path.string()));
        return line;
    }
}

std::shared_ptr<Recording> recorded(uint64_t seed, int64_t steps) {
    Grower grower(seed);
    auto recording = grower.start();
    grower.grow(*recording, steps);
    return recording;
}

/// Runs `work`, which gives a text, in a child process. \return the text, or how the child ended
template <class Work>
std::string in_child(Work work) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        close(ends[0]);
        std::string text;
        try {
            text = work();
        } catch (const std::exception& e) {
            text = std::string("unexpected: ") + e.what();
        }
        (void)!::write(ends[1], text.data(), text.size());
        _exit(0);
    }
    close(ends[1]);
    std::string text;
    char buffer[512];
    for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
        text.append(buffer, static_cast<size_t>(n));
    close(ends[0]);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? fmt::format("killed by signal {}", WTERMSIG(status)) : text;
}

/// What loading says to somebody who may write nothing here, with the kind of the error in front; "" if it loads.
std::string error_of_a_stranger(const std::filesystem::path& path) {
    return in_child([&]() -> std::string {
        constexpr uid_t nobody = 65534;
        if (geteuid() == 0 && (setgid(nobody) != 0 || setuid(nobody) != 0)) return "cannot become nobody";
        try {
            (void)load_trace(path);
            return "";
        } catch (const Error& e) {
            return std::string(e.kind() == ErrorKind::bad_input ? "bad input: " : "failure: ") + e.what();
        }
    });
}

/// A trace whose last steps stand in its log: recorded by a process that was killed.
void make_killed_trace(const std::filesystem::path& path) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        const auto store = TraceStore::create(path);
        store->attach(recorded(1, 10));
        store->flush();
        kill(getpid(), SIGKILL);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(std::filesystem::file_size(path.string() + "-wal") > 0);
}

} // namespace

TEST_CASE("a trace has the tables and columns of its version, and nothing else", "[record]") {
    TemporaryFolder folder;
    save_trace(folder / "good.trace", recorded(2, 20));
    const std::string good = contents(folder / "good.trace");
    const auto bad = folder / "bad.trace";
    const char* const attacks[] = {
        "ALTER TABLE steps ADD COLUMN z AS (length(hex(zeroblob(300000000))))",
        "ALTER TABLE steps ADD COLUMN z AS (length(hex(zeroblob(300000000)))) VIRTUAL",
        "ALTER TABLE runs ADD COLUMN comment TEXT",
        "ALTER TABLE steps DROP COLUMN mc_ms",
        "ALTER TABLE steps RENAME COLUMN mc_ms TO mc",
        "DROP TABLE layers",
        "DROP TABLE cache",
        "CREATE TABLE mine (x)",
        "CREATE INDEX mine ON steps (token_id)",
        "CREATE VIEW mine AS SELECT * FROM steps",
        "CREATE TRIGGER mine AFTER INSERT ON steps BEGIN DELETE FROM runs; END",
        "DROP TABLE commands; CREATE VIEW commands AS SELECT 1 AS run, 0 AS n, 1 AS step, '{}' AS json",
        "DROP TABLE commands; CREATE TABLE commands (run INTEGER, n INTEGER, step INTEGER, json TEXT, "
        "PRIMARY KEY "
        "(run, n))", // with a rowid
        "DROP TABLE commands; CREATE TABLE commands (run INTEGER, n INTEGER, step INTEGER, json, PRIMARY KEY "
        "(run, "
        "n)) WITHOUT ROWID",
        "DROP TABLE commands; CREATE TABLE commands (run INTEGER, n INTEGER, json TEXT, step INTEGER, "
        "PRIMARY KEY "
        "(run, n)) WITHOUT ROWID",
        "DROP TABLE commands; CREATE TABLE commands (run INTEGER, n INTEGER, step INTEGER AS (1), json TEXT, "
        "PRIMARY "
        "KEY (run, n)) WITHOUT ROWID",
    };
    for (const char* attack : attacks) {
        INFO(attack);
        write(bad, good);
        Database(bad, sqlite::Open::read_write).exec(attack);
        CHECK_THAT(load_error(bad), ContainsSubstring("damaged"));
    }
    write(bad, good);
    CHECK(load_error(bad).empty());
}

TEST_CASE("a connection to somebody's file runs none of its programs and makes no long values", "[record]") {
    TemporaryFolder folder;
    const auto file = folder / "theirs.db";
    Database(file, sqlite::Open::create)
        .exec(
            "CREATE TABLE t (x); INSERT INTO t VALUES (1); CREATE VIEW v AS SELECT * FROM t; "
            "CREATE TABLE log (x); CREATE TRIGGER r AFTER INSERT ON t BEGIN INSERT INTO log VALUES (1); END");
    Database db(file, sqlite::Open::read_write);
    CHECK(db.integer("SELECT x FROM v") == 1);
    db.distrust(10'000);
    CHECK_THROWS_AS(db.integer("SELECT x FROM v"), sqlite::SqlError);
    db.exec("INSERT INTO t VALUES (2)");
    CHECK(db.integer("SELECT count(*) FROM log") == 0);
    CHECK(db.integer("SELECT length(zeroblob(9000))") == 9000);
    CHECK_THROWS_AS(db.integer("SELECT length(zeroblob(11000))"), sqlite::SqlError);
}

TEST_CASE("models of impossible size are damage", "[record]") {
    TemporaryFolder folder;
    save_trace(folder / "good.trace", recorded(3, 5));
    const std::string good = contents(folder / "good.trace");
    const auto bad = folder / "bad.trace";
    for (const char* what : {"'$.layers', 2147483648", "'$.heads', 2147483648", "'$.kv_heads', 2147483648",
                             "'$.head_dim', 2147483648", "'$.vocab_size', 2147483647", "'$.layers', 4097",
                             "'$.layers', 4096, '$.heads', 4096", "'$.layers', 4096, '$.kv_heads', 4096",
                             "'$.cache_bytes_per_token', 1125899906842624"}) {
        INFO(what);
        write(bad, good);
        Database(bad, sqlite::Open::read_write)
            .exec(fmt::format("UPDATE runs SET info = json_set(info, {})", what).c_str());
        CHECK_THAT(load_error(bad), ContainsSubstring("damaged"));
    }
}

TEST_CASE("a text that the file cannot hold is damage", "[record]") {
    TemporaryFolder folder;
    const auto recording = recorded(4, 60);
    save_trace(folder / "good.trace", recording);
    const std::string good = contents(folder / "good.trace");
    const auto bad = folder / "bad.trace";
    const int32_t id = recording->token(5);
    write(bad, good);
    Database(bad, sqlite::Open::read_write)
        .exec(fmt::format("UPDATE tokens SET bytes = zeroblob(1000000) WHERE id = {}", id).c_str());
    CHECK_THAT(load_error(bad), ContainsSubstring("bytes of a token"));
    write(bad, good);
    Database(bad, sqlite::Open::read_write)
        .exec(fmt::format("UPDATE tokens SET bytes = zeroblob(65000) WHERE id = {}", id).c_str());
    CHECK(load_error(bad).empty()); // long, and it occurs a few times
    Database(bad, sqlite::Open::read_write).exec(fmt::format("UPDATE steps SET token_id = {}", id).c_str());
    CHECK_THAT(load_error(bad), ContainsSubstring("its text is longer"));
}

TEST_CASE("many forks in a small file take little memory each, or the file is refused", "[record]") {
    TemporaryFolder folder;
    constexpr int64_t forks = 20'000, fork_step = 77;
    const auto with_forks = [&](const std::string& name, const Recording& root, int64_t count) {
        const auto in = root.fork(fork_step, "fork")->inherited();
        Database(folder / name, sqlite::Open::read_write)
            .exec(
                fmt::format("WITH RECURSIVE n(i) AS (VALUES(2) UNION ALL SELECT i + 1 FROM n WHERE i <= {}) "
                            "INSERT INTO runs SELECT i, 'f' || i, (SELECT id FROM runs WHERE run = 1), {}, "
                            "{}, {}, {}, "
                            "{}, {}, 0, '', NULL, NULL, NULL, NULL, {} FROM n",
                            count, fork_step, fork_step + 1, in.refreshes, in.passes, in.commands, in.drifts,
                            in.cache_entries)
                    .c_str());
        CHECK(std::filesystem::file_size(folder / name) < 3'000'000);
        return folder / name;
    };
    // As a run without a teacher leaves it: steps, signals with layers, appends.
    const auto plain = std::make_shared<Recording>(Grower(5).start()->info(), std::make_shared<ByteTokens>());
    for (int64_t t = 1; t <= 100; ++t) {
        StepRecord record;
        record.step = t;
        record.position = plain->prompt_length() + t - 1;
        record.token_id = plain->token(t);
        record.next_token_id = static_cast<int32_t>(t);
        record.signals.fill(1.5F);
        LayerValues layers;
        layers.set(*signal_id("attention_entropy_bits"), std::vector<float>{1, 2, 3});
        CacheEvent event;
        event.step = t;
        event.positions = {{record.position, 1}};
        event.origin = Origin::student;
        plain->add_cache_event(event);
        plain->append(record, layers);
    }
    save_trace(folder / "plain.trace", plain);
    const auto runs = load_trace(with_forks("plain.trace", *plain, forks));
    REQUIRE(runs.size() == static_cast<size_t>(forks) + 1);
    size_t bytes = 0;
    for (size_t i = 1; i < runs.size(); ++i)
        bytes += runs[i]->own_bytes();
    INFO(bytes / forks << " bytes a fork");
    CHECK(bytes / forks <
          6 * 1024 + 512); // most of it is the configuration, files of cache policies among it
    const auto fork = plain->fork(fork_step, "fork");
    CHECK(first_difference(*runs[1], *fork) == std::nullopt);
    CHECK(first_difference(*runs.back(), *fork) == std::nullopt);
    // What a fork cannot share is bounded by the file's size: values of then that were filled in again later, a long prompt.
    const auto filled = recorded(5, 100);
    save_trace(folder / "filled.trace", filled);
    CHECK(load_error(with_forks("filled.trace", *filled, 100)).empty());
    save_trace(folder / "filled.trace", filled);
    CHECK_THAT(load_error(with_forks("filled.trace", *filled, forks)),
               ContainsSubstring("more memory than a file of its size"));
    const auto long_prompt = [&](int64_t count) {
        save_trace(folder / "wide.trace", plain);
        Database(folder / "wide.trace", sqlite::Open::read_write)
            .exec("UPDATE runs SET info = json_set(info, '$.rendered_prompt', hex(zeroblob(500000)))");
        return load_error(with_forks("wide.trace", *plain, count));
    };
    CHECK(long_prompt(10).empty());
    CHECK_THAT(long_prompt(forks), ContainsSubstring("more memory than a file of its size"));
}

TEST_CASE("a sparse file of an old schema is read by what is in it", "[record]") {
    TemporaryFolder folder;
    const auto file = folder / "sparse.trace";
    std::string bytes = contents(std::filesystem::path(RL_SOURCE_DIR) / "tests/engine/record/schema2.rlt");
    constexpr uint32_t pages = 4'000'000; // of 1 KiB
    for (size_t i = 0; i < 4; ++i)
        bytes[28 + i] = static_cast<char>(pages >> (8 * (3 - i)) & 0xFFU); // the header's size in pages
    write(file, bytes);
    std::filesystem::resize_file(file, uint64_t{pages} * 1024);
    const std::string said = in_child([&]() -> std::string {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // they map terabytes
        const rlimit limit{uint64_t{1} << 30U, RLIM_INFINITY};
        if (setrlimit(RLIMIT_AS, &limit) != 0) return "no limit";
#endif
        return fmt::format("{} steps", load_trace(file).at(0)->steps());
    });
    CHECK(said == "20 steps");
}

TEST_CASE("a trace that is removed while it is recorded is said, and the run is kept", "[record]") {
    TemporaryFolder folder;
    const auto file = folder / "gone.trace";
    Grower grower(6);
    const auto recording = grower.start();
    grower.grow(*recording, 5);
    const auto other = recorded(7, 4);
    {
        auto store = TraceStore::create(file);
        store->attach(recording);
        store->flush();
        REQUIRE(store->error().empty());
        SECTION("removed") {
            std::filesystem::remove(file);
        }
        SECTION("renamed") {
            std::filesystem::rename(file, folder / "elsewhere.trace");
        }
        SECTION("replaced by another recording") {
            for (const char* suffix : {"", "-wal", "-shm"})
                std::filesystem::remove(file.string() + suffix);
            const auto second = TraceStore::create(file);
            second->attach(other);
            second->flush();
            REQUIRE(second->error().empty());
            store->flush();
            CHECK_THAT(store->error(), ContainsSubstring("removed or renamed"));
            store.reset(); // while the second one still writes
            second->flush();
            REQUIRE(second->error().empty());
        }
        if (store) {
            grower.grow(*recording, 3);
            store->flush();
            CHECK_THAT(store->error(), ContainsSubstring(file.string()) &&
                                           ContainsSubstring("removed or renamed") &&
                                           ContainsSubstring("save the run again"));
        } else {
            CHECK(first_difference(*load_trace(file).at(0), *other) == std::nullopt);
        }
    }
    REQUIRE(save_trace(folder / "again.trace", recording));
    CHECK(first_difference(*load_trace(folder / "again.trace").at(0), *recording) == std::nullopt);
}

TEST_CASE("the limit on file sizes acts like a full disk", "[record]") {
    TemporaryFolder folder;
    const auto recording = recorded(8, 300);
    const auto limited = [&](const auto& work) {
        return in_child([&]() -> std::string {
            signal(SIGXFSZ, SIG_DFL); // which ends the process
            const rlimit limit{200 * 1024, RLIM_INFINITY};
            if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return "no limit";
            const std::string said = work();
            sigset_t blocked, pending;
            sigprocmask(SIG_BLOCK, nullptr, &blocked);
            sigpending(&pending);
            if (sigismember(&blocked, SIGXFSZ) != 0 || sigismember(&pending, SIGXFSZ) != 0)
                return "signal left over";
            return said;
        });
    };
    const auto file = folder / "live.trace";
    CHECK_THAT(limited([&] {
                   const auto store = TraceStore::create(file);
                   store->attach(recording);
                   store->flush();
                   return store->error();
               }),
               ContainsSubstring(file.string()) && ContainsSubstring("File too large") &&
                   ContainsSubstring("ulimit -f"));
    CHECK_THAT(limited([&] {
                   try {
                       (void)save_trace(folder / "saved.trace", recording);
                   } catch (const Error& e) {
                       return std::string(e.what());
                   }
                   return std::string("saved");
               }),
               ContainsSubstring("saved.trace") && ContainsSubstring("File too large"));
    CHECK_FALSE(std::filesystem::exists(folder / "saved.trace"));
}

TEST_CASE("a log that cannot be read is named", "[record]") {
    TemporaryFolder folder;
    std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
    const auto file = folder / "killed.trace";
    make_killed_trace(file);
    const std::string log = file.string() + "-wal", kept = (folder / "log").string();
    std::filesystem::remove(file.string() + "-shm");
    std::filesystem::copy_file(log, kept);
    SECTION("a folder that is read-only") {
        std::filesystem::permissions(folder.path(), std::filesystem::perms(0555));
        const std::string said = error_of_a_stranger(file);
        CHECK_THAT(said, ContainsSubstring("bad input") && ContainsSubstring("killed.trace-wal") &&
                             ContainsSubstring("folder that can be written"));
        std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
        CHECK(load_trace(file).at(0)->steps() == 10); // by its owner
    }
    SECTION("a link to the log") {
        std::filesystem::remove(log);
        std::filesystem::create_symlink("log", log);
        CHECK_THAT(load_error(file),
                   ContainsSubstring("killed.trace-wal") && ContainsSubstring("symbolic link"));
        std::filesystem::remove(log);
        std::filesystem::copy_file(kept, log);
        CHECK(load_trace(file).at(0)->steps() == 10);
    }
}

TEST_CASE("a closed trace in the form of a live one is read where nothing can be written", "[record]") {
    TemporaryFolder folder;
    std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
    const auto file = folder / "wal.trace";
    save_trace(file, recorded(9, 12));
    Database(file, sqlite::Open::read_write).exec("PRAGMA journal_mode = WAL");
    REQUIRE_FALSE(std::filesystem::exists(file.string() + "-wal"));
    std::filesystem::permissions(folder.path(), std::filesystem::perms(0555));
    CHECK(error_of_a_stranger(file).empty());
    std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
    CHECK(folder.files() == std::vector<std::string>{"wal.trace"});
}

TEST_CASE("too many open files are called so, and are no fault of the trace", "[record]") {
    TemporaryFolder folder;
    const auto file = folder / "good.trace";
    save_trace(file, recorded(10, 5));
    const auto starved = [&](const auto& work) {
        return in_child([&]() -> std::string {
            const rlimit limit{64, 64};
            if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return "no limit";
            while (open("/dev/null", O_RDONLY) >= 0) {
            }
            try {
                work();
                return "worked";
            } catch (const Error& e) {
                return std::string(e.kind() == ErrorKind::failure ? "failure: " : "bad input: ") + e.what();
            }
        });
    };
    for (const std::string& said :
         {starved([&] { (void)load_trace(file); }),
          starved([&] { (void)TraceStore::create(folder / "new.trace"); }),
          starved([&] { (void)save_trace(folder / "new.trace", recorded(11, 3)); })})
        CHECK_THAT(said, ContainsSubstring("failure: ") && ContainsSubstring("Too many open files"));
    CHECK(folder.files() == std::vector<std::string>{"good.trace"});
}

} // namespace trace_untrusted_test
