// Tool calls reach the rendering as objects, and unmatched calls and results are noted.

#include "core/data/rows/tool_calls.h"

#include "core/text/chat/chat_template.h"
#include "tests/core/data/rows/encoder_fixture.h"

namespace xrun::tool_calls_test {
namespace {

using Notes = std::vector<std::string>;

class ToolCalls : public EncoderFixture {
 protected:
  EncodedRow encode_with(const std::string& name, const std::string& row) const {
    const auto chat_template = resolve_template(tokenizer(), name, "2024-07-26").chat_template;
    EncodedRow out;
    make_row_encoder({RowKind::kChat, settings_, &tokenizer(), chat_template})
        ->encode({.text = row, .at = {0, 17}}, "rows.jsonl:17", out);
    forget_plain_turns(out);
    return out;
  }
};

// A row as OpenAI writes it; `arguments` as JSON.
std::string called_with(const std::string& arguments, const std::string& result_id = "call_1") {
  return R"({"messages":[{"role":"user","content":"W?"},{"role":"assistant","content":"",
      "tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":)" +
         arguments + R"(}}]},{"role":"tool","tool_call_id":")" + result_id +
         R"(","content":"rain"},{"role":"assistant","content":"Rain."}]})";
}

constexpr const char* kText = R"("{\"city\": \"S\\u00e3o Paulo\", \"n\": 1.0}")";
constexpr const char* kObject = R"({"city": "São Paulo", "n": 1.0})";
constexpr const char* kRead =
    "the arguments of tool calls are JSON text, and are read as objects: the template would quote "
    "the text";

TEST_F(ToolCalls, ArgumentsAsJsonTextTrainWhatTheObjectTrains) {
  // glm-4-moe refuses a text; the others would quote it.
  for (const char* name : {"qwen2.5", "llama-3.1", "glm-4-moe"}) {
    const EncodedRow row = encode_with(name, called_with(kText));
    EXPECT_EQ(row.notes, Notes{kRead}) << name;
    EXPECT_EQ(row.streams[0], encode_with(name, called_with(kObject)).streams[0]) << name;
  }
}

TEST_F(ToolCalls, ATemplateThatWritesTheTextAsItIsKeepsIt) {
  const EncodedRow row = encode_with("qwen3", called_with(kText));
  EXPECT_EQ(row.notes, Notes{});
  EXPECT_NE(text(row).find(R"("arguments": {"city": "S\u00e3o Paulo", "n": 1.0})"),
            std::string::npos)
      << text(row);
}

TEST_F(ToolCalls, ArgumentsThatAreBrokenJsonDropTheRow) {
  const std::string row = called_with(R"("{\"city\": \"Par")");
  template_->set_source("tool_calls");
  const std::string refused = refusal(RowKind::kChat, row);
  EXPECT_TRUE(refused.starts_with(
      "bad_arguments: turn 2 calls a tool \"weather\" with broken JSON: arguments:1:"))
      << refused;
  EXPECT_EQ(refusal(RowKind::kChat, called_with(R"x("print(1)")x")), "") << "code is not JSON";
  settings_.lost_calls = true;
  EXPECT_EQ(refusal(RowKind::kChat, row), "");
}

TEST_F(ToolCalls, ACallThatLacksWhatTheTemplateNeedsNamesTheField) {
  const std::string row =
      R"({"messages":[{"role":"user","content":"W?"},{"role":"assistant","content":"",
          "tool_calls":[{"function":{"name":"f","arguments":{}}},{"function":{"name":"f"}}]}]})";
  try {
    encode_with("qwen2.5", row);
    FAIL() << "was read";
  } catch (const RowRefusal& refusal) {
    EXPECT_EQ(refusal.reason(), "bad_arguments");
    EXPECT_TRUE(std::string(refusal.what())
                    .starts_with("turn 2 calls a tool \"f\", and its "
                                 "tool_calls[1].function.arguments is missing; a call without "
                                 "arguments has \"arguments\": {} (chat template "))
        << refusal.what();
  }
}

TEST_F(ToolCalls, ResultsWithoutACallAndCallsWithoutAResultAreNoted) {
  EXPECT_EQ(encode_with("qwen2.5", called_with(kObject, "call_2")).notes,
            (Notes{"a tool result has a \"tool_call_id\" that no earlier call has",
                   "a tool call has no result, and the conversation goes on"}));
  EXPECT_EQ(encode_with("qwen2.5", called_with(kObject, "")).notes, Notes{});
  EXPECT_EQ(encode_with("qwen2.5", called_with(kObject)).notes, Notes{});
}

TEST_F(ToolCalls, TheHintNamesTemplatesThatRenderTheRow) {
  const std::string call = R"({"type":"function","function":{"name":"f","arguments":{}}})";
  const auto row = [&](const std::string& calls) {
    return R"({"messages":[{"role":"user","content":"W?"},{"role":"assistant","content":"",
        "tool_calls":[)" +
           calls + "]}]}";
  };
  for (const std::string& calls : {call, call + "," + call}) {
    const std::string refused = refusal(RowKind::kChat, row(calls));
    ASSERT_TRUE(refused.starts_with("lost_tool_calls: ")) << refused;
    for (const char* name : {"qwen2.5", "qwen3", "llama-3.1"}) {
      if (refused.find(name) == std::string::npos) continue;
      EXPECT_NO_THROW(encode_with(name, row(calls))) << name << ": " << refused;
    }
    EXPECT_NE(refused.find("--set template=qwen2.5"), std::string::npos);
  }
}

}  // namespace
}  // namespace xrun::tool_calls_test
