// The tests behind `is`.

#include "core/text/jinja/jinja_arguments.h"
#include "core/text/jinja/jinja_filters.h"
#include "core/text/jinja/jinja_interpreter.h"
#include "core/text/jinja/jinja_operators.h"
#include "core/text/jinja/jinja_print.h"
#include "core/text/jinja/jinja_strings.h"

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
bool is_boolean(const Value& value) { return value.is(Kind::kBool); }
bool is_true(const Value& value) { return value.is(Kind::kBool) && value.as_int() == 1; }
bool is_false(const Value& value) { return value.is(Kind::kBool) && value.as_int() == 0; }
bool is_integer(const Value& value) { return value.is(Kind::kInt) || value.is(Kind::kBigInt); }
bool is_float(const Value& value) { return value.is(Kind::kFloat); }
bool is_number(const Value& value) { return value.is_numeric(); }
bool is_string(const Value& value) { return value.is_text(); }
bool is_mapping(const Value& value) { return value.is_dict(); }
// What is undefined has __call__, which raises.
bool is_callable(const Value& value) {
  return value.is(Kind::kFunction) || value.is(Kind::kLoop) || value.is_undefined();
}
bool is_escaped(const Value& value) { return value.markup(); }
bool is_iterable(const Value& value) {
  return value.is_list() || value.is_dict() || value.is_text() || value.is_undefined() ||
         value.is(Kind::kLoop);
}
// Whatever has len() and [], even if [] fails: a dict, and what is undefined, too.
bool is_sequence(const Value& value) {
  if (value.is_list()) return value.list().style <= ListStyle::kRange;
  return value.is_dict() || value.is_text() || value.is_undefined();
}

bool is_same(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader reader("sameas", arguments);
  const Value other = reader.required("other");
  reader.finish();
  if (input.kind() != other.kind()) return false;
  if (input.identity() != nullptr && !input.is_text()) return input.identity() == other.identity();
  return equal(input, other, interpreter.budget());
}

template <int divisor, int rest>
bool has_rest(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader("odd or even", arguments).finish();
  const Value remainder = apply_binary("%", input, Value::integer(divisor), interpreter.budget());
  return equal(remainder, Value::integer(rest), interpreter.budget());
}

bool is_divisible(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader reader("divisibleby", arguments);
  const Value divisor = reader.required("num");
  reader.finish();
  return !is_truthy(apply_binary("%", input, divisor, interpreter.budget()));
}

template <bool test(std::string_view)>
bool is_case(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader("upper or lower", arguments).finish();
  return test(to_text(input, interpreter.budget())->bytes);
}

// The comparisons by name; the template strings are static so that they can be parameters.
constexpr char kEqual[] = "==", kUnequal[] = "!=", kLess[] = "<",
               kLessEqual[] = "<=", kGreater[] = ">", kGreaterEqual[] = ">=", kIn[] = "in";

template <const char* op>
bool compares(Interpreter& interpreter, const Value& input, Arguments& arguments) {
  ArgumentReader reader("comparison", arguments);
  const Value other = reader.required("other");
  reader.finish();
  return compare(op, input, other, interpreter.budget());
}

template <auto find>
bool names_one(Interpreter&, const Value& input, Arguments& arguments) {
  ArgumentReader("filter or test", arguments).finish();
  XRUN_JINJA_CHECK(is_hashable(input), "unhashable type: '{}'", type_name(input));
  return input.is_text() && find(input.bytes()) != nullptr;
}

}  // namespace

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
      {"callable", plain<is_callable>},
      {"escaped", plain<is_escaped>},
      {"iterable", plain<is_iterable>},
      {"sequence", plain<is_sequence>},
      {"sameas", is_same},
      {"odd", has_rest<2, 1>},
      {"even", has_rest<2, 0>},
      {"divisibleby", is_divisible},
      {"lower", is_case<is_lower_text>},
      {"upper", is_case<is_upper_text>},
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
      {"filter", names_one<find_filter>},
      {"test", names_one<find_test>},
  };
  return table;
}

TestBody find_test(std::string_view name) {
  const auto it = tests().find(name);
  return it == tests().end() ? nullptr : it->second;
}

bool Interpreter::apply_test(const std::string& name, const Value& input, Arguments& arguments) {
  const TestBody test = find_test(name);
  XRUN_JINJA_CHECK(test != nullptr, "No test named '{}'.", name);
  if (input.is_text()) budget_.charge_bytes(input.bytes().size());
  return test(*this, input, arguments);
}

}  // namespace xrun::jinja
