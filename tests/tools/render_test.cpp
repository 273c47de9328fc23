// xrun render as a user calls it.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/child_process.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun::render_test {

namespace {

const std::string kTokenizer = source_path("tests/data/tiny_tokenizer");
const char* const kRow = R"({"messages": [{"role": "user", "content": "q"}, )"
                         R"({"role": "assistant", "content": "a"}]})";

class Render : public testing::Test {
 protected:
  int xrun(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {binary_path("xrun"), "render", "--tokenizer", kTokenizer});
    return run_child(arguments, folder_.path() / "output").status;
  }
  // Standard output and standard error together.
  std::string out() const { return read_file(folder_.path() / "output"); }
  // The line of output that is an object, the nth one.
  Json row(size_t n = 0) const {
    const std::string text = out();
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      if (text[at] == '{' && n-- == 0) return parse_json(text.substr(at, end - at), "output");
      at = end + 1;
    }
    return {};
  }

  ScratchFolder folder_;
};

TEST_F(Render, WritesTextIdsAndMask) {
  const std::string rows = folder_.write("rows.jsonl", std::string(kRow) + "\n\n");
  ASSERT_EQ(xrun({"--json", rows}), 0) << out();
  const Json one = row();
  EXPECT_EQ(one.at("text").as_string(),
            "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\na<|im_end|>\n");
  const Json::Array& ids = one.at("ids").as_array();
  const Json::Array& mask = one.at("mask").as_array();
  ASSERT_EQ(ids.size(), mask.size());
  int64_t trained = 0;
  for (const Json& bit : mask) trained += bit.as_int();
  EXPECT_EQ(trained, 2);  // the answer and its end
  EXPECT_EQ(mask[mask.size() - 2].as_int(), 1);
  EXPECT_EQ(mask.back().as_int(), 0);
}

// transformers quotes the text once more, and so does this command.
TEST_F(Render, NotesOnceThatTrainingReadsArgumentsAsObjects) {
  const std::string call =
      R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant",)"
      R"( "content": "", "tool_calls": [{"type": "function", "function":)"
      R"( {"name": "f", "arguments": "{\"x\": 1}"}}]}]})";
  const std::string rows = folder_.write("rows.jsonl", call + "\n" + call + "\n");
  ASSERT_EQ(xrun({"--json", "--template", "qwen2.5", rows}), 0) << out();
  EXPECT_NE(row().at("text").as_string().find(R"("arguments": "{\"x\": 1}")"), std::string::npos)
      << out();
  const std::string note =
      "note: " + rows + ":1: rendered as transformers does; training differs: the arguments of ";
  EXPECT_NE(out().find(note), std::string::npos) << out();
  EXPECT_EQ(out().find("training differs"), out().rfind("training differs")) << out();
}

TEST_F(Render, NotesEachPartThatTheTemplateLeavesOutOnce) {
  const std::string row =
      R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a",)"
      R"( "reasoning_content": "thought", "tool_calls": [{"type": "function", "function":)"
      R"( {"name": "f", "arguments": {}}}]}]})";
  const std::string rows = folder_.write("rows.jsonl", std::string(kRow) + "\n" + row + "\n" + row);
  ASSERT_EQ(xrun({"--json", "--template", "chatml", rows}), 0) << out();
  for (const std::string key : {"tool_calls", "reasoning_content"}) {
    const std::string note =
        "note: " + rows + ":2: LOST: the template does not render \"" + key + "\"\n";
    EXPECT_NE(out().find(note), std::string::npos) << key << out();
    EXPECT_EQ(out().find(key), out().rfind(key)) << out();
  }
  ASSERT_EQ(xrun({"--json", "--template", "qwen3", rows}), 0) << out();
  EXPECT_EQ(out().find("LOST"), std::string::npos) << out();
}

TEST_F(Render, NotesTurnsThatTheTemplateLeavesOut) {
  const std::string rows =
      folder_.write("rows.jsonl", R"({"messages": [{"role": "note", "content": "n"},)"
                                  R"( {"role": "user", "content": "q"}]})");
  const std::string skips =
      folder_.write("skips.jinja",
                    "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}"
                    "{% endif %}{% endfor %}");
  ASSERT_EQ(xrun({"--template", skips, rows}), 0) << out();
  EXPECT_NE(
      out().find("note: " + rows + ":1: LOST: the template leaves out turns of role \"note\""),
      std::string::npos)
      << out();
}

TEST_F(Render, ARowOfOtherColumnsNamesTheCommandThatShowsIt) {
  const std::string rows =
      folder_.write("rows.jsonl", R"({"prompt": "q", "chosen": "a", "rejected": "b"})");
  EXPECT_EQ(xrun({rows}), 1);
  EXPECT_NE(out().find(":1: the row has no \"messages\", which is all that render reads; xrun "
                       "inspect RECIPE.lua --set data.1.path=FILE shows how a row with \"chosen\" "
                       "trains"),
            std::string::npos)
      << out();
}

TEST_F(Render, PrintsOnlyTheTextWithoutJson) {
  const std::string rows = folder_.write("rows.jsonl", kRow);
  ASSERT_EQ(xrun({rows}), 0);
  EXPECT_NE(out().find("<|im_start|>assistant\na<|im_end|>\n"), std::string::npos) << out();
  EXPECT_NE(out().find("template: the tokenizer's own"), std::string::npos) << out();
}

TEST_F(Render, TheMaskIsNullIfTheTemplateHasNoMarks) {
  const std::string rows = folder_.write("rows.jsonl", kRow);
  const std::string plain = folder_.write("plain.jinja", "{{ messages[0].content }}");
  ASSERT_EQ(xrun({"--json", "--template", plain, rows}), 0) << out();
  EXPECT_EQ(row().at("text").as_string(), "q");
  EXPECT_TRUE(row().at("mask").is_null());
}

TEST_F(Render, TopLevelKeysAreArgumentsAndTheDateIsPinned) {
  const std::string rows = folder_.write(
      "rows.jsonl", R"({"messages": [{"role": "user", "content": "q"}], "tools": [{"name": "f"}], )"
                    R"("add_generation_prompt": true, "style": "brief"})");
  const std::string source = folder_.write(
      "t.jinja",
      "{{ tools[0].name }} {{ add_generation_prompt }} {{ style }} {{ strftime_now('%Y') }}");
  ASSERT_EQ(xrun({"--json", "--date", "2024-07-26", "--template", source, rows}), 0) << out();
  EXPECT_EQ(row().at("text").as_string(), "f True brief 2024");
}

TEST_F(Render, ToolsMayBeJsonText) {
  const std::string rows = folder_.write(
      "rows.jsonl",
      R"({"messages": [{"role": "user", "content": "q"}], "tools": "[{\"name\": \"f\"}]"})"
      "\n"
      R"({"messages": [{"role": "user", "content": "q"}], "tools": 3})");
  const std::string source = folder_.write("t.jinja", "{{ tools[0].name }}");
  EXPECT_EQ(xrun({"--json", "--template", source, rows}), 1);
  EXPECT_EQ(row(0).at("text").as_string(), "f");
  EXPECT_EQ(row(1).at("error").as_string(), rows + ":2: tools is an integer, wanted a list");
}

// OpenAI's form of a call has no text, and many templates cannot join null to a text: transformers
// fails too.
TEST_F(Render, ANullContentBesideACallIsRefusedWithTheFix) {
  const std::string rows = folder_.write(
      "rows.jsonl", R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant",)"
                    R"( "content": null, "tool_calls": [{"type": "function", "function":)"
                    R"( {"name": "f", "arguments": {}}}]}]})");
  EXPECT_EQ(xrun({"--template", "chatml", rows}), 1);
  EXPECT_NE(out().find(":1: turn 2 calls a tool and its content is null, which the template cannot "
                       "join to a string; write \"content\": \"\" ("),
            std::string::npos)
      << out();
  EXPECT_EQ(out().find("--set"), std::string::npos) << out();
}

TEST_F(Render, ACallWithoutArgumentsNamesTheField) {
  const std::string rows = folder_.write(
      "rows.jsonl", R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant",)"
                    R"( "content": "", "tool_calls": [{"name": "f"}]}]})");
  EXPECT_EQ(xrun({"--template", "qwen2.5", rows}), 1);
  EXPECT_NE(
      out().find(":1: turn 2 calls a tool \"f\", and its tool_calls[0].arguments is missing; "),
      std::string::npos)
      << out();
}

TEST_F(Render, ContentMayBeAListOfParts) {
  const std::string rows = folder_.write(
      "rows.jsonl", R"({"messages": [{"role": "user", "content": [{"type": "image"}, )"
                    R"({"type": "text", "text": " q "}]}, )"
                    R"({"role": "assistant", "content": [{"type": "text", "text": "a"}]}]})");
  ASSERT_EQ(xrun({"--json", "--template", "gemma-3", rows}), 0) << out();
  const std::string text = row().at("text").as_string();
  EXPECT_NE(text.find("<start_of_turn>user\n<start_of_image>q<end_of_turn>\n<start_of_turn>model\n"
                      "a<end_of_turn>\n"),
            std::string::npos)
      << text;
}

TEST_F(Render, BadRowsBecomeErrorLinesAndStatusOne) {
  const std::string rows = folder_.write(
      "rows.jsonl",
      std::string("{\"messages\": []}\n{\"n\": 1}\n{\"messages\": [\n") + kRow + "\n[1]\n");
  EXPECT_EQ(xrun({"--json", rows}), 1);
  EXPECT_EQ(row(0).at("error").as_string(),
            rows + ":1: the conversation is empty; wanted at least one message");
  EXPECT_EQ(row(1).at("error").as_string(), rows + ":2: the row has no \"messages\"");
  EXPECT_EQ(row(2).at("error").as_string().find(rows + ":3:"), 0u) << out();
  EXPECT_NE(row(3).find("text"), nullptr) << out();
  EXPECT_EQ(row(4).at("error").as_string(),
            rows + ":5: the row is an array, wanted an object with \"messages\"");
}

TEST_F(Render, BadUsageIsStatusTwoAndAMissingFileStatusOne) {
  EXPECT_EQ(xrun({"--nope"}), 2);
  EXPECT_EQ(xrun({"missing.jsonl"}), 1);
  EXPECT_NE(out().find("missing.jsonl"), std::string::npos) << out();
  const std::string rows = folder_.write("rows.jsonl", kRow);
  EXPECT_EQ(xrun({"--date", "today", rows}), 2);
  EXPECT_EQ(xrun({"--template", "chatlm", rows}), 2);
  EXPECT_NE(out().find("did you mean chatml?"), std::string::npos) << out();
}

}  // namespace

}  // namespace xrun::render_test
