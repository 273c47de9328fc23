// Costs of a template's long texts.

#include "core/text/jinja/jinja_strings.h"

#include <gtest/gtest.h>

#include <ctime>

#include "core/base/error.h"
#include "core/text/jinja/jinja_interpreter.h"
#include "tests/core/text/chat/template_fixture.h"

namespace xrun::jinja_strings_test {

namespace {

std::string failure(const std::string& source, int64_t steps = jinja::Limits().steps) {
  return error_of([&] {
    const jinja::Tree tree = jinja::parse_template(source);
    jinja::Interpreter(tree, std::tm{}, {.steps = steps}).render();
  });
}

TEST(JinjaStrings, ATextIsChargedBeforeItIsBuilt) {
  const std::string text = "{% set s = ('a' * 1000) * 1000 %}";
  for (const std::string& source :
       {text + "{% set x = s.replace('', 'b') %}", text + "{% set x = s|replace('', 'b') %}",
        text + "{% set x = (s ~ s).replace('a', '') %}",
        std::string("{% set ns = namespace(l=[]) %}{% for i in range(400) %}"
                    "{% set ns.l = [ns.l] %}{% endfor %}"
                    "{% set x = ([ns.l] * 3000)|tojson(indent='') %}")}) {
    EXPECT_NE(failure(source, jinja::Limits().steps / 10).find("does not terminate"),
              std::string::npos)
        << source;
  }
  // A split into more pieces than a list holds fails before it cuts.
  for (const char* use : {"s.split('a')", "(s.replace('a', 'a ')).split()", "s|list"}) {
    const std::string message =
        failure("{% set s = ('a' * 1000) * 1001 %}{% set x = " + std::string(use) + " %}");
    EXPECT_NE(message.find("a list grows beyond 1000000 items"), std::string::npos) << message;
  }
  EXPECT_NE(failure("{% for c in ('a' * 1000) * 1001 %}{% endfor %}").find("a list grows beyond"),
            std::string::npos);
}

// As Python's float().
TEST(JinjaStrings, NumbersOutOfRangeAreInfiniteOrZero) {
  EXPECT_EQ(render_text("{{ '1e400'|float }} {{ '-1e400'|float }} {{ '1e-400'|float(3) }}"),
            "inf -inf 0.0");
  EXPECT_EQ(render_text("{{ '1e400'|int(7) }} {{ 'nan(1)'|float(3) }} {{ 'nan'|float }}"),
            "7 3 nan");
}

TEST(JinjaStrings, TheEndOfALongTextIsReadWithoutAListOfItsCharacters) {
  EXPECT_EQ(render_text("{% set s = 'é' ~ (('a' * 1000) * 2000) ~ 'ü' %}"
                        "{{ s|first }}{{ s|last }}{{ (s|reverse)[:2] }}"),
            "éüüa");
  EXPECT_EQ(render_text("{{ ''|first }}{{ ''|last }}{{ ''|reverse }}"), "");
}

}  // namespace

}  // namespace xrun::jinja_strings_test
