// Tool calls of sampled turns in each family's form, and whatever else a model may write.

#include "core/text/chat/sampled_calls.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/text/chat/chat_template.h"
#include "tests/core/text/chat/template_fixture.h"

namespace xrun::sampled_calls_test {

const CallFormat& form(std::string_view family) {
  for (const CallFormat& one : call_formats()) {
    if (one.family == family) return one;
  }
  throw Error("no such form");
}

const CallFormat& kHermes = form("hermes");
const CallFormat& kLlama = form("llama");
const CallFormat& kMistral = form("mistral");

// "f{"a":1}#id" of each call, errors as "!".
std::string shown(std::string_view text, const CallFormat& format, const Json& tools = {}) {
  std::string all;
  for (const SampledCall& call : parse_calls(text, format, tools)) {
    if (!all.empty()) all += ' ';
    all += call.error.empty() ? call.name + dump_json(call.arguments) : "!";
    if (!call.id.empty()) all += "#" + call.id;
  }
  return all;
}

TEST(SampledCalls, TheTaggedFormIsOneJsonObjectInEachTag) {
  EXPECT_EQ(shown("Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n"
                  "</tool_call>\n<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>",
                  kHermes),
            "f{\"a\":1} g{}");
  EXPECT_EQ(shown(R"(<tool_call>{"name": "f", "arguments": "{\"a\": 1}"}</tool_call>)", kHermes),
            "f{\"a\":1}");
  EXPECT_EQ(shown("no call, {\"name\": \"f\", \"arguments\": {}}", kHermes), "");
}

TEST(SampledCalls, TheLlamaFormIsTheWholeTurn) {
  EXPECT_EQ(shown(R"( {"name": "f", "parameters": {"a": [1, 2]}})", kLlama), "f{\"a\":[1,2]}");
  EXPECT_EQ(shown(R"(<|python_tag|>{"name": "f", "parameters": {}})", kLlama), "f{}");
  EXPECT_EQ(shown("The call is {\"name\": \"f\", \"parameters\": {}}", kLlama), "");
  EXPECT_EQ(shown("{1, 2} is a set", kLlama), "");
}

TEST(SampledCalls, TheMistralFormsAreAListOrNames) {
  EXPECT_EQ(shown(R"([TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}, "id": "abcdef123"},
                     {"name": "g", "arguments": {}}])",
                  kMistral),
            "f{\"a\":1}#abcdef123 g{}");
  EXPECT_EQ(shown(R"(Now [TOOL_CALLS]f[CALL_ID]abc[ARGS]{"a": 1}[TOOL_CALLS]g[ARGS]{})", kMistral),
            "f{\"a\":1}#abc g{}");
  EXPECT_EQ(shown(R"([TOOL_CALLS]f{"a": {}})", kMistral), "f{\"a\":{}}");
}

TEST(SampledCalls, AnythingElseIsACallWithAnError) {
  EXPECT_EQ(shown("<tool_call>{\"name\": \"f\"", kHermes), "!");
  EXPECT_EQ(shown("<tool_call>not JSON</tool_call><tool_call>{\"name\":\"f\",\"arguments\":{}}"
                  "</tool_call>",
                  kHermes),
            "! f{}");
  for (const char* body : {"", "1", "[1]", "{}", "{\"name\": 3, \"arguments\": {}}",
                           "{\"name\": \"f\"}", "{\"name\": \"f\", \"arguments\": 3}",
                           "{\"name\": \"f\", \"arguments\": \"3\"}", "{\"name\": \"f\", "}) {
    EXPECT_EQ(shown(fmt::format("<tool_call>{}</tool_call>", body), kHermes), "!") << body;
    EXPECT_EQ(shown(fmt::format("[TOOL_CALLS]{}", body), kMistral), "!") << body;
  }
  EXPECT_EQ(shown("{\"name\": \"f\", ", kLlama), "!");
  EXPECT_EQ(parse_calls("<tool_call>{", kHermes)[0].error,
            "<tool_call> is not closed by </tool_call>");
  EXPECT_EQ(dump_json(calls_json(parse_calls("<tool_call>{}</tool_call>", kHermes))),
            "[{\"error\":\"a call has no \\\"name\\\"\"}]");
  EXPECT_EQ(dump_json(calls_json({{.name = "f", .arguments = parse_json("[1]", ""), .id = "x"}})),
            R"([{"name":"f","arguments":[1],"id":"x"}])");
}

TEST(SampledCalls, HostileTextsAreBoundedAndNeverThrow) {
  std::string many, deep = "<tool_call>";
  for (int i = 0; i < 10000; ++i)
    many += "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>";
  const auto calls = parse_calls(many, kHermes);
  ASSERT_EQ(calls.size(), kMaxCalls + 1);
  EXPECT_EQ(calls.back().error, "a turn has more than 64 calls");
  deep += std::string(100000, '[') + "</tool_call>";
  EXPECT_EQ(shown(deep, kHermes), "!");
  EXPECT_EQ(shown("[TOOL_CALLS]" + std::string(100000, '['), kMistral), "!");
  // Marks without JSON in front of many blanks: minutes if each mark read the blanks.
  std::string marks;
  for (int i = 0; i < 100000; ++i) marks += "functools";
  for (const CallFormat& format : call_formats()) {
    if (format.other_open != "functools") continue;
    EXPECT_TRUE(parse_calls(marks + std::string(1000000, ' '), format).empty());
  }
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
    for (const CallFormat& format : call_formats()) {
      for (const SampledCall& call : parse_calls(text, format)) {
        EXPECT_EQ(call.name.empty(), !call.error.empty()) << text;
        EXPECT_TRUE(call.arguments.is_object());
      }
    }
  }
}

std::string family_of(const ChatTemplate& chat_template) {
  const CallFormat* const found = call_format_of(chat_template, Json::object());
  return found == nullptr ? "" : std::string(found->family);
}

TEST(SampledCalls, TheFormIsTheTemplatesOwn) {
  const std::vector<std::pair<const char*, const char*>> families = {
      {"qwen2.5", "hermes"},        {"qwen3", "hermes"},
      {"qwen3-2507", "hermes"},     {"smollm2", "hermes"},
      {"chatml", "hermes"},         {"gemma", "hermes"},
      {"zephyr", "hermes"},         {"llama-3.1", "llama"},
      {"llama-3.2", "llama"},       {"mistral-v3", "mistral"},
      {"mistral-v7", "mistral"},    {"mistral-v3-tekken", "mistral"},
      {"glm-4-moe", "glm-4-moe"},   {"deepseek-v3", "deepseek-v3"},
      {"command-r", "command-r"},   {"lfm2", "lfm2"},
      {"phi-4-mini", "phi-4-mini"}, {"deepseek-r1-distill", "deepseek-v3"}};
  for (const auto& [name, family] : families)
    EXPECT_EQ(family_of(*builtin_of(name)), family) << name;
}

// A template with one line for calls, written as a family without a built-in template writes them.
std::shared_ptr<const ChatTemplate> template_of_calls(const std::string& call) {
  return make_jinja_template(
      "{% macro text(v) %}{{ v if v is string else v | tojson }}{% endmacro %}"
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
      "{% for c in m.tool_calls or [] %}{% set f = c.function %}" +
          call + "{% endfor %}<|im_end|>\n{% endfor %}",
      "calls", {});
}

const char* const kNemotron =
    "<tool_call>\n<function={{ f.name }}>\n{% for k, v in f.arguments.items() %}"
    "<parameter={{ k }}>\n{{ text(v) }}\n</parameter>\n{% endfor %}</function>\n</tool_call>\n";
const char* const kGptOss =
    "<|start|>assistant to=functions.{{ f.name }}<|channel|>commentary json<|message|>"
    "{{ f.arguments | tojson }}<|call|>";
const char* const kMuse =
    "<atem:function_calls>\n<atem:invoke name=\"{{ f.name }}\">\n"
    "{% for k, v in f.arguments.items() %}<atem:parameter name=\"{{ k }}\">{{ text(v) }}"
    "</atem:parameter>\n{% endfor %}</atem:invoke>\n</atem:function_calls>";
const char* const kLfm25 =
    "<|tool_call_start|>[{{ f.name }}({% for k, v in f.arguments.items() %}{{ k }}="
    "{{ \"'\" + (v | replace('\\\\', '\\\\\\\\') | replace(\"'\", \"\\\\'\") | "
    "replace('\\n', '\\\\n')) + \"'\" if v is string else v | tojson }}"
    "{{ '' if loop.last else ', ' }}{% endfor %})]<|tool_call_end|>";
const char* const kGemma4 =
    "{% macro literal(v) %}{% if v is string %}<|\"|>{{ v }}<|\"|>{% elif v is mapping %}{{ '{' }}"
    "{% for k, w in v.items() %}<|\"|>{{ k }}<|\"|>:{{ literal(w) }}{{ '' if loop.last else ',' }}"
    "{% endfor %}}{% elif v is sequence %}[{% for w in v %}{{ literal(w) }}"
    "{{ '' if loop.last else ',' }}{% endfor %}]{% else %}{{ v | tojson }}{% endif %}{% endmacro %}"
    "<|tool_call>call:{{ f.name }}{ {%- for k, v in f.arguments.items() %}{{ k }}:{{ literal(v) }}"
    "{{ '' if loop.last else ',' }}{% endfor -%} }<tool_call|>";
const char* const kDeepseek31 =
    "<｜tool▁call▁begin｜>{{ f.name }}<｜tool▁sep｜>{{ f.arguments | tojson }}<｜tool▁call▁end｜>";

TEST(SampledCalls, ARenderedCallIsReadBackEqual) {
  const std::vector<std::pair<std::string, std::shared_ptr<const ChatTemplate>>> templates = {
      {"hermes", builtin_of("qwen2.5")},
      {"hermes", builtin_of("qwen3")},
      {"llama", builtin_of("llama-3.1")},
      {"llama", builtin_of("llama-3.2")},
      {"mistral", builtin_of("mistral-v3")},
      {"mistral", builtin_of("mistral-v3-tekken")},
      {"glm-4-moe", builtin_of("glm-4-moe")},
      {"deepseek-v3", builtin_of("deepseek-v3")},
      {"deepseek-v3.1", template_of_calls(kDeepseek31)},
      {"qwen3.5", template_of_calls(kNemotron)},
      {"gpt-oss", template_of_calls(kGptOss)},
      {"muse", template_of_calls(kMuse)},
      {"lfm2", template_of_calls(kLfm25)},
      {"gemma-4", template_of_calls(kGemma4)}};
  const Json arguments = parse_json(
      R"({"city": "Zürich, \"old\" town", "days": 3, "deep": {"list": [1, "x", {"y": null}]},
          "flag": true, "share": -2.5, "zip": "8001", "lines": "it's\na \\ line"})",
      "arguments");
  // The tools say which bare values are texts.
  const Json tools = parse_json(
      R"([{"type": "function", "function": {"name": "get-weather", "description": "d",
          "parameters": {"type": "object", "properties": {"zip": {"type": "string"}}}}}])",
      "tools");
  for (const auto& [family, chat_template] : templates) {
    SCOPED_TRACE(family);
    ASSERT_EQ(family_of(*chat_template), family);
    const Json given = family == "deepseek-v3" ? Json(dump_json(arguments)) : arguments;
    const Json call(Json::Object{
        {"id", "abcdef123"},
        {"type", "function"},
        {"function", Json(Json::Object{{"name", "get-weather"}, {"arguments", given}})}});
    const Json messages(Json::Array{
        Json(Json::Object{{"role", "user"}, {"content", "Weather?"}}),
        Json(Json::Object{
            {"role", "assistant"}, {"content", ""}, {"tool_calls", Json(Json::Array{call})}})});
    const std::string text = chat_template->render(messages, Json::object()).text;
    // The turn as sampled: without its head, and without the token that ends it.
    size_t begin = text.find("Weather?") + 8;
    if (family == "llama") begin = text.find('{', begin);
    size_t end = text.size();
    for (const char* const mark : {"<|eot_id|>", "</s>", "<|im_end|>\n"}) {
      if (text.ends_with(mark)) end = text.size() - std::string_view(mark).size();
    }
    const std::vector<SampledCall> calls =
        parse_calls(std::string_view(text).substr(begin, end - begin), form(family), tools);
    ASSERT_EQ(calls.size(), 1u) << text;
    EXPECT_EQ(calls[0].error, "") << text;
    EXPECT_EQ(calls[0].name, "get-weather");
    EXPECT_EQ(dump_json(calls[0].arguments), dump_json(arguments));
  }
}

TEST(SampledCalls, EveryPublishedTemplateThatWritesCallsIsReadBack) {
  int read = 0;
  for (const std::filesystem::path& file : published_templates()) {
    SCOPED_TRACE(file.stem());
    const auto chat_template = jinja_of(read_file(file), {{"bos_token", "<s>"}});
    const Json arguments = parse_json(R"({"city": "Paris", "days": 3})", "arguments");
    std::string text;
    for (const Json& given : {arguments, Json(dump_json(arguments))}) {
      const Json call(Json::Object{
          {"id", "abcdef123"},
          {"type", "function"},
          {"function", Json(Json::Object{{"name", "get_weather"}, {"arguments", given}})}});
      const Json messages(Json::Array{
          Json(Json::Object{{"role", "user"}, {"content", "Weather?"}}),
          Json(Json::Object{
              {"role", "assistant"}, {"content", ""}, {"tool_calls", Json(Json::Array{call})}})});
      if (text.find("get_weather") != std::string::npos) break;
      try {
        text = chat_template->render(messages, Json::object()).text;
      } catch (const Error&) {
        continue;  // takes the other spelling of arguments, or no calls
      }
    }
    if (text.find("get_weather") == std::string::npos) continue;
    const CallFormat* const format = call_format_of(*chat_template, Json::object());
    ASSERT_NE(format, nullptr);
    text = text.substr(text.find("Weather?") + 8);
    if (format->open.empty()) text = text.substr(text.find('{'));
    if (format->close.empty()) text = text.substr(0, text.find_last_of("]})") + 1);
    const std::vector<SampledCall> calls = parse_calls(text, *format);
    ASSERT_EQ(calls.size(), 1u) << text;
    EXPECT_EQ(calls[0].name, "get_weather") << calls[0].error;
    EXPECT_EQ(dump_json(calls[0].arguments), dump_json(arguments));
    ++read;
  }
  if (read == 0) GTEST_SKIP() << kNoPublished;
}

TEST(SampledCalls, FamiliesWithoutRenderedCallsHaveTheirDocumentedForm) {
  EXPECT_EQ(shown("I will look.\nAction: ```json\n[\n    {\n        \"tool_name\": \"f\",\n        "
                  "\"parameters\": {\"a\": 1}\n    },\n    {\"tool_name\": \"g\", \"parameters\": "
                  "{}}\n]\n```",
                  form("command-r")),
            "f{\"a\":1} g{}");
  EXPECT_EQ(
      shown("Action:```json\n[{\"tool_name\": \"f\", \"parameters\": {}}]\n```", form("command-r")),
      "f{}");
  EXPECT_EQ(shown("<|START_ACTION|>[\n {\"tool_call_id\": \"0\", \"tool_name\": \"f\", "
                  "\"parameters\": {\"a\": 1}}\n]<|END_ACTION|>",
                  form("command-r7b")),
            "f{\"a\":1}");
  const CallFormat& phi = form("phi-4-mini");
  EXPECT_EQ(shown("<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]<|/tool_call|>", phi),
            "f{\"a\":1}");
  EXPECT_EQ(shown("functools[{\"name\": \"f\", \"arguments\": {\"a\": [1]}}]", phi),
            "f{\"a\":[1]}");
  EXPECT_EQ(shown("In Python, import functools [sic] first.", phi), "");
  const CallFormat& granite = form("granite-3");
  EXPECT_EQ(shown("<tool_call>[{\"name\": \"f\", \"arguments\": {}}]", granite), "f{}");
  EXPECT_EQ(shown("<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]", granite), "f{}");
  const CallFormat& lfm = form("lfm2");
  EXPECT_EQ(shown("<|tool_call_start|>[f(id=\"12\", n=3, s='a,b)', l=[1, {'k': None}]), g()]"
                  "<|tool_call_end|>Checking.",
                  lfm),
            "f{\"id\":\"12\",\"n\":3,\"s\":\"a,b)\",\"l\":[1,{\"k\":null}]} g{}");
  EXPECT_EQ(
      shown("<|tool_call_start|>[{\"name\": \"f\", \"arguments\": {}}]<|tool_call_end|>", lfm),
      "f{}");
  EXPECT_EQ(shown("<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 1}",
                  form("gpt-oss")),
            "f{\"a\":1}");
}

TEST(SampledCalls, BareValuesAreWhatTheyReadAsUnlessTheToolSaysText) {
  const std::string text =
      "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>75001</arg_value>\n<arg_key>b</arg_key>\n"
      "<arg_value>-x</arg_value>\n<arg_key>c</arg_key>\n<arg_value>True</arg_value></tool_call>";
  EXPECT_EQ(shown(text, form("glm-4-moe")), R"(f{"a":75001,"b":"-x","c":true})");
  const Json tools = parse_json(
      R"([{"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}])", "tools");
  EXPECT_EQ(shown(text, form("glm-4-moe"), tools), R"(f{"a":"75001","b":"-x","c":true})");
}

TEST(SampledCalls, DamagedCallsOfEveryFormHaveAnError) {
  const std::vector<std::pair<const char*, const char*>> damaged = {
      {"glm-4-moe", "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</tool_call>"},
      {"glm-4-moe", "<tool_call>\n</tool_call>"},
      {"glm-4-moe", "<tool_call>two words</tool_call>"},
      {"qwen3.5", "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"},
      {"qwen3.5", "<tool_call><function=f</tool_call>"},
      {"deepseek-v3",
       "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{<｜tool▁call▁end｜>"},
      {"deepseek-v3", "<｜tool▁call▁begin｜>function f {}<｜tool▁call▁end｜>"},
      {"gpt-oss", "to=functions.f<|channel|>commentary json<|message|>none"},
      {"lfm2", "<|tool_call_start|>[f(1)]<|tool_call_end|>"},
      {"lfm2", "<|tool_call_start|>[f(a=open('x'))]<|tool_call_end|>"},
      {"lfm2", "<|tool_call_start|>[f(a='x)]<|tool_call_end|>"},
      {"gemma-4", "<|tool_call>call:f{a:<|\"|>x}<tool_call|>"},
      {"gemma-4", "<|tool_call>call:f"},
      {"command-r", "Action: ```json\n[{\"tool_name\": \"f\"}]\n```"},
      {"muse", "<atem:invoke name=\"f\">"}};
  for (const auto& [family, text] : damaged) EXPECT_EQ(shown(text, form(family)), "!") << text;
  const std::string deep = "<|tool_call_start|>f(a=" + std::string(100000, '[');
  EXPECT_EQ(shown(deep + ")<|tool_call_end|>", form("lfm2")), "!");
}

TEST(SampledCalls, AnotherFormIsUnknown) {
  EXPECT_EQ(family_of(*template_of_calls("<call {{ f.name }} {{ f.arguments | tojson }}>")), "");
  EXPECT_EQ(family_of(*template_of_calls("<call>{\"name\": \"{{ f.name }}\", \"arguments\": "
                                         "{{ f.arguments | tojson }}}</call>")),
            "");
}

}  // namespace xrun::sampled_calls_test
