#include "engine/remote/row_receiver.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/landscape/landscape_rows.h"
#include "engine/record/trace/schema/trace_schema.h"
#include "engine/record/trace/schema/trace_versions.h"
#include "engine/record/trace/trace_access.h"
#include "engine/remote/row_sender.h"
#include "engine/remote/wire.h"

namespace refreshlab::remote {

namespace {

using nlohmann::json;

constexpr auto from_where = "the connection";

/// A connection has no size that could bound what its runs take; frames are bounded, and what is kept is what a person watches.
constexpr uint64_t much = uint64_t{1} << 40;

/// Places of the drift maps whose values have not come.
json without_values(const Recording& run) {
    json places = json::array();
    for (size_t n = 0; n < run.drifts().size(); ++n)
        if (!run.drift(n)->has_values()) places.push_back(n);
    return places;
}

} // namespace

RowReceiver::RowReceiver()
    : m_loader(m_tables.db(), trace::schema_version, from_where, much) {}

void RowReceiver::take(const json& message) {
    const auto refuse = [](const char* said) {
        throw ProtocolError(std::string("rows came that are none: ") + said);
    };
    try {
        m_begun.clear();
        m_tables.put(message.at("tables"));
        if (message.contains("landscape"))
            take_landscape(message);
        else
            take_rows(message);
        m_tables.clear();
    } catch (const trace::Damage& e) {
        refuse(e.what());
    } catch (const sqlite::SqlError& e) {
        refuse(e.what());
    } catch (const InvariantError& e) {
        refuse(e.what());
    } catch (const Error& e) {
        refuse(e.what());
    } catch (const json::exception& e) {
        refuse(e.what());
    }
}

void RowReceiver::take_rows(const json& message) {
    m_begun = m_loader.take_more(message.at("runs").get<std::vector<int64_t>>());
    for (const auto& recording : m_begun) {
        if (m_goes_on) m_runs[m_recording->info().id] = true;
        recording->entry_scores().come_on_demand();
        m_recording = recording;
        m_goes_on = true;
        m_runs[recording->info().id] = false;
    }
    if (message.contains("upto")) m_upto = message.at("upto");
}

void RowReceiver::take_landscape(const json& message) {
    std::shared_ptr<Landscape> landscape;
    sqlite::Statement row(m_tables.db(), trace::select_sql("landscapes", trace::schema_version));
    if (row.step())
        landscape = std::make_shared<Landscape>(trace::landscape_of(row, from_where));
    else if (m_landscape)
        landscape = std::make_shared<Landscape>(*m_landscape);
    else
        throw ProtocolError("rows of a landscape came before it");
    trace::read_landscape_rows(m_tables.db(), 0, *landscape);
    m_landscape_run = message.at("landscape").get<std::string>();
    m_landscape = std::move(landscape);
}

json RowReceiver::state() const {
    if (!m_recording || m_upto.is_null()) return nullptr;
    json attention = json::array();
    for (const auto& rows : m_recording->attention_rows())
        attention.push_back(json::array({rows->position, rows->teacher, fingerprint(*rows)}));
    json runs = json::array();
    for (const auto& [id, whole] : m_runs)
        runs.push_back(json::array({id, whole, without_values(*m_loader.run(id))}));
    return {{"upto", m_upto},
            {"attention", std::move(attention)},
            {"drifts", without_values(*m_recording)},
            {"runs", std::move(runs)}};
}

void RowReceiver::begin_connection(const json& resumed) {
    m_loader.forget_numbers();
    m_tables.clear();
    m_goes_on = false;
    if (resumed.is_null()) {
        m_upto = nullptr;
        return;
    }
    try {
        const auto go_on = [&](const json& run) {
            if (!m_loader.go_on_with(run.at("run").get<std::string>(), run.at("number").get<int64_t>(),
                                     run.at("vocabulary").get<int64_t>()))
                throw ProtocolError("the server goes on with a run that was not asked for");
        };
        for (const json& run : resumed.at("others"))
            go_on(run);
        go_on(resumed);
        if (!m_recording || resumed.at("run") != m_recording->info().id)
            throw ProtocolError("the server goes on with a run that was not asked for");
        m_goes_on = true;
    } catch (const json::exception& e) {
        throw ProtocolError(e.what());
    }
}

void RowReceiver::add_tokens(const std::string& run_id, const std::vector<TokenText>& tokens) {
    const auto table = m_loader.tokens_of(run_id);
    if (!table) return;
    for (const TokenText& token : tokens)
        table->add(token.id, token.bytes, token.special);
}

} // namespace refreshlab::remote
