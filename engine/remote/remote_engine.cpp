#include "engine/remote/remote_engine.h"

#include "engine/base/error.h"
#include "engine/control/command_queue.h"
#include "engine/remote/byte_digest.h"
#include "engine/remote/connection.h"
#include "engine/remote/messages.h"
#include "engine/remote/note_receiver.h"
#include "engine/remote/offered_parts.h"
#include "engine/remote/row_receiver.h"
#include "engine/remote/score_sender.h"
#include "engine/remote/status_json.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <variant>

namespace refreshlab::remote {

namespace {

using nlohmann::json;

constexpr auto connecting = "connecting to"; ///< Error::doing
constexpr size_t longest_of_server = size_t{256} << 20;
/// Commands that the server has not taken yet. More wait here, where a later one replaces an earlier one of its kind.
constexpr uint64_t most_on_the_way = 4;
constexpr std::chrono::milliseconds first_pause{250}, longest_pause{10'000};
constexpr std::chrono::seconds outlook_patience{60};
constexpr auto no_server_hint = "start one with `refreshlab serve`";
constexpr size_t longest_label = 200, longest_reason = 1000; ///< characters

std::string random_key() {
    std::random_device device;
    return fmt::format("{:08x}{:08x}{:08x}", device(), device(), device());
}

/// A file that comes. Threads: the connection's writes it, who waits for it reads it, under the mutex.
struct Download {
    std::string name;
    std::filesystem::path part;
    std::mutex mutex;
    std::condition_variable changed;
    std::ofstream out;
    ByteDigest digest;           ///< of what is here
    int64_t here = 0, size = -1; ///< bytes; size: not known yet
    bool asked = false;          ///< nothing has come since it was asked for
    /// Takes what a former try has left, and opens the file to go on. \return false: it cannot be written
    bool open() {
        if (std::ifstream in(part, std::ios::binary); in) {
            std::vector<uint8_t> piece(size_t{1} << 20);
            while (in) {
                in.read(reinterpret_cast<char*>(piece.data()), static_cast<std::streamsize>(piece.size()));
                digest.add(std::span(piece).first(static_cast<size_t>(in.gcount())));
                here += in.gcount();
            }
        }
        out.open(part, std::ios::binary | std::ios::app);
        return static_cast<bool>(out);
    }
    /// The server has other bytes than those that are here.
    void begin_anew() {
        out.close();
        out.open(part, std::ios::binary | std::ios::trunc);
        here = 0;
        size = -1;
        digest = {};
    }
    bool done = false;
    std::string problem;
    void end(const std::string& why) {
        const std::lock_guard lock(mutex);
        if (done) return;
        problem = why;
        done = true;
        changed.notify_all();
    }
};

LinkOffers no_offers(const std::string& problem) {
    LinkOffers offers;
    offers.problem = problem;
    return offers;
}

RunOutlook no_outlook(const std::string& problem) {
    RunOutlook outlook;
    outlook.part = RunOutlook::Part::other;
    outlook.problem = problem;
    return outlook;
}

} // namespace

/// Threads  what stands before the mutex is the thread's own; m_queue has its own lock.
struct RemoteEngine::Impl {
    explicit Impl(Options given)
        : options(std::move(given))
        , retry_timer(io)
        , work(asio::make_work_guard(io)) {
        notes.emplace(key, [this] { asio::post(io, [this] { send_notes(); }); });
        status_now.link.emplace();
        status_now.link->server = server_name();
        status_now.link->connected = false;
        status_now.message = "connecting";
        publish();
        auto first = settled.get_future();
        asio::post(io, [this] { connect(); });
        thread = std::thread([this] { run(); });
        std::string problem;
        if (first.wait_for(options.patience) == std::future_status::ready) {
            const First answer = first.get();
            if (answer.problem.empty()) return;
            stop();
            throw Error(connecting, server_name(), answer.problem, answer.hint,
                        answer.refused ? ErrorKind::bad_input : ErrorKind::failure);
        }
        stop();
        throw Error(connecting, server_name(),
                    fmt::format("nobody has answered for {} s", options.patience.count() / 1000), {},
                    ErrorKind::failure);
    }
    ~Impl() { stop(); }
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    void stop() {
        if (!thread.joinable()) return;
        if (options.road) options.road->give_up();
        asio::post(io, [this] {
            stopping = true;
            work.reset();
            retry_timer.cancel();
            if (connection) {
                connection->send({{"type", message::bye}});
                connection->close();
                connection.reset();
            }
            notes.reset();
            end_download("the connection is closed");
            refuse_outlooks("the connection is closed");
            auto end = std::make_shared<asio::steady_timer>(io, std::chrono::milliseconds(100));
            end->async_wait([this, end](asio::error_code) { io.stop(); });
        });
        thread.join();
    }

    void run() {
        while (true)
            try {
                io.run();
                return;
            } catch (const std::exception& e) {
                lost(e.what());
            }
    }

    // --- connecting ---
    [[nodiscard]] std::string server_name() const {
        return options.road ? options.road->name() : to_string(options.server);
    }

    void connect() {
        try {
            // A road, as a name that has to be resolved, may take long, and this thread has nothing else to do then.
            const Endpoint to = options.road ? options.road->open() : options.server;
            if (to.is_unix()) {
                auto socket = std::make_shared<asio::local::stream_protocol::socket>(io);
                socket->async_connect(asio::local::stream_protocol::endpoint(to.path),
                                      [this, socket](asio::error_code error) { connected(error, *socket); });
                return;
            }
            asio::ip::tcp::resolver resolver(io);
            const auto found = resolver.resolve(to.host, std::to_string(to.port));
            auto socket = std::make_shared<asio::ip::tcp::socket>(io);
            // A machine that is gone says nothing at all, and the system waits for minutes.
            auto limit = std::make_shared<asio::steady_timer>(io, silence_limit);
            limit->async_wait([socket](asio::error_code aborted) {
                asio::error_code ignored;
                if (!aborted) socket->close(ignored);
            });
            asio::async_connect(
                *socket, found,
                [this, socket, limit](asio::error_code error, const asio::ip::tcp::endpoint&) {
                    asio::error_code ignored;
                    limit->cancel();
                    socket->set_option(asio::ip::tcp::no_delay(true), ignored);
                    connected(error, *socket);
                });
        } catch (const asio::system_error& e) {
            lost(e.code().message());
        } catch (const Error& e) {
            lost(e.problem(), e.hint());
        }
    }

    template <class Socket>
    void connected(asio::error_code error, Socket& socket) {
        if (stopping) return;
        if (error)
            return lost(error == asio::error::connection_refused || error == asio::error::not_found ||
                                error == asio::error_code(ENOENT, asio::system_category())
                            ? "no server listens there"
                            : error.message());
        connection = std::make_shared<Connection>(Connection::Socket(std::move(socket)), longest_of_server);
        connection->start({.message = [this](const json& message) { take(message); },
                           .room = [this] { send_commands(); },
                           .closed =
                               [this, of = connection.get()](const std::string& why) {
                                   lost(why, of->of_another_version() ? other_version_hint()
                                                                      : std::string(no_server_hint));
                               }});
        json hello = {{"type", message::hello},
                      {"name", options.name},
                      {"key", key},
                      {"token", options.token},
                      {"server", server}};
        if (receiver) hello["state"] = receiver->state();
        connection->send(hello);
    }

    /// What to do where the other side is another RefreshLab.
    [[nodiscard]] std::string other_version_hint() const {
        return options.road
                   ? "install this RefreshLab there, or name where it stands there with --there; a server of "
                     "the other one that still runs there has to be ended first"
                   : "start `refreshlab serve` of this RefreshLab there";
    }

    /// \param hint  what a person may do where nothing was ever connected
    void lost(const std::string& why, const std::string& hint = no_server_hint) {
        connection.reset();
        let_in = false;
        if (stopping) return;
        if (!told_first) {
            told_first = true;
            return settled.set_value({why, hint, false});
        }
        refuse_outlooks("the connection to the server was lost");
        // Commands that wait, or that the server may not have got, are answered with that.
        const uint64_t before = last_taken;
        while (queue.try_pop()) {
        }
        last_taken = last_given;
        status_now.answered = last_given;
        if (before < last_given) refuse(no_connection());
        RemoteLink& link = *status_now.link;
        link.connected = false;
        link.problem = hint == no_server_hint || hint.empty() ? why : why + "; " + hint;
        publish();
        pause = std::min<std::chrono::milliseconds>(longest_pause, pause * 8 / 5);
        retry_timer.expires_after(pause);
        retry_timer.async_wait([this](asio::error_code error) {
            if (!error && !stopping) connect();
        });
    }

    // --- messages ---
    void take(const json& message) {
        try {
            const auto& type = message.at("type").get_ref<const std::string&>();
            if (type == message::refused) return refused(message.at("problem").get<std::string>());
            if (type == message::welcome) return welcome(message);
            if (!let_in) throw ProtocolError("the server has said nothing before its news");
            if (type == message::rows) return take_rows(message);
            if (type == message::status) return take_status(message);
            if (type == message::link) return take_link(message);
            if (type == message::notes) return take_notes(message);
            if (type == message::scores) return take_scores_of_run(message);
            if (type == message::taken) return take_taken(message);
            if (type == message::outlook) return take_outlook(message);
            if (type == message::offers) return take_offers(message);
            if (type == message::file) return take_file(message);
        } catch (const json::exception& e) {
            throw ProtocolError(std::string("a message of the server is none: ") + e.what());
        } catch (const Error& e) {
            throw ProtocolError(std::string("a message of the server is none: ") + e.what());
        }
        // One of a type that this program does not know says nothing that it could show.
    }

    void refused(const std::string& problem) {
        if (!told_first) {
            told_first = true;
            settled.set_value({problem, {}, true});
            return;
        }
        throw ProtocolError("the server refuses: " + problem);
    }

    void welcome(const json& message) {
        const auto instance = message.at("server").get<std::string>();
        const json& resumed = message.at("resumed");
        const bool anew = !server.empty() && server != instance;
        server = instance;
        if (!receiver) receiver.emplace();
        receiver->begin_connection(resumed);
        notes->begin_connection();
        told_status = json::object();
        first_status = true;
        let_in = true;
        pause = first_pause;
        RemoteLink& link = *status_now.link;
        link.connected = true;
        link.problem = anew ? "the server was started anew: its former runs are kept here alone" : "";
        message.at("host").get_to(link.host);
        message.at("record").get_to(link.record);
        if (looked_at) connection->send({{"type", message::look}, {"position", *looked_at}});
        ask_scores();
        ask_file();
        publish(); // first: who waits for the connection finds its status
        if (!std::exchange(told_first, true)) settled.set_value({});
        send_commands();
        send_notes();
    }

    void take_rows(const json& message) {
        try {
            receiver->take(message);
        } catch (const ProtocolError&) {
            receiver.reset(); // it stands between two states: the next connection begins anew
            notes->forget_runs();
            throw;
        }
        for (const auto& run : receiver->begun())
            notes->add(run);
        const auto& landscape = receiver->landscape();
        if (message.contains("landscape") && status_now.landscape &&
            status_now.landscape->run_id == receiver->landscape_run())
            put_landscape(status_now, landscape);
        publish();
    }

    static void put_landscape(EngineStatus& status, const std::shared_ptr<const Landscape>& landscape) {
        auto state = std::make_shared<LandscapeState>(*status.landscape);
        state->landscape = landscape;
        status.landscape = std::move(state);
    }

    void take_status(const json& message) {
        apply_keys(told_status, message.at("changed"));
        ReadStatus read = read_status(told_status);
        EngineStatus& news = read.status;
        if (news.draft) receiver->add_tokens(news.draft->run_id, read.tokens);
        // Its refusals, those of this side among them in the order in which they came. What is older than the connection is no news.
        const uint64_t errors = news.errors;
        if (!std::exchange(first_status, false) && errors > server_errors) {
            const size_t count = std::min<size_t>(errors - server_errors, news.refusals.size());
            for (size_t i = news.refusals.size() - count; i < news.refusals.size(); ++i)
                refuse(news.refusals[i]);
        }
        server_errors = errors;
        news.errors = status_now.errors;
        news.error = status_now.error;
        news.refusals = status_now.refusals;
        news.answered = std::max(news.answered, status_now.answered);
        news.link = status_now.link;
        news.recorded = false; // there and not here: link->record
        if (news.landscape && receiver->landscape_run() == news.landscape->run_id)
            put_landscape(news, receiver->landscape());
        status_now = std::move(news);
        publish();
    }

    void take_link(const json& message) {
        RemoteLink& link = *status_now.link;
        message.at("driving").get_to(link.driving);
        message.at("driver").get_to(link.driver);
        message.at("viewers").get_to(link.viewers);
        message.at("rows_to_come").get_to(link.rows_to_come);
        message.at("bytes_to_come").get_to(link.bytes_to_come);
        publish();
    }

    // --- scores ---
    void take_scores_of_run(const json& message) {
        const auto run = receiver->run(message.at("run").get<std::string>());
        if (!run) return; // it was told anew
        take_scores(message, *run);
        publish();
    }
    void ask_scores() {
        if (let_in && wanted_score)
            connection->send({{"type", message::look_score},
                              {"run", wanted_score->first},
                              {"position", wanted_score->second}});
    }

    // --- notes ---
    void take_notes(const json& message) {
        const std::string problem = notes->take(message);
        if (!problem.empty()) refuse(visible_text(problem, longest_reason));
        status_now.link->notes_to_send = static_cast<int64_t>(notes->waiting());
        publish();
    }

    /// What a person has changed, if there is somebody to send it to.
    void send_notes() {
        if (!notes) return;
        if (let_in)
            for (json& change : notes->changes()) {
                change["type"] = message::note;
                connection->send(change);
            }
        else
            notes->look_for_changes();
        tell_waiting_notes();
    }

    void tell_waiting_notes() {
        const auto waiting = static_cast<int64_t>(notes->waiting());
        if (std::exchange(status_now.link->notes_to_send, waiting) != waiting) publish();
    }

    void take_taken(const json& message) {
        last_taken = std::max(last_taken, message.at("ticket").get<uint64_t>());
        if (const auto problem = message.find("problem"); problem != message.end()) {
            refuse(problem->get<std::string>());
            publish();
        }
        send_commands();
    }

    void take_outlook(const json& message) {
        const std::lock_guard lock(mutex);
        const auto found = outlooks.find(message.at("id").get<uint64_t>());
        if (found == outlooks.end()) return; // nobody waits any more
        found->second.set_value(read_outlook(message.at("outlook")));
        outlooks.erase(found);
    }

    void take_offers(const json& message) {
        LinkOffers offers;
        for (const json& model : message.at("models"))
            offers.models.push_back({visible_text(model.at("name").get<std::string>(), longest_label),
                                     model.at("path").get<std::string>()});
        for (const json& file : message.at("files"))
            offers.files.push_back({file.at("name").get<std::string>(), file.at("bytes").get<int64_t>(),
                                    visible_text(file.at("changed").get<std::string>(), longest_label)});
        for (const json& part : message.at("parts"))
            offers.parts.push_back({part_kind(part.at("kind").get<std::string>()),
                                    visible_text(part.at("name").get<std::string>(), longest_label),
                                    part.at("path").get<std::string>()});
        const std::lock_guard lock(mutex);
        const auto found = offers_asked.find(message.at("id").get<uint64_t>());
        if (found == offers_asked.end()) return;
        found->second.set_value(std::move(offers));
        offers_asked.erase(found);
    }

    void take_file(const json& message) {
        if (!download || download_id != message.at("id").get<uint64_t>()) return; // one that was left
        if (const auto problem = message.find("problem"); problem != message.end())
            return end_download(visible_text(problem->get<std::string>(), longest_reason));
        const std::vector<uint8_t>& bytes = message.at("bytes").get_binary();
        const auto offset = message.at("offset").get<int64_t>(), size = message.at("size").get<int64_t>();
        bool done = false;
        {
            const std::lock_guard lock(download->mutex);
            if (std::exchange(download->asked, false)) {
                if (offset == 0 && download->here > 0) download->begin_anew();
                download->size = size;
            }
            if (offset != download->here || size != download->size)
                throw ProtocolError("pieces of a file are not in their order");
            download->out.write(reinterpret_cast<const char*>(bytes.data()),
                                static_cast<std::streamsize>(bytes.size()));
            download->here += static_cast<int64_t>(bytes.size());
            download->digest.add(bytes);
            done = download->here >= size;
            if (done) download->out.close();
            download->changed.notify_all();
        }
        if (!download->out) return leave_download("it cannot be written here: is the disk full?");
        if (done) leave_download({}); // the server's copy is needed no more
    }

    /// For the first time, or again in another connection.
    void ask_file() {
        if (!download || !let_in) return;
        const std::lock_guard lock(download->mutex);
        download->asked = true;
        connection->send({{"type", message::file_asked},
                          {"id", download_id},
                          {"name", download->name},
                          {"have", download->here},
                          {"digest", download->digest.value()}});
    }

    void end_download(const std::string& why) {
        if (download) download->end(why);
        download.reset();
    }
    /// The server need not send more of it.
    void leave_download(const std::string& why) {
        if (download && let_in) connection->send({{"type", message::file_left}, {"id", download_id}});
        end_download(why);
    }

    /// Whoever waits for an answer gets none. A file goes on when the connection is back.
    void refuse_outlooks(const std::string& why) {
        const std::lock_guard lock(mutex);
        for (auto& [id, promise] : offers_asked)
            promise.set_value(no_offers(why));
        offers_asked.clear();
        for (auto& [id, promise] : outlooks)
            promise.set_value(no_outlook(why));
        outlooks.clear();
    }

    // --- commands ---
    [[nodiscard]] std::string no_connection() const {
        return fmt::format("there is no connection to {}: the command was not carried out",
                           status_now.link->server);
    }

    void send_commands() {
        bool refused_some = false;
        while (true) {
            if (let_in && last_given - std::min(last_given, last_taken) >= most_on_the_way) break;
            const auto taken = queue.try_pop();
            if (!taken) break;
            last_given = taken->ticket;
            if (let_in && status_now.link->driving) {
                connection->send({{"type", message::command},
                                  {"ticket", taken->ticket},
                                  {"command", to_json(taken->command)}});
                continue;
            }
            // The pace is the driver's: a window that only looks says its own when it opens.
            last_taken = taken->ticket;
            status_now.answered = std::max(status_now.answered, taken->ticket);
            if (!std::holds_alternative<command::SetPace>(taken->command))
                refuse(let_in ? fmt::format("{} drives this engine; take the wheel first",
                                            status_now.link->driver)
                              : no_connection());
            refused_some = true;
        }
        if (refused_some) publish();
    }

    void refuse(const std::string& why) {
        status_now.error = why;
        ++status_now.errors;
        status_now.refusals.push_back(why);
        if (status_now.refusals.size() > EngineStatus::kept_refusals)
            status_now.refusals.erase(status_now.refusals.begin());
    }

    void publish() {
        auto snapshot = std::make_shared<const EngineStatus>(status_now);
        {
            const std::lock_guard lock(mutex);
            published = std::move(snapshot);
            if (receiver && receiver->recording()) published_recording = receiver->recording();
        }
        const std::lock_guard lock(wake_mutex);
        if (wake) wake();
    }

    struct First {
        std::string problem, hint;
        bool refused = false;
    };
    const Options options;
    const std::string key = random_key(); ///< this side, whichever connection it has
    asio::io_context io{1};
    asio::steady_timer retry_timer;
    asio::executor_work_guard<asio::io_context::executor_type> work;
    std::shared_ptr<Connection> connection;
    std::promise<First> settled;
    bool told_first = false, let_in = false, stopping = false, first_status = true;
    std::chrono::milliseconds pause = first_pause;
    std::string server; ///< which one it was; another one, started later, has another word
    std::optional<RowReceiver> receiver;
    std::optional<NoteReceiver> notes; ///< from the constructor to the end of the thread
    json told_status = json::object();
    EngineStatus status_now;
    uint64_t server_errors = 0;
    uint64_t last_given = 0, last_taken = 0; ///< tickets: that have left the queue; that the server has taken
    std::optional<int64_t> looked_at;
    std::optional<std::pair<std::string, int64_t>> wanted_score; ///< run and position
    std::shared_ptr<Download> download;                          ///< null: none
    uint64_t download_id = 0;
    std::thread thread;

    CommandQueue queue;
    mutable std::mutex mutex; ///< protects what follows; held for moments
    std::shared_ptr<const EngineStatus> published;
    std::shared_ptr<const Recording> published_recording;
    std::map<uint64_t, std::promise<RunOutlook>> outlooks;
    std::map<uint64_t, std::promise<LinkOffers>> offers_asked;
    uint64_t last_outlook = 0; ///< id of a question
    std::mutex wake_mutex;     ///< held while the callback runs
    std::function<void()> wake;
};

RemoteEngine::RemoteEngine(Options options)
    : m_impl(std::make_unique<Impl>(std::move(options))) {}

RemoteEngine::~RemoteEngine() = default;

uint64_t RemoteEngine::send(Command command) {
    const uint64_t ticket = m_impl->queue.push(std::move(command));
    asio::post(m_impl->io, [impl = m_impl.get()] { impl->send_commands(); });
    return ticket;
}

std::shared_ptr<const EngineStatus> RemoteEngine::status() const {
    const std::lock_guard lock(m_impl->mutex);
    return m_impl->published;
}

std::shared_ptr<const Recording> RemoteEngine::recording() const {
    const std::lock_guard lock(m_impl->mutex);
    return m_impl->published_recording;
}

void RemoteEngine::on_news(std::function<void()> wake) {
    const std::lock_guard lock(m_impl->wake_mutex);
    m_impl->wake = std::move(wake);
}

RunOutlook RemoteEngine::outlook(const RunConfig& config) const {
    std::future<RunOutlook> answer;
    uint64_t id = 0;
    {
        const std::lock_guard lock(m_impl->mutex);
        id = ++m_impl->last_outlook;
        answer = m_impl->outlooks[id].get_future();
    }
    asio::post(m_impl->io, [impl = m_impl.get(), id, json = to_json(config)] {
        if (impl->let_in)
            impl->connection->send({{"type", message::outlook_asked}, {"id", id}, {"config", json}});
        else
            impl->refuse_outlooks("there is no connection to the server");
    });
    if (answer.wait_for(outlook_patience) == std::future_status::ready) return answer.get();
    const std::lock_guard lock(m_impl->mutex);
    m_impl->outlooks.erase(id);
    return no_outlook("the server has not answered");
}

LinkOffers RemoteEngine::offers() const {
    std::future<LinkOffers> answer;
    uint64_t id = 0;
    {
        const std::lock_guard lock(m_impl->mutex);
        id = ++m_impl->last_outlook;
        answer = m_impl->offers_asked[id].get_future();
    }
    asio::post(m_impl->io, [impl = m_impl.get(), id] {
        if (impl->let_in)
            impl->connection->send({{"type", message::offers_asked}, {"id", id}});
        else
            impl->refuse_outlooks("there is no connection to the server");
    });
    if (answer.wait_for(outlook_patience) == std::future_status::ready) return answer.get();
    const std::lock_guard lock(m_impl->mutex);
    m_impl->offers_asked.erase(id);
    return no_offers("the server has not answered");
}

void RemoteEngine::fetch_file(const std::string& name, const std::filesystem::path& to,
                              const std::function<bool(double share)>& go_on) const {
    const auto failed = [&](const std::string& why) {
        return Error("fetching", name, why, {}, ErrorKind::failure);
    };
    const std::filesystem::path part = to.string() + ".part";
    const auto download = std::make_shared<Download>();
    download->name = name;
    download->part = part;
    if (!download->open()) throw Error("writing", part.string(), "this file cannot be made");
    uint64_t id = 0;
    {
        const std::lock_guard lock(m_impl->mutex);
        id = ++m_impl->last_outlook;
    }
    asio::post(m_impl->io, [impl = m_impl.get(), id, download] {
        impl->end_download("another file is fetched now");
        if (!impl->let_in) return download->end("there is no connection to the server");
        impl->download = download;
        impl->download_id = id;
        impl->ask_file();
    });
    bool left = false;
    std::string problem;
    bool nothing = false; ///< has come
    {
        std::unique_lock lock(download->mutex);
        while (!download->done) {
            download->changed.wait_for(lock, std::chrono::milliseconds(100));
            const double share =
                download->size > 0 ? static_cast<double>(download->here) / static_cast<double>(download->size)
                                   : 0;
            lock.unlock();
            left = left || !go_on(share);
            lock.lock();
            if (left) break;
        }
        problem = download->problem;
        nothing = download->here == 0;
    }
    std::error_code error;
    if (left) {
        asio::post(m_impl->io, [impl = m_impl.get(), id] {
            if (impl->download_id == id) impl->leave_download("it was left");
        });
        std::filesystem::remove(part, error);
        return;
    }
    if (problem.empty()) {
        std::filesystem::rename(part, to, error);
        if (error) problem = error.message();
    }
    if (problem.empty()) return;
    if (nothing) std::filesystem::remove(part, error);
    throw failed(problem); // what is here stays for the next try
}

void RemoteEngine::take_wheel() {
    asio::post(m_impl->io, [impl = m_impl.get()] {
        if (impl->let_in) impl->connection->send({{"type", message::wheel}});
    });
}

void RemoteEngine::look_at(const Recording& run, int64_t position) {
    // A run that is shown in place of the engine's has no rows to come, and its scores may be asked for.
    if (const EntryScores& scores = run.entry_scores(); scores.on_demand() && scores.wanted() >= 0)
        asio::post(m_impl->io, [impl = m_impl.get(), wanted = std::pair(run.info().id, scores.wanted())] {
            if (std::exchange(impl->wanted_score, wanted) != wanted) impl->ask_scores();
        });
    if (const auto present = recording(); !present || present->info().id != run.info().id) return;
    asio::post(m_impl->io, [impl = m_impl.get(), position] {
        if (std::exchange(impl->looked_at, position) == position || !impl->let_in) return;
        impl->connection->send({{"type", message::look}, {"position", position}});
    });
}

} // namespace refreshlab::remote
