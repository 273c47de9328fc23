// Integers beyond 64 bits print and compare as in Python, and computing with one is an error.

#include "core/text/jinja/jinja_json.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/text/chat/template_fixture.h"

namespace xrun::jinja_json_test {

namespace {

Json large() {
  return Json(
      Json::Object{{"x", parse_json(R"({"n": 18446744073709551615, "m": -9223372036854775809,
            "l": [18446744073709551616, 1, 2.5, 1e300, -18446744073709551616]})",
                                    "x")}});
}

// As Python and jinja2 print them.
TEST(JinjaJson, IntegersBeyond64BitsPrintAndCompareAsInPython) {
  const std::pair<const char*, const char*> cases[] = {
      {"{{ x|tojson }}", R"({"n": 18446744073709551615, "m": -9223372036854775809, )"
                         R"("l": [18446744073709551616, 1, 2.5, 1e+300, -18446744073709551616]})"},
      {"{{ x.n }} {{ x.m }} {{ x }}",
       "18446744073709551615 -9223372036854775809 {'n': 18446744073709551615, 'm': "
       "-9223372036854775809, 'l': [18446744073709551616, 1, 2.5, 1e+300, -18446744073709551616]}"},
      {"{{ x.n is number }} {{ x.n is integer }} {{ x.n is float }} {{ x.n is string }}",
       "True True False False"},
      {"{{ x.n == 18446744073709551615.0 }} {{ x.l[0] == 18446744073709551616.0 }} "
       "{{ x.n == x.n }} {{ x.n == x.l[0] }} {{ x.n != 1 }}",
       "False True True False True"},
      {"{{ x.n > 5 }} {{ x.m < -5 }} {{ x.m > x.n }} {{ x.n <= x.l[0] }} {{ x.n < 1e300 }} "
       "{{ x.m < 2.5 }}",
       "True True False True True True"},
      {"{{ x.l|sort }} {{ x.l|max }} {{ x.l|min }}",
       "[-18446744073709551616, 1, 2.5, 18446744073709551616, 1e+300] 1e+300 "
       "-18446744073709551616"},
      {"{{ x.n|string ~ '!' }} {{ x.n|int }} {{ x.n|float }}",
       "18446744073709551615! 18446744073709551615 1.8446744073709552e+19"},
      {"{{ {x.n: 1}|tojson }} {{ x.n in x.l }} {{ 'a' if x.n else 'b' }}",
       R"({"18446744073709551615": 1} False a)"}};
  for (const auto& [source, wanted] : cases) EXPECT_EQ(render_text(source, large()), wanted);
}

TEST(JinjaJson, ComputingWithAnIntegerBeyond64BitsIsAnError) {
  for (const char* source :
       {"{{ x.n + 1 }}", "{{ -x.n }}", "{{ x.n is even }}", "{{ x.l[x.n] }}{{ x.l[:x.n] }}"}) {
    try {
      render_text(source, large());
      ADD_FAILURE() << source;
    } catch (const Error&) {
    }
  }
}

}  // namespace

}  // namespace xrun::jinja_json_test
