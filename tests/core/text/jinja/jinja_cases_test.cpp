// Generated templates and whole conversations compared with Jinja's output.
//
// tests/golden/jinja_fuzz.json is a fixed sample. XRUN_JINJA_CASES names a file of more, one JSON
// object per line, as tools/oracle/jinja_fuzz.py and template_oracle.py write them:
//   {"name", "template", "messages", "kwargs", "tokens", "text", "turns"}
// text is null where Jinja fails; turns are in code points, or null if unknown.

#include <gtest/gtest.h>

#include <fstream>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "tests/core/text/chat/template_fixture.h"

namespace xrun::jinja_cases_test {

namespace {

TemplateTokens tokens_of(const Json* json) {
  TemplateTokens tokens;
  if (json == nullptr || json->is_null()) return tokens;
  for (const auto& [name, token] : json->as_object()) tokens.emplace_back(name, token.as_string());
  return tokens;
}

Json without_empty(const Json& turns) {
  Json out = Json::array();
  for (const Json& turn : turns.as_array()) {
    if (turn.as_array()[0] == turn.as_array()[1]) continue;
    out.push_back(turn);
  }
  return out;
}

void expect_case(const Json& one) {
  const std::string& source = one.at("template").as_string();
  Json text;
  Json turns;
  std::string error = "none";
  try {
    const auto chat_template = jinja_of(source, tokens_of(one.find("tokens")));
    const Rendering rendering = chat_template->render(one.at("messages"), one.at("kwargs"));
    text = rendering.text;
    turns = turns_in_points(rendering);
  } catch (const Error& failure) {
    error = failure.what();
  }
  const Json* name = one.find("name");
  const std::string shown = name == nullptr ? source : name->as_string();
  EXPECT_EQ(dump_json(text), dump_json(one.at("text"))) << shown << "\nour error: " << error;
  const Json* wanted = one.find("turns");
  if (wanted == nullptr || wanted->is_null() || text.is_null()) return;
  EXPECT_EQ(dump_json(turns), dump_json(without_empty(*wanted))) << shown;
}

TEST(JinjaCases, GeneratedTemplatesRenderAsInJinja) {
  const Json golden = read_json((kSourceDir / "tests/golden/jinja_fuzz.json").string());
  ASSERT_GT(golden.at("cases").size(), 1000u);
  for (const Json& pair : golden.at("cases").as_array()) {
    expect_case(Json(Json::Object{{"template", pair.as_array()[0]},
                                  {"messages", golden.at("messages")},
                                  {"kwargs", golden.at("variables")},
                                  {"text", pair.as_array()[1]}}));
    if (HasFailure()) return;
  }
}

TEST(JinjaCases, CasesOfTheEnvironmentsFileRenderAsInJinja) {
  const char* path = std::getenv("XRUN_JINJA_CASES");
  if (path == nullptr) GTEST_SKIP() << "XRUN_JINJA_CASES is not set";
  std::ifstream file(path);
  ASSERT_TRUE(file.good()) << path;
  int64_t count = 0;
  for (std::string line; std::getline(file, line); ++count) expect_case(parse_json(line, path));
  EXPECT_GT(count, 0);
  RecordProperty("cases", std::to_string(count));
}

TEST(JinjaCases, UnsupportedFeaturesAreRefusedByNameTemplateAndLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"'a b'|wordcount", "the filter 'wordcount' is not supported in chat templates"},
      {"['a']|map('center', 5)|list", "the filter 'center' is not supported in chat templates"},
      {"'a'|nope", "the filter 'nope' is not supported in chat templates"},
      {"1 is divisibleby 2", "the test 'divisibleby' is not supported in chat templates"},
      {"[1]|select('sameas', 1)|list", "the test 'sameas' is not supported in chat templates"},
      {"'a'.casefold()", "the method str.casefold() is not supported in chat templates"},
      {"('a'|safe).zfill(3)", "the method Markup.zfill() is not supported in chat templates"},
      {"{}.copy()", "the method dict.copy() is not supported in chat templates"},
      {"(1,).index(1)", "the method tuple.index() is not supported in chat templates"},
      {"joiner()", "the function joiner() is not supported in chat templates"},
      {"'%s' % 1", "printf formatting (str % values) is not supported in chat templates"},
      {"'{:>4}'.format(1)",
       "str.format() supports the field {} only in chat templates, not '{:>4}'"},
      {"'a}'.format(1)", "str.format() supports the field {} only in chat templates, not '}'"},
  };
  for (const auto& [expression, wanted] : cases) {
    EXPECT_EQ(error_of([&] { render_text(fmt::format("a\n{{{{ {} }}}}", expression)); }),
              fmt::format("chat template \"test\", line 2: {}", wanted));
  }
  EXPECT_EQ(render_text("{{ 'a'.casefold is defined }} {{ 'a'.nope is defined }}"), "True False");
  EXPECT_EQ(error_of([] { render_text("{{ '\\N{DIGIT ONE}' }}"); }),
            "chat template \"test\", line 1: \\N escapes of strings are not supported in chat "
            "templates");
}

TEST(JinjaCases, BreakAndContinueLeaveTheBlocksInsideALoop) {
  // Each is the body of a loop over 1, 2 and 3, in front of {{ i }}; the texts are Jinja's.
  const std::pair<const char*, const char*> cases[] = {
      {"{% with a = i %}{% if a == 2 %}{% break %}{% endif %}{% endwith %}", "1"},
      {"{% with a = i %}{% if a == 2 %}{% continue %}{% endif %}{% endwith %}", "13"},
      {"{% set x %}a{% if i == 2 %}{% break %}{% endif %}{% endset %}{{ x }}", "a1"},
      {"{% filter upper %}a{% if i == 2 %}{% break %}{% endif %}{% endfilter %}", "A1"},
      {"{% filter upper %}a{% if i == 2 %}{% continue %}{% endif %}{% endfilter %}", "A1A3"},
      {"{% for j in [] %}{% else %}{% if i == 2 %}{% break %}{% endif %}{% endfor %}", "1"},
      {"{% for j in [] %}{% else %}{% if i == 2 %}{% continue %}{% endif %}{% endfor %}", "13"},
      {"{% for j in [4, 5] %}{% with %}{% break %}{% endwith %}{% endfor %}", "123"},
  };
  for (const auto& [body, wanted] : cases) {
    const std::string text =
        fmt::format("{{% for i in [1, 2, 3] %}}{}{{{{ i }}}}{{% endfor %}}", body);
    EXPECT_EQ(render_text(text), wanted) << text;
  }
  EXPECT_NE(error_of([] {
              render_text(
                  "{% for i in [1] %}{% for j in [] recursive %}{% else %}{% break %}{% endfor %}"
                  "{% endfor %}");
            }).find("'break' outside of a loop"),
            std::string::npos);
}

TEST(JinjaCases, AMacroTakesOnlyTheSpecialArgumentsThatItsBodyReads) {
  // Each follows macros that read caller, varargs and kwargs, which must not count for others.
  const std::string others =
      "{% macro a() %}{{ caller() }}{{ varargs }}{{ kwargs }}{% endmacro %}"
      "{% macro m(x) %}[{{ x }}]{% endmacro %}";
  const std::pair<const char*, const char*> failures[] = {
      {"{% call m(1) %}y{% endcall %}",
       "macro 'm' takes no {% call %} block: its body does not use caller, or another argument has "
       "set it"},
      {"{{ m(1, 2) }}", "macro 'm' takes at most 1 argument(s)"},
      {"{{ m(1, y=2) }}", "macro 'm' takes no keyword argument 'y'"},
      {"{{ a() }}", "No caller defined"},
  };
  for (const auto& [text, wanted] : failures) {
    EXPECT_EQ(error_of([&, body = text] { render_text(others + body); }),
              fmt::format("chat template \"test\", line 1: {}", wanted));
  }
  const std::pair<const char*, const char*> cases[] = {
      {"{% macro n(kwargs, varargs) %}{{ kwargs }}{{ varargs }}{% endmacro %}{{ n(1, 2) }}", "12"},
      {"{% macro o() %}{% macro i() %}{{ caller is defined }}{% endmacro %}{{ i() }}{% endmacro %}"
       "{% call o() %}y{% endcall %}",
       "False"},
      {"{% macro c(caller=none) %}{{ caller() }}{% endmacro %}{% call c() %}y{% endcall %}", "y"},
      {"{% macro k() %}{{ kwargs }}{% endmacro %}{% call k() %}y{% endcall %}",
       "{'caller': <Macro anonymous>}"},
  };
  for (const auto& [text, wanted] : cases) EXPECT_EQ(render_text(others + text), wanted) << text;
}

TEST(JinjaCases, ARecursiveLoopDoesNotSeeTheIterationThatCallsIt) {
  EXPECT_EQ(
      render_text("{% set t = [{'c': [{'c': []}]}] %}{% set z = 7 %}{% for x in t recursive %}"
                  "{{ y is defined }}{{ z }}{% set y = 1 %}{{ loop(x.c) }}{{ y }}{% endfor %}"),
      "False7False711");
}

TEST(JinjaCases, FloatsAreDividedAndRaisedAsInPython) {
  const std::pair<const char*, const char*> cases[] = {
      {"-4.0 % 2", "0.0"},
      {"4.0 % -2", "-0.0"},
      {"-0.0 // 1", "-0.0"},
      {"-5.0 // 1e999", "-1.0"},
      {"4503599627370497.0 // 1", "4503599627370497.0"},
      {"0.3 // 0.1", "2.0"},
      {"-7.5 // 2", "-4.0"},
  };
  for (const auto& [expression, wanted] : cases) {
    EXPECT_EQ(render_text(fmt::format("{{{{ {} }}}}", expression)), wanted) << expression;
  }
  for (const char* const power : {"10.0 ** 400", "-8.0 ** 0.5"}) {
    const std::string error = error_of([&] { render_text(fmt::format("{{{{ {} }}}}", power)); });
    EXPECT_NE(error.find("is not a finite real number"), std::string::npos) << error;
  }
}

TEST(JinjaCases, AnAttributeOfNoneIsTheItemItself) {
  EXPECT_EQ(render_text("{% set l = [3, 1, 3] %}{{ l|unique(attribute=none)|list }}"
                        "{{ l|min(attribute=none) }}{{ l|map(attribute=none)|list }}"
                        "{{ l|sort(attribute=none) }}{{ l|join(attribute=none) }}"),
            "[3, 1]1[3, 1, 3][1, 3, 3]313");
}

TEST(JinjaCases, ACutInAMessageFallsBetweenTwoCharacters) {
  for (const char* const text :
       {"{{ 1 'éééééééééééééééééééééééééééééé' }}", "{{ {}[('ab' ~ 'é' * 60,)].x }}",
        "{{ '{éééééééééééé}'.format() }}"}) {
    const std::string error = error_of([&] { render_text(text); });
    EXPECT_TRUE(is_valid_utf8(error)) << error;
    EXPECT_NE(error.find("..."), std::string::npos) << error;
  }
}

TEST(JinjaCases, AFailedComparisonNamesItsSidesInTheirOrder) {
  for (const char* const op : {"<", "<=", ">", ">="}) {
    EXPECT_EQ(error_of([&] { render_text(fmt::format("{{{{ 1 {} 'a' }}}}", op)); }),
              fmt::format("chat template \"test\", line 1: '{}' not supported between instances of "
                          "'int' and 'str'",
                          op));
  }
}

TEST(JinjaCases, ZeroHasNoNegativePowerInEitherType) {
  for (const char* const zero : {"0", "0.0"}) {
    EXPECT_EQ(error_of([&] { render_text(fmt::format("{{{{ {} ** -1 }}}}", zero)); }),
              "chat template \"test\", line 1: 0.0 cannot be raised to a negative power");
  }
}

TEST(JinjaCases, UpperCaseMatchesPythonOrIsRefused) {
  EXPECT_EQ(render_text("{{ 'uüя世ж'.upper() }} {{ 'éa bO'.title() }} {{ 'ÿX' | capitalize }}"),
            "UÜЯ世Ж Éa Bo Ÿx");
  EXPECT_NE(error_of([] {
              render_text("{{ 'groß' | upper }}");
            }).find("the upper case of U+00DF is not supported in chat templates"),
            std::string::npos);
}

TEST(JinjaCases, RangesPrintPythonsBounds) {
  const std::pair<const char*, const char*> cases[] = {
      {"range(3)", "range(0, 3)"},
      {"range(1, 8, 3)", "range(1, 8, 3)"},
      {"range(9, 0, -2)", "range(9, 0, -2)"},
      {"range(5, 5)", "range(5, 5)"},
      {"range(-3)", "range(0, -3)"},
      {"range(0, 10, 3)[1:]", "range(3, 12, 3)"},
      {"range(10)[::3]", "range(0, 10, 3)"},
      {"range(10)[::-1]", "range(9, -1, -1)"},
      {"range(9, 0, -2)[1:3]", "range(7, 3, -2)"},
      {"range(1)[5:]", "range(1, 1)"},
      {"range(9223372036854775806, 9223372036854775807, 5)",
       "range(9223372036854775806, 9223372036854775807, 5)"},
  };
  for (const auto& [expression, wanted] : cases) {
    EXPECT_EQ(render_text(fmt::format("{{{{ {} }}}}", expression)), wanted) << expression;
  }
}

}  // namespace

}  // namespace xrun::jinja_cases_test
