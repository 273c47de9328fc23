// Each law is kept by good templates and broken by the templates that violate it.

#include "core/text/chat/template_laws.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/text/chat/text_difference.h"
#include "tests/core/text/chat/template_fixture.h"
#include "tests/tree.h"

namespace xrun::template_laws_test {

namespace {

const std::string kMarked =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}{% else %}"
    "{{ m.content + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}";

std::shared_ptr<const Tokenizer> tiny() {
  return Tokenizer::load(kSourceDir / "tests/data/tiny_tokenizer");
}

std::shared_ptr<const Tokenizer> llama() {
  return Tokenizer::load(kSourceDir / "tests/data/tokenizers/llama2");
}

LawSample conversation() {
  return {"rows.jsonl:1",
          messages({{"user", "q"}, {"assistant", "a"}, {"user", "r"}, {"assistant", "b"}}),
          {},
          {}};
}

LawSample pair() {
  return {"pairs.jsonl:7",
          messages({{"user", "q"}, {"assistant", "good"}}),
          messages({{"user", "q"}, {"assistant", "bad"}}),
          {}};
}

// The laws that a template breaks, joined by commas.
std::string broken(const Tokenizer& tokenizer, const std::string& source,
                   const std::vector<LawSample>& samples, TemplateTokens tokens = {}) {
  std::string out;
  for (const LawBreach& breach : check_laws(tokenizer, *jinja_of(source, tokens), samples)) {
    out += (out.empty() ? "" : ",") + breach.law;
  }
  return out;
}

LawBreach only_breach(const Tokenizer& tokenizer, const std::string& source,
                      const LawSample& sample, TemplateTokens tokens = {}) {
  const auto breaches = check_laws(tokenizer, *jinja_of(source, std::move(tokens)), {{sample}});
  EXPECT_EQ(breaches.size(), 1u);
  return breaches.empty() ? LawBreach{} : breaches[0];
}

TEST(TemplateLaws, AGoodTemplateObeysThemAll) {
  EXPECT_EQ(broken(*tiny(), kMarked, {conversation(), pair()}), "");
}

TEST(TemplateLaws, EveryBuiltinTemplateObeysThemOnPlainConversations) {
  const auto tokenizer = tiny();  // adds no BOS, so that no template can miss it
  for (const std::string& name : builtin_template_names()) {
    ScratchFolder folder;
    const auto with_tokens = load_with_config(
        folder, "tiny_tokenizer",
        Json(Json::Object{{"bos_token", "<|endoftext|>"},
                          {"eos_token", "<|im_end|>"},
                          {"extra_special_tokens", Json(Json::Array{"<|end|>"})}}));
    const auto resolved = resolve_template(*with_tokens, name, "2024-07-26");
    const LawSample samples[] = {conversation(), pair()};
    for (const LawBreach& breach : check_laws(*with_tokens, *resolved.chat_template, samples)) {
      // GLM-4 has no end-of-turn token: nothing ends an answer without a following turn.
      if (name == "glm-4-moe" && breach.law == "eot_trained") continue;
      ADD_FAILURE() << name << " breaks " << breach.law << ": " << breach.message;
    }
  }
}

TEST(TemplateLaws, AMissingBosIsABreach) {
  const LawBreach breach = only_breach(
      *llama(),
      "{% for m in messages %}{% generation %}{{ m.content }}</s>{% endgeneration %}{% endfor %}",
      pair());
  EXPECT_EQ(breach.law, "bos");
  EXPECT_EQ(breach.where, "pairs.jsonl:7");
  EXPECT_NE(breach.message.find("does not start with the BOS <s>"), std::string::npos)
      << breach.message;
}

TEST(TemplateLaws, ADoubledBosIsABreachAndASingleOneIsNot) {
  const std::string body =
      "{% for m in messages %}{% generation %}{{ m.content }}</s>{% endgeneration %}{% endfor %}";
  EXPECT_EQ(broken(*llama(), "<s>" + body, {pair()}), "");
  EXPECT_EQ(broken(*llama(), "{{ bos_token }}" + body, {pair()}, {{"bos_token", "<s>"}}), "");
  const LawBreach breach = only_breach(*llama(), "<s><s>" + body, pair());
  EXPECT_EQ(breach.law, "bos");
  EXPECT_NE(breach.message.find("starts with the BOS <s> 2 times"), std::string::npos);
}

TEST(TemplateLaws, ACutInAMessageFallsBetweenTwoCharacters) {
  const std::string body =
      "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}é世{% endfor %}";
  LawSample sample = pair();
  for (int size = 0; size < 4; ++size) {
    const std::string text(std::string(size, 'a') + "世世世世世世世世世世世世世世世世世世世世世世");
    sample.messages = sample.rejected =
        messages({{"user", text.c_str()}, {"assistant", text.c_str()}});
    const auto breaches = check_laws(*llama(), *jinja_of("<s><s></s>" + body), {{sample}});
    EXPECT_EQ(breaches.size(), 2u);  // bos and eot_trained
    for (const LawBreach& breach : breaches) {
      EXPECT_EQ(breach.message.find("\uFFFD"), std::string::npos) << breach.message;
    }
  }
}

TEST(TemplateLaws, ABosThatOpensEveryTurnIsExempt) {
  ScratchFolder folder;
  const auto tokenizer = load_with_config(
      folder, "tiny_tokenizer",
      Json(Json::Object{{"bos_token", "<|im_start|>"}, {"eos_token", "<|im_end|>"}}));
  EXPECT_EQ(broken(*tokenizer, kMarked, {conversation()}), "");
}

TEST(TemplateLaws, TheTemplatesOwnTextDoesNotEndATurn) {
  const auto template_with = [](const std::string& end, const std::string& after) {
    return "{% for m in messages %}<|im_start|>{% generation %}{{ m.content }}" + end +
           "{% endgeneration %}" + after + "{% endfor %}";
  };
  EXPECT_EQ(broken(*tiny(), template_with("<|im_end|>", "\n"), {pair()}), "");
  EXPECT_EQ(broken(*tiny(), template_with("<|im_end|>\n ", ""), {pair()}), "");
  const LawBreach breach = only_breach(*tiny(), template_with("</answer>", "<|im_end|>\n"), pair());
  EXPECT_EQ(breach.law, "eot_trained");
  EXPECT_EQ(
      breach.message,
      "a trained turn ends with text that is not a special token, so the model never learns to "
      "stop; put the end-of-turn token inside the generation block\n"
      "  trained  q</answer>\n  after    <|im_end|>⏎<|im_start|>good</a...");
  EXPECT_EQ(broken(*tiny(), template_with("</answer>", ""), {pair()}), "eot_trained");
  // A message that spells the token does not end its turn.
  LawSample spelled = pair();
  spelled.messages = spelled.rejected = messages({{"user", "q"}, {"assistant", "a<|im_end|>"}});
  EXPECT_EQ(broken(*tiny(), template_with("", ""), {spelled}), "eot_trained");
}

TEST(TemplateLaws, PlainTextEndsATurnIfNoMarkerIsSpecial) {
  const std::string source =
      "{% for m in messages %}### {{ m.role }}\n{% generation %}{{ m.content }}\n###"
      "{% endgeneration %}\n{% endfor %}";
  EXPECT_EQ(broken(*tiny(), source, {pair()}), "");
  EXPECT_EQ(broken(*tiny(), "<|im_end|>" + source, {pair()}), "eot_trained");
}

TEST(TemplateLaws, TheLastTurnIsExemptIfTheNextHeadEndsTurns) {
  // As GLM-4: a head that follows an answer is trained with it.
  const std::string source =
      "{% for m in messages %}{% if m.role == 'assistant' %}<|im_start|>{% generation %}"
      "{{ m.content }}{% endgeneration %}{% elif loop.first %}<|im_end|>{{ m.content }}{% else %}"
      "{% generation %}<|im_end|>{% endgeneration %}{{ m.content }}{% endif %}{% endfor %}";
  EXPECT_EQ(broken(*tiny(), source, {conversation()}), "");
  // Nothing ends a single answer.
  const LawBreach breach = only_breach(*tiny(), source, pair());
  EXPECT_EQ(breach.law, "eot_trained");
  EXPECT_NE(breach.message.find("set laws = { eot_trained = false } if other rows teach it"),
            std::string::npos)
      << breach.message;
}

TEST(TemplateLaws, AnAnswerInTwoBlocksNeedsItsEndToo) {
  const std::string source =
      "{% for m in messages %}<|im_start|>{% generation %}{{ m.role }}{% endgeneration %}"
      "{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}";
  EXPECT_EQ(broken(*tiny(), source, {pair()}), "eot_trained");
}

TEST(TemplateLaws, AnEndOfTurnOutsideTheBlockIsABreach) {
  const LawBreach breach = only_breach(
      *tiny(),
      "{% for m in messages %}<|im_start|>{% generation %}{{ m.content }}\n{% endgeneration %}"
      "<|im_end|>{% endfor %}",
      pair());
  EXPECT_EQ(breach.law, "eot_trained");
  EXPECT_NE(breach.message.find("  trained  q⏎\n  after    <|im_end|>"), std::string::npos)
      << breach.message;
}

TEST(TemplateLaws, APromptThatChangesWithItsContinuationIsABreachWithADiff) {
  const LawBreach breach = only_breach(*tiny(), "{{ messages|length }} " + kMarked, pair());
  EXPECT_EQ(breach.law, "prefix");
  EXPECT_EQ(breach.message,
            "the first 1 of 2 messages render differently alone, so the model would be trained on "
            "prompts that it never sees\n"
            "  alone  1␣<|im_start|>user⏎q<|im_end|>⏎\n"
            "  whole  2␣<|im_start|>user⏎q<|im_end|>⏎<|im_start|>assista…\n"
            "         ^");
}

TEST(TemplateLaws, StrippedThoughtsBreakThePrefixOnlyIfThereAreThoughts) {
  const auto resolved = resolve_template(*tiny(), "qwen3");
  const Json plain =
      messages({{"user", "q"}, {"assistant", "a"}, {"user", "r"}, {"assistant", "b"}});
  const Json tool = parse_json(R"([{"role": "user", "content": "q"},
    {"role": "assistant", "content": "", "reasoning_content": "hm",
     "tool_calls": [{"function": {"name": "f", "arguments": {}}}]},
    {"role": "tool", "content": "t"}, {"role": "assistant", "content": "a"},
    {"role": "user", "content": "r"}, {"role": "assistant", "content": "b"}])",
                               "t");
  EXPECT_TRUE(check_laws(*tiny(), *resolved.chat_template, {{{"p", plain, {}, {}}}}).empty());
  const auto breaches = check_laws(*tiny(), *resolved.chat_template, {{{"t", tool, {}, {}}}});
  ASSERT_EQ(breaches.size(), 1u);
  EXPECT_EQ(breaches[0].law, "prefix");
}

TEST(TemplateLaws, AMaskWithoutTrainedTokensIsABreach) {
  EXPECT_EQ(broken(*tiny(), "{% for m in messages %}{{ m.content }}{% endfor %}", {pair()}),
            "mask_not_empty");
}

TEST(TemplateLaws, APromptThatDependsOnTheAnswerIsABreach) {
  const std::string source = "{{ messages[-1].content[0] if messages|length > 1 }}" + kMarked;
  EXPECT_EQ(broken(*tiny(), source, {pair()}), "prefix,shared_prompt");
  const auto breaches = check_laws(*tiny(), *jinja_of(source), {{pair()}}, {"prefix"});
  ASSERT_EQ(breaches.size(), 1u);
  EXPECT_EQ(breaches[0].law, "shared_prompt");
  EXPECT_NE(breaches[0].message.find("chosen    g<|im_start|>"), std::string::npos)
      << breaches[0].message;
}

TEST(TemplateLaws, DisabledLawsAreSkippedAndUnknownNamesAreErrors) {
  EXPECT_TRUE(check_laws(*tiny(), *jinja_of("x"), {{pair()}}, {"mask_not_empty"}).empty());
  EXPECT_EQ(error_of([] {
              require_law_names({"bos", "prefx"});
            }),
            "\"prefx\" is not a template law; did you mean prefix? the laws are bos, eot_trained, "
            "prefix, "
            "mask_not_empty, shared_prompt, tool_calls, turns");
}

TEST(TemplateLaws, TheDocumentationHasEachStatement) {
  const std::string page = read_file(source_path("docs/templates.md"));
  for (const std::string& law : law_names()) {
    const std::string row = "| `" + law + "` | " + law_statement(law) + " |\n";
    EXPECT_NE(page.find(row), std::string::npos) << row;
  }
  EXPECT_EQ(law_statement("prefx"), "");
}

TEST(TemplateLaws, CountsTheSamplesOfABreachAndSkipsRowsThatDoNotRender) {
  LawSample refused = pair();
  refused.messages = messages({{"user", ""}});
  refused.rejected = Json();
  const std::string source =
      "{% if not messages[0].content %}{{ raise_exception('no') }}{% endif %}x";
  const auto breaches = check_laws(*tiny(), *jinja_of(source), {{pair(), refused, pair()}});
  ASSERT_EQ(breaches.size(), 1u);
  EXPECT_EQ(breaches[0].samples, 2);
}

TEST(TextDifference, ShowsBlanksAndMarksTheFirstDifference) {
  EXPECT_EQ(text_difference("a", "x y\tz", "bb", "x y\nz"), "  a   x␣y→z\n  bb  x␣y⏎z\n         ^");
  EXPECT_EQ(text_difference("a", "xy", "b", "x"), "  a  xy\n  b  x(ends here)\n      ^");
  EXPECT_EQ(text_difference("a", "é", "b", "è"), "  a  é\n  b  è\n     ^");
  EXPECT_EQ(text_difference("a", "s", "b", "s"), "both texts are equal");
}

}  // namespace

}  // namespace xrun::template_laws_test
