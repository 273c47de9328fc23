// The methods of str that ask what a text is made of.

#include "core/base/utf8.h"
#include "core/text/jinja_arguments.h"
#include "core/text/jinja_interpreter.h"
#include "core/text/jinja_methods.h"
#include "core/text/jinja_points.h"
#include "core/text/jinja_strings.h"

namespace xrun::jinja {

namespace {

// Not empty, and every code point of a kind.
template <bool test(uint32_t)>
Value all_points(Interpreter&, const Value& self, Arguments& arguments) {
  ArgumentReader("is method", arguments).finish();
  const std::string& bytes = self.bytes();
  for (size_t at = 0; at < bytes.size();) {
    const CodePoint point = read_utf8(bytes, at);
    if (!test(point.value)) return Value::boolean(false);
    at += point.size;
  }
  return Value::boolean(!bytes.empty());
}

template <bool test(std::string_view)>
Value whole(Interpreter&, const Value& self, Arguments& arguments) {
  ArgumentReader("is method", arguments).finish();
  return Value::boolean(test(self.bytes()));
}

Value is_ascii(Interpreter&, const Value& self, Arguments& arguments) {
  ArgumentReader("isascii", arguments).finish();
  return Value::boolean(self.text().ascii);
}

}  // namespace

const MethodTable& text_predicates() {
  static const MethodTable table = {
      {"isalpha", all_points<is_alpha_point>},
      {"isdigit", all_points<is_digit_point>},
      {"isdecimal", all_points<is_decimal_point>},
      {"isnumeric", all_points<is_numeric_point>},
      {"isalnum", all_points<is_alnum_point>},
      {"isspace", all_points<is_space_point>},
      {"islower", whole<is_lower_text>},
      {"isupper", whole<is_upper_text>},
      {"isascii", is_ascii},
      // Known to Python, without use in a chat template.
      {"isidentifier", nullptr},
      {"isprintable", nullptr},
      {"istitle", nullptr},
  };
  return table;
}

}  // namespace xrun::jinja
