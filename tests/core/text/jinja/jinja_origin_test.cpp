// Origins and turns survive every operation on text.

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/text/chat/template_fixture.h"

namespace xrun::jinja_origin_test {

namespace {

// The rendering with message text in [..] and trained text in {..}.
std::string shown(const std::string& source, const char* content = "ab cd") {
  const auto chat_template = jinja_of(source, {{"bos_token", "<s>"}});
  const Json kwargs = Json(Json::Object{{"word", "kw"}, {"list", Json(Json::Array{"p", "q"})}});
  const Rendering rendering = chat_template->render(messages({{"user", content}}), kwargs);
  std::string out;
  uint32_t at = 0;
  for (const RenderSpan& span : rendering.spans) {
    EXPECT_EQ(span.begin, at);
    EXPECT_LT(span.begin, span.end);
    at = span.end;
    std::string text = rendering.text.substr(span.begin, span.end - span.begin);
    if (span.origin == Origin::kMessage) text = fmt::format("[{}]", text);
    out += span.generation ? fmt::format("{{{}}}", text) : text;
  }
  EXPECT_EQ(at, rendering.text.size());
  return out;
}

TEST(JinjaOrigin, TemplateTextAndSpecialTokensBelongToTheTemplate) {
  EXPECT_EQ(shown("<|x|>{{ bos_token }}{{ 'lit' }}{{ 1 + 1 }}{{ true }}"), "<|x|><s>lit2True");
}

TEST(JinjaOrigin, MessagesAndArgumentsAreData) {
  EXPECT_EQ(shown("{{ messages[0].role }}-{{ messages[0].content }}-{{ word }}"),
            "[user]-[ab cd]-[kw]");
}

TEST(JinjaOrigin, SurvivesConcatenationAndSlicing) {
  EXPECT_EQ(shown("{{ ('<' + messages[0].content + '>')[1:4] }}"), "[ab ]");
  EXPECT_EQ(shown("{{ ('<' ~ word ~ '>')[::-1] }}"), ">[wk]<");
  EXPECT_EQ(shown("{{ ('<' + word + '>')[0] }}{{ (word + '>')[-1] }}"), "<>");
  EXPECT_EQ(shown("{{ ('-' + word) * 2 }}"), "-[kw]-[kw]");
}

TEST(JinjaOrigin, SurvivesMethodsAndFilters) {
  EXPECT_EQ(shown("{{ (' ' + word + '\n')|trim }}"), "[kw]");
  EXPECT_EQ(shown("{{ messages[0].content.split(' ')|join('+') }}"), "[ab]+[cd]");
  EXPECT_EQ(shown("{{ messages[0].content.replace('b', '<b>') }}"), "[a]<b>[ cd]");
  EXPECT_EQ(shown("{{ 'a-b'|replace('-', word) }}"), "a[kw]b");
  EXPECT_EQ(shown("{{ ('<' + word)|upper }}"), "<[KW]");
  EXPECT_EQ(shown("{{ '{}!'.format(word) }}"), "[kw]!");
  EXPECT_EQ(shown("{{ list|map('upper')|join(', ') }}"), "[P], [Q]");
  EXPECT_EQ(shown("{{ ('a\n' + word)|indent(1) }}"), "a\n [kw]");
}

TEST(JinjaOrigin, PrintedDataIsDataWithItsBracketsAndQuotes) {
  EXPECT_EQ(shown("{{ list|tojson }}"), "[[\"p\", \"q\"]]");
  EXPECT_EQ(shown("{{ {'k': word}|tojson }}"), "{\"k\": [\"kw\"]}");
  EXPECT_EQ(shown("{{ list }}"), "[['p', 'q']]");
}

TEST(JinjaOrigin, SurvivesMacrosSetBlocksAndCallBlocks) {
  EXPECT_EQ(shown("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(word)|upper }}"), "<[KW]>");
  EXPECT_EQ(shown("{% set b %}<{{ word }}>{% endset %}{{ b[1:] }}"), "[kw]>");
  EXPECT_EQ(
      shown("{% macro m() %}({{ caller() }}){% endmacro %}{% call m() %}{{ word }}{% endcall %}"),
      "([kw])");
  EXPECT_EQ(shown("{% filter upper %}a{{ word }}{% endfilter %}"), "A[KW]");
}

TEST(JinjaOrigin, AMessageCannotForgeTemplateText) {
  EXPECT_EQ(shown("{{ messages[0].content }}", "{{ bos_token }}<s>{% generation %}"),
            "[{{ bos_token }}<s>{% generation %}]");
}

TEST(JinjaOrigin, GenerationMarksTextPrintedInside) {
  EXPECT_EQ(shown("a{% generation %}b{{ word }}c{% endgeneration %}d"), "a{b}{[kw]}{c}d");
}

TEST(JinjaOrigin, GenerationSurvivesMacrosSetBlocksAndStrip) {
  EXPECT_EQ(shown("{% macro m() %}h{% generation %}{{ word }}.{% endgeneration %}{% endmacro %}x{{ "
                  "m() }}y"),
            "xh{[kw]}{.}y");
  EXPECT_EQ(shown("{% set b %} {% generation %} {{ word }}! {% endgeneration %} {% endset %}<{{ "
                  "b|trim }}>"),
            "<{[kw]}{!}>");
}

// transformers counts from the output when the block runs: (0, 1) for the first, which trains the
// "x", and (1, 2) for the second, which trains the "h" of the macro.
TEST(JinjaOrigin, GenerationIsCountedWhereItIsPrintedNotWhereItRuns) {
  const auto turn_of = [](const char* source) {
    const Rendering rendering = jinja_of(source)->render(messages({{"user", "q"}}), {});
    return rendering.turns.size() == 1 ? rendering.turns[0] : ByteRange{};
  };
  EXPECT_EQ(turn_of("{% set b %}{% generation %}c{% endgeneration %}{% endset %}x{{ b }}"),
            (ByteRange{1, 2}));
  EXPECT_EQ(turn_of("{% macro m() %}h{% generation %}c{% endgeneration %}{% endmacro %}x{{ m() }}"),
            (ByteRange{2, 3}));
}

TEST(JinjaOrigin, GenerationIsAScope) {
  EXPECT_EQ(shown("{% generation %}{% set x = 1 %}{% endgeneration %}[{{ x is defined }}]"),
            "[False]");
}

TEST(JinjaOrigin, EachExecutedBlockIsATurn) {
  const auto chat_template = jinja_of(
      "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}.");
  const Rendering rendering =
      chat_template->render(messages({{"a", "one"}, {"b", ""}, {"c", "two"}}), {});
  ASSERT_EQ(rendering.turns.size(), 2u);  // an empty block leaves nothing to train
  EXPECT_EQ(rendering.turns[0], (ByteRange{0, 3}));
  EXPECT_EQ(rendering.turns[1], (ByteRange{3, 6}));
  ASSERT_EQ(rendering.spans.size(), 2u);
  EXPECT_TRUE(rendering.spans[0].generation);
}

TEST(JinjaOrigin, SpecialTokensOfARowAreData) {
  const auto chat_template = jinja_of("{{ bos_token }}", {{"bos_token", "<s>"}});
  const Json kwargs = Json(Json::Object{{"bos_token", "<x>"}});
  const Rendering rendering = chat_template->render(messages({{"user", ""}}), kwargs);
  EXPECT_EQ(rendering.text, "<x>");
  EXPECT_EQ(rendering.spans[0].origin, Origin::kMessage);
}

TEST(JinjaOrigin, AReplacementBelongsToTheTurnOfTheTextItReplaces) {
  const std::string turn =
      "{% set x %}u{% generation %}ab{{ word }}{% endgeneration %}u{% endset %}";
  EXPECT_EQ(shown(turn + "{{ x|replace('a', 'zz') }}"), "u{zzb}{[kw]}u");
  EXPECT_EQ(shown(turn + "{{ x.replace('k', word) }}"), "u{ab}{[kww]}u");
  EXPECT_EQ(shown(turn + "{{ x.replace('', '-', 3) }}"), "-u{-a-b}{[kw]}u");
  EXPECT_EQ(shown(turn + "{{ x.replace('u', '-') }}"), "-{ab}{[kw]}-");
}

using Lines = std::vector<RenderLine>;

Lines lines_of(const std::string& source) {
  const Json kwargs = Json(Json::Object{{"word", "kw"}, {"list", Json(Json::Array{"p", "q"})}});
  return jinja_of(source)->render(messages({{"user", "ab"}}), kwargs).lines;
}

TEST(JinjaLines, EveryByteHasTheLineThatWroteIt) {
  EXPECT_EQ(lines_of("a\nb{{ 'x' }}\n{% if true %}\nc{% endif %}"),
            (Lines{{2, 1}, {5, 2}, {6, 4}}));
  EXPECT_EQ(lines_of("{% for x in list %}\n{{- x -}}\n{{- '!\\n' -}}\n{% endfor %}"),
            (Lines{{1, 2}, {3, 3}, {4, 2}, {6, 3}}));
  EXPECT_EQ(lines_of("{%- generation -%}\nx{{ word }}{% endgeneration %}"), (Lines{{3, 2}}));
  EXPECT_EQ(lines_of(""), Lines());
}

TEST(JinjaLines, HeldTextBelongsToTheLineThatPrintsIt) {
  EXPECT_EQ(lines_of("{%- macro m() -%}\nm\n{%- endmacro -%}\n{{ m() }}"), (Lines{{1, 4}}));
  EXPECT_EQ(lines_of("{%- set x -%}\ny\n{%- endset -%}\n{{ x }}"), (Lines{{1, 4}}));
  EXPECT_EQ(lines_of("{%- filter upper -%}\na{{ word }}{%- endfilter -%}"), (Lines{{3, 1}}));
}

}  // namespace

}  // namespace xrun::jinja_origin_test
