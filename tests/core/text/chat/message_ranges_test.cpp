// Every byte of a rendering belongs to the message that wrote it or to the template.

#include "core/text/chat/message_ranges.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/text/chat/template_families.h"

namespace xrun::message_ranges_test {
namespace {

std::shared_ptr<const ChatTemplate> jinja(const std::string& source) {
  return make_jinja_template(source, "test", {});
}

const std::string kChatml =
    "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}{% generation %}"
    "{{ m.content }}<|end|>{% endgeneration %}{% else %}{{ m.content }}<|end|>{% endif %}{{ '\\n' "
    "}}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";

Json messages(const std::string& roles) {
  Json list = Json::array();
  for (const char role : roles) {
    const char* name = role == 's' ? "system" : role == 'u' ? "user" : "assistant";
    list.push_back(Json(Json::Object{{"role", name}, {"content", std::string(3, role)}}));
  }
  return list;
}

// "role:text" of each range.
std::vector<std::string> stretches(const ChatTemplate& chat_template, const Json& list,
                                   const Json& kwargs = Json::object()) {
  const Rendering rendering = chat_template.render(list, kwargs);
  std::vector<std::string> out;
  uint32_t end = 0;
  for (const MessageRange& range : message_ranges(chat_template, list, kwargs, rendering)) {
    EXPECT_EQ(range.bytes.begin, end);
    EXPECT_LT(range.bytes.begin, range.bytes.end);
    end = range.bytes.end;
    out.push_back(range.role + ":" +
                  rendering.text.substr(range.bytes.begin, range.bytes.end - range.bytes.begin));
  }
  EXPECT_EQ(end, rendering.text.size());
  return out;
}

using Stretches = std::vector<std::string>;

TEST(MessageRanges, EachMessageHasItsHeaderAndItsEnd) {
  EXPECT_EQ(stretches(*jinja(kChatml), messages("sua")),
            (Stretches{"system:<|system|>sss<|end|>\n", "user:<|user|>uuu<|end|>\n",
                       "assistant:<|assistant|>aaa<|end|>\n"}));
}

TEST(MessageRanges, AGenerationPromptBelongsToTheTemplate) {
  EXPECT_EQ(stretches(*jinja(kChatml), messages("u"),
                      Json(Json::Object{{"add_generation_prompt", true}})),
            (Stretches{"user:<|user|>uuu<|end|>\n", ":<|assistant|>"}));
}

TEST(MessageRanges, ADefaultSystemTurnBelongsToTheTemplate) {
  EXPECT_EQ(stretches(*jinja("<|system|>Be kind.<|end|>\n" + kChatml), messages("ua")),
            (Stretches{":<|system|>Be kind.<|end|>\n", "user:<|user|>uuu<|end|>\n",
                       "assistant:<|assistant|>aaa<|end|>\n"}));
}

// As Qwen2.5 renders tools: in its default system turn.
TEST(MessageRanges, ADefaultSystemTurnWithToolsBelongsToTheTemplate) {
  const std::string with_tools =
      "<|system|>{% if messages[0].role == 'system' %}{{ messages[0].content }}{% else %}Be kind."
      "{% endif %}{% for tool in tools %} {{ tool.name }}{% endfor %}<|end|>\n"
      "{% for m in messages %}{% if not (loop.first and m.role == 'system') %}<|{{ m.role }}|>"
      "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|end|>{% endgeneration %}"
      "{% else %}{{ m.content }}<|end|>{% endif %}{{ '\\n' }}{% endif %}{% endfor %}";
  const Json tools(Json::Object{{"tools", parse_json(R"([{"name":"weather"}])", "")}});
  EXPECT_EQ(stretches(*jinja(with_tools), messages("ua"), tools),
            (Stretches{":<|system|>Be kind. weather<|end|>\n", "user:<|user|>uuu<|end|>\n",
                       "assistant:<|assistant|>aaa<|end|>\n"}));
  EXPECT_EQ(stretches(*jinja(with_tools), messages("sua"), tools)[0],
            "system:<|system|>sss weather<|end|>\n");
}

// As Qwen3 writes an empty thought into the last answer.
TEST(MessageRanges, AnAnswerThatHasAnotherFormAtTheEndKeepsItsText) {
  const std::string thinks =
      "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}{% generation %}"
      "{% if loop.last %}<think></think>{% endif %}{{ m.content }}<|end|>{% endgeneration %}"
      "{% else %}{{ m.content }}<|end|>{% endif %}{{ '\\n' }}{% endfor %}";
  EXPECT_EQ(stretches(*jinja(thinks), messages("uauaua")),
            (Stretches{"user:<|user|>uuu<|end|>\n", "assistant:<|assistant|>aaa<|end|>\n",
                       "user:<|user|>uuu<|end|>\n", "assistant:<|assistant|>aaa<|end|>\n",
                       "user:<|user|>uuu<|end|>\n",
                       "assistant:<|assistant|><think></think>aaa<|end|>\n"}));
}

TEST(MessageRanges, Qwen3sEarlierAnswersAndCallsAreTheAssistants) {
  const auto qwen3 = jinja(std::string(find_builtin("qwen3")->source));
  const Json list = parse_json(
      R"([{"role":"user","content":"W?"},{"role":"assistant","content":"Let me look.",
          "tool_calls":[{"function":{"name":"f","arguments":{}}}]},{"role":"tool","content":"rain"},
          {"role":"assistant","content":"Rain."},{"role":"user","content":"?"},
          {"role":"assistant","content":"!"}])",
      "");
  const Rendering rendering = qwen3->render(list, Json::object());
  std::vector<std::string> roles;
  for (const MessageRange& range : message_ranges(*qwen3, list, Json::object(), rendering)) {
    roles.push_back(range.role);
    const std::string text =
        rendering.text.substr(range.bytes.begin, range.bytes.end - range.bytes.begin);
    EXPECT_EQ(text.find("<|im_start|>"), 0u) << text;
    EXPECT_EQ(text.find("<|im_start|>assistant") == 0, range.role == "assistant") << text;
  }
  EXPECT_EQ(roles, (std::vector<std::string>{"user", "assistant", "tool", "assistant", "user",
                                             "assistant"}));
}

TEST(MessageRanges, MessagesThatDoNotRenderAloneShareARange) {
  const std::string picky =
      "{% if messages|length == 1 %}{{ raise_exception('no') }}{% endif %}" + kChatml;
  EXPECT_EQ(stretches(*jinja(picky), messages("ua")),
            (Stretches{"user, assistant:<|user|>uuu<|end|>\n<|assistant|>aaa<|end|>\n"}));
}

TEST(MessageRanges, AnEmptyRenderingHasNoRanges) {
  EXPECT_EQ(stretches(*jinja(""), messages("ua")), Stretches{});
}

TEST(MessageRanges, ALongConversationIsOneRange) {
  EXPECT_EQ(stretches(*jinja(kChatml), messages(std::string(300, 'u'))).size(), 1u);
}

}  // namespace
}  // namespace xrun::message_ranges_test
