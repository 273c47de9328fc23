// The tokens of a conversation train exactly the wanted answers, and lost tool calls are refused.

#include "core/data/rows/conversation_tokens.h"

#include "core/data/rows/conversation_row.h"
#include "core/data/rows/row_encoder.h"
#include "core/text/chat/combined_templates.h"
#include "tests/core/data/rows/encoder_fixture.h"
#include "tests/error_of.h"

namespace xrun::conversation_tokens_test {
namespace {

class ConversationTokens : public EncoderFixture {
 protected:
  EncodedRow chat(const std::string& row) const { return encode(RowKind::kChat, row); }
  // The first `given` messages are not trained; lost_turns as in ConversationStyle.
  EncodedRow encode_with(const ChatTemplate& chat_template, const std::string& messages,
                         size_t given = 0, bool lost_turns = false) const {
    ConversationStyle style{tokenizer(), chat_template};
    style.lost_turns = lost_turns;
    int64_t straddlers = 0;
    EncodedRow row;
    row.streams[0] =
        encode_conversation(parse_json(messages, "row"), Json::object(), given, style, straddlers);
    return row;
  }
};

TEST_F(ConversationTokens, FlaggedAnswersAreNotTrained) {
  const std::string head =
      R"({"messages":[)" + user_turn("a") + R"(,{"role":"assistant","content":"b",)";
  const std::string tail = "}," + user_turn("c") + "," + assistant_turn("d") + "]}";
  for (const char* flag : {R"("weight":0)", R"("train":false)", R"("training":false)"}) {
    const EncodedRow row = chat(head + flag + tail);
    EXPECT_EQ(trained(row), "d<|im_end|>") << flag;
    ASSERT_EQ(row.notes.size(), 1u) << flag;
    EXPECT_TRUE(row.notes[0].ends_with("is off are not trained")) << row.notes[0];
  }
  for (const char* flag : {R"("weight":1)", R"("train":true)", R"("weight":null)"}) {
    EXPECT_EQ(trained(chat(head + flag + tail)), "b<|im_end|>d<|im_end|>") << flag;
  }
  settings_.train_on = TrainOn::kAll;
  EXPECT_EQ(trained(chat(head + R"("weight":0)" + tail)).find("b<|im_end|>"), std::string::npos);
  EXPECT_NE(trained(chat(head + R"("weight":0)" + tail)).find("d<|im_end|>"), std::string::npos);
}

TEST_F(ConversationTokens, AnswersInOneBlockAreTrainedTogetherOrRefused) {
  const auto joins = make_jinja_template(
      "{% for m in messages %}{% if m.role == 'user' %}<{{ m.content }}>{% elif "
      "loop.previtem.role == 'user' %}{% generation %}{{ m.content }}{% if loop.nextitem is "
      "defined "
      "%}{{ loop.nextitem.content }}{% endif %};{% endgeneration %}{% endif %}{% endfor %}",
      "joins", {});
  const auto encoded = [&](const char* flag) {
    return trained(encode_with(*joins, "[" + user_turn("a") + "," + assistant_turn("b") +
                                           R"(,{"role":"assistant","content":"c")" + flag + "}]"));
  };
  EXPECT_EQ(encoded(""), "bc;");
  try {
    encoded(R"(,"train":false)");
    FAIL() << "an answer that is not to be trained was";
  } catch (const RowRefusal& refused) {
    EXPECT_EQ(refused.reason(), "template_error");
  }
}

// One template fails on a list, the others print it as Python and JSON spell it.
TEST_F(ConversationTokens, ATemplateThatWantsStringsRefusesContentInParts) {
  const std::string rows =
      R"([{"role":"user","content":[{"type":"text","text":"a"}]},)" + assistant_turn("b") + "]";
  const auto refusal = [&](const std::string& shown, const std::string& messages) {
    const auto chat_template = make_jinja_template(
        "{% for m in messages %}{% generation %}" + shown + "{% endgeneration %}{% endfor %}",
        "wants", {});
    try {
      encode_with(*chat_template, messages);
    } catch (const RowRefusal& refused) {
      return refused.reason() + ": " + refused.what();
    }
    return std::string("none");
  };
  const std::string wanted =
      "template_error: turn 1 has its content as a list of parts, and the template wants a "
      "string; join the parts with a map (docs/data.md)";
  for (const char* shown : {"{{ m.content }}", "{{ m.content | tojson }}"}) {
    EXPECT_EQ(refusal(shown, rows), wanted) << shown;
  }
  EXPECT_TRUE(refusal("{{ 'x' + m.content }}", rows).starts_with(wanted + " (")) << "no cause";
  EXPECT_EQ(refusal("{{ m.content if m.content is string else m.content[0].text }}", rows), "none");
  // A text about parts is no list of parts.
  EXPECT_EQ(refusal("{{ m.content }}",
                    "[" + user_turn("{'type': 'text'}") + "," + assistant_turn("b") + "]"),
            "none");
}

TEST_F(ConversationTokens, RenderingOneOfTwoToolCallsLosesTheOther) {
  const auto first_only = make_jinja_template(
      "{% for m in messages %}{% generation %}{{ m.content }}{% if m.tool_calls %}"
      "{{ m.tool_calls[0].name }}{% endif %};{% endgeneration %}{% endfor %}",
      "first", {});
  const auto reason = [&](const char* calls) -> std::string {
    try {
      encode_with(*first_only, "[" + user_turn("getting") +
                                   R"(,{"role":"assistant","content":"","tool_calls":)" + calls +
                                   "}]");
      return "";
    } catch (const RowRefusal& refused) {
      return refused.reason();
    }
  };
  EXPECT_EQ(reason(R"([{"name":"get"}])"), "");
  EXPECT_EQ(reason(R"([{"name":"get"},{"name":"get"}])"), "lost_tool_calls");
  EXPECT_EQ(reason(R"([{"name":"put"},{"name":"get"}])"), "lost_tool_calls");
  EXPECT_EQ(reason(R"([{"name":"a.get-it"}])"), "");
  EXPECT_EQ(reason(R"([{"name":"a.get-it"},{"name":"put-it"}])"), "lost_tool_calls");
  EXPECT_EQ(reason(R"([{"name":"get-it"},{"name":"get"}])"), "lost_tool_calls")
      << "a name within another one is not a call";
  EXPECT_EQ(reason(R"([{"name":"a.get"},{"name":"get"}])"), "lost_tool_calls");
}

// Two blocks of the first answer and none of the second: counting blocks is not enough.
TEST_F(ConversationTokens, BlocksBelongToTheMessageThatOpensThem) {
  const auto marked = make_jinja_template(
      "{% for m in messages %}<{{ m.role }}>"
      "{% if m.thought %}{% generation %}{{ m.thought }}!{% endgeneration %}|{% endif %}"
      "{% if m.role == 'assistant' and not m.silent %}"
      "{% generation %}{{ m.content }};{% endgeneration %}{% endif %}{% endfor %}",
      "blocks", {});
  const char* const messages =
      R"([{"role":"user","content":"a"},{"role":"assistant","content":"b","thought":"t"},
          {"role":"user","content":"c"},{"role":"assistant","content":"d","silent":true},
          {"role":"assistant","content":"e"}])";
  // The template is silent by design.
  EXPECT_EQ(trained(encode_with(*marked, messages, 3, /*lost_turns=*/true)), "e;");
}

TEST_F(ConversationTokens, ToolCallsThatTheTemplateLeavesOutAreRefusedUnlessTheLawIsOff) {
  const std::string row = R"({"tools":[{"name":"f"}],"messages":[)" + user_turn("a") + R"(,
      {"role":"assistant","content":"","tool_calls":[{"name":"f"}]}]})";
  EXPECT_EQ(refusal(RowKind::kChat, row),
            "lost_tool_calls: turn 2 calls a tool \"f\", and the template leaves the call out; "
            "--set template=qwen2.5 renders calls, as do qwen3 and llama-3.1, or train without the "
            "call: --set laws.tool_calls=false");
  settings_.lost_calls = true;
  EXPECT_EQ(chat(row).notes,
            (std::vector<std::string>{"LOST: the template does not render \"tools\"",
                                      "LOST: the template does not render \"tool_calls\""}));
  template_->set_source("tools and tool_calls");
  settings_.lost_calls = false;
  EXPECT_EQ(chat(row).notes, std::vector<std::string>{});
}

TEST_F(ConversationTokens, OpenAisOlderFunctionCallObeysTheLawOfToolCalls) {
  const std::string lost =
      "lost_tool_calls: turn 2 calls a tool \"f\" by \"function_call\", and "
      "the template leaves the call out; ";
  const std::string law = ", or train without the call: --set laws.tool_calls=false";
  const std::string head =
      R"({"messages":[)" + user_turn("a") + R"(,{"role":"assistant","content":)";
  const std::string row = head + R"("","function_call":{"name":"f","arguments":"{}"}}]})";
  EXPECT_EQ(refusal(RowKind::kChat, row),
            lost +
                "rename it to \"tool_calls\" with map (docs/data.md), and --set "
                "template=qwen2.5 renders calls, as do qwen3 and llama-3.1" +
                law);
  template_->set_source("tool_calls");
  EXPECT_EQ(refusal(RowKind::kChat, row),
            lost + "the template knows \"tool_calls\": rename the key to that with map" + law);
  settings_.lost_calls = true;
  EXPECT_EQ(chat(row).notes,
            std::vector<std::string>{"LOST: the template does not render \"function_call\""});
  settings_.lost_calls = false;
  const auto renders = make_jinja_template(
      "{% for m in messages %}{% generation %}{{ m.content }}{% if m.function_call %}"
      "{{ m.function_call.name }}{% endif %};{% endgeneration %}{% endfor %}",
      "older", {});
  const ConversationReader reader(RowKind::kChat, settings_);
  const ConversationRow read = reader.read(
      parse_json(head + R"(null,"function_call":{"name":"f","arguments":"{}"}}]})", "row"));
  int64_t straddlers = 0;
  EncodedRow out;
  out.streams[0] =
      encode_conversation(read.messages, read.kwargs, 0, {tokenizer(), *renders}, straddlers);
  EXPECT_EQ(text(out), "a;f;");
}

// OpenAI's form: "content": null beside the call, which this template needs as a string.
TEST_F(ConversationTokens, ACallWithoutContentIsLostLikeAnyOther) {
  const std::string row =
      R"({"messages":[)" + user_turn("a") + R"(,{"role":"assistant","content":null,
      "tool_calls":[{"name":"f"}]}]})";
  EXPECT_TRUE(
      refusal(RowKind::kChat, row).starts_with("lost_tool_calls: turn 2 calls a tool \"f\""));
  settings_.lost_calls = true;
  EXPECT_EQ(refusal(RowKind::kChat, row),
            "empty_answer: turn 2 is only a tool call, which the template leaves out");
}

TEST_F(ConversationTokens, ANullFunctionCallIsNotACall) {
  for (const char* none : {"null", R"({"name":null,"arguments":null})"}) {
    const EncodedRow row =
        chat(R"({"messages":[)" + user_turn("a") + R"(,{"role":"assistant","content":"b",
        "function_call":)" +
             std::string(none) + "}]}");
    EXPECT_EQ(trained(row), "b<|im_end|>");
    EXPECT_EQ(row.notes, std::vector<std::string>{});
  }
}

TEST_F(ConversationTokens, AConversationAboveTheRenderingLimitIsTooLong) {
  settings_.over_length = OverLength::kDrop;
  const std::string text(kMaxConversationBytes + 1, 'a');
  const std::string refused =
      refusal(RowKind::kChat, R"({"prompt":")" + text + R"(","completion":"b"})");
  EXPECT_TRUE(refused.starts_with("too_long: the conversation and its tools have 25,165,8"))
      << refused;
  EXPECT_NE(refused.find("at most 25,165,824 are rendered"), std::string::npos) << refused;
}

TEST_F(ConversationTokens, ToolsCountAsTextOfTheirConversation) {
  settings_.over_length = OverLength::kDrop;
  const std::string text(kMaxConversationBytes, 'a');
  const std::string refused = refusal(
      RowKind::kChat, R"({"prompt":"a","completion":"b","tools":[{"name":")" + text + R"("}]})");
  EXPECT_TRUE(refused.starts_with("too_long: ")) << refused.substr(0, 200);
}

// Only the template that renders this row counts, not the tokenizer's other one.
TEST_F(ConversationTokens, ACallIsLostIfTheRowsTemplateDoesNotRenderCalls) {
  constexpr const char* kPlain =
      "{% for m in messages %}{% generation %}{{ m.content }};{% endgeneration %}{% endfor %}";
  constexpr const char* kToolUse =
      "{% for m in messages %}{% generation %}{{ m.tool_calls | tojson }};{% endgeneration %}"
      "{% endfor %}";
  const auto either = make_tool_template(make_jinja_template(kPlain, "plain", {}),
                                         make_jinja_template(kToolUse, "tool_use", {}));
  const Json messages = parse_json(
      R"([{"role":"assistant","content":"a","tool_calls":[{"name":"get weather"}]}])", "row");
  int64_t straddlers = 0;
  const auto encode = [&](const char* kwargs) {
    encode_conversation(messages, parse_json(kwargs, "row"), 0, {tokenizer(), *either}, straddlers);
  };
  EXPECT_NO_THROW(encode(R"({"tools":[{"name":"get weather"}]})"));
  EXPECT_EQ(
      message_of<RowRefusal>([&] { encode("{}"); }),
      "turn 1 calls a tool, and the template leaves the call out; --set template=qwen2.5 renders "
      "calls, as do qwen3 and llama-3.1, or train without the call: --set laws.tool_calls=false");
}

}  // namespace
}  // namespace xrun::conversation_tokens_test
