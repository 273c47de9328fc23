#include "core/text/chat/template_marks.h"

#include <gtest/gtest.h>

#include "tests/core/text/chat/template_fixture.h"

namespace xrun::template_marks_test {
namespace {

// A template in the manner of mistral-common: turns of three roles, our own words.
constexpr const char* kMistralLike =
    "{%- for message in messages %}\n"
    "    {%- if message['role'] == 'user' %}\n"
    "        {{- '[INST]' + message['content'] + '[/INST]' }}\n"
    "    {%- elif message['role'] == 'assistant' %}\n"
    "        {{- message['content'] + '</s>' }}\n\n"
    "    {#- Tool messages stand last. #}\n"
    "    {%- elif message['role'] == 'tool' %}\n"
    "        {{- '[TOOL_RESULTS]' + message['content'] }}\n"
    "    {%- endif %}\n"
    "{%- endfor %}\n";

// A template in the manner of Nemotron 3, without a comment in it.
constexpr const char* kNemotronLike =
    "{%- for message in messages %}\n"
    "    {%- if message.role == 'assistant' %}\n"
    "        {%- set content = message.content %}\n"
    "        {%- if message.tool_calls %}\n"
    "            {{- '<|im_start|>assistant\\n' }}\n"
    "                {%- set include_content = true %}\n"
    "                {{- content }}\n"
    "                {{- '<|im_end|>\\n' }}\n"
    "        {%- else %}\n"
    "            {%- set c = content %}\n"
    "            {%- if loop.index0 > 0 %}\n"
    "                {{- '<|im_start|>assistant\\n' ~ (content | default('', true) | string | "
    "trim) "
    "~ '<|im_end|>\\n' }}\n"
    "            {%- elif c %}\n"
    "                {{- '<|im_start|>assistant\\n' ~ c ~ '<|im_end|>\\n' }}\n"
    "            {%- else %}\n"
    "                {{- '<|im_start|>assistant\\n<|im_end|>\\n' }}\n"
    "            {%- endif %}\n"
    "        {%- endif %}\n"
    "    {%- else %}\n"
    "        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}\n"
    "    {%- endif %}\n"
    "{%- endfor %}\n";

std::string trained_of(const MarkedSource& marked, const Json& conversation) {
  const Rendering rendering = jinja_of(marked.text)->render(conversation, {});
  std::string text;
  for (const ByteRange turn : rendering.turns) {
    text += "<" + rendering.text.substr(turn.begin, turn.end - turn.begin) + ">";
  }
  return text;
}

TEST(TemplateMarks, MistralsAnswersAreMarkedWithTheirEndOfTurn) {
  const std::optional<MarkedSource> marked = mark_source(kMistralLike);
  ASSERT_TRUE(marked.has_value());
  EXPECT_EQ(marked->family, "mistral");
  EXPECT_EQ(
      trained_of(*marked,
                 messages({{"user", "q"}, {"assistant", "a"}, {"tool", "t"}, {"assistant", "b"}})),
      "<a</s>><b</s>>");
}

TEST(TemplateMarks, NemotronsAnswersAreMarkedWithAndWithoutCalls) {
  const std::optional<MarkedSource> marked = mark_source(kNemotronLike);
  ASSERT_TRUE(marked.has_value());
  EXPECT_EQ(marked->family, "nemotron-3");
  Json conversation = messages({{"assistant", "a"}, {"user", "q"}, {"assistant", " b "}});
  Json call = Json(Json::Object{
      {"role", "assistant"}, {"content", "c"}, {"tool_calls", Json(Json::Array{Json::object()})}});
  conversation.push_back(std::move(call));
  EXPECT_EQ(trained_of(*marked, conversation), "<a<|im_end|>><b<|im_end|>><c<|im_end|>>");
  EXPECT_EQ(jinja_of(marked->text)->render(conversation, {}).text,
            jinja_of(kNemotronLike)->render(conversation, {}).text);
}

TEST(TemplateMarks, APlaceThatIsThereTwiceMarksNothing) {
  const std::string twice = std::string(kMistralLike) + kMistralLike;
  EXPECT_FALSE(mark_source(twice).has_value());
}

}  // namespace
}  // namespace xrun::template_marks_test
