// Text of samples: stop strings over token borders, streaming, ids that end an answer.

#include "core/rollout/text_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/model/model.h"
#include "core/model/weights/init_model.h"
#include "core/text/chat/chat_template.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tests/core/model/load_model.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun::text_sampler_test {

namespace {

const std::filesystem::path kData = source_path("tests/data");

// A model of random weights over a tokenizer whose 256 plain tokens are the bytes.
class TextSampler : public testing::Test {
 protected:
  void SetUp() override {
    tokenizer_ = Tokenizer::load(kData / "tiny_tokenizer");
    init_model(folder_, {.hidden = 32,
                         .ffn = 48,
                         .vocab = tokenizer_->vocab_size(),
                         .scale = 0.05,
                         .tokenizer = kData / "tiny_tokenizer"});
    model_ = load_model(folder_, at::kFloat, false);
    options_.generate = {.max_new_tokens = 300, .sampling = {.temperature = 1, .seed = 5}};
  }

  std::vector<TextSample> sample(int64_t prompts = 1) {
    std::vector<std::vector<int32_t>> ids(static_cast<size_t>(prompts),
                                          tokenizer_->encode("Once").ids);
    return sample_text(*model_, *tokenizer_, ids, options_);
  }

  const ScratchFolder scratch_;
  const std::filesystem::path folder_ = scratch_ / "model";
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<Model> model_;
  TextOptions options_;
};

// The first n letters, digits or spaces in a row of a text, and where they are.
size_t plain_stretch(const std::string& text, size_t n) {
  size_t length = 0;
  for (size_t i = 20; i < text.size(); ++i) {
    length = text[i] > ' ' && text[i] < '~' ? length + 1 : 0;
    if (length == n && text.find(text.substr(i + 1 - n, n)) == i + 1 - n) return i + 1 - n;
  }
  return std::string::npos;
}

}  // namespace

TEST_F(TextSampler, AStopStringOverThreeTokensTrimsTextAndKeepsIds) {
  const TextSample free = sample()[0];
  EXPECT_EQ(free.reason, "length");
  EXPECT_EQ(free.text, tokenizer_->decode(free.generation.ids, true));
  const size_t at = plain_stretch(free.text, 3);
  ASSERT_NE(at, std::string::npos);
  options_.stop = {free.text.substr(at, 3)};
  const TextSample got = sample()[0];
  EXPECT_EQ(got.reason, "stop_string");
  EXPECT_EQ(got.text, free.text.substr(0, at));
  const std::vector<int32_t>& ids = got.generation.ids;
  ASSERT_GT(ids.size(), 3u);
  ASSERT_LT(ids.size(), free.generation.ids.size());
  EXPECT_EQ(ids,
            std::vector<int32_t>(free.generation.ids.begin(),
                                 free.generation.ids.begin() + static_cast<int64_t>(ids.size())));
  const std::string spelled = tokenizer_->decode(ids, true);
  EXPECT_TRUE(spelled.ends_with(options_.stop[0])) << "no token after the stop string";
  EXPECT_EQ(ids.size(), got.generation.logprobs.size());
}

TEST_F(TextSampler, StreamedPiecesJoinToTheTextAndSplitNoCharacter) {
  std::vector<std::string> streamed(6);
  int pieces = 0, characters = 0;
  options_.generate.batch = 3;
  options_.stop = {"zq", "\xC3\xA9t\xC3\xA9"};
  options_.on_text = [&](size_t sequence, const std::string& piece) {
    EXPECT_TRUE(is_valid_utf8(piece));
    EXPECT_FALSE(piece.ends_with("z")) << "it may begin a stop string";
    ++pieces;
    streamed[sequence] += piece;
  };
  const std::vector<TextSample> samples = sample(6);
  for (size_t s = 0; s < samples.size(); ++s) {
    EXPECT_EQ(streamed[s], samples[s].text);
    for (size_t i = 0; i < samples[s].text.size();) {
      const CodePoint point = read_utf8(samples[s].text, i);
      characters += point.value > 127 && point.value != 0xFFFD;
      i += point.size;
    }
  }
  EXPECT_GT(pieces, 100);
  EXPECT_GT(characters, 5) << "the samples hold characters of several tokens";
}

TEST_F(TextSampler, AStopStringThatSpellsASpecialTokenIsAStopId) {
  options_.generate.stop_ids = {};
  const TextSample free = sample()[0];
  const auto& ids = free.generation.ids;
  const auto special =
      std::find_if(ids.begin(), ids.end(), [&](int32_t id) { return tokenizer_->is_special(id); });
  ASSERT_NE(special, ids.end()) << "300 of 259 tokens drew none of the three";
  options_.stop = {std::string(tokenizer_->piece(*special))};
  const TextSample got = sample()[0];
  EXPECT_EQ(got.reason, "stop");
  EXPECT_EQ(got.generation.ids.back(), *special);
  EXPECT_EQ(got.generation.ids.size(), static_cast<size_t>(special - ids.begin()) + 1);
}

TEST_F(TextSampler, ACallerMayEndAnAnswerAtAToken) {
  int seen = 0;
  options_.generate.on_token = [&](size_t, int32_t) { return ++seen == 4; };
  const TextSample got = sample()[0];
  EXPECT_EQ(got.generation.ids.size(), 4u);
  EXPECT_EQ(got.reason, "stop");
}

TEST_F(TextSampler, ZeroTokensGiveAnEmptyText) {
  options_.generate.max_new_tokens = 0;
  EXPECT_EQ(sample()[0].text, "");
  EXPECT_EQ(sample()[0].reason, "length");
}

TEST_F(TextSampler, RefusesAnEmptyStopString) {
  options_.stop = {""};
  EXPECT_EQ(message_of<UsageError>([&] { sample(); }),
            "a stop string is empty, which would end every answer at once; remove it");
}

TEST_F(TextSampler, ATurnEndsWithTheTokenThatTheTemplateWritesAfterIt) {
  const auto end_of = [&](const std::string& source) {
    const auto made = make_jinja_template(source, "test", template_tokens(*tokenizer_));
    return turn_end_of(*tokenizer_, *made);
  };
  const std::string turns = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}";
  EXPECT_EQ(end_of(turns + "<|im_end|>\n{% endfor %}"), tokenizer_->id_of("<|im_end|>"));
  EXPECT_EQ(end_of(turns + " \n<|endoftext|>{% endfor %}"), tokenizer_->id_of("<|endoftext|>"));
  EXPECT_EQ(end_of(turns + "\n{% endfor %}"), std::nullopt);
  EXPECT_EQ(end_of("{{ raise_exception('a system message is wanted') }}"), std::nullopt);
}

TEST_F(TextSampler, AnswersEndWithTheStopIdsOfModelAndTokenizer) {
  EXPECT_EQ(stop_ids_of(*model_, *tokenizer_),
            std::vector<int32_t>({*tokenizer_->id_of("<|im_end|>")}));
}

}  // namespace xrun::text_sampler_test
