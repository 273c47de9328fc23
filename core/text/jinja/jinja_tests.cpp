// The tests of `is`, select and reject.

#include "core/text/jinja/jinja_builtins.h"
#include "core/text/jinja/jinja_interpreter.h"
#include "core/text/jinja/jinja_operators.h"

namespace xrun::jinja {

namespace {

template <bool test(const Value&)>
bool plain(Interpreter&, const Value& input, Arguments& arguments) {
  ArgumentReader("test", arguments).finish();
  return test(input);
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_boolean(const Value& value) { return value.is(ValueType::kBool); }
// `is true` tests identity, unlike ==: 1 is not true.
bool is_true(const Value& value) { return value.is(ValueType::kBool) && value.as_int() == 1; }
bool is_false(const Value& value) { return value.is(ValueType::kBool) && value.as_int() == 0; }
bool is_integer(const Value& value) {
  return value.is(ValueType::kInt) || value.is(ValueType::kBigInt);
}
bool is_float(const Value& value) { return value.is(ValueType::kFloat); }
bool is_number(const Value& value) { return value.is_numeric(); }
bool is_string(const Value& value) { return value.is_text(); }
bool is_mapping(const Value& value) { return value.is_dict(); }
bool is_iterable(const Value& value) {
  return value.is_list() || value.is_dict() || value.is_text() || value.is_undefined() ||
         value.is(ValueType::kLoop);
}
// Jinja accepts every value with len() and [], even if [] fails: dicts and undefined values too.
bool has_items(const Value& value) {
  if (value.is_list()) return value.list().style <= ListStyle::kRange;
  return value.is_dict() || value.is_text() || value.is_undefined();
}

// x is odd: x % 2 == 1, also for negative numbers, since % has the divisor's sign.
template <int divisor, int rest>
bool has_rest(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader("odd or even", arguments).finish();
  const Value remainder = apply_binary("%", input, Value::integer(divisor), interpreter.budget());
  return equal(remainder, Value::integer(rest), interpreter.budget());
}

// Operators as template parameters, which need static storage.
constexpr char kEqual[] = "==", kUnequal[] = "!=", kLess[] = "<",
               kLessEqual[] = "<=", kGreater[] = ">", kGreaterEqual[] = ">=", kIn[] = "in";

template <const char* op>
bool compares(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader reader("comparison", arguments);
  const Value other = reader.required("other");
  reader.finish();
  return compare(op, input, other, interpreter.budget());
}

using TestBody = bool (*)(Interpreter&, const Value& input, Arguments&);
using TestTable = std::map<std::string_view, TestBody>;

// All tests that a public chat template uses, as docs/templates.md lists them.
const TestTable& tests() {
  static const TestTable table = {
      {"defined", plain<is_defined>},
      {"undefined", plain<is_undefined>},
      {"none", plain<is_none>},
      {"boolean", plain<is_boolean>},
      {"true", plain<is_true>},
      {"false", plain<is_false>},
      {"integer", plain<is_integer>},
      {"float", plain<is_float>},
      {"number", plain<is_number>},
      {"string", plain<is_string>},
      {"mapping", plain<is_mapping>},
      {"iterable", plain<is_iterable>},
      {"sequence", plain<has_items>},
      {"odd", has_rest<2, 1>},
      {"even", has_rest<2, 0>},
      {"eq", compares<kEqual>},
      {"equalto", compares<kEqual>},
      {"==", compares<kEqual>},
      {"ne", compares<kUnequal>},
      {"!=", compares<kUnequal>},
      {"lt", compares<kLess>},
      {"lessthan", compares<kLess>},
      {"<", compares<kLess>},
      {"le", compares<kLessEqual>},
      {"<=", compares<kLessEqual>},
      {"gt", compares<kGreater>},
      {"greaterthan", compares<kGreater>},
      {">", compares<kGreater>},
      {"ge", compares<kGreaterEqual>},
      {">=", compares<kGreaterEqual>},
      {"in", compares<kIn>},
  };
  return table;
}

}  // namespace

bool Interpreter::apply_test(const std::string& name, const Value& input, Arguments& arguments) {
  const auto test = tests().find(name);
  XRUN_JINJA_CHECK(test != tests().end(), "the test '{}' is not supported in chat templates", name);
  // A test may read the whole string.
  if (input.is_text()) budget_.charge_bytes(input.bytes().size());
  return test->second(*this, input, arguments);
}

}  // namespace xrun::jinja
