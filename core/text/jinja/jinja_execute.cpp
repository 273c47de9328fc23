// Statements and macros. Loops, macros, set blocks, with and generation blocks are scopes: their
// variables end with them. `if` is not a scope.

#include <algorithm>
#include <utility>

#include "core/text/jinja/jinja_interpreter.h"
#include "core/text/jinja/jinja_operators.h"
#include "core/text/jinja/jinja_print.h"

namespace xrun::jinja {

const Value* Scope::find(int symbol) const {
  for (const auto& [key, value] : variables) {
    // Linear: a scope has few variables.
    if (key == symbol) return &value;
  }
  return nullptr;
}

void Scope::set(int symbol, Value value) {
  if (const Value* old = find(symbol)) {
    // The scope owns its variables; find is const for readers of outer scopes.
    *const_cast<Value*>(old) = std::move(value);
  } else {
    variables.emplace_back(symbol, std::move(value));
  }
}

Interpreter::Interpreter(const Tree& tree, const std::tm& clock, const Limits& limits)
    : tree_(tree),
      clock_(clock),
      limits_(limits),
      budget_(limits.steps),
      scope_(take_scope(nullptr)),
      varargs_(tree.symbol_of("varargs")),
      kwargs_(tree.symbol_of("kwargs")),
      caller_(tree.symbol_of("caller")),
      loop_(tree.symbol_of("loop")) {}

Interpreter::~Interpreter() {
  // A namespace may hold itself: no count of owners would ever reach 0.
  for (const auto& space : namespaces_) space->attributes.clear();
}

void Interpreter::set_variable(int symbol, Value value) {
  if (symbol >= 0) scope_->set(symbol, std::move(value));
}

void Interpreter::set_messages(int symbol, const Value& messages) {
  int64_t number = 0;
  // By identity, not by content: equal messages are different turns. A copy that a template makes
  // of a message is no longer that message.
  for (const Value& message : messages.list().items) {
    messages_.emplace(message.identity(), number++);
  }
  set_variable(symbol, messages);
}

Scope* Interpreter::take_scope(Scope* parent) {
  Scope* scope = nullptr;
  // Reused: a loop takes a scope for each iteration.
  if (free_scopes_.empty()) {
    scope = scopes_.emplace_back(std::make_unique<Scope>()).get();
  } else {
    scope = free_scopes_.back();
    free_scopes_.pop_back();
  }
  scope->parent = parent;
  return scope;
}

TextPtr Interpreter::render() {
  TextBuilder builder;
  // `whole_` is the page's own text; captured text of blocks gets no line numbers.
  whole_ = out_ = &builder;
  execute(tree_.body);
  whole_ = out_ = nullptr;
  return builder.take();
}

// Gives the bytes of the whole text from `begin` on to the line of a statement; text outside tags
// (kData) may have several lines.
void Interpreter::note_lines(const Node& node, size_t begin) {
  // More lines than any real template writes; a hostile one must not take memory for them.
  constexpr size_t kMostLines = size_t{1} << 20;
  const size_t end = out_->size();
  // Captured text is placed by the statement that prints it.
  if (end == begin || out_ != whole_ || lines_.size() >= kMostLines) return;
  const auto add = [&](size_t to, int32_t line) {
    if (!lines_.empty() && lines_.back().line == line) {
      lines_.back().end = static_cast<uint32_t>(to);
    } else {
      lines_.push_back({static_cast<uint32_t>(to), line});
    }
  };
  int32_t line = node.line;
  if (node.kind == NodeKind::kData) {
    const std::string& text = node.constant.text().bytes;
    size_t at = text.find('\n');
    // A line feed at the very end belongs to its own line.
    for (; at != std::string::npos && at + 1 < text.size(); at = text.find('\n', at + 1)) {
      if (lines_.size() >= kMostLines) return;
      add(begin + at + 1, line++);
    }
  }
  add(end, line);
}

std::shared_ptr<Namespace> Interpreter::make_namespace() {
  namespaces_.push_back(std::make_shared<Namespace>());
  return namespaces_.back();
}

// Executes a body and returns its output.
TextPtr Interpreter::captured_text(const Body& body) {
  TextBuilder builder;
  TextBuilder* const outer = std::exchange(out_, &builder);
  // A fault ends the rendering, so out_ need not be restored after one.
  execute(body);
  out_ = outer;
  return builder.take();
}

Interpreter::Flow Interpreter::execute(const Body& body) {
  for (const NodePtr& node : body) {
    const Flow flow = execute(*node);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::execute(const Node& node) {
  const Descent descent(*this);
  // The line of the node, for the message of a fault inside it.
  line_ = node.line;
  budget_.charge(1);
  const size_t begin = out_->size();
  switch (node.kind) {
    case NodeKind::kData:
      print(*out_, node.constant, budget_);
      note_lines(node, begin);
      break;
    case NodeKind::kOutput:
      write(*node.a);
      note_lines(node, begin);
      break;
    case NodeKind::kIf: return execute_if(node);
    case NodeKind::kFor: execute_for(node, iterate(evaluate(*node.b), budget_), 1); break;
    case NodeKind::kSet: assign(*node.a, evaluate(*node.b)); break;
    case NodeKind::kSetBlock: execute_set_block(node); break;
    case NodeKind::kMacro: execute_macro(node); break;
    case NodeKind::kCallBlock:
      execute_call_block(node);
      note_lines(node, begin);
      break;
    case NodeKind::kFilterBlock:
      execute_filter_block(node);
      note_lines(node, begin);
      break;
    case NodeKind::kWith: execute_with(node); break;
    case NodeKind::kGeneration: execute_generation(node); break;
    case NodeKind::kBreak: return Flow::kBreak;
    case NodeKind::kContinue: return Flow::kContinue;
    default: throw Fault("not a statement");
  }
  return Flow::kNormal;
}

// items[i] is the condition of bodies[i].
Interpreter::Flow Interpreter::execute_if(const Node& node) {
  for (size_t i = 0; i < node.items.size(); ++i) {
    if (is_truthy(evaluate(*node.items[i]))) return execute(node.bodies[i]);
  }
  // One body more than conditions: the else.
  return node.bodies.size() > node.items.size() ? execute(node.bodies.back()) : Flow::kNormal;
}

namespace {

// `loop(...)` of a recursive loop: runs it over other items and returns the text.
struct LoopAgain : Function {
  const Node* node = nullptr;
  int depth = 1;

  Value call(Interpreter& interpreter, Arguments& arguments) override {
    XRUN_JINJA_CHECK(arguments.positional.size() == 1 && arguments.named.empty(),
                     "loop() takes one argument, the items to loop over");
    return interpreter.run_loop_again(*node, arguments.positional[0], depth + 1);
  }
  std::string repr() const override { return "<function loop>"; }
};

}  // namespace

Value Interpreter::run_loop_again(const Node& node, const Value& iterable, int depth) {
  TextBuilder builder;
  TextBuilder* const outer = std::exchange(out_, &builder);
  execute_for(node, iterate(iterable, budget_), depth);
  out_ = outer;
  return Value::text(builder.take());
}

std::vector<Value> Interpreter::filtered(const Node& node, std::vector<Value> items) {
  std::vector<Value> out;
  for (Value& item : items) {
    // A fresh scope for each item, as the loop's body has.
    const ScopeGuard guard(*this);
    assign(*node.a, item);
    // The filter sees the target, but as in Jinja not `loop`.
    if (is_truthy(evaluate(*node.c))) out.push_back(std::move(item));
  }
  return out;
}

void Interpreter::execute_for(const Node& node, std::vector<Value> items, int depth) {
  auto loop = std::make_shared<Loop>();
  // All items before the first iteration: loop.length, loop.last and loop.nextitem need them.
  loop->items = node.c == nullptr ? std::move(items) : filtered(node, std::move(items));
  loop->depth = depth;
  for (const Value& item : loop->items) loop->nesting = std::max(loop->nesting, depth_of(item) + 1);
  require_depth(loop->nesting);
  // Only a recursive loop can be called: `loop(children)`.
  if (node.recursive) {
    auto again = std::make_shared<LoopAgain>();
    again->node = &node;
    again->depth = depth;
    loop->body = Value::function(std::move(again));
  }
  // The arguments of changed() may hold the loop itself: break the cycle.
  const std::shared_ptr<void> forget(nullptr, [&](void*) { loop->last_seen = Value(); });
  bool completed = false;  // some iteration finished; as in Jinja, `else` runs otherwise
  for (; loop->index < loop->items.size(); ++loop->index) {
    const ScopeGuard guard(*this);
    if (loop_ >= 0) scope_->set(loop_, Value::loop(loop));
    assign(*node.a, loop->items[loop->index]);
    const Flow flow = execute(node.bodies[0]);
    // `continue` also leaves an iteration unfinished, as Jinja's generated code does.
    if (flow == Flow::kBreak) break;
    completed = completed || flow == Flow::kNormal;
  }
  if (completed || node.bodies.size() < 2) return;
  const ScopeGuard guard(*this);
  execute(node.bodies[1]);
}

void Interpreter::assign(const Node& target, const Value& value) {
  if (target.kind == NodeKind::kName) return scope_->set(target.symbol, value);
  if (target.kind == NodeKind::kNamespaceTarget) {
    // Unlike a plain name it is changed in the scope that has it, across loops.
    const Value* space = nullptr;
    for (Scope* at = scope_; at != nullptr && space == nullptr; at = at->parent) {
      space = at->find(target.symbol);
    }
    XRUN_JINJA_CHECK(space != nullptr && space->is(Kind::kNamespace),
                     "cannot assign attribute on non-namespace object");
    XRUN_JINJA_CHECK(!target.name.starts_with('_'),
                     "a namespace cannot store '{}': it begins with an underscore", target.name);
    return space->space().set(target.name, value);
  }
  std::vector<Value> values = iterate(value, budget_);
  XRUN_JINJA_CHECK(values.size() == target.items.size(), "{} values to unpack, expected {}",
                   values.size(), target.items.size());
  for (size_t i = 0; i < values.size(); ++i) assign(*target.items[i], values[i]);
}

void Interpreter::execute_set_block(const Node& node) {
  Value value;
  {
    const ScopeGuard guard(*this);
    value = Value::text(captured_text(node.bodies[0]));
    // Inside the block's scope: the filter's arguments see its variables.
    if (node.b != nullptr) value = evaluate_filter(*node.b, &value);
  }
  assign(*node.a, value);
}

void Interpreter::execute_filter_block(const Node& node) {
  const ScopeGuard guard(*this);
  const Value text = Value::text(captured_text(node.bodies[0]));
  print(*out_, evaluate_filter(*node.b, &text), budget_);
}

void Interpreter::execute_with(const Node& node) {
  // All values before the first name: in jinja2 none of them sees the names of its own block.
  std::vector<Value> values;
  for (size_t i = 1; i < node.items.size(); i += 2) values.push_back(evaluate(*node.items[i]));
  const ScopeGuard guard(*this);
  for (size_t i = 0; i < values.size(); ++i) assign(*node.items[2 * i], values[i]);
  execute(node.bodies[0]);
}

// -1 if no message is in scope.
int64_t Interpreter::message_in_scope() const {
  for (const Scope* at = scope_; at != nullptr; at = at->parent) {
    for (const auto& [symbol, value] : at->variables) {
      // The nearest scope first: that of the innermost loop over messages.
      if (!value.is_dict()) continue;
      const auto found = messages_.find(value.identity());
      if (found != messages_.end()) return found->second;
    }
  }
  return -1;
}

void Interpreter::execute_generation(const Node& node) {
  const ScopeGuard guard(*this);
  const size_t begin = out_->size();
  // Before the body, whose own loops may go over other messages.
  turn_messages_.push_back(message_in_scope());
  // Turns are numbered from 1; 0 marks text outside generation blocks.
  const auto number = static_cast<uint32_t>(turn_messages_.size());
  execute(node.bodies[0]);
  // Charged by the runs that were rewritten.
  budget().charge(static_cast<int64_t>(out_->mark_turn(begin, number)));
}

namespace {

// A macro's closure is the scope in which it was defined.
struct Macro : Function {
  const Node* node = nullptr;
  Scope* scope = nullptr;  // owned by the interpreter

  Value call(Interpreter& interpreter, Arguments& arguments) override {
    return interpreter.call_macro(*node, scope, arguments);
  }
  std::string repr() const override { return fmt::format("<Macro '{}'>", node->name); }

  bool attribute(std::string_view wanted, Value& out) const override {
    if (wanted == "name") {
      out = node->name.empty() ? Value::none() : Value::text(node->name);
      return true;
    }
    if (wanted != "arguments") return false;
    std::vector<Value> names;
    for (const MacroParameter& parameter : node->parameters) {
      names.push_back(Value::text(parameter.name));
    }
    out = Value::list(std::move(names), ListStyle::kTuple);
    return true;
  }
};

void capture(Scope* scope) {
  // Above a captured scope all are captured.
  for (; scope != nullptr && !scope->captured; scope = scope->parent) scope->captured = true;
}

}  // namespace

void Interpreter::execute_macro(const Node& node) {
  auto macro = std::make_shared<Macro>();
  macro->node = &node;
  macro->scope = scope_;
  capture(scope_);
  scope_->set(node.symbol, Value::function(std::move(macro)));
}

void Interpreter::execute_call_block(const Node& node) {
  auto caller = std::make_shared<Macro>();
  caller->node = &node;
  caller->scope = scope_;
  capture(scope_);
  const Value callee = evaluate(*node.a->a);
  Arguments arguments = evaluate_arguments(*node.a);
  // The block reaches the macro as its argument `caller`.
  arguments.named.emplace_back("caller", Value::function(std::move(caller)));
  print(*out_, call(callee, arguments), budget_);
}

Value Interpreter::call_macro(const Node& macro, Scope* scope, Arguments& arguments) {
  // Below the scope of the definition, not of the call: macros are closures.
  const ScopeGuard guard(*this, scope);
  bind_parameters(macro, *scope_, arguments);
  return Value::text(captured_text(macro.bodies[0]));
}

// Parameters take arguments by position, then by name, then their default, which sees the
// parameters before it.
void Interpreter::bind_parameters(const Node& macro, Scope& scope, Arguments& arguments) {
  std::vector<bool> used(arguments.named.size());
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const MacroParameter& parameter = macro.parameters[i];
    const Value* given = i < arguments.positional.size() ? &arguments.positional[i] : nullptr;
    for (size_t j = 0; j < used.size() && given == nullptr; ++j) {
      if (arguments.named[j].first != parameter.name) continue;
      given = &arguments.named[j].second;
      used[j] = true;
    }
    if (given != nullptr) {
      scope.set(parameter.symbol, *given);
    } else if (parameter.default_value != nullptr) {
      scope.set(parameter.symbol, evaluate(*parameter.default_value));
    } else {
      scope.set(parameter.symbol,
                Value::undefined(fmt::format("parameter '{}' was not provided", parameter.name)));
    }
  }
  Arguments surplus;
  for (size_t i = macro.parameters.size(); i < arguments.positional.size(); ++i) {
    surplus.positional.push_back(arguments.positional[i]);
  }
  for (size_t j = 0; j < used.size(); ++j) {
    if (!used[j]) surplus.named.push_back(arguments.named[j]);
  }
  bind_surplus(macro, scope, surplus);
}

void Interpreter::bind_surplus(const Node& macro, Scope& scope, Arguments& arguments) {
  std::erase_if(arguments.named, [&](const auto& named) {
    if (named.first != "caller") return false;
    if (caller_ >= 0) scope.set(caller_, named.second);
    return true;
  });
  // Surplus arguments need a template that names varargs or kwargs.
  XRUN_JINJA_CHECK(varargs_ >= 0 || arguments.positional.empty(),
                   "macro '{}' takes at most {} argument(s)", macro.name, macro.parameters.size());
  XRUN_JINJA_CHECK(kwargs_ >= 0 || arguments.named.empty(),
                   "macro '{}' takes no keyword argument '{}'", macro.name,
                   arguments.named.empty() ? "" : arguments.named[0].first);
  if (varargs_ >= 0) {
    scope.set(varargs_, Value::list(std::move(arguments.positional), ListStyle::kTuple));
  }
  if (kwargs_ < 0) return;
  auto dict = std::make_shared<Dict>();
  for (auto& [name, value] : arguments.named) {
    dict->set(Value::text(name), std::move(value), budget_);
  }
  scope.set(kwargs_, Value::dict(std::move(dict)));
}

}  // namespace xrun::jinja
