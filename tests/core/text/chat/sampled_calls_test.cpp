// Tool calls of sampled turns in each family's form, and whatever else a model may write.

#include "core/text/chat/sampled_calls.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/text/chat/template_families.h"

namespace xrun::sampled_calls_test {

using F = CallFormat;

// "f{"a":1}#id" of each call, errors as "!".
std::string shown(std::string_view text, CallFormat format) {
  std::string all;
  for (const SampledCall& call : parse_calls(text, format)) {
    if (!all.empty()) all += ' ';
    all += call.error.empty() ? call.name + dump_json(call.arguments) : "!";
    if (!call.id.empty()) all += "#" + call.id;
  }
  return all;
}

TEST(SampledCalls, TheTaggedFormIsOneJsonObjectInEachTag) {
  EXPECT_EQ(shown("Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n"
                  "</tool_call>\n<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>",
                  F::kTagged),
            "f{\"a\":1} g{}");
  EXPECT_EQ(shown(R"(<tool_call>{"name": "f", "arguments": "{\"a\": 1}"}</tool_call>)", F::kTagged),
            "f{\"a\":1}");
  EXPECT_EQ(shown("no call, {\"name\": \"f\", \"arguments\": {}}", F::kTagged), "");
}

TEST(SampledCalls, TheLlamaFormIsTheWholeTurn) {
  EXPECT_EQ(shown(R"( {"name": "f", "parameters": {"a": [1, 2]}})", F::kLlama), "f{\"a\":[1,2]}");
  EXPECT_EQ(shown(R"(<|python_tag|>{"name": "f", "parameters": {}})", F::kLlama), "f{}");
  EXPECT_EQ(shown("The call is {\"name\": \"f\", \"parameters\": {}}", F::kLlama), "");
  EXPECT_EQ(shown("{1, 2} is a set", F::kLlama), "");
}

TEST(SampledCalls, TheMistralFormsAreAListOrNames) {
  EXPECT_EQ(shown(R"([TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}, "id": "abcdef123"},
                     {"name": "g", "arguments": {}}])",
                  F::kMistral),
            "f{\"a\":1}#abcdef123 g{}");
  EXPECT_EQ(
      shown(R"(Now [TOOL_CALLS]f[CALL_ID]abc[ARGS]{"a": 1}[TOOL_CALLS]g[ARGS]{})", F::kMistral),
      "f{\"a\":1}#abc g{}");
  EXPECT_EQ(shown(R"([TOOL_CALLS]f{"a": {}})", F::kMistral), "f{\"a\":{}}");
}

TEST(SampledCalls, AnythingElseIsACallWithAnError) {
  EXPECT_EQ(shown("<tool_call>{\"name\": \"f\"", F::kTagged), "!");
  EXPECT_EQ(shown("<tool_call>not JSON</tool_call><tool_call>{\"name\":\"f\",\"arguments\":{}}"
                  "</tool_call>",
                  F::kTagged),
            "! f{}");
  for (const char* body : {"", "1", "[1]", "{}", "{\"name\": 3, \"arguments\": {}}",
                           "{\"name\": \"f\"}", "{\"name\": \"f\", \"arguments\": 3}",
                           "{\"name\": \"f\", \"arguments\": \"3\"}", "{\"name\": \"f\", "}) {
    EXPECT_EQ(shown(fmt::format("<tool_call>{}</tool_call>", body), F::kTagged), "!") << body;
    EXPECT_EQ(shown(fmt::format("[TOOL_CALLS]{}", body), F::kMistral), "!") << body;
  }
  EXPECT_EQ(shown("{\"name\": \"f\", ", F::kLlama), "!");
  EXPECT_EQ(parse_calls("<tool_call>{", F::kTagged)[0].error,
            "<tool_call> is not closed by </tool_call>");
  EXPECT_EQ(dump_json(calls_json(parse_calls("<tool_call>{}</tool_call>", F::kTagged))),
            "[{\"error\":\"a call has no \\\"name\\\"\"}]");
  EXPECT_EQ(dump_json(calls_json({{.name = "f", .arguments = parse_json("[1]", ""), .id = "x"}})),
            R"([{"name":"f","arguments":[1],"id":"x"}])");
  EXPECT_EQ(shown("<tool_call>{}</tool_call>", F::kUnknown), "");
}

TEST(SampledCalls, HostileTextsAreBoundedAndNeverThrow) {
  std::string many, deep = "<tool_call>";
  for (int i = 0; i < 10000; ++i)
    many += "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>";
  const auto calls = parse_calls(many, F::kTagged);
  ASSERT_EQ(calls.size(), kMostCalls + 1);
  EXPECT_EQ(calls.back().error, "a turn has more than 64 calls");
  deep += std::string(100000, '[') + "</tool_call>";
  EXPECT_EQ(shown(deep, F::kTagged), "!");
  EXPECT_EQ(shown("[TOOL_CALLS]" + std::string(100000, '['), F::kMistral), "!");
  // Random pieces of the forms, cut anywhere, with bytes that are not UTF-8.
  const std::vector<std::string> pieces = {"<tool_call>",
                                           "</tool_call>",
                                           "[TOOL_CALLS]",
                                           "[ARGS]",
                                           "[CALL_ID]",
                                           "{",
                                           "}",
                                           "[",
                                           "]",
                                           "\"name\": ",
                                           "\"f\"",
                                           ",",
                                           "\xff",
                                           "\"",
                                           "\\",
                                           "\"arguments\": {}",
                                           "null",
                                           "<|python_tag|>",
                                           " ",
                                           "1e999",
                                           "\0x"};
  for (uint64_t n = 0; n < 3000; ++n) {
    std::string text;
    for (uint64_t i = 0; i < 1 + n % 23; ++i) {
      text += pieces[philox_u64(5, kStreamSample, n, i) % pieces.size()];
    }
    for (const F format : {F::kTagged, F::kLlama, F::kMistral}) {
      for (const SampledCall& call : parse_calls(text, format)) {
        EXPECT_EQ(call.name.empty(), !call.error.empty()) << text;
        EXPECT_TRUE(call.arguments.is_object());
      }
    }
  }
}

TEST(SampledCalls, TheFormIsTheTemplatesOwn) {
  const auto format = [](std::string_view name) {
    for (const BuiltinTemplate& one : builtin_templates()) {
      if (one.name != name) continue;
      const TemplateTokens tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
      return call_format_of(*make_jinja_template(std::string(one.source), "t", tokens),
                            Json::object());
    }
    throw Error("no such template");
  };
  for (const char* name :
       {"qwen2.5", "qwen3", "qwen3-2507", "smollm2", "chatml", "gemma", "zephyr"}) {
    EXPECT_EQ(format(name), F::kTagged) << name;
  }
  for (const char* name : {"llama-3.1", "llama-3.2"}) EXPECT_EQ(format(name), F::kLlama) << name;
  for (const char* name : {"mistral-v3", "mistral-v3-tekken"}) {
    EXPECT_EQ(format(name), F::kMistral) << name;
  }
  for (const char* name : {"glm-4-moe", "deepseek-v3"})
    EXPECT_EQ(format(name), F::kUnknown) << name;
}

}  // namespace xrun::sampled_calls_test
