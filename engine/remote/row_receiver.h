#pragma once

#include "engine/landscape/landscape.h"
#include "engine/record/recording/recording.h"
#include "engine/record/trace/load/run_loader.h"
#include "engine/remote/row_tables.h"
#include "engine/remote/status_json.h"

#include <nlohmann/json.hpp>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab::remote {

/// The recordings of an engine elsewhere, from the messages of a RowSender. They are the same bit for bit, as those of a trace are.
///
/// Threads  one, which is the writer of the recordings; any may read them
/// Errors   take() throws ProtocolError for what no sender has sent
class RowReceiver {
public:
    RowReceiver();

    /// A message of next(), next_heavy() or next_landscape().
    void take(const nlohmann::json& message);
    /// Runs that the message taken last has begun.
    [[nodiscard]] const std::vector<std::shared_ptr<Recording>>& begun() const { return m_begun; }
    /// Null: no such run has come.
    [[nodiscard]] std::shared_ptr<Recording> run(const std::string& id) const { return m_loader.run(id); }
    /// The engine's recording, as far as it has come; null before the first.
    [[nodiscard]] std::shared_ptr<const Recording> recording() const { return m_recording; }
    [[nodiscard]] const std::shared_ptr<const Landscape>& landscape() const { return m_landscape; }
    [[nodiscard]] const std::string& landscape_run() const { return m_landscape_run; }

    /// For RowSender::resume() of the next connection: {"upto", "attention", "drifts", "runs": [[id, whole, drifts], ...]}; null where nothing has come.
    [[nodiscard]] nlohmann::json state() const;
    /// Another sender begins. \param resumed  what resume() has answered
    void begin_connection(const nlohmann::json& resumed);
    /// Of an open draft of the run.
    void add_tokens(const std::string& run_id, const std::vector<TokenText>& tokens);

private:
    void take_rows(const nlohmann::json& message);
    void take_landscape(const nlohmann::json& message);

    RowTables m_tables;
    trace::RunLoader m_loader;
    std::shared_ptr<const Recording> m_recording;
    bool m_goes_on = false; ///< m_recording is told in this connection
    std::vector<std::shared_ptr<Recording>> m_begun;
    std::map<std::string, bool> m_runs; ///< by id: whether all of it is here, because the next one has begun
    nlohmann::json m_upto;
    std::shared_ptr<const Landscape> m_landscape;
    std::string m_landscape_run;
};

} // namespace refreshlab::remote
