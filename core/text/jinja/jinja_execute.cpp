// Statements. Loops, macros, set blocks, with and generation blocks are scopes: their variables end
// with them. `if` is not a scope.

#include <algorithm>
#include <utility>

#include "core/text/jinja/jinja_interpreter.h"
#include "core/text/jinja/jinja_operators.h"
#include "core/text/jinja/jinja_print.h"

namespace xrun::jinja {

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
    case NodeKind::kFor: return execute_for(node, iterate(evaluate(*node.b), budget_), 1);
    case NodeKind::kSet: assign(*node.a, evaluate(*node.b)); break;
    case NodeKind::kSetBlock: return execute_set_block(node);
    case NodeKind::kMacro: execute_macro(node); break;
    case NodeKind::kCallBlock:
      execute_call_block(node);
      note_lines(node, begin);
      break;
    case NodeKind::kFilterBlock: {
      const Flow flow = execute_filter_block(node);
      note_lines(node, begin);
      return flow;
    }
    case NodeKind::kWith: return execute_with(node);
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
  Scope* scope = nullptr;  // around the loop; owned by the interpreter
  int depth = 1;

  Value call(Interpreter& interpreter, Arguments& arguments) override {
    XRUN_JINJA_CHECK(arguments.positional.size() == 1 && arguments.named.empty(),
                     "loop() takes one argument, the items to loop over");
    return interpreter.run_loop_again(*node, scope, arguments.positional[0], depth + 1);
  }
  std::string repr() const override { return "<function loop>"; }
};

}  // namespace

// A recursive loop is a closure, as a macro is: it does not see the variables of the iteration that
// calls it.
Value Interpreter::run_loop_again(const Node& node, Scope* scope, const Value& iterable,
                                  int depth) {
  Scope* const caller = std::exchange(scope_, scope);
  const std::shared_ptr<void> restore(nullptr, [&](void*) { scope_ = caller; });
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

// Returns the flow of the `else` part, in which `break` leaves the loop around this one.
Interpreter::Flow Interpreter::execute_for(const Node& node, std::vector<Value> items, int depth) {
  auto loop = std::make_shared<Loop>();
  // All items before the first iteration: loop.length, loop.last and loop.nextitem need them.
  loop->items = node.c == nullptr ? std::move(items) : filtered(node, std::move(items));
  loop->depth = depth;
  // A loop holds its items, so it is one level deeper than the deepest of them.
  for (const Value& item : loop->items) loop->nesting = std::max(loop->nesting, depth_of(item) + 1);
  require_depth(loop->nesting);
  // Only a recursive loop can be called: `loop(children)`.
  if (node.recursive) {
    auto again = std::make_shared<LoopAgain>();
    again->node = &node;
    again->scope = scope_;
    scope_->capture();
    again->depth = depth;
    loop->body = Value::function(std::move(again));
  }
  // The arguments of changed() may hold the loop itself: break the cycle.
  const std::shared_ptr<void> forget(nullptr, [&](void*) { loop->last_seen = Value(); });
  bool completed = false;  // some iteration finished; as in Jinja, `else` runs otherwise
  for (; loop->index < loop->items.size(); ++loop->index) {
    const ScopeGuard guard(*this);
    // -1: the template never mentions `loop`.
    if (loop_ >= 0) scope_->set(loop_, Value::loop(loop));
    assign(*node.a, loop->items[loop->index]);
    const Flow flow = execute(node.bodies[0]);
    // `continue` also leaves an iteration unfinished, as Jinja's generated code does.
    if (flow == Flow::kBreak) break;
    completed = completed || flow == Flow::kNormal;
  }
  if (completed || node.bodies.size() < 2) return Flow::kNormal;
  const ScopeGuard guard(*this);
  return execute(node.bodies[1]);
}

void Interpreter::assign(const Node& target, const Value& value) {
  if (target.kind == NodeKind::kName) return scope_->set(target.symbol, value);
  if (target.kind == NodeKind::kNamespaceTarget) {
    // Unlike a plain name, a namespace is changed in the scope that holds it, across loops.
    const Value* space = nullptr;
    for (Scope* at = scope_; at != nullptr && space == nullptr; at = at->parent) {
      space = at->find(target.symbol);
    }
    XRUN_JINJA_CHECK(space != nullptr && space->is(ValueType::kNamespace),
                     "cannot assign attribute on non-namespace object");
    XRUN_JINJA_CHECK(!target.name.starts_with('_'),
                     "a namespace cannot store '{}': it begins with an underscore", target.name);
    return space->space().set(target.name, value);
  }
  // Unpacking, as in `for key, value in pairs`.
  std::vector<Value> values = iterate(value, budget_);
  XRUN_JINJA_CHECK(values.size() == target.items.size(), "{} values to unpack, expected {}",
                   values.size(), target.items.size());
  for (size_t i = 0; i < values.size(); ++i) assign(*target.items[i], values[i]);
}

// A `break` in the block leaves the name as it was; one in a filter block drops its output.
Interpreter::Flow Interpreter::execute_set_block(const Node& node) {
  Value value;
  {
    const ScopeGuard guard(*this);
    Flow flow = Flow::kNormal;
    value = Value::text(captured_text(node.bodies[0], &flow));
    if (flow != Flow::kNormal) return flow;
    // Inside the block's scope: the filter's arguments see its variables.
    if (node.b != nullptr) value = evaluate_filter(*node.b, &value);
  }
  assign(*node.a, value);
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::execute_filter_block(const Node& node) {
  const ScopeGuard guard(*this);
  Flow flow = Flow::kNormal;
  const Value text = Value::text(captured_text(node.bodies[0], &flow));
  if (flow == Flow::kNormal) print(*out_, evaluate_filter(*node.b, &text), budget_);
  return flow;
}

Interpreter::Flow Interpreter::execute_with(const Node& node) {
  // All values before the first name: in jinja2 none of them sees the names of its own block.
  std::vector<Value> values;
  for (size_t i = 1; i < node.items.size(); i += 2) values.push_back(evaluate(*node.items[i]));
  const ScopeGuard guard(*this);
  for (size_t i = 0; i < values.size(); ++i) assign(*node.items[2 * i], values[i]);
  return execute(node.bodies[0]);
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
  // Before the body, whose own loops may run over other messages.
  turn_messages_.push_back(message_in_scope());
  // Turns are numbered from 1; 0 marks text outside generation blocks.
  const auto number = static_cast<uint32_t>(turn_messages_.size());
  execute(node.bodies[0]);
  // Charged by the runs that were rewritten.
  budget().charge(static_cast<int64_t>(out_->mark_turn(begin, number)));
}

}  // namespace xrun::jinja
