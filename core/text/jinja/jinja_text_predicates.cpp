// The methods of str that ask what a text is made of.

#include <algorithm>

#include "core/base/utf8.h"
#include "core/text/jinja/jinja_arguments.h"
#include "core/text/jinja/jinja_interpreter.h"
#include "core/text/jinja/jinja_methods.h"
#include "core/text/jinja/jinja_points.h"
#include "core/text/jinja/jinja_strings.h"

namespace xrun::jinja {

namespace {

// A method's name, as an argument of a template.
template <size_t size>
struct MethodName {
  constexpr MethodName(const char (&from)[size]) { std::copy_n(from, size, text); }
  char text[size];
};

// Not empty, and every code point of a kind.
template <MethodName name, bool test(uint32_t)>
Value all_points(Interpreter&, const Value& self, Arguments& arguments) {
  ArgumentReader(name.text, arguments).finish();
  const std::string& bytes = self.bytes();
  for (size_t at = 0; at < bytes.size();) {
    const CodePoint point = read_utf8(bytes, at);
    if (!test(point.value)) return Value::boolean(false);
    at += point.size;
  }
  return Value::boolean(!bytes.empty());
}

template <MethodName name, bool test(std::string_view)>
Value whole(Interpreter&, const Value& self, Arguments& arguments) {
  ArgumentReader(name.text, arguments).finish();
  return Value::boolean(test(self.bytes()));
}

Value is_ascii(Interpreter&, const Value& self, Arguments& arguments) {
  ArgumentReader("isascii", arguments).finish();
  return Value::boolean(self.text().ascii);
}

}  // namespace

const MethodTable& text_predicates() {
  static const MethodTable table = {
      {"isalpha", all_points<"isalpha", is_alpha_point>},
      {"isdigit", all_points<"isdigit", is_digit_point>},
      {"isdecimal", all_points<"isdecimal", is_decimal_point>},
      {"isnumeric", all_points<"isnumeric", is_numeric_point>},
      {"isalnum", all_points<"isalnum", is_alnum_point>},
      {"isspace", all_points<"isspace", is_space_point>},
      {"islower", whole<"islower", is_lower_text>},
      {"isupper", whole<"isupper", is_upper_text>},
      {"isascii", is_ascii},
      // Known to Python, without use in a chat template.
      {"isidentifier", nullptr},
      {"isprintable", nullptr},
      {"istitle", nullptr},
  };
  return table;
}

}  // namespace xrun::jinja
