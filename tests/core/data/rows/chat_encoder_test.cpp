// Every known spelling of a chat row gives the same conversation, and a refused row says why.

#include "core/data/rows/conversation_row.h"
#include "core/data/rows/row_encoder.h"
#include "tests/core/data/rows/encoder_fixture.h"

namespace xrun::chat_encoder_test {
namespace {

class ChatEncoderTest : public EncoderFixture {
 protected:
  EncodedRow chat(const std::string& row) const { return encode(RowKind::kChat, row); }
};

TEST_F(ChatEncoderTest, EverySpellingGivesTheSameConversation) {
  const std::string want =
      text(chat(R"({"messages":[)" + user_turn("a") + "," + assistant_turn("b") + "]}"));
  EXPECT_EQ(want, "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n");
  for (const std::string& row : std::vector<std::string>{
           R"({"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"}]})",
           R"({"instruction":"a","input":"","output":"b"})", R"({"instruction":"a","output":"b"})",
           R"({"prompt":"a","completion":"b"})",
           R"({"prompt":[)" + user_turn("a") + R"(],"completion":[)" + assistant_turn("b") + "]}",
           R"({"prompt":"a","messages":[)" + assistant_turn("b") + "]}",
           R"({"prompt":"ignored","messages":[)" + user_turn("a") + "," + assistant_turn("b") +
               "]}"}) {
    EXPECT_EQ(text(chat(row)), want) << row;
  }
}

TEST_F(ChatEncoderTest, InstructionInputHistoryAndSystemBecomeTurns) {
  EXPECT_EQ(text(chat(R"({"instruction":"i","input":"n","output":"o","system":"s",
                          "history":[["q","r"]]})")),
            "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nq<|im_end|>\n"
            "<|im_start|>assistant\nr<|im_end|>\n<|im_start|>user\ni\nn<|im_end|>\n"
            "<|im_start|>assistant\no<|im_end|>\n");
}

const std::string kTwoAnswers = R"({"messages":[)" + user_turn("a") + "," + assistant_turn("b") +
                                "," + user_turn("c") + "," + assistant_turn("d") + "]}";

TEST_F(ChatEncoderTest, TrainsAssistantTurnsTheLastOneOrAll) {
  EXPECT_EQ(trained(chat(kTwoAnswers)), "b<|im_end|>d<|im_end|>");
  settings_.train_on = TrainOn::kLast;
  EXPECT_EQ(trained(chat(kTwoAnswers)), "d<|im_end|>");
  EXPECT_EQ(trained(chat(R"({"messages":[)" + user_turn("a") + "," + assistant_turn("b") + "," +
                         user_turn("c") + "]}")),
            "b<|im_end|>");
  settings_.train_on = TrainOn::kAll;
  const EncodedRow all = chat(kTwoAnswers);
  EXPECT_EQ(std::count(all.streams[0].trained.begin(), all.streams[0].trained.end(), 0), 1);
}

TEST_F(ChatEncoderTest, OnlyTheCompletionOfPromptAndCompletionIsTrained) {
  const std::string row =
      R"({"prompt":[)" + user_turn("a") + "," + assistant_turn("b") + "," + user_turn("c") + R"(],
                             "completion":"d"})";
  EXPECT_EQ(trained(chat(row)), "d<|im_end|>");
}

TEST_F(ChatEncoderTest, RowsWithOnePromptShareItsHash) {
  const uint64_t hash = chat(R"({"prompt":"a","completion":"b"})").prompt_hash;
  EXPECT_EQ(chat(R"({"instruction":"a","output":"c"})").prompt_hash, hash);
  EXPECT_NE(chat(R"({"prompt":"x","completion":"b"})").prompt_hash, hash);
}

TEST_F(ChatEncoderTest, OverLongRowsRaiseAreDroppedOrLoseTheirEnd) {
  const std::string row = R"({"prompt":"a","completion":"bbbbbbbbbb"})";
  settings_.max_length = 20;
  const std::string raised = error_of([&] { chat(row); });
  EXPECT_TRUE(raised.starts_with(
      "rows.jsonl:17: the conversation has 32 tokens, max_length is 20; its prompt alone fills it, "
      "and a cut keeps whole prompts\n  row  " +
      row))
      << raised;
  EXPECT_EQ(raised.find("over_length=cut"), std::string::npos) << raised;
  settings_.over_length = OverLength::kDrop;
  EXPECT_EQ(refusal(RowKind::kChat, row),
            "too_long: the conversation has 32 tokens, max_length is 20");
  settings_.over_length = OverLength::kCut;
  EXPECT_EQ(refusal(RowKind::kChat, row),
            "no_answer_left: the prompt of the conversation fills max_length = 20, so a cut would "
            "leave nothing of the answer to train; this row needs max_length = 21 or more");
  settings_.max_length = 24;
  const EncodedRow cut = chat(row);
  EXPECT_EQ(cut.cut_tokens, 8);
  EXPECT_EQ(trained(cut), "bbbb");
}

TEST_F(ChatEncoderTest, CommonNamesOfOtherSetsAreSuggested) {
  EXPECT_EQ(refusal(RowKind::kChat, R"({"question":"a","answer":"b"})"),
            "unknown_format: its columns: question, answer; name them: fields = { prompt = "
            "\"question\", completion = \"answer\" }");
  EXPECT_EQ(refusal(RowKind::kChat, R"({"ask":"a","reply":"b","lang":"zh"})"),
            "unknown_format: its columns: ask, reply, lang; name them: fields = { prompt = "
            "\"ask\", completion = \"reply\" }");
  EXPECT_EQ(refusal(RowKind::kChat, R"({"问题":"a","答案":"b","来源":"web"})"),
            "unknown_format: its columns: 问题, 答案, 来源; name them: fields = { prompt = "
            "\"问题\", completion = \"答案\" }");
  // A text is not a list of messages; two are taken for a prompt and its answer.
  EXPECT_TRUE(refusal(RowKind::kChat, R"({"x":"a","y":1})")
                  .ends_with("; name them, for example fields = { messages = \"...\" }"));
  EXPECT_TRUE(refusal(RowKind::kChat, R"({"lang":"fr","demande":"a","id":7,"suite":"b"})")
                  .ends_with("; wanted: prompt, completion; name them, for example fields = { "
                             "prompt = \"demande\", completion = \"suite\" }"));
  EXPECT_EQ(refusal(RowKind::kChat, R"({"input":"a","output":"b"})"),
            "unknown_format: its columns: input, output; name them: fields = { prompt = \"input\", "
            "completion = \"output\" }");
}

TEST_F(ChatEncoderTest, OrdinaryTextAsTheEndOfATurnIsNotedWithTheTemplatesThatFit) {
  EncodedRow row;
  make_row_encoder({RowKind::kChat, settings_, &tokenizer(),
                    resolve_template(tokenizer(), "llama-3.1", "2024-07-26").chat_template})
      ->encode_value(parse_json(R"({"prompt":"a","completion":"b"})", "row"), "rows.jsonl:1", row);
  ASSERT_FALSE(row.notes.empty());
  EXPECT_NE(row.notes.back().find("with one of its special tokens: chatml, "), std::string::npos)
      << row.notes.back();
}

TEST_F(ChatEncoderTest, AColumnThatFieldsGivesToAnotherNameIsReadUnderThatNameAlone) {
  settings_.fields = {{"prompt", "input"}, {"completion", "output"}};
  const EncodedRow row = chat(R"({"input":"a","output":"b"})");
  EXPECT_EQ(row.notes, std::vector<std::string>{"read as prompt and completion"});
  settings_.fields = {{"instruction", "input"}};
  EXPECT_EQ(text(chat(R"({"input":"a","output":"b"})")), text(row));
}

TEST_F(ChatEncoderTest, AColumnOfNullsCountsAsAbsent) {
  EXPECT_EQ(refusal(RowKind::kChat, R"({"messages":null})"),
            "unknown_format: its columns: messages (null); wanted: messages");
  EXPECT_TRUE(refusal(RowKind::kChat, R"({"prompt":"a","completion":null})")
                  .starts_with("unknown_format: its columns: prompt, completion (null); wanted: "
                               "prompt, completion; rows with prompt are read by xrun.prompts"));
}

TEST_F(ChatEncoderTest, AFieldThatTheRowLacksIsNamed) {
  settings_.fields = {{"messages", "conv"}};
  const std::string row = R"({"messages":[)" + user_turn("a") + "," + assistant_turn("b") + "]";
  EXPECT_EQ(
      refusal(RowKind::kChat, row + "}"),
      "unknown_format: its columns: messages; fields names messages = \"conv\", a column that "
      "the row lacks");
  EXPECT_EQ(
      refusal(RowKind::kChat, row + R"(,"conv":null})"),
      "unknown_format: its columns: messages, conv (null); fields names messages = \"conv\", a "
      "column that is null here");
  EXPECT_EQ(
      refusal(RowKind::kChat, R"({"cnov":[]})"),
      "unknown_format: its columns: cnov; fields names messages = \"conv\", a column that the "
      "row lacks, did you mean \"cnov\"?");
  settings_.fields = {{"system", "sys"}};
  EXPECT_EQ(chat(row + "}").notes,
            std::vector<std::string>{"fields names system = \"sys\", a column that the row lacks"});
}

TEST_F(ChatEncoderTest, AnUnknownRoleIsNoted) {
  EXPECT_EQ(
      chat(R"({"messages":[)" + user_turn("a") + R"(,{"role":"function","content":"o"},)" +
           assistant_turn("c") + "]}")
          .notes,
      std::vector<std::string>{
          "the role \"function\" is unknown: the template decides how its turns are written"});
}

TEST_F(ChatEncoderTest, SaysWhyARowIsRefused) {
  for (const auto& [row, wanted] : std::vector<RefusedRow>{
           {"[1]", "not_an_object: the row is an array, wanted an object"},
           {R"([{"messages":1}])",
            "not_an_object: the row is an array, wanted an object; a file that is one array is "
            "named .json"},
           {"[" + user_turn("a") + "," + assistant_turn("b") + "]",
            "not_an_object: the row is an array, wanted an object; its elements are messages, so "
            "wrap it: {\"messages\": [...]}"},
           {"{}", "unknown_format: the row has no columns; wanted: messages"},
           {R"({"prompt":"a","chosen":"b","rejected":"c"})",
            "unknown_format: its columns: prompt, chosen, rejected; rows with chosen, rejected are "
            "read by xrun.preference (a recipe such as dpo.lua)"},
           {R"({"prompt":"a","chosen":"b","rejected":"c","answer":"d"})",
            "unknown_format: its columns: prompt, chosen, rejected, answer; rows with chosen, "
            "rejected are read by xrun.preference"},
           {R"({"instruction":"a","chosen":"b","rejected":"c"})",
            "no_assistant: the conversation has no assistant turn; its turns are by user; rows "
            "with chosen, rejected are read by xrun.preference"},
           {R"({"chosen":"b","rejected":"c"})",
            "unknown_format: its columns: chosen, rejected; rows with chosen, rejected are read by "
            "xrun.preference (a recipe such as dpo.lua)"},
           {R"({"mesages":[]})",
            "unknown_format: its columns: mesages; wanted: messages; name them, for example "
            "fields = { messages = \"mesages\" }"},
           {R"({"text":"b"})",
            "unknown_format: its columns: text; wanted: messages; rows with text are read by "
            "xrun.text"},
           {R"({"messages":[]})", "empty_list: messages has no messages"},
           {R"({"messages":7})",
            "wrong_type: messages is an integer, wanted a string, a message or a list"},
           {R"({"messages":[)" + user_turn("a") + "]}",
            "no_assistant: the conversation has no assistant turn; its turns are by user"},
           {R"({"instruction":"a","context":"b","response":"c","category":"d"})",
            "no_assistant: the conversation has no assistant turn; its turns are by user; columns "
            "that are not used: context, response, category; name the right one, for example "
            "fields = { output = \"response\", input = \"context\" }"},
           {R"({"messages":[)" + user_turn(" ") + "," + assistant_turn("b") + "]}",
            "empty_prompt: turn 1 is a user turn without text"},
           {R"({"messages":[)" + user_turn("a") +
                R"(,{"role":"assistant","content":"b","weight":0.5}]})",
            "wrong_type: messages[1] has a weight that is 0.5, wanted 0 or 1"},
           {R"({"prompt":"a"})",
            "unknown_format: its columns: prompt; wanted: prompt, completion; rows with prompt are "
            "read by xrun.prompts"},
           {R"({"prompt":"a","completion":" "})",
            "empty_answer: the last assistant turn has no content"},
           {R"({"prompt":"a","completion":[)" + user_turn("b") + "]}",
            "wrong_type: \"completion\" begins with a turn of \"user\", wanted assistant"},
           {R"({"instruction":3,"output":"b"})",
            "wrong_type: \"instruction\" is an integer, wanted a string"},
           {R"({"instruction":"a","output":"b","history":"x"})",
            "wrong_type: \"history\" is a string, wanted a list"},
           {R"({"instruction":"a","output":"b","history":[["x"]]})",
            "wrong_type: \"history\"[0] is not a pair of strings"},
           {R"({"prompt":"a","completion":"b","chat_template_kwargs":{"tokenize":1}})",
            "refused_kwargs: chat_template_kwargs may not set \"tokenize\""},
           {R"({"messages":[{"role":"user","content":[{"type":"image","url":"x"}]},)" +
                assistant_turn("b") + "]}",
            "wrong_type: messages[0] has a content whose part 0 is of type \"image\", wanted "
            "{\"type\": \"text\""},
           {R"({"messages":[{"role":"user","content":["x"]},)" + assistant_turn("b") + "]}",
            "wrong_type: messages[0] has a content whose part 0 is a string"},
           {R"({"prompt":"a","completion":"b","tools":"{"})",
            "wrong_type: tools is a string, but not JSON: tools:1:2"},
           {R"({"prompt":"a","completion":"b","tools":"7"})",
            "wrong_type: tools is an integer, wanted a list"},
           {R"({"messages":[{"role":"refused","content":"x"},)" + assistant_turn("b") + "]}",
            "template_error: the template refuses this role"}}) {
    const std::string got = refusal(RowKind::kChat, row);
    EXPECT_TRUE(got.starts_with(wanted)) << row << ": " << got;
  }
}

TEST_F(ChatEncoderTest, ContentInPartsReachesTheTemplateUnchanged) {
  const ConversationRow row = ConversationReader(RowKind::kChat, settings_)
                                  .read(parse_json(R"({"tools":"[{\"name\":\"f\"}]","messages":[
              {"role":"user","content":[{"type":"text","text":"a"}]},)" +
                                                       assistant_turn("b") + "]}",
                                                   "row"));
  EXPECT_EQ(dump_json(row.messages.as_array()[0]),
            R"({"role":"user","content":[{"type":"text","text":"a"}]})");
  EXPECT_EQ(dump_json(row.kwargs), R"({"tools":[{"name":"f"}]})");
}

TEST_F(ChatEncoderTest, ARowWithoutATrainedAnswerIsRefused) {
  EXPECT_EQ(
      refusal(RowKind::kChat, R"({"messages":[)" + user_turn("a") + R"(,
                        {"role":"assistant","content":"b","weight":0}]})"),
      "empty_mask: no token of the conversation is trained: the \"weight\" of an assistant turn "
      "excludes it");
  EXPECT_EQ(refusal(RowKind::kChat, R"({"prompt":[)" + user_turn("a") + "," + assistant_turn("b") +
                                        R"(],"completion":[{"role":"tool","content":"c"}]})"),
            "empty_mask: no token of the conversation is trained: no assistant turn follows the "
            "prompt");
}

TEST_F(ChatEncoderTest, AliasesOfRolesAreReadAndNoted) {
  const EncodedRow row = chat(R"({"messages":[{"role":"Human","content":"a"},
      {"role":"gpt","content":"b"},{"role":"observation","content":"o"},)" +
                              assistant_turn("c") + "]}");
  EXPECT_EQ(text(row),
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
            "<|im_start|>observation\no<|im_end|>\n<|im_start|>assistant\nc<|im_end|>\n");
  EXPECT_EQ(row.notes, (std::vector<std::string>{"the role \"Human\" is read as \"user\"",
                                                 "the role \"gpt\" is read as \"assistant\""}));
}

TEST_F(ChatEncoderTest, ATurnOfShareGptThatIsACallBecomesAToolCall) {
  const auto row = [](const std::string& value) {
    return R"({"conversations":[{"from":"human","value":"a"},{"from":"function_call","value":)" +
           value + R"(},{"from":"observation","value":"o"},{"from":"gpt","value":"b"}]})";
  };
  const std::string call = R"("{\"name\":\"f\",\"arguments\":{\"x\":1}}")";
  // The template of the fixture renders no calls.
  EXPECT_TRUE(refusal(RowKind::kChat, row(call))
                  .starts_with("lost_tool_calls: turn 2 calls a tool \"f\", and"))
      << refusal(RowKind::kChat, row(call));
  settings_.lost_calls = true;
  EXPECT_EQ(text(chat(row(call))),
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n"
            "<|im_start|>tool\no<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n");
  for (const char* wrong : {"\"f(1)\"", "\"7\"", "\"\""}) {
    EXPECT_EQ(
        refusal(RowKind::kChat, row(wrong)),
        fmt::format("wrong_type: conversations[1] is from \"function_call\" with {}, wanted a "
                    "call as JSON: {{\"name\": ..., \"arguments\": {{...}}}}",
                    wrong));
  }
}

TEST_F(ChatEncoderTest, AMessageOfBothSpellingsMustAgree) {
  const std::string head =
      R"({"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b",)";
  EXPECT_EQ(trained(chat(head + R"("role":null,"content":null}]})")), "b<|im_end|>");
  EXPECT_EQ(trained(chat(head + R"("content":"b"}]})")), "b<|im_end|>");
  EXPECT_EQ(refusal(RowKind::kChat, head + R"("content":"c"}]})"),
            "columns_differ: conversations[1] has a value and a content, and they differ");
  EXPECT_EQ(
      refusal(RowKind::kChat,
              R"({"conversations":[{"from":"human","value":"a"},{"from":"gpt","content":"b",)"
              R"("tool_calls":[{"function":{"name":"f","arguments":{}}}]}]})"),
      "columns_differ: conversations[1] has from and content; with from the text is in value");
}

TEST_F(ChatEncoderTest, ColumnsIgnoredForAnotherSpellingAreNoted) {
  const std::string messages = R"("messages":[)" + user_turn("a") + "," + assistant_turn("b") + "]";
  EXPECT_EQ(chat("{" + messages + R"(,"output":"x","completion":"y"})").notes,
            (std::vector<std::string>{"\"completion\" is ignored beside \"messages\"",
                                      "\"output\" is ignored beside \"messages\""}));
  EXPECT_EQ(chat(R"({"instruction":"a","output":"b","prompt":"p"})").notes,
            (std::vector<std::string>{"\"prompt\" is ignored beside \"instruction\"",
                                      "read as instruction and output"}));
  EXPECT_EQ(chat(R"({"prompt":"a","completion":"b","output":"x"})").notes,
            (std::vector<std::string>{"\"output\" is ignored beside \"prompt\"",
                                      "read as prompt and completion"}));
}

TEST_F(ChatEncoderTest, TwoConversationsThatDifferAreABadRow) {
  const std::string messages =
      R"({"messages":[)" + user_turn("a") + "," + assistant_turn("b") + "]";
  const std::string same =
      R"(,"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"}]})";
  EXPECT_EQ(chat(messages + same).notes,
            std::vector<std::string>{"\"conversations\" is ignored beside \"messages\""});
  EXPECT_EQ(
      refusal(RowKind::kChat, messages + R"(,"conversations":[{"from":"human","value":"c"}]})"),
      "columns_differ: \"messages\" and \"conversations\" are two names of one column, and "
      "differ here; leave one out: map = function(row) row.conversations = nil return row "
      "end");
  EXPECT_EQ(chat(messages + R"(,"conversations":7})").notes.size(), 1u);
}

TEST_F(ChatEncoderTest, TwoListsOfIdsThatDifferAreABadRow) {
  const auto tokens = [&](const std::string& row) { return encode(RowKind::kTokens, row); };
  EXPECT_EQ(tokens(R"({"input_ids":[65,66],"tokens":[65,66]})").notes,
            std::vector<std::string>{"\"tokens\" is ignored beside \"input_ids\""});
  EXPECT_EQ(tokens(R"({"input_ids":[65,66],"tokens":["A","B"]})").streams[0].ids.size(), 2u);
  EXPECT_TRUE(refusal(RowKind::kTokens, R"({"input_ids":[65,66],"ids":[65,67]})")
                  .starts_with("columns_differ: \"input_ids\" and \"ids\" are two names"));
}

TEST_F(ChatEncoderTest, AWeightIsANonNegativeNumberAndReadOnlyIfFieldsNameIt) {
  EXPECT_EQ(chat(R"({"prompt":"a","completion":"b","weight":"x"})").weight, 1);
  settings_.fields = {{"weight", "w"}};
  EXPECT_EQ(chat(R"({"prompt":"a","completion":"b","w":0.25})").weight, 0.25f);
  EXPECT_EQ(refusal(RowKind::kChat, R"({"prompt":"a","completion":"b","w":-1})"),
            "bad_weight: \"w\" is -1, wanted a number >= 0");
  EXPECT_EQ(refusal(RowKind::kChat, R"({"prompt":"a","completion":"b","w":1e39})"),
            "bad_weight: \"w\" is 1e+39, wanted a number >= 0");
}

TEST_F(ChatEncoderTest, NotesWhatItIgnores) {
  const EncodedRow row =
      chat(R"({"prompt":"x","system":"t","id":4,"messages":[
      {"role":"system","content":"s"},)" +
           user_turn("a") + "," + assistant_turn("b") + "," + user_turn("c") + "]}");
  EXPECT_EQ(row.notes, (std::vector<std::string>{"\"prompt\" is ignored beside \"messages\"",
                                                 "\"system\" is ignored beside a system turn",
                                                 "the column \"id\" is not used",
                                                 "turns after the last answer"}));
}

}  // namespace
}  // namespace xrun::chat_encoder_test
