// A known template gets its marked variant, and an unknown one without marks is refused with the
// fix.

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/text/chat/template_fixture.h"
#include "tests/error_of.h"

namespace xrun::template_choice_test {

namespace {

Json config_with(const std::string& chat_template) {
  return Json(Json::Object{{"tokenizer_class", "PreTrainedTokenizerFast"},
                           {"bos_token", "<|im_start|>"},
                           {"eos_token", "<|im_end|>"},
                           {"chat_template", chat_template}});
}

class TemplateChoice : public ::testing::Test {
 protected:
  std::shared_ptr<const Tokenizer> tokenizer(const std::string& chat_template) {
    return load_with_config(folder_, "tiny_tokenizer", config_with(chat_template));
  }

  ScratchFolder folder_;
};

TEST_F(TemplateChoice, AMarkedTemplateIsUsedUnchanged) {
  const std::string source = "{% generation %}{{ messages[0].content }}{% endgeneration %}";
  const ResolvedTemplate resolved = resolve_template(*tokenizer(source));
  EXPECT_EQ(resolved.chat_template->name(), "own");
  EXPECT_EQ(resolved.chat_template->source(), source);
  EXPECT_EQ(resolved.notice, "template: the tokenizer's own");
}

TEST_F(TemplateChoice, EveryPublishedTemplateOfAKnownFamilyGetsItsMarkedVariantWithANotice) {
  int checked = 0;
  for (const std::string& family : builtin_template_names()) {
    const std::optional<std::string> source = published_template(family);
    if (!source) continue;
    ++checked;
    const ResolvedTemplate resolved = resolve_template(*tokenizer(*source));
    EXPECT_EQ(resolved.chat_template->name(), "tagged:" + family);
    EXPECT_TRUE(resolved.chat_template->marks_generation());
    EXPECT_EQ(resolved.notice,
              fmt::format("template: the tokenizer's own has no generation marks; using tagged:{}, "
                          "our marked copy, which renders the same text",
                          family));
  }
  if (checked == 0) GTEST_SKIP() << kNoPublished;
}

TEST_F(TemplateChoice, APublishedTemplateWithoutABuiltinCopyIsMarkedInPlace) {
  const std::optional<std::string> source = published_template("gpt-oss");
  if (!source) GTEST_SKIP() << kNoPublished;
  const ResolvedTemplate resolved = resolve_template(*tokenizer(*source), "auto", "2024-07-26");
  EXPECT_EQ(resolved.notice,
            "template: the tokenizer's own has no generation marks; using tagged:gpt-oss, the same "
            "template with our marks in it");
  const Rendering rendering =
      resolved.chat_template->render(messages({{"user", "q"}, {"assistant", "a"}}), {});
  ASSERT_EQ(rendering.turns.size(), 1u);
  EXPECT_EQ(rendering.text.substr(rendering.turns[0].begin),
            "<|channel|>final<|message|>a<|return|>");
}

TEST_F(TemplateChoice, AnUnknownTextThatRendersAsAFamilyUsesThatFamily) {
  for (const std::string& family : builtin_template_names()) {
    const ResolvedTemplate resolved = resolve_template(*tokenizer(without_marks(family)));
    EXPECT_EQ(resolved.chat_template->name(), "tagged:" + family);
    EXPECT_NE(resolved.notice.find("renders the same text on all probes; each row is compared"),
              std::string::npos)
        << resolved.notice;
  }
}

TEST_F(TemplateChoice, ARowThatTheFamilyRendersDifferentlyIsRefusedWithADiff) {
  // ChatML on every probe, unless a message says please.
  const ResolvedTemplate resolved = resolve_template(
      *tokenizer(without_marks("chatml") + "{{ '!' if 'please' in messages[0].content else '' }}"));
  ASSERT_EQ(resolved.chat_template->name(), "tagged:chatml");
  const ChatTemplate& chosen = *resolved.chat_template;
  EXPECT_EQ(chosen.render(messages({{"user", "q"}}), {}).text, "<|im_start|>user\nq<|im_end|>\n");
  const std::string error = error_of([&] { chosen.render(messages({{"user", "please"}}), {}); });
  EXPECT_EQ(
      error,
      "tagged:chatml renders this row differently from the tokenizer's own template; name a file "
      "with generation marks as the template\n"
      "  own     …_start|>user⏎please<|im_end|>⏎!\n"
      "  marked  …_start|>user⏎please<|im_end|>⏎(ends here)\n"
      "                                         ^");
}

TEST_F(TemplateChoice, APublishedTextWithAnExtraBlankIsComparedRowByRow) {
  std::optional<std::string> source = published_template("llama-3.1");
  if (!source) GTEST_SKIP() << kNoPublished;
  EXPECT_EQ(resolve_template(*tokenizer(*source)).notice.find("each row"), std::string::npos);
  // No probe renders this line: Llama 3.1's head of the built-in tools.
  const size_t at = source->find("\"Tools: \"");
  ASSERT_NE(at, std::string::npos);
  source->insert(at + 7, " ");
  const auto other = tokenizer(*source);
  const auto chosen = resolve_template(*other).chat_template;
  EXPECT_EQ(chosen->name(), "tagged:llama-3.1");
  const Json tools(Json::Object{{"builtin_tools", Json(Json::Array{"brave_search"})}});
  EXPECT_NE(error_of([&] {
              chosen->render(messages({{"user", "q"}}), tools);
            }).find("renders this row differently"),
            std::string::npos);
}

TEST_F(TemplateChoice, ATemplateThatFailsOnEveryProbeIsRefusedWithItsError) {
  const auto bare = load_with_config(
      folder_, "tiny_tokenizer",
      Json(Json::Object{{"chat_template", "{{ bos_token + messages[0].content }}"}}));
  EXPECT_NE(error_of([&] { resolve_template(*bare); })
                .find("(it fails on every probe: chat template \"own\", line 1: 'bos_token' is "
                      "undefined: this tokenizer has no such token; give \"bos_token\" in its "
                      "tokenizer_config.json)"),
            std::string::npos);
}

TEST_F(TemplateChoice, AnUnmarkedUnknownTemplateIsAnErrorWithTheFix) {
  const auto unknown = tokenizer("{{ messages[0].content }}");
  const std::string error = error_of([&] { resolve_template(*unknown); });
  EXPECT_NE(error.find("the tokenizer's own has no {% generation %} marks"), std::string::npos)
      << error;
  EXPECT_NE(error.find("name a template with marks: a file, or one of chatml, command-r"),
            std::string::npos)
      << error;
  const ResolvedTemplate allowed = resolve_template(*unknown, "auto", "", true);
  EXPECT_FALSE(allowed.chat_template->marks_generation());
}

TEST_F(TemplateChoice, ATokenizerWithoutATemplateNeedsASetting) {
  const auto bare = tokenizer("");
  const std::string error = error_of([&] { resolve_template(*bare); });
  EXPECT_TRUE(error.starts_with("the tokenizer has no chat template; name one of chatml, "))
      << error;
  EXPECT_NE(error.find("which end turns with its special tokens, or a file: --set template=chatml"),
            std::string::npos)
      << error;
  const ResolvedTemplate named = resolve_template(*bare, "chatml");
  EXPECT_EQ(named.notice, "template: chatml (built in)");
  EXPECT_EQ(named.chat_template->render(messages({{"user", "q"}}), {}).text,
            "<|im_start|>user\nq<|im_end|>\n");
}

TEST_F(TemplateChoice, FilesAndNamesAreFoundAndMistypedNamesSuggested) {
  const auto bare = tokenizer("");
  const std::string marked = folder_.write("a.jinja", "{% generation %}x{% endgeneration %}");
  EXPECT_EQ(resolve_template(*bare, marked).chat_template->name(), marked);
  const std::string stock = folder_.write("b.jinja", without_marks("qwen3"));
  EXPECT_EQ(resolve_template(*bare, stock).chat_template->name(), "tagged:qwen3");
  EXPECT_EQ(resolve_template(*bare, stock, "", true).chat_template->name(), stock);
  EXPECT_NE(error_of([&] { resolve_template(*bare, "chatlm"); }).find("did you mean chatml?"),
            std::string::npos);
}

TEST_F(TemplateChoice, RowsWithToolsGoThroughTheTemplateNamedToolUse) {
  const auto named = load_with_config(folder_, "tiny_tokenizer",
                                      parse_json(R"({"chat_template": [
        {"name": "default", "template": "D{% generation %}{% endgeneration %}"},
        {"name": "tool_use", "template": "T{% generation %}{% endgeneration %}"},
        {"name": "rag", "template": "R{% generation %}{% endgeneration %}"}]})",
                                                 "config"));
  const ResolvedTemplate resolved = resolve_template(*named);
  EXPECT_EQ(resolved.notice,
            "template: the tokenizer's own; for rows with tools: the tokenizer's own \"tool_use\"");
  const auto text = [&](const char* kwargs) {
    return resolved.chat_template->render(messages({{"user", "q"}}), parse_json(kwargs, "k")).text;
  };
  EXPECT_EQ(text("{}"), "D");
  EXPECT_EQ(text("null"), "D");
  EXPECT_EQ(text(R"({"tools": null})"), "D");
  EXPECT_EQ(text(R"({"tools": []})"), "T");
  EXPECT_EQ(text(R"({"tools": [{}]})"), "T");
  EXPECT_EQ(resolve_template(*named, "rag").chat_template->name(), "own:rag");
  // A change of either text changes the template.
  const auto other = load_with_config(
      folder_, "tiny_tokenizer",
      parse_json(R"({"chat_template": {"default": "D{% generation %}{% endgeneration %}",
                                       "tool_use": "U{% generation %}{% endgeneration %}"}})",
                 "config"));
  EXPECT_NE(resolve_template(*other).chat_template->digest(), resolved.chat_template->digest());
  EXPECT_TRUE(throws<UsageError>("\"2024-02-30\" is not a date",
                                 [&] { resolve_template(*named, "auto", "2024-02-30"); }));
}

TEST_F(TemplateChoice, AToolUseTemplateWithoutMarksRefusesItsRowsOnly) {
  const auto named = load_with_config(
      folder_, "tiny_tokenizer",
      parse_json(R"({"chat_template": {"default": "D{% generation %}{% endgeneration %}",
                                       "tool_use": "T"}})",
                 "config"));
  const ResolvedTemplate resolved = resolve_template(*named);
  EXPECT_NE(resolved.notice.find("for rows with tools: none, they are refused"), std::string::npos)
      << resolved.notice;
  EXPECT_EQ(resolved.chat_template->render(messages({{"user", "q"}}), {}).text, "D");
  const Json tools = parse_json(R"({"tools": []})", "k");
  EXPECT_NE(error_of([&] {
              resolved.chat_template->render(messages({{"user", "q"}}), tools);
            }).find("the tokenizer's own \"tool_use\" has no {% generation %} marks"),
            std::string::npos);
  EXPECT_EQ(resolve_template(*named, "auto", "", true)
                .chat_template->render(messages({{"user", "q"}}), tools)
                .text,
            "T");
}

TEST_F(TemplateChoice, ADefaultThatDoesNotParseRefusesRowsWithoutToolsOnly) {
  const auto load = [&](const char* templates) {
    return load_with_config(
        folder_, "tiny_tokenizer",
        parse_json(fmt::format(R"({{"chat_template": {}}})", templates), "config"));
  };
  const Json tools = parse_json(R"({"tools": []})", "k");
  const auto broken = load(R"({"default": "{% if %}",
                               "tool_use": "T{% generation %}{% endgeneration %}"})");
  const ResolvedTemplate resolved = resolve_template(*broken);
  EXPECT_EQ(
      resolved.notice,
      "template: none, rows without tools are refused because the tokenizer's own \"default\" "
      "cannot be used; for rows with tools: the tokenizer's own \"tool_use\"");
  EXPECT_EQ(resolved.chat_template->render(messages({{"user", "q"}}), tools).text, "T");
  const std::string refusal = error_of([&] {
    resolved.chat_template->render(messages({{"user", "q"}}), {});
  });
  EXPECT_TRUE(refusal.starts_with("chat template \"own\", line 1: ")) << refusal;
  // The same for tool_use, and for both.
  const auto other = resolve_template(*load(R"({"default": "D{% generation %}{% endgeneration %}",
                                                "tool_use": "{% if %}"})"));
  EXPECT_EQ(other.chat_template->render(messages({{"user", "q"}}), {}).text, "D");
  EXPECT_NE(error_of([&] { other.chat_template->render(messages({{"user", "q"}}), tools); }), "");
  const auto none = load(R"({"default": "{% if %}", "tool_use": "{% for %}"})");
  EXPECT_TRUE(
      error_of([&] { resolve_template(*none); }).starts_with("chat template \"own\", line 1: "));
}

TEST_F(TemplateChoice, NamedTemplatesWithoutADefaultAreListed) {
  const auto load = [&](const char* templates) {
    return load_with_config(
        folder_, "tiny_tokenizer",
        parse_json(fmt::format(R"({{"chat_template": {}}})", templates), "config"));
  };
  const auto two = load(R"({"rag": "R", "plain": "P"})");
  EXPECT_EQ(
      error_of([&] { resolve_template(*two); }),
      "the tokenizer has the chat templates \"rag\", \"plain\" but none named \"default\" for "
      "rows without tools; name one of them as the template");
  const auto tool = load(R"({"tool_use": "T{% generation %}{% endgeneration %}"})");
  const auto chosen = resolve_template(*tool).chat_template;
  EXPECT_EQ(chosen->render(messages({{"user", "q"}}), parse_json(R"({"tools": []})", "k")).text,
            "T");
  EXPECT_NE(error_of([&] {
              chosen->render(messages({{"user", "q"}}), {});
            }).find("none named \"default\""),
            std::string::npos);
}

}  // namespace

}  // namespace xrun::template_choice_test
