// A chat template renders as Jinja and Transformers render it and refuses what they refuse.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "core/base/error.h"
#include "tests/core/text/chat/template_fixture.h"

namespace xrun::jinja_template_test {

namespace {

Json golden(const std::string& name) {
  return read_json((kSourceDir / "tests/golden" / name).string());
}

// tests/golden/make/template_goldens.py made the golden.
TEST(JinjaTemplate, RendersEverySnippetAsJinjaDoes) {
  const Json snippets = golden("jinja_snippets.json");
  ASSERT_GT(snippets.at("cases").size(), 650u);
  for (const Json& snippet : snippets.at("cases").as_array()) {
    const std::string& source = snippet.as_array()[0].as_string();
    const Json& wanted = snippet.as_array()[1];
    Json text;
    std::string error;
    try {
      text = render_text(source, snippets.at("variables"));
    } catch (const Error& failure) {
      error = failure.what();
    }
    EXPECT_EQ(text, wanted) << source << "\n" << error;
  }
}

TEST(JinjaTemplate, DropsNullFieldsAndAliasesReasoningAsTransformersDoes) {
  const auto chat_template = jinja_of(
      "{% for m in messages %}{{ m.content is defined }} {{ m.thinking }} "
      "{{ m.reasoning_content }}{% endfor %}");
  const Json rows = parse_json(
      R"([{"role": "assistant", "content": null, "reasoning": "r", "thinking": null}])", "t");
  EXPECT_EQ(chat_template->render(rows, {}).text, "False r r");
}

TEST(JinjaTemplate, RefusesMessagesThatAreNotAConversation) {
  const auto chat_template = jinja_of("x");
  const auto refusal = [&](const char* json) {
    return error_of([&] { chat_template->render(parse_json(json, "t"), {}); });
  };
  EXPECT_EQ(refusal("[]"), "the conversation is empty; wanted at least one message");
  EXPECT_EQ(refusal("{}"), "messages has type object, wanted an array");
  EXPECT_EQ(refusal("[\"hi\"]"), "message 1 is a string, wanted an object");
}

TEST(JinjaTemplate, RefusesArgumentsThatTransformersReserves) {
  const Json kwargs = parse_json(R"({"return_assistant_tokens_mask": true})", "t");
  const Json tools = parse_json(R"({"tools": ["search"]})", "t");
  EXPECT_EQ(
      error_of([&] { render_text("x", kwargs); }),
      "\"return_assistant_tokens_mask\" is not an argument of a chat template and may not be set");
  EXPECT_EQ(error_of([&] { render_text("x", tools); }),
            "an entry of \"tools\" is a string, wanted an object");
}

TEST(JinjaTemplate, ErrorsNameTemplateAndLine) {
  EXPECT_EQ(error_of([] { render_text("a\n{{ nothing.at.all }}"); }),
            "chat template \"test\", line 2: 'nothing' is undefined");
  EXPECT_EQ(error_of([] { render_text("\n\n{{ raise_exception('Roles must alternate') }}"); }),
            "chat template \"test\", line 3: Roles must alternate");
  EXPECT_EQ(error_of([] { jinja_of("{% if x %}\n{{ 1 +"); }),
            "chat template \"test\", line 2: unexpected end of template, expected '}}'");
}

TEST(JinjaTemplate, AMissingSpecialTokenIsExplained) {
  EXPECT_EQ(
      error_of([] { render_text("{{ bos_token + 'x' }}"); }),
      "chat template \"test\", line 1: 'bos_token' is undefined: this tokenizer has no such "
      "token, so the template suits another one; use the tokenizer's own (template \"auto\"), "
      "or give \"bos_token\" in its tokenizer_config.json");
}

TEST(JinjaTemplate, ThreadsRenderConcurrently) {
  const auto chat_template = jinja_of(
      "{% macro m(x) %}{{ '<' + x + '>' }}{% endmacro %}{% set ns = namespace(n=0) %}"
      "{% for t in messages %}{% set ns.n = ns.n + 1 %}{{ m(t.content) ~ ns.n }}{% endfor %}");
  const Json turns = messages({{"user", "a"}, {"assistant", "b"}});
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 200; ++j) right += chat_template->render(turns, {}).text == "<a>1<b>2";
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 800);
}

TEST(JinjaTemplate, TheDateIsPinned) {
  EXPECT_EQ(render_text("{{ strftime_now('%d %b %Y %A %H:%M') }}"), "26 Jul 2024 Friday 00:00");
  const auto timed =
      make_jinja_template("{{ strftime_now('%H:%M:%S%z|%j') }}", "t", {}, "2024-02-29T10:30:05");
  EXPECT_EQ(timed->render(messages({{"user", ""}}), {}).text, "10:30:05|060");
  for (const char* bad :
       {"2024-02-30", "today", "2024-1-1", "2024-07-26T25:00:00", "2024-07-26x"}) {
    EXPECT_NE(error_of([&] { make_jinja_template("", "t", {}, bad); }).find("is not a date"),
              std::string::npos)
        << bad;
  }
}

TEST(JinjaTemplate, TheDigestCoversTokensAndTheDateIfItIsRead) {
  const auto digest = [](const char* source, const char* bos, const char* date) {
    return make_jinja_template(source, "t", {{"bos_token", bos}}, date)->digest();
  };
  EXPECT_EQ(digest("x", "<s>", "2024-07-26"), digest("x", "<s>", "2025-01-01"));
  EXPECT_NE(digest("x", "<s>", ""), digest("x", "<b>", ""));
  EXPECT_NE(digest("x", "<s>", ""), digest("y", "<s>", ""));
  EXPECT_NE(digest("{{ strftime_now('%d') }}", "<s>", "2024-07-26"),
            digest("{{ strftime_now('%d') }}", "<s>", "2025-01-01"));
}

TEST(JinjaTemplate, ReasoningNamedThinkingComesFirst) {
  const auto keys = [](const char* message) {
    return jinja_of("{{ messages[0]|tojson }}")
        ->render(parse_json(fmt::format("[{}]", message), "m"), {})
        .text;
  };
  EXPECT_EQ(keys(R"({"role": "user", "thinking": "t", "content": "c"})"),
            R"({"thinking": "t", "role": "user", "content": "c", "reasoning_content": "t"})");
  EXPECT_EQ(keys(R"({"role": "user", "reasoning_content": "r", "thinking": "t"})"),
            R"({"thinking": "t", "role": "user", "reasoning_content": "r"})");
  EXPECT_EQ(keys(R"({"role": "user", "thinking": null, "reasoning": "r"})"),
            R"({"thinking": "r", "role": "user", "reasoning": "r", "reasoning_content": "r"})");
  EXPECT_EQ(keys(R"({"role": "user", "thinking": null})"), R"({"role": "user"})");
}

TEST(JinjaTemplate, ReservedArgumentsNeverReachATemplate) {
  EXPECT_TRUE(is_reserved_argument("max_length"));
  EXPECT_NE(error_of([] {
              render_text("{{ max_length }}", Json(Json::Object{{"max_length", 5}}));
            }).find("\"max_length\" is not an argument of a chat template"),
            std::string::npos);
}

}  // namespace

}  // namespace xrun::jinja_template_test
