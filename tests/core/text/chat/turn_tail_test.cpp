// The tokens after a sampled turn are those that the template writes after a message.

#include "core/text/chat/turn_tail.h"

#include <gtest/gtest.h>

#include "core/text/chat/chat_tokens.h"
#include "tests/core/text/chat/template_fixture.h"
#include "tests/error_of.h"

namespace xrun::turn_tail_test {

namespace {

struct TailFamily {
  const char* chat_template;
  const char* tokenizer;  // a folder of tests/data
  const char* end;        // of a turn
};
void PrintTo(const TailFamily& family, std::ostream* out) { *out << family.chat_template; }

const TailFamily kFamilies[] = {
    {"chatml", "tiny_tokenizer", "<|im_end|>"},    {"qwen2.5", "tiny_tokenizer", "<|im_end|>"},
    {"qwen3", "tiny_tokenizer", "<|im_end|>"},     {"smollm2", "tiny_tokenizer", "<|im_end|>"},
    {"llama-3.1", "tiny_tokenizer", "<|eot_id|>"}, {"llama-2", "tokenizers/llama2", "</s>"},
    {"mistral-v3", "tokenizers/llama2", "</s>"}};

class EveryFamily : public testing::TestWithParam<TailFamily> {
 protected:
  EveryFamily() : template_(builtin_of(GetParam().chat_template)) {
    std::string text =
        read_file(kSourceDir / "tests/data" / GetParam().tokenizer / "tokenizer.json");
    // The family's own end of a turn, in a tokenizer that has another one.
    if (text.find(GetParam().end) == std::string::npos) {
      const std::string own = "<|im_end|>";
      for (size_t at = 0; (at = text.find(own, at)) != std::string::npos;) {
        text.replace(at, own.size(), GetParam().end);
      }
    }
    folder_.write("tokenizer.json", text);
    tokenizer_ = Tokenizer::load(folder_.path());
  }

  // The tokens of the whole rendering from the end of the last assistant turn on.
  std::vector<int32_t> whole(const Json& all) const {
    Json kwargs = Json::object();
    kwargs.set("add_generation_prompt", true);
    const ChatTokens tokens = encode_chat(*tokenizer_, *template_, all, kwargs);
    size_t last = 0;
    for (size_t i = 0; i < tokens.ids.size(); ++i) {
      if (tokens.mask[i] != 0 && tokens.ids[i] == *tokenizer_->id_of(GetParam().end)) last = i;
    }
    return {tokens.ids.begin() + static_cast<std::ptrdiff_t>(last), tokens.ids.end()};
  }

  ScratchFolder folder_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const ChatTemplate> template_;
};

TEST_P(EveryFamily, ATailHasTheTokensOfTheWholeRendering) {
  TurnTail tail(*tokenizer_, {messages({{"user", "What is 2 + 2?"}}), Json::object(), template_});
  Json all = messages({{"user", "What is 2 + 2?"}});
  for (const char* const text : {"Are you sure?", "And <|im_end|> 3 XRUNTURN + 3?"}) {
    const Json asked = messages({{"user", text}});
    all.push_back(Json(Json::Object{{"role", "assistant"}, {"content", "It is."}}));
    all.push_back(asked.as_array()[0]);
    EXPECT_EQ(tail.append({}, asked), whole(all)) << text;
  }
}

TEST_P(EveryFamily, AToolsResultIsWrittenInTheTemplatesForm) {
  if (std::string_view(GetParam().chat_template) == "llama-2") return;  // has no tools
  TurnTail tail(*tokenizer_, {messages({{"user", "2 + 2?"}}), Json::object(), template_});
  const SampledCall call{.name = "add", .arguments = Json(Json::Object{{"a", 2}})};
  std::string text;
  for (int turn = 0; turn < 2; ++turn) {
    text = tokenizer_->decode(tail.append({call}, messages({{"tool", "four"}})));
  }
  EXPECT_TRUE(text.starts_with(GetParam().end)) << text;
  EXPECT_NE(text.find("four"), std::string::npos) << text;
  EXPECT_EQ(text.find("XRUN"), std::string::npos) << text;
}

INSTANTIATE_TEST_SUITE_P(Of, EveryFamily, testing::ValuesIn(kFamilies), [](const auto& info) {
  std::string name = info.param.chat_template;
  std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
  return name;
});

TEST(TurnTail, ATemplateThatCannotGoOnIsNamed) {
  const auto tokenizer = Tokenizer::load(kSourceDir / "tests/data/tiny_tokenizer");
  const auto error = [&](const std::string& source, const char* role) {
    TurnTail tail(*tokenizer, {messages({{"user", "q"}}), Json::object(), jinja_of(source)});
    return error_of([&] { tail.append({}, messages({{role, "a"}})); });
  };
  EXPECT_EQ(error("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", "user"),
            "the chat template \"test\" cannot continue a sampled turn: it writes no special token "
            "after a turn, so nothing separates a sampled turn from the next message");
  EXPECT_EQ(error("{{ messages[0].content }}<|im_end|>", "user"),
            "the chat template \"test\" cannot continue a sampled turn: it leaves out the turn in "
            "front of the environment's messages");
  const std::string refused = error(
      "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}"
      "{% endfor %}",
      "tool");
  EXPECT_NE(refused.find("no tools"), std::string::npos) << refused;
}

}  // namespace
}  // namespace xrun::turn_tail_test
