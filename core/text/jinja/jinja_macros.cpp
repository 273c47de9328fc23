// Macros and call blocks. A macro is a closure over the scope of its definition. It takes arguments
// by position, then by name; the rest go to varargs and kwargs if its body reads them.

#include <algorithm>
#include <utility>

#include "core/text/jinja/jinja_interpreter.h"
#include "core/text/jinja/jinja_print.h"

namespace xrun::jinja {

namespace {

// A macro's closure is the scope in which it was defined.
struct Macro : Function {
  const Node* node = nullptr;
  Scope* scope = nullptr;  // owned by the interpreter

  Value call(Interpreter& interpreter, Arguments& arguments) override {
    return interpreter.call_macro(*node, scope, arguments);
  }
  std::string repr() const override {
    return node->name.empty() ? "<Macro anonymous>" : fmt::format("<Macro '{}'>", node->name);
  }

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

bool has_parameter(const Node& macro, std::string_view name) {
  return std::any_of(macro.parameters.begin(), macro.parameters.end(),
                     [&](const MacroParameter& parameter) { return parameter.name == name; });
}

}  // namespace

void Interpreter::execute_macro(const Node& node) {
  auto macro = std::make_shared<Macro>();
  macro->node = &node;
  macro->scope = scope_;
  scope_->capture();
  scope_->set(node.symbol, Value::function(std::move(macro)));
}

void Interpreter::execute_call_block(const Node& node) {
  auto caller = std::make_shared<Macro>();
  caller->node = &node;
  caller->scope = scope_;
  scope_->capture();
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
  // A parameter of the same name is an ordinary variable.
  const auto takes = [&](bool reads, std::string_view name) {
    return reads && !has_parameter(macro, name);
  };
  auto& named = arguments.named;
  const auto find_caller = [&] {
    return std::find_if(named.begin(), named.end(),
                        [](const auto& a) { return a.first == "caller"; });
  };
  if (takes(macro.reads.caller, "caller")) {
    const auto caller = find_caller();
    // Undefined hides the `caller` of a macro around this one.
    scope.set(caller_,
              caller == named.end() ? Value::undefined("No caller defined") : caller->second);
    if (caller != named.end()) named.erase(caller);
  }
  const bool takes_kwargs = takes(macro.reads.kwargs, "kwargs");
  const bool takes_varargs = takes(macro.reads.varargs, "varargs");
  if (!takes_kwargs && !named.empty()) {
    XRUN_JINJA_CHECK(find_caller() == named.end(),
                     "macro '{}' takes no {{% call %}} block: its body does not use caller, or "
                     "another argument has set it",
                     macro.name);
    throw Fault(
        fmt::format("macro '{}' takes no keyword argument '{}'", macro.name, named[0].first));
  }
  XRUN_JINJA_CHECK(takes_varargs || arguments.positional.empty(),
                   "macro '{}' takes at most {} argument(s)", macro.name, macro.parameters.size());
  if (takes_varargs) {
    scope.set(varargs_, Value::list(std::move(arguments.positional), ListStyle::kTuple));
  }
  if (!takes_kwargs) return;
  auto dict = std::make_shared<Dict>();
  for (auto& [name, value] : named) {
    dict->set(Value::text(name), std::move(value), budget_);
  }
  scope.set(kwargs_, Value::dict(std::move(dict)));
}

}  // namespace xrun::jinja
