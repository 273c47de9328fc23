#include "core/text/template_marks.h"

#include <gtest/gtest.h>

#include "tests/core/text/template_fixture.h"

namespace xrun {
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

TEST(TemplateMarks, APlaceThatIsThereTwiceMarksNothing) {
  const std::string twice = std::string(kMistralLike) + kMistralLike;
  EXPECT_FALSE(mark_source(twice).has_value());
}

}  // namespace
}  // namespace xrun
