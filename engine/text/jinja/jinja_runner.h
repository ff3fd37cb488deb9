#pragma once

#include "engine/text/jinja/jinja_ast.h"

#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::jinja {

/// Runs one template once. Throws Problem with the line where it happened.
class Runner {
public:
    /// \param context  the variables that the template sees from outside; the first of a name counts
    /// \param now      what strftime_now shows
    Runner(std::vector<std::pair<std::string, Value>> context, const std::tm& now, Work work);
    [[nodiscard]] std::string run(const Body& body);

private:
    struct Scope {
        Scope* outer;
        std::vector<std::pair<std::string, Value>> variables;
        std::shared_ptr<const Loop> loop; ///< of the iteration that this scope belongs to
    };
    enum class Flow { on, next_loop, break_loop };

    Flow execute(const Body& body, std::string& out);
    Flow execute(const Statement& statement, std::string& out);
    Flow execute_loop(const Statement& statement, std::string& out);
    void assign(const Statement& statement);
    void capture(const Statement& statement);
    void bind(const std::vector<std::string>& names, const Value& value);
    void set(const std::string& name, Value value);

    Value evaluate(const Node& node);
    Value evaluate_inner(const Node& node);
    Value evaluate_operator(const Node& node);
    Value evaluate_or_none(const NodePtr& node);
    Value evaluate_compare(const Node& node);
    Value evaluate_container(const Node& node);
    Value evaluate_call(const Node& node);
    Arguments evaluate_arguments(const Node& node);
    Value look_up(const std::string& name);
    Value call_macro(const Macro& macro, const Arguments& arguments);
    Value call_global(const std::string& name, const Arguments& arguments);

    Scope m_global;
    Scope* m_scope = &m_global;
    std::vector<std::unique_ptr<Namespace>> m_namespaces;
    std::vector<std::unique_ptr<Macro>> m_macros;
    std::tm m_now;
    Work m_work;
    int m_depth = 0;
    int64_t m_loops = 0; ///< open loops
};

} // namespace refreshlab::jinja
