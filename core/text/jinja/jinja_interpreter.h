#pragma once
// Walks a template's tree and renders it; one object renders once.

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/text/jinja/jinja_ast.h"
#include "core/text/jinja/jinja_value.h"

namespace xrun::jinja {

// Limits of a rendering. The defaults are enough for conversations of thousands of turns.
struct Limits {
  int64_t steps = 20'000'000;  // about two seconds
  int depth = 1500;            // nested nodes, macro calls included
};

// Variables of a block; lookups continue in the enclosing one. Symbols index Tree::symbols.
struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<int, Value>> variables;
  bool captured = false;  // a macro or recursive loop refers to it, so it is never reused

  const Value* find(int symbol) const;
  void set(int symbol, Value value);
  void capture();  // sets `captured` here and in all scopes around
};

class Interpreter {
 public:
  // strftime_now reads `clock`. The tree must outlive the interpreter.
  Interpreter(const Tree& tree, const std::tm& clock, const Limits& limits = {});
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Sets a variable by its index in Tree::symbols; -1, a name that the template never mentions, is
  // ignored.
  void set_variable(int symbol, Value value);
  void set_variable(std::string_view name, Value value) {
    set_variable(tree_.symbol_of(name), std::move(value));
  }

  // Sets the list of messages and remembers their identities for turn_messages().
  void set_messages(int symbol, const Value& messages);

  // Throws Fault; line() is then the line of the node that failed.
  TextPtr render();
  int line() const { return line_; }
  // Returns the index of the message in which each generation block (empty ones included) was
  // opened: that of the innermost variable that holds a message, or -1.
  const std::vector<int64_t>& turn_messages() const { return turn_messages_; }

  // Returns the template's lines that wrote the text, as Rendering::lines. The text of a macro, a
  // variable or a filter block belongs to the line that prints it.
  std::vector<RenderLine> take_lines() { return std::move(lines_); }

  // For filters, tests, methods and functions.
  Budget& budget() { return budget_; }
  const std::tm& clock() const { return clock_; }
  Value get_attribute(const Value& object, std::string_view name);  // object.name
  Value get_item(const Value& object, const Value& key);            // object[key]
  Value apply_filter(const std::string& name, const Value& input, Arguments& arguments);
  bool apply_test(const std::string& name, const Value& input, Arguments& arguments);
  Value call(const Value& callee, Arguments& arguments);
  Value call_macro(const Node& macro, Scope* scope, Arguments& arguments);
  Value run_loop_again(const Node& loop, Scope* scope, const Value& iterable, int depth);
  std::shared_ptr<Namespace> make_namespace();

 private:
  enum class Flow { kNormal, kBreak, kContinue };
  // Opens a scope below `parent` until destruction.
  class ScopeGuard {
   public:
    ScopeGuard(Interpreter& interpreter, Scope* parent)
        : interpreter_(interpreter), outer_(interpreter.scope_) {
      interpreter_.scope_ = interpreter_.take_scope(parent);
    }
    explicit ScopeGuard(Interpreter& interpreter) : ScopeGuard(interpreter, interpreter.scope_) {}
    ~ScopeGuard() {
      Scope& scope = *std::exchange(interpreter_.scope_, outer_);
      if (scope.captured) return;
      scope.variables.clear();
      interpreter_.free_scopes_.push_back(&scope);
    }

   private:
    Interpreter& interpreter_;
    Scope* outer_;
  };
  // One level of statements, expressions and calls.
  class Descent {
   public:
    // A failed check leaves depth_ one too high, but the interpreter is then finished.
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
  Flow execute_for(const Node& node, std::vector<Value> items, int depth);
  std::vector<Value> filtered(const Node& node, std::vector<Value> items);
  Flow execute_set_block(const Node& node);
  void execute_macro(const Node& node);
  void execute_call_block(const Node& node);
  Flow execute_filter_block(const Node& node);
  Flow execute_with(const Node& node);
  void execute_generation(const Node& node);
  int64_t message_in_scope() const;
  void note_lines(const Node& node, size_t begin);
  // Sets `flow`, if given, to how the body ended.
  TextPtr captured_text(const Body& body, Flow* flow = nullptr);
  void assign(const Node& target, const Value& value);
  void bind_parameters(const Node& macro, Scope& scope, Arguments& arguments);
  void bind_surplus(const Node& macro, Scope& scope, Arguments& arguments);

  Scope* take_scope(Scope* parent);
  void write(const Node& node);      // prints an expression without joining its operands first
  void write_sum(const Node& node);  // a + b + ...

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
  std::vector<std::unique_ptr<Scope>> scopes_;  // all scopes created
  std::vector<Scope*> free_scopes_;
  Scope* scope_ = nullptr;
  TextBuilder* out_ = nullptr;
  const TextBuilder* whole_ = nullptr;                  // builds the text of the whole template
  std::vector<RenderLine> lines_;                       // of *whole_
  std::vector<std::shared_ptr<Namespace>> namespaces_;  // cleared at the end to break cycles
  int line_ = 1;
  int depth_ = 0;
  std::unordered_map<const void*, int64_t> messages_;  // index by identity
  std::vector<int64_t> turn_messages_;
  const int varargs_, kwargs_, caller_, loop_;  // symbols of these names, or -1
};

}  // namespace xrun::jinja
