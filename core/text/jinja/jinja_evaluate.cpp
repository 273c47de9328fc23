// Expressions. Each evaluation costs one step and one level of depth, which limits long and deep
// trees.

#include "core/text/jinja/jinja_interpreter.h"
#include "core/text/jinja/jinja_operators.h"
#include "core/text/jinja/jinja_print.h"

namespace xrun::jinja {

void Interpreter::charge_result(const Value& value) {
  // Charged by size too: `{% set s = s ~ s %}` doubles a text with one node.
  int64_t steps = 1;
  if (value.is_text()) steps += static_cast<int64_t>(value.bytes().size() / 64);
  if (value.is_list()) steps += static_cast<int64_t>(value.list().items.size() / 64);
  budget_.charge(steps);
}

Value Interpreter::evaluate(const Node& node) {
  const Descent descent(*this);
  line_ = node.line;
  Value value = dispatch(node);
  charge_result(value);
  return value;
}

Value Interpreter::dispatch(const Node& node) {
  switch (node.kind) {
    case NodeKind::kConst:
      return node.constant.borrowed();  // avoids a reference count shared by threads
    case NodeKind::kName: return lookup(node);
    case NodeKind::kList: return Value::list(evaluate_all(node.items));
    case NodeKind::kTuple: return Value::list(evaluate_all(node.items), ListStyle::kTuple);
    case NodeKind::kDict: return evaluate_dict(node);
    case NodeKind::kAttribute: return get_attribute(evaluate(*node.a), node.name);
    case NodeKind::kItem: {
      const Value object = evaluate(*node.a);
      return get_item(object, evaluate(*node.b));
    }
    case NodeKind::kSlice: return evaluate_slice(node);
    case NodeKind::kCall: {
      const Value callee = evaluate(*node.a);
      Arguments arguments = evaluate_arguments(node);
      // The arguments may stand on later lines; a fault of the call belongs to this one.
      line_ = node.line;
      return call(callee, arguments);
    }
    case NodeKind::kFilter: return evaluate_filter(node, nullptr);
    case NodeKind::kTest: {
      const Value input = evaluate(*node.a);
      Arguments arguments = evaluate_arguments(node);
      return Value::boolean(apply_test(node.name, input, arguments));
    }
    case NodeKind::kNot: return Value::boolean(!is_truthy(evaluate(*node.a)));
    case NodeKind::kNegative: return apply_sign(true, evaluate(*node.a));
    case NodeKind::kPositive: return apply_sign(false, evaluate(*node.a));
    // As in Python the result is an operand, not a bool.
    case NodeKind::kAnd: {
      Value left = evaluate(*node.a);
      return is_truthy(left) ? evaluate(*node.b) : left;
    }
    case NodeKind::kOr: {
      Value left = evaluate(*node.a);
      return is_truthy(left) ? left : evaluate(*node.b);
    }
    case NodeKind::kBinary: {
      const Value left = evaluate(*node.a);
      const Value right = evaluate(*node.b);
      line_ = node.line;
      return apply_binary(node.name, left, right, budget_);
    }
    case NodeKind::kConcat: return evaluate_concat(node);
    case NodeKind::kCompare: return evaluate_compare(node);
    case NodeKind::kCondition: {
      if (is_truthy(evaluate(*node.b))) return evaluate(*node.a);
      if (node.c != nullptr) return evaluate(*node.c);
      return Value::undefined(
          "the inline if-expression evaluated to false and no else section "
          "was defined.");
    }
    default: throw Fault("not an expression");
  }
}

Value Interpreter::lookup(const Node& node) {
  // The environment's functions come last, so a variable may hide one.
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    if (const Value* value = scope->find(node.symbol)) return *value;
  }
  const Value& function = tree_.globals[static_cast<size_t>(node.symbol)];
  return function.is_undefined() ? Value::no_name(node.name) : function.borrowed();
}

std::vector<Value> Interpreter::evaluate_all(const std::vector<NodePtr>& nodes) {
  std::vector<Value> values;
  values.reserve(nodes.size());
  for (const NodePtr& node : nodes) values.push_back(evaluate(*node));
  return values;
}

Value Interpreter::evaluate_dict(const Node& node) {
  auto dict = std::make_shared<Dict>();
  // Items alternate: key, value. Python evaluates each key before its value.
  for (size_t i = 0; i + 1 < node.items.size(); i += 2) {
    Value key = evaluate(*node.items[i]);
    dict->set(std::move(key), evaluate(*node.items[i + 1]), budget_);
  }
  return Value::dict(std::move(dict));
}

Value Interpreter::evaluate_slice(const Node& node) {
  const Value object = evaluate(*node.a);
  // A part that was left out is None, as in Python's slice().
  Value bounds[3] = {Value::none(), Value::none(), Value::none()};
  for (size_t i = 0; i < 3; ++i) {
    if (node.items[i] != nullptr) bounds[i] = evaluate(*node.items[i]);
  }
  line_ = node.line;
  return slice(object, bounds[0], bounds[1], bounds[2], budget_);
}

Value Interpreter::evaluate_compare(const Node& node) {
  Value left = evaluate(*node.a);
  // a < b < c: each operand is evaluated once, and the first false comparison ends the chain.
  for (size_t i = 0; i < node.items.size(); ++i) {
    // The operators are in `names`: names[i] is between operand i and operand i + 1.
    Value right = evaluate(*node.items[i]);
    if (!compare(node.names[i], left, right, budget_)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::evaluate_concat(const Node& node) {
  // The marks of every part survive, which a join of plain strings would lose.
  TextBuilder out;
  for (const NodePtr& item : node.items) print(out, evaluate(*item), budget_);
  return Value::text(out.take());
}

// Prints an expression piece by piece where the result allows it: a large message is copied once,
// not once for each operator around it.
void Interpreter::write(const Node& node) {
  const Descent descent(*this);
  line_ = node.line;
  switch (node.kind) {
    case NodeKind::kBinary:
      if (node.name == "+") return write_sum(node);
      break;
    case NodeKind::kConcat:
      for (const NodePtr& item : node.items) write(*item);
      return;
    case NodeKind::kCondition:
      if (is_truthy(evaluate(*node.b))) return write(*node.a);
      if (node.c != nullptr) write(*node.c);
      return;
    default: break;
  }
  print(*out_, evaluate(node), budget_);
}

// If all terms are plain strings, they are printed one by one without joining them.
void Interpreter::write_sum(const Node& node) {
  constexpr size_t kMaxTerms = 8;
  const Node* terms[kMaxTerms];  // the last one first
  size_t count = 0;
  const Node* first = &node;
  // a + b + c parses as (a + b) + c: the chain runs down the left operands.
  for (; first->kind == NodeKind::kBinary && first->name == "+"; first = first->a.get()) {
    // A longer chain is joined like any other sum.
    if (count + 1 == kMaxTerms) return print(*out_, evaluate(node), budget_);
    terms[count++] = first->b.get();
  }
  terms[count++] = first;
  Value values[kMaxTerms];
  bool texts = true;
  // From the left, as Python evaluates.
  for (size_t i = count; i-- > 0;) {
    values[i] = evaluate(*terms[i]);
    // Markup must be joined: it escapes the plain text beside it.
    texts = texts && values[i].is_text() && !values[i].markup();
  }
  if (texts) {
    for (size_t i = count; i-- > 0;) print(*out_, values[i], budget_);
    return;
  }
  line_ = node.line;
  Value sum = values[count - 1];
  for (size_t i = count - 1; i-- > 0;) sum = apply_binary("+", sum, values[i], budget_);
  print(*out_, sum, budget_);
}

Value Interpreter::evaluate_filter(const Node& node, const Value* input) {
  // The first filter of a block's chain has no operand: it takes the block's text.
  Value value;
  if (node.a == nullptr) {
    value = *input;
  } else if (input != nullptr) {
    value = evaluate_filter(*node.a, input);
  } else {
    value = evaluate(*node.a);
  }
  Arguments arguments = evaluate_arguments(node);
  line_ = node.line;
  return apply_filter(node.name, value, arguments);
}

Arguments Interpreter::evaluate_arguments(const Node& node) {
  Arguments out;
  for (const Argument& argument : node.arguments) {
    Value value = evaluate(*argument.value);
    switch (argument.form) {
      case ArgumentForm::kPlain: out.positional.push_back(std::move(value)); break;
      case ArgumentForm::kNamed: out.named.emplace_back(argument.name, std::move(value)); break;
      case ArgumentForm::kStar:
        for (Value& item : iterate(value, budget_)) out.positional.push_back(std::move(item));
        break;
      case ArgumentForm::kDoubleStar:
        XRUN_JINJA_CHECK(value.is_dict(), "argument after ** must be a mapping, not {}",
                         type_name(value));
        // ** takes a mapping whose keys are names.
        for (const DictItem& member : value.dict().members) {
          XRUN_JINJA_CHECK(member.first.is_text(), "keywords must be strings");
          out.named.emplace_back(member.first.bytes(), member.second);
        }
        break;
    }
  }
  // Quadratic, and charged for that: ** may bring many names.
  for (size_t i = 0; i < out.named.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      XRUN_JINJA_CHECK(out.named[i].first != out.named[j].first,
                       "got multiple values for keyword argument '{}'", out.named[i].first);
    }
    budget_.charge(static_cast<int64_t>(i));
  }
  return out;
}

Value Interpreter::call(const Value& callee, Arguments& arguments) {
  XRUN_JINJA_CHECK(!callee.is_undefined(), "{}", callee.undefined_message());
  if (callee.is(ValueType::kLoop)) {
    // loop(...): the body of a recursive loop is the function that runs it again.
    const Value again = callee.loop().body;
    XRUN_JINJA_CHECK(!again.is_undefined(),
                     "The loop must have the 'recursive' marker to be called "
                     "recursively.");
    return again.function().call(*this, arguments);
  }
  XRUN_JINJA_CHECK(callee.is(ValueType::kFunction), "'{}' object is not callable",
                   type_name(callee));
  const Descent descent(*this);
  return callee.function().call(*this, arguments);
}

}  // namespace xrun::jinja
