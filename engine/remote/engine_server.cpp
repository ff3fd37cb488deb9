#include "engine/remote/engine_server.h"

#include "engine/base/error.h"
#include "engine/remote/connection.h"
#include "engine/remote/kept_runs.h"
#include "engine/remote/messages.h"
#include "engine/remote/note_json.h"
#include "engine/remote/note_sender.h"
#include "engine/remote/offered_files.h"
#include "engine/remote/offered_parts.h"
#include "engine/remote/row_sender.h"
#include "engine/remote/score_sender.h"
#include "engine/remote/status_json.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace refreshlab::remote {

namespace {

using nlohmann::json;

/// Of a client that has not said who it is, and of one that has: a branch of a long run carries its tokens.
constexpr size_t longest_hello = size_t{1} << 20, longest_of_client = size_t{16} << 20;
/// News of the engine are told at most so often.
constexpr std::chrono::milliseconds between_news{8};
constexpr std::chrono::seconds hello_limit{10};
/// While the server goes.
constexpr std::chrono::milliseconds between_looks{2};
/// Of a heavy message: more than a part, so that the link is busy, and little enough that what is looked at later comes soon.
constexpr int64_t least_heavy = 65536;
using Clock = std::chrono::steady_clock;
/// A copy of a trace takes room on the disk.
constexpr std::chrono::minutes keep_left_file{10};
constexpr size_t longest_name = 80, longest_problem = 1000; ///< characters
/// Of a file: a client that fetches one still gets its rows.
constexpr int64_t most_of_file = 262144;

std::string random_word() {
    std::random_device device;
    std::string word;
    for (int i = 0; i < 4; ++i)
        word += fmt::format("{:08x}", device());
    return word;
}

std::string machine_name() {
    char name[256] = {};
    return gethostname(name, sizeof name - 1) == 0 ? name : std::string("?");
}

/// In a time that does not tell how much of it is right.
bool same_token(const std::string& a, const std::string& b) {
    unsigned difference = a.size() == b.size() ? 0 : 1;
    for (size_t i = 0; i < a.size(); ++i)
        difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(i < b.size() ? b[i] : 0);
    return difference == 0;
}

/// A client: what it has been told.
struct Viewer {
    std::shared_ptr<Connection> connection;
    std::optional<asio::steady_timer> hello_timer;
    std::string name, key; ///< key: the same when it comes back
    bool let_in = false;
    RowSender rows;
    NoteSender notes;
    ScoreSender scores;
    size_t runs_with_notes = 0;                 ///< of rows.runs_told()
    std::shared_ptr<const EngineStatus> status; ///< that `told` was made of
    json told = json::object(), told_link;
    /// Tickets that it gave and those of the engine, rising; answered ones are gone.
    std::deque<std::pair<uint64_t, uint64_t>> tickets;
    uint64_t answered = 0, last_engine_ticket = 0;
    /// A file that goes to it, a piece at a time; null: none, or its copy is not made yet.
    std::shared_ptr<OfferedFiles::Copy> file;
    uint64_t file_id = 0; ///< of the request, the newest of this client
    std::string file_name;
    int64_t file_sent = 0;
    bool file_done = false;
    bool file_next = false; ///< rows and files take turns
};

} // namespace

struct EngineServer::Impl {
    Impl(EngineLink& engine_of, Options given)
        : engine(engine_of)
        , options(std::move(given))
        , files(options.files)
        , news_timer(io)
        , end_timer(io)
        , work(asio::make_work_guard(io)) {
        if (!options.listen.is_local() && options.token.empty())
            throw Error("listening on", to_string(options.listen),
                        "other machines reach this address, so it needs a token", "give --token-file FILE");
        listen();
        accept();
        thread = std::thread([this] { run(); });
        engine.on_news([this] { has_news(); });
        asio::post(io, [this] { tell_soon(); });
    }
    ~Impl() {
        engine.on_news({});
        asio::post(io, [this] { tell_last(Clock::now() + end_limit); });
        outlooks.join();
        copies.join();
        if (thread.joinable()) thread.join();
        if (options.listen.is_unix()) ::unlink(options.listen.path.c_str());
    }
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    /// Any thread.
    void has_news() {
        if (!news.exchange(true)) asio::post(io, [this] { tell_soon(); });
    }

    void run() {
        while (true)
            try {
                io.run();
                return;
            } catch (const std::exception& e) { // no client's fault ends the server
                say(fmt::format("a connection: {}", e.what()));
            }
    }

    /// The server goes: the newest steps are told yet, as far as the links take them in a moment.
    void tell_last(Clock::time_point at_most) {
        see_run();
        bool more = false;
        for (const auto& viewer : std::vector(viewers))
            more = tell(viewer) || more;
        if (more && Clock::now() < at_most) {
            end_timer.expires_after(between_looks);
            end_timer.async_wait([this, at_most](asio::error_code) { tell_last(at_most); });
            return;
        }
        work.reset();
        asio::error_code ignored;
        if (tcp) tcp->close(ignored);
        if (local) local->close(ignored);
        news_timer.cancel();
        shared_notes.reset();
        for (const auto& viewer : std::exchange(viewers, {})) {
            leaving.push_back(viewer->connection);
            drop(*viewer);
        }
        wait_for_leaving(Clock::now() + end_limit);
    }
    /// What was sent arrives, then the loop ends.
    void wait_for_leaving(Clock::time_point at_most) {
        std::erase_if(leaving, [](const auto& connection) { return connection.expired(); });
        if (leaving.empty() || Clock::now() >= at_most) return io.stop();
        end_timer.expires_after(between_looks);
        end_timer.async_wait([this, at_most](asio::error_code) { wait_for_leaving(at_most); });
    }

    void listen() {
        const auto failed = [&](const std::string& why) {
            return Error("listening on", to_string(options.listen), why);
        };
        try {
            if (options.listen.is_unix()) {
                remove_left_socket();
                const mode_t before =
                    ::umask(S_IRWXG | S_IRWXO | S_IXUSR); // this user alone, from the first moment
                asio::error_code error;
                local.emplace(io);
                local->open({}, error);
                if (!error) local->bind(asio::local::stream_protocol::endpoint(options.listen.path), error);
                ::umask(before);
                if (!error) local->listen(asio::socket_base::max_listen_connections, error);
                if (error) throw asio::system_error(error);
                return;
            }
            asio::ip::tcp::resolver resolver(io);
            const auto found = resolver.resolve(options.listen.host, std::to_string(options.listen.port),
                                                asio::ip::resolver_base::passive);
            tcp.emplace(io, found.begin()->endpoint());
            options.listen.port = tcp->local_endpoint().port();
        } catch (const asio::system_error& e) {
            throw failed(e.code().message());
        }
    }
    /// A server that was killed leaves its socket. One that answers is another server's.
    void remove_left_socket() {
        struct stat about {};
        if (::lstat(options.listen.path.c_str(), &about) != 0) return;
        if (!S_ISSOCK(about.st_mode))
            throw Error("listening on", to_string(options.listen), "something else stands there");
        asio::local::stream_protocol::socket probe(io);
        asio::error_code error;
        probe.connect(asio::local::stream_protocol::endpoint(options.listen.path), error);
        if (!error) throw Error("listening on", to_string(options.listen), "another server listens there");
        ::unlink(options.listen.path.c_str());
    }

    void accept() {
        const auto wait = [this](auto& acceptor) {
            acceptor.async_accept([this](asio::error_code error, auto socket) {
                if (error == asio::error::operation_aborted) return;
                if (!error) {
                    // Small messages are news: they do not wait for others.
                    if constexpr (std::is_same_v<decltype(socket), asio::ip::tcp::socket>) {
                        asio::error_code ignored;
                        socket.set_option(asio::ip::tcp::no_delay(true), ignored);
                    }
                    begin(Connection::Socket(std::move(socket)));
                    return accept();
                }
                // Too many files, mostly: later there may be room.
                auto pause = std::make_shared<asio::steady_timer>(io, std::chrono::milliseconds(200));
                pause->async_wait([this, pause](asio::error_code aborted) {
                    if (!aborted) accept();
                });
            });
        };
        if (tcp && tcp->is_open()) wait(*tcp);
        if (local && local->is_open()) wait(*local);
    }

    void begin(Connection::Socket socket) {
        auto viewer = std::make_shared<Viewer>();
        viewer->connection = std::make_shared<Connection>(std::move(socket), longest_hello);
        viewer->hello_timer.emplace(io, hello_limit);
        viewer->hello_timer->async_wait([this, weak = std::weak_ptr(viewer)](asio::error_code error) {
            const auto late = weak.lock();
            if (!error && late && !late->let_in) forget(late);
        });
        viewers.push_back(viewer);
        viewer->connection->start({.message = [this, viewer](const json& message) { take(viewer, message); },
                                   .room = [this, viewer] { tell(viewer); },
                                   .closed =
                                       [this, viewer](const std::string& why) {
                                           if (viewer->let_in)
                                               say(fmt::format("{} has gone: {}", viewer->name, why));
                                           forget(viewer);
                                       }});
        if (viewers.size() > most_clients) refuse(viewer, "the server has too many connections already");
    }

    static void drop(Viewer& viewer) {
        viewer.hello_timer->cancel();
        viewer.connection->close();
    }

    void forget(const std::shared_ptr<Viewer>& viewer) {
        // A client whose connection was lost comes back for the rest of the same bytes.
        if (viewer->file) left_files[viewer->key] = {viewer->file, viewer->file_name, Clock::now()};
        viewer->file.reset();
        std::erase_if(left_files,
                      [](const auto& left) { return Clock::now() - left.second.since > keep_left_file; });
        drop(*viewer);
        if (std::erase(viewers, viewer) > 0 && viewer->let_in) --let_in_now;
        tell_soon(); // there is one viewer less
    }

    void refuse(const std::shared_ptr<Viewer>& viewer, const std::string& why) {
        viewer->connection->send({{"type", message::refused}, {"problem", why}});
        forget(viewer);
    }

    void say(const std::string& line) const {
        if (options.log) options.log(line);
    }

    void take(const std::shared_ptr<Viewer>& viewer, const json& message) {
        try {
            const auto& type = message.at("type").get_ref<const std::string&>();
            if (!viewer->let_in) {
                if (type != message::hello) throw ProtocolError("it has not said who it is");
                return let_in(viewer, message);
            }
            if (type == message::command) return take_command(*viewer, message);
            if (type == message::note) return take_note(*viewer, message);
            if (type == message::outlook_asked) return ask_outlook(viewer, message);
            if (type == message::offers_asked) return tell_offers(viewer, message.at("id").get<uint64_t>());
            if (type == message::file_asked)
                return begin_file(viewer, message.at("id").get<uint64_t>(),
                                  message.at("name").get<std::string>(), message.value("have", int64_t{0}),
                                  message.value("digest", uint64_t{0}));
            if (type == message::file_left) {
                if (viewer->file_id == message.at("id").get<uint64_t>()) viewer->file.reset();
                left_files.erase(viewer->key);
                return;
            }
            if (type == message::wheel) return give_wheel(*viewer);
            if (type == message::look) return viewer->rows.look_at(message.at("position").get<int64_t>());
            if (type == message::look_score) {
                viewer->scores.look(kept.find(message.at("run").get<std::string>()),
                                    message.at("position").get<int64_t>());
                tell(viewer);
                return;
            }
            if (type == message::bye) {
                say(fmt::format("{} has left", viewer->name));
                if (driver_key == viewer->key) driver_key.clear();
                viewer->file.reset();
                return forget(viewer);
            }
            throw ProtocolError("a message is of no known type");
        } catch (const json::exception& e) {
            throw ProtocolError(e.what());
        }
    }

    void let_in(const std::shared_ptr<Viewer>& viewer, const json& hello) {
        if (!options.token.empty() && !same_token(options.token, hello.value("token", std::string())))
            return refuse(viewer, "the token is not that of this server");
        viewer->name = visible_text(hello.at("name").get_ref<const std::string&>(), longest_name);
        if (viewer->name.empty()) viewer->name = "somebody";
        viewer->key = hello.at("key").get<std::string>();
        // A connection that it has lost and the server has not yet.
        for (const auto& other : std::vector(viewers))
            if (other != viewer && other->let_in && other->key == viewer->key) forget(other);
        if (driver_key.empty()) {
            driver_key = viewer->key;
            driver_name = viewer->name;
        }
        viewer->let_in = true;
        ++let_in_now;
        viewer->hello_timer->cancel();
        viewer->connection->set_longest(longest_of_client);
        see_run();
        json resumed;
        if (hello.value("server", std::string()) == instance && hello.contains("state") &&
            !hello.at("state").is_null())
            resumed = viewer->rows.resume(kept.runs(), hello.at("state"));
        viewer->connection->send({{"type", message::welcome},
                                  {"server", instance},
                                  {"host", host},
                                  {"record", options.record},
                                  {"resumed", std::move(resumed)}});
        say(fmt::format("{} has come", viewer->name));
        tell(viewer);
        tell_soon();
    }

    void take_command(Viewer& viewer, const json& message) {
        const auto ticket = message.at("ticket").get<uint64_t>();
        std::string problem;
        if (viewer.key != driver_key)
            problem = fmt::format("{} drives this engine; take the wheel first", driver_name);
        else
            try {
                const uint64_t given = engine.send(command_from_json(message.at("command"), "a command"));
                if (given == 0)
                    problem = "the engine is closing";
                else
                    viewer.last_engine_ticket = given;
            } catch (const Error& e) {
                problem = e.what();
            }
        viewer.tickets.emplace_back(ticket, viewer.last_engine_ticket);
        json answer = {{"type", message::taken}, {"ticket", ticket}};
        if (!problem.empty()) answer["problem"] = std::move(problem);
        viewer.connection->send(answer);
        viewer.status.reset(); // `answered` may have risen
        tell_soon();
    }

    void ask_outlook(const std::shared_ptr<Viewer>& viewer, const json& asked) {
        const auto id = asked.at("id").get<uint64_t>();
        const auto answer = [this, weak = std::weak_ptr(viewer), id](const RunOutlook& outlook) {
            asio::post(io, [weak, id, json = outlook_json(outlook)] {
                if (const auto there = weak.lock())
                    there->connection->send({{"type", message::outlook}, {"id", id}, {"outlook", json}});
            });
        };
        RunConfig config;
        try {
            config = run_config_from_json(asked.at("config"), "a configuration");
        } catch (const Error& e) {
            RunOutlook outlook;
            outlook.part = RunOutlook::Part::other;
            outlook.problem = e.what();
            return answer(outlook);
        }
        asio::post(outlooks, [this, config = std::move(config), answer] { answer(engine.outlook(config)); });
    }

    void tell_offers(const std::shared_ptr<Viewer>& viewer, uint64_t id) {
        asio::post(outlooks, [this, weak = std::weak_ptr(viewer), id] {
            json models = json::array(), offered = json::array(), parts = json::array();
            if (options.models)
                for (const KnownModel& model : options.models())
                    if (!first_invalid_utf8(model.path))
                        models.push_back({{"name", model.name}, {"path", model.path}});
            if (options.parts)
                for (const LinkOffers::Part& part : options.parts())
                    if (!first_invalid_utf8(part.path))
                        parts.push_back(
                            {{"kind", part_name(part.kind)}, {"name", part.name}, {"path", part.path}});
            for (const LinkOffers::File& file : files.list())
                if (!first_invalid_utf8(file.name))
                    offered.push_back(
                        {{"name", file.name}, {"bytes", file.bytes}, {"changed", file.changed}});
            asio::post(io, [weak, answer = json{{"type", message::offers},
                                                {"id", id},
                                                {"models", std::move(models)},
                                                {"parts", std::move(parts)},
                                                {"files", std::move(offered)}}] {
                if (const auto there = weak.lock()) there->connection->send(answer);
            });
        });
    }

    /// \param have, digest  what the client has of it from before, of this copy or another one
    void begin_file(const std::shared_ptr<Viewer>& viewer, uint64_t id, const std::string& name, int64_t have,
                    uint64_t digest) {
        viewer->file.reset(); // one at a time: the newest
        viewer->file_id = id;
        viewer->file_name = name;
        std::shared_ptr<OfferedFiles::Copy> left;
        if (const auto found = left_files.find(viewer->key); found != left_files.end()) {
            if (have > 0 && found->second.name == name) left = found->second.copy;
            left_files.erase(found);
        }
        asio::post(copies, [this, weak = std::weak_ptr(viewer), id, name, have, digest, left] {
            std::shared_ptr<OfferedFiles::Copy> copy;
            int64_t begin = 0;
            std::string problem;
            const auto waits = weak.lock(); // who has gone meanwhile needs none
            try {
                if (waits && left && left->begins_with(have, digest)) copy = left;
                if (waits && !copy) copy = files.copy(name);
                if (copy && (copy == left || (have > 0 && copy->begins_with(have, digest)))) begin = have;
            } catch (const Error& e) {
                problem = e.problem();
            }
            asio::post(io, [this, weak, id, copy, problem, begin] {
                const auto there = weak.lock();
                if (!there || there->file_id != id) return;
                if (!copy)
                    return there->connection->send({{"type", message::file},
                                                    {"id", id},
                                                    {"problem", visible_text(problem, longest_problem)}});
                there->file = copy;
                there->file_sent = begin;
                there->file_done = false;
                tell(there);
            });
        });
    }

    /// A piece of the file, if one is on its way.
    static json next_of_file(Viewer& viewer, int64_t room) {
        if (!viewer.file || viewer.file_done) return nullptr;
        const auto bytes = viewer.file->read(viewer.file_sent, std::min(room, most_of_file));
        json piece = {{"type", message::file},
                      {"id", viewer.file_id},
                      {"offset", viewer.file_sent},
                      {"size", viewer.file->bytes()},
                      {"bytes", json::binary(bytes)}};
        viewer.file_sent += static_cast<int64_t>(bytes.size());
        viewer.file_done =
            viewer.file_sent >= viewer.file->bytes(); // it stays until the client says that it has it
        return piece;
    }

    void give_wheel(Viewer& viewer) {
        if (driver_key == viewer.key) return;
        driver_key = viewer.key;
        driver_name = viewer.name;
        say(fmt::format("{} has taken the wheel", viewer.name));
        tell_soon();
    }

    /// News of the engine, or of the server, for everybody.
    void tell_soon() {
        if (telling || work_over()) return;
        telling = true;
        news_timer.expires_after(between_news);
        news_timer.async_wait([this](asio::error_code error) {
            telling = false;
            if (error) return;
            news = false; // before the look: what comes now is looked at again
            see_run();
            for (const auto& viewer : std::vector(viewers))
                tell(viewer);
        });
    }
    [[nodiscard]] bool work_over() const { return !work.owns_work(); }

    /// \return whether more may come
    bool tell(const std::shared_ptr<Viewer>& viewer) {
        if (!viewer->let_in || !shared_notes) return false;
        if (viewer->connection->room() == 0) return true;
        try {
            return tell_news(*viewer);
        } catch (const std::exception& e) { // no fault of one client is another's
            say(fmt::format("{} cannot be told: {}", viewer->name, e.what()));
            forget(viewer);
            return false;
        }
    }

    /// A run that has come to be is told to everybody, also to those whose link is busy now.
    void see_run() {
        if (!kept.see(engine.recording())) return;
        for (const auto& viewer : viewers)
            if (viewer->let_in) viewer->rows.tell(kept.runs().back());
        if (!shared_notes) return;
        for (const auto& run : kept.runs())
            shared_notes->add(run);
        shared_notes->keep([&](const std::string& id) { return kept.find(id) != nullptr; });
    }

    void take_note(Viewer& viewer, const json& message) {
        std::string problem;
        const auto run = message.at("run").get<std::string>();
        const auto key = message.at("key").get<std::string>();
        try {
            if (!shared_notes->change(run, key, note_of(message.at("note"))))
                problem = fmt::format("the server has run {} no more: a note of it that was changed here is "
                                      "in this window alone",
                                      visible_text(run, longest_name));
        } catch (const Error& e) {
            problem = e.what();
        }
        viewer.notes.answer(message.at("number").get<uint64_t>(), run, key, problem);
        tell_soon();
    }

    void tell_notes(Viewer& viewer) {
        const auto& told = viewer.rows.runs_told();
        for (; viewer.runs_with_notes < told.size(); ++viewer.runs_with_notes) {
            const std::string& id = told[viewer.runs_with_notes];
            if (const auto run = kept.find(id))
                viewer.notes.begin(id, std::ranges::find(told, run->info().parent_id) == told.end());
        }
        for (json notes = viewer.notes.next(*shared_notes); !notes.is_null();
             notes = viewer.notes.next(*shared_notes)) {
            notes["type"] = message::notes;
            viewer.connection->send(notes);
        }
    }

    /// \return whether there were rows
    bool tell_news(Viewer& viewer) {
        const auto status = engine.status(); // first: the steps that it speaks of are there
        see_run();
        const auto recording = engine.recording();
        viewer.rows.tell(recording);
        // What is written is there before everything that is written after it: a branch too.
        if (!viewer.connection->heavy_on_the_way()) viewer.rows.heavy_has_come();
        json rows = viewer.rows.next();
        tell_link(viewer); // before the rows: who has them knows what has not come of them
        const bool some = !rows.is_null();
        if (some) {
            rows["type"] = message::rows;
            viewer.connection->send(rows);
        }
        tell_notes(viewer);
        tell_status(viewer, status, recording.get());
        if (!viewer.connection->heavy_on_the_way()) tell_heavy(viewer, *status);
        // What did not fit comes when the link says that it has room.
        return some;
    }

    void tell_status(Viewer& viewer, const std::shared_ptr<const EngineStatus>& status,
                     const Recording* recording) {
        if (viewer.status == status) return;
        viewer.status = status;
        while (!viewer.tickets.empty() && viewer.tickets.front().second <= status->answered) {
            viewer.answered = viewer.tickets.front().first;
            viewer.tickets.pop_front();
        }
        json now = status_json(*status, recording == nullptr ? nullptr : &recording->tokens());
        now["answered"] = viewer.answered;
        if (status->applied.teacher_dir.empty() && status->applied.student_dir.empty()) {
            now["applied"]["teacher_dir"] = options.first_run.teacher_dir;
            now["applied"]["student_dir"] = options.first_run.student_dir;
        }
        const json changed = changed_keys(viewer.told, now);
        if (changed.empty()) return;
        viewer.connection->send({{"type", message::status}, {"changed", changed}});
        viewer.told = std::move(now);
    }

    void tell_link(Viewer& viewer) {
        const auto to_come = viewer.rows.heavy_to_come();
        const auto present = std::ranges::count_if(viewers, [](const auto& v) { return v->let_in; });
        json link = {{"type", message::link},
                     {"driving", viewer.key == driver_key},
                     {"driver", driver_key.empty() ? std::string() : driver_name},
                     {"viewers", present},
                     {"rows_to_come", to_come.rows},
                     {"bytes_to_come", to_come.bytes}};
        if (link == viewer.told_link) return;
        viewer.connection->send(link);
        viewer.told_link = std::move(link);
    }

    static void tell_heavy(Viewer& viewer, const EngineStatus& status) {
        const int64_t bytes = std::max(least_heavy, viewer.connection->room());
        const auto send_scores = [&](json scores) {
            if (scores.is_null()) return false;
            scores["type"] = message::scores;
            viewer.connection->send_heavy(scores);
            return true;
        };
        if (send_scores(viewer.scores.next())) return; // little, and somebody waits for it
        if (std::exchange(viewer.file_next, !viewer.file_next))
            if (const json piece = next_of_file(viewer, bytes); !piece.is_null())
                return viewer.connection->send_heavy(piece);
        json heavy = viewer.rows.next_heavy(bytes);
        if (heavy.is_null() && status.landscape) heavy = viewer.rows.next_landscape(*status.landscape, bytes);
        if (heavy.is_null()) {
            if (send_scores(viewer.scores.next_beside(bytes))) return;
            if (const json piece = next_of_file(viewer, bytes); !piece.is_null())
                viewer.connection->send_heavy(piece);
            return;
        }
        heavy["type"] = message::rows;
        viewer.connection->send_heavy(heavy);
    }

    EngineLink& engine;
    Options options;
    const OfferedFiles files;
    const std::string instance = random_word(); ///< another server has another
    const std::string host = machine_name();
    asio::io_context io{1};
    std::optional<asio::ip::tcp::acceptor> tcp;
    std::optional<asio::local::stream_protocol::acceptor> local;
    asio::steady_timer news_timer, end_timer;
    asio::executor_work_guard<asio::io_context::executor_type> work;
    std::atomic<bool> news = false; ///< the engine has called; set by its thread, taken by this one
    bool telling = false;
    struct LeftFile {
        std::shared_ptr<OfferedFiles::Copy> copy;
        std::string name;
        Clock::time_point since;
    };
    std::map<std::string, LeftFile>
        left_files; ///< on their way when a connection was lost, by the client's key
    KeptRuns kept;
    std::optional<SharedNotes> shared_notes{std::in_place, [this] { has_news(); }};
    std::vector<std::shared_ptr<Viewer>> viewers;
    std::vector<std::weak_ptr<Connection>> leaving; ///< once the server ends
    std::atomic<int> let_in_now = 0;                ///< of them; written by this thread
    std::string driver_key, driver_name;
    asio::thread_pool outlooks{1}, copies{1};
    std::thread thread;
};

EngineServer::EngineServer(EngineLink& engine, Options options)
    : m_impl(std::make_unique<Impl>(engine, std::move(options))) {}

EngineServer::~EngineServer() = default;

int EngineServer::viewers() const {
    return m_impl->let_in_now;
}

Endpoint EngineServer::endpoint() const {
    return m_impl->options.listen;
}

} // namespace refreshlab::remote
