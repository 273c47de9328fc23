// A row whose template leaves out a turn is dropped.

#include "core/data/rows/lost_turns.h"

#include "core/text/chat/chat_template.h"
#include "tests/core/data/rows/encoder_fixture.h"

namespace xrun::lost_turns_test {
namespace {

using Notes = std::vector<std::string>;

class LostTurns : public EncoderFixture {
 protected:
  std::shared_ptr<const ChatTemplate> builtin(const std::string& name) const {
    return resolve_template(tokenizer(), name, "2024-07-26").chat_template;
  }
  EncodedRow encode_with(const std::string& name, const std::string& row,
                         RowKind kind = RowKind::kChat) const {
    EncodedRow out;
    make_row_encoder({kind, settings_, &tokenizer(), builtin(name)})
        ->encode({.text = row, .at = {0, 17}}, "rows.jsonl:17", out);
    plain_ = forget_plain_turns(out);
    return out;
  }
  mutable bool plain_ = false;  // the last row's turns end with ordinary text
  std::string refusal_with(const std::string& name, const std::string& row,
                           RowKind kind = RowKind::kChat) const {
    try {
      encode_with(name, row, kind);
      return "";
    } catch (const RowRefusal& refused) {
      return refused.reason() + ": " + refused.what();
    }
  }
  // The turns that a template in Jinja loses.
  static std::vector<size_t> lost(const std::string& source, const std::string& messages) {
    const auto jinja = make_jinja_template(source, "test", {});
    const Json list = parse_json(messages, "row");
    return lost_turns(list, Json::object(), *jinja, jinja->render(list, Json::object()));
  }
};

constexpr const char* kTail =
    R"({"role":"user","content":"Hi"},{"role":"assistant","content":"Salut"}]})";

std::string opened_by(const std::string& role) {
  return R"({"messages":[{"role":")" + role + R"(","content":"Answer in French."},)" + kTail;
}

TEST_F(LostTurns, ATurnThatTheTemplateLeavesOutDropsTheRow) {
  const std::string refused = refusal_with("qwen2.5", opened_by("客户"));
  EXPECT_EQ(refused,
            "lost_turn: the template leaves out the turn of role \"客户\" (message 1); rename the "
            "role with map, name a template that renders it, or train without the turn: --set "
            "laws.turns=false");
  settings_.lost_turns = true;
  EXPECT_EQ(encode_with("qwen2.5", opened_by("客户")).notes,
            (Notes{"the role \"客户\" is unknown: the template decides how its turns are written",
                   "LOST: the template leaves out turns of role \"客户\""}));
}

TEST_F(LostTurns, APairWithoutItsPromptIsDropped) {
  EXPECT_TRUE(refusal_with("qwen2.5", R"({"prompt":[{"role":"客户","content":"怎么退货？"}],
      "chosen":[{"role":"assistant","content":"好的。"}],
      "rejected":[{"role":"assistant","content":"不知道"}]})",
                           RowKind::kPreference)
                  .starts_with("lost_turn: the template leaves out the turn of role \"客户\""));
}

TEST_F(LostTurns, AnEndOfTurnThatTheTokenizerCallsOrdinaryTextIsNoted) {
  encode_with("llama-3.1", opened_by("system"));
  EXPECT_TRUE(plain_);
  encode_with("chatml", opened_by("system"));
  EXPECT_FALSE(plain_);
}

TEST_F(LostTurns, ReasoningThatTheTemplateLeavesOutIsNoted) {
  const auto answer = [](const std::string& key, const std::string& text) {
    return R"({"role":"assistant","content":"Four.",")" + key + "\":\"" + text + "\"}";
  };
  const std::string asks = user_turn("2 + 2?");
  for (const std::string key : {"reasoning_content", "thinking", "reasoning"}) {
    const std::string row = R"({"messages":[)" + asks + "," + answer(key, "add them") + "]}";
    const Notes lost = {"LOST: the template does not render \"" + key + "\""};
    EXPECT_EQ(encode_with("chatml", row).notes, lost);
    EXPECT_EQ(encode_with("qwen2.5", row).notes, lost);
    EXPECT_EQ(encode_with("qwen3", row).notes, Notes{}) << key;
  }
  const std::string twice = R"({"messages":[)" + asks + "," +
                            answer("reasoning_content", "add them") + "," + asks + "," +
                            answer("reasoning_content", "once more") + "]}";
  const Notes earlier = {"LOST: the template leaves out the reasoning of earlier turns"};
  EXPECT_EQ(encode_with("qwen3", twice).notes, earlier);
  EXPECT_EQ(encode_with("chatml", twice).notes,
            Notes{"LOST: the template does not render \"reasoning_content\""});
  const std::string within = R"({"messages":[)" + asks + "," +
                             assistant_turn("<think>add them</think>Four.") + "," + asks + "," +
                             assistant_turn("<think>once more</think>Four.") + "]}";
  EXPECT_EQ(encode_with("qwen3", within).notes, earlier);
  EXPECT_EQ(encode_with("chatml", within).notes, Notes{});
}

TEST_F(LostTurns, LostReasoningOfTheRejectedSideIsNoted) {
  const std::string row = R"({"prompt":"2 + 2?","chosen":[)" + assistant_turn("Four.") +
                          R"(],"rejected":[{"role":"assistant","content":"Five.",
                          "reasoning_content":"guess"}]})";
  EXPECT_EQ(encode_with("chatml", row, RowKind::kPreference).notes,
            Notes{"LOST: the template does not render \"reasoning_content\""});
}

TEST_F(LostTurns, DeveloperIsReadAsSystemWhereTheTemplateDoesNotRenderIt) {
  const Notes mapped = {
      "the role \"developer\" is read as \"system\", since the template does not render it"};
  for (const char* name : {"qwen2.5", "qwen3", "phi-4", "mistral-v7", "gemma-3"}) {
    const EncodedRow row = encode_with(name, opened_by("developer"));
    EXPECT_EQ(row.notes, mapped) << name;
    EXPECT_EQ(row.streams[0], encode_with(name, opened_by("system")).streams[0]) << name;
  }
  for (const char* name : {"chatml", "llama-3.1"}) {
    const EncodedRow row = encode_with(name, opened_by("developer"));
    EXPECT_EQ(row.notes, Notes{}) << name;
    EXPECT_NE(text(row).find("developer"), std::string::npos) << name;
  }
}

// Stripped, moved into another turn, escaped, without earlier reasoning: the text still arrives.
TEST_F(LostTurns, NoBuiltinTemplateLosesAPlainTurn) {
  const std::string row = R"({"messages":[{"role":"system","content":" Be brief.\n"},
      {"role":"user","content":"  What is 2 + 2?\n"},
      {"role":"assistant","content":"<think>\nadd\n</think>\n\n Four. "},
      {"role":"user","content":"Hi"},{"role":"assistant","content":"Hi there"}]})";
  for (const std::string& name : builtin_template_names()) {
    const std::string refused = refusal_with(name, row);
    // They render a system turn only before a user turn that ends the conversation.
    if (name == "mistral-v3" || name == "mistral-v3-tekken") {
      EXPECT_TRUE(refused.starts_with("lost_turn: ")) << name << refused;
      continue;
    }
    EXPECT_TRUE(refused == "" || refused.starts_with("template_error: ")) << name << refused;
  }
}

TEST_F(LostTurns, ChangedTextsAreNotLost) {
  const std::string messages = R"([{"role":"system","content":"a \"b\""},
      {"role":"user","content":[{"type":"text","text":"c"},{"type":"text","text":"d"}]},
      {"role":"assistant","content":"<think>e</think>"},{"role":"tool","content":" "}])";
  EXPECT_EQ(lost("{% for m in messages %}{{ m.content | tojson }}{% endfor %}", messages),
            std::vector<size_t>{});
  EXPECT_EQ(lost("{% for m in messages %}{% if m.role == 'assistant' %}"
                 "{{ m.content.split('</think>')[-1] }}{% else %}{{ m.content | tojson }}"
                 "{% endif %}{% endfor %}",
                 messages),
            std::vector<size_t>{});
}

// The text of the lost turn is a part of other text.
TEST_F(LostTurns, ALostTextThatOccursElsewhereIsFound) {
  const std::string skips =
      "{% for m in messages %}{% if m.role != 'note' %}hi {{ m.content }};{% endif %}{% endfor %}";
  EXPECT_EQ(lost(skips, R"([{"role":"note","content":"hi"},{"role":"user","content":"hi you"}])"),
            std::vector<size_t>{0});
  EXPECT_EQ(lost(skips, R"([{"role":"user","content":"hi you"},{"role":"note","content":"hi"},
                            {"role":"user","content":"what is this"}])"),
            std::vector<size_t>{1});
}

TEST_F(LostTurns, TextBesideAToolCallIsNoted) {
  const std::string row = R"({"messages":[{"role":"user","content":"W?"},
      {"role":"assistant","content":"Let me look.","tool_calls":[{"type":"function",
       "function":{"name":"f","arguments":{"x":1}}}]},
      {"role":"tool","content":"rain"},{"role":"assistant","content":"Rain."}]})";
  EXPECT_EQ(encode_with("llama-3.1", row).notes,
            Notes{"LOST: the template leaves out the text beside a tool call"});
  EXPECT_EQ(encode_with("qwen2.5", row).notes, Notes{});
}

}  // namespace
}  // namespace xrun::lost_turns_test
