// State of a rendering: scopes, which are reused, and the line and message behind each piece of
// text. Statements are in jinja_execute.cpp, macros in jinja_macros.cpp, expressions in
// jinja_evaluate.cpp.

#include "core/text/jinja/jinja_interpreter.h"

#include <utility>

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

void Scope::capture() {
  // All scopes around a captured one are captured already.
  for (Scope* at = this; at != nullptr && !at->captured; at = at->parent) at->captured = true;
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
  // `whole_` builds the result itself; text captured from blocks gets no line numbers.
  whole_ = out_ = &builder;
  execute(tree_.body);
  whole_ = out_ = nullptr;
  return builder.take();
}

// Records that a statement's line wrote the bytes of the whole text from `begin` on; text outside
// tags (kData) may have several lines.
void Interpreter::note_lines(const Node& node, size_t begin) {
  // More lines than any real template writes; a hostile one must not take memory for them.
  constexpr size_t kMostLines = size_t{1} << 20;
  const size_t end = out_->size();
  // Captured text gets its line from the statement that prints it.
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
TextPtr Interpreter::captured_text(const Body& body, Flow* flow) {
  TextBuilder builder;
  TextBuilder* const outer = std::exchange(out_, &builder);
  // A fault ends the rendering, so out_ need not be restored after one.
  const Flow ended = execute(body);
  if (flow != nullptr) *flow = ended;
  out_ = outer;
  return builder.take();
}

}  // namespace xrun::jinja
