#pragma once
// Walks a template's tree and renders it; one object renders once.

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/jinja_ast.h"
#include "core/text/jinja_value.h"

namespace xrun::jinja {

// What a rendering may spend. The defaults leave room for conversations of thousands of turns.
struct Limits {
  int64_t steps = 20'000'000;  // about two seconds
  int depth = 1500;            // nodes above one another, through macro calls too
};

// Variables of a block; lookups fall through to the enclosing one. Symbols index Tree::symbols.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<int, Value>> variables;
  bool captured = false;  // a macro holds on to it

  const Value* find(int symbol) const;
  void set(int symbol, Value value);
};

class Interpreter {
 public:
  // `clock` is what strftime_now reads. Tree must outlive the interpreter.
  Interpreter(const Tree& tree, const std::tm& clock, const Limits& limits = {});
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Sets a variable of the environment; a name that the template never mentions is dropped.
  void set_variable(std::string_view name, Value value);

  // Renders. Throws Fault; line() is then the line of the node that failed.
  TextPtr render();
  int line() const { return line_; }

  // For filters, tests, methods and functions.
  Budget& budget() { return budget_; }
  const std::tm& clock() const { return clock_; }
  Value get_attribute(const Value& object, std::string_view name);  // object.name
  Value get_item(const Value& object, const Value& key);            // object[key]
  Value apply_filter(const std::string& name, const Value& input, Arguments& arguments);
  bool apply_test(const std::string& name, const Value& input, Arguments& arguments);
  Value call(const Value& callee, Arguments& arguments);
  Value call_macro(const Node& macro, const std::shared_ptr<Scope>& scope, Arguments& arguments);
  Value run_loop_again(const Node& loop, const Value& iterable, int depth);
  std::shared_ptr<Namespace> make_namespace();

 private:
  enum class Flow { kNormal, kBreak, kContinue };
  // Opens a scope below `parent` until destruction.
  class ScopeGuard {
   public:
    ScopeGuard(Interpreter& interpreter, std::shared_ptr<Scope> parent)
        : interpreter_(interpreter), outer_(interpreter.scope_) {
      interpreter_.scope_ = std::make_shared<Scope>();
      interpreter_.scope_->parent = std::move(parent);
    }
    explicit ScopeGuard(Interpreter& interpreter) : ScopeGuard(interpreter, interpreter.scope_) {}
    ~ScopeGuard() {
      if (interpreter_.scope_->captured) interpreter_.captured_.push_back(interpreter_.scope_);
      interpreter_.scope_ = outer_;
    }

   private:
    Interpreter& interpreter_;
    std::shared_ptr<Scope> outer_;
  };
  // One level of statements, expressions and calls.
  class Descent {
   public:
    // A failed check leaves depth_ one too high; the interpreter is done then anyway.
    explicit Descent(Interpreter& interpreter) : interpreter_(interpreter) {
      XRUN_JINJA_CHECK(++interpreter.depth_ <= interpreter.limits_.depth,
                       "maximum recursion depth exceeded");
    }
    ~Descent() { --interpreter_.depth_; }

   private:
    Interpreter& interpreter_;
  };

  // Statements.
  Flow execute(const Body& body);
  Flow execute(const Node& node);
  Flow execute_if(const Node& node);
  void execute_for(const Node& node, std::vector<Value> items, int depth);
  std::vector<Value> filtered(const Node& node, std::vector<Value> items);
  void execute_set_block(const Node& node);
  void execute_macro(const Node& node);
  void execute_call_block(const Node& node);
  void execute_filter_block(const Node& node);
  void execute_with(const Node& node);
  void execute_generation(const Node& node);
  TextPtr captured_text(const Body& body);
  void assign(const Node& target, const Value& value);
  void bind_parameters(const Node& macro, Scope& scope, Arguments& arguments);
  void bind_surplus(const Node& macro, Scope& scope, Arguments& arguments);

  // Expressions.
  Value evaluate(const Node& node);
  Value dispatch(const Node& node);
  Value lookup(const Node& node);
  std::vector<Value> evaluate_all(const std::vector<NodePtr>& nodes);
  Value evaluate_dict(const Node& node);
  Value evaluate_slice(const Node& node);
  Value evaluate_compare(const Node& node);
  Value evaluate_concat(const Node& node);
  Value evaluate_filter(const Node& node, const Value* input);
  Arguments evaluate_arguments(const Node& node);
  void charge_result(const Value& value);

  const Tree& tree_;
  const std::tm clock_;
  const Limits limits_;
  Budget budget_;
  std::shared_ptr<Scope> scope_;
  TextBuilder* out_ = nullptr;
  std::vector<std::shared_ptr<Scope>> captured_;        // emptied at the end: macros and their
  std::vector<std::shared_ptr<Namespace>> namespaces_;  // scopes may hold each other in a ring
  int line_ = 1;
  int depth_ = 0;
  uint32_t turns_ = 0;
  int varargs_ = -1, kwargs_ = -1, caller_ = -1, loop_ = -1;  // symbols of these names
};

// Fills a scope with range, namespace, raise_exception and the other functions of the environment.
void add_globals(Interpreter& interpreter);

// Returns a bound method of a text, list, dict or function, or an undefined value whose use says
// why there is none; `found` tells whether the type has an attribute of this name.
Value bind_method(const Value& self, std::string_view name, bool& found);

}  // namespace xrun::jinja
