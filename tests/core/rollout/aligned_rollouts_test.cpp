// Sampled answers in a teacher's tokens: its own prompt, the bytes that were sampled, its own end
// of a turn.

#include "core/rollout/aligned_rollouts.h"

#include <gtest/gtest.h>

#include "core/text/chat/turn_tail.h"
#include "tests/core/align/two_tokenizers.h"
#include "tests/error_of.h"

namespace xrun::aligned_rollouts_test {
namespace {

class AlignedRolloutsTest : public TwoTokenizers {
 protected:
  // A student of bytes with ChatML, and a teacher of pieces.
  AlignedRolloutsTest() {
    info_.max_tokens = 200;
    info_.tokenizer = {bytes(), "bytes"};
    info_.unit = Unit::kToken;
    info_.conversations = [](const std::vector<int64_t>& rows, const Tokenizer&) {
      std::vector<Conversation> out;
      for (const int64_t row : rows) {
        out.push_back(
            {parse_json(R"([{"role":"user","content":"say )" + std::to_string(row) + R"("}])",
                        "test"),
             Json::object(), resolve_template(*bytes()).chat_template});
      }
      return out;
    };
  }
  static AnswerTeacher teacher(int64_t limit = 0) {
    return {
        std::make_shared<const Retokenizer>(bytes(), pieces(), RetokenizerOptions{.limit = limit}),
        make_jinja_template("{% for m in messages %}{{ m.role + ':\\n' + m.content + "
                            "'<|endoftext|>' }}{% endfor %}{% if add_generation_prompt %}"
                            "{{ 'assistant:\\n' }}{% endif %}",
                            "test", template_tokens(*pieces())),
        1};
  }
  static std::shared_ptr<Rollout> answer(int64_t row, const std::string& text, bool ended) {
    auto one = std::make_shared<Rollout>();
    one->row = row;
    one->prompt = row;
    one->prompt_ids = std::make_shared<const std::vector<int32_t>>(bytes()->encode("prompt ").ids);
    one->ids = bytes()->encode(text).ids;
    if (ended) one->ids.push_back(*bytes()->eos_id());
    one->finish = ended ? "stop" : "length";
    one->logprobs.assign(one->ids.size(), -1.0F);
    return one;
  }
  static const CompanionPack& companion(const Rollouts& rollouts) {
    return *rollouts.micros().at(0)->pack().companion;
  }
  static const AlignmentCounts& counts(const Rollouts& rollouts) {
    return rollouts.micros().at(0)->pack().alignment;
  }
  static std::string text_of(const CompanionPack& pack) {
    return pieces()->decode(pack.tokens, /*skip_special=*/false);
  }

  BatchInfo info_;
};

TEST_F(AlignedRolloutsTest, TheTeacherReadsItsOwnPromptAndTheSampledBytes) {
  const auto plain = std::make_shared<Rollouts>(info_, RolloutList{answer(7, "the town 水", true)});
  EXPECT_FALSE(plain->micros()[0]->has_unit(Unit::kChunk));
  const auto aligned = align_rollouts(*plain, teacher());
  const CompanionPack& pack = companion(*aligned);
  EXPECT_EQ(text_of(pack), "user:\nsay 7<|endoftext|>assistant:\nthe town 水<|endoftext|>");
  EXPECT_EQ(counts(*aligned).covered, counts(*aligned).tokens);
  EXPECT_EQ(counts(*aligned).wrong + counts(*aligned).one_sided, 0);
  EXPECT_EQ(pack.target.back(), *pieces()->eos_id());
  EXPECT_EQ(aligned->rollouts(), plain->rollouts());
}

TEST_F(AlignedRolloutsTest, AnAnswerThatWasCutOffEndsInsideACharacter) {
  auto one = answer(1, "hill 水", false);
  one->ids.pop_back();
  one->logprobs.pop_back();
  const auto aligned =
      align_rollouts(*std::make_shared<Rollouts>(info_, RolloutList{one}), teacher());
  const CompanionPack& pack = companion(*aligned);
  EXPECT_EQ(text_of(pack), "user:\nsay 1<|endoftext|>assistant:\nhill ");
  EXPECT_EQ(counts(*aligned).tokens - counts(*aligned).covered, 2);
}

TEST_F(AlignedRolloutsTest, SubsetsKeepTheirChunksAndFields) {
  const auto aligned =
      align_rollouts(*std::make_shared<Rollouts>(
                         info_, RolloutList{answer(1, "one", true), answer(2, "two towns", true),
                                            answer(3, "three", false)}),
                     teacher());
  const auto some = aligned->subset({1});
  EXPECT_EQ(text_of(companion(*some)),
            "user:\nsay 2<|endoftext|>assistant:\ntwo towns<|endoftext|>");
  EXPECT_EQ(some->field("old_logprob").numel(), 10);
  EXPECT_EQ(some->micros()[0]->unit_count(Unit::kChunk), counts(*some).chunks);
  const auto none = aligned->subset({});
  EXPECT_EQ(none->size(), 0);
}

TEST_F(AlignedRolloutsTest, ConversationsGoOnInTheTeachersTemplate) {
  auto one = answer(4, "first", true);
  RolloutTurn turn;
  turn.end = std::ssize(one->ids);
  turn.finish = "stop";
  turn.reply = parse_json(R"([{"role":"user","content":"and?"}])", "test");
  one->turns.push_back(turn);
  for (const int32_t id : bytes()->encode("\n<reply>").ids) one->ids.push_back(id);
  RolloutTurn last;
  last.begin = std::ssize(one->ids);
  for (const int32_t id : bytes()->encode("second").ids) one->ids.push_back(id);
  last.end = std::ssize(one->ids);
  last.finish = "length";
  one->turns.push_back(last);
  one->logprobs.assign(static_cast<size_t>(one->sampled_tokens()), -1.0F);
  const auto aligned =
      align_rollouts(*std::make_shared<Rollouts>(info_, RolloutList{one}), teacher());
  const CompanionPack& pack = companion(*aligned);
  EXPECT_EQ(text_of(pack),
            "user:\nsay 4<|endoftext|>assistant:\nfirst<|endoftext|>user:\nand?<|endoftext|>"
            "assistant:\nsecond");
  EXPECT_EQ(counts(*aligned).tokens, one->sampled_tokens());
  EXPECT_EQ(counts(*aligned).covered, counts(*aligned).tokens);
}

TEST_F(AlignedRolloutsTest, BeyondTheTeachersLimitThereAreNoChunks) {
  const auto plain = std::make_shared<Rollouts>(
      info_, RolloutList{answer(5, "a town on the cold water and an old hill", true)});
  const int64_t whole = companion(*align_rollouts(*plain, teacher())).token_count();
  const auto aligned = align_rollouts(*plain, teacher(whole - 4));
  EXPECT_EQ(companion(*aligned).token_count(), whole - 4);
  EXPECT_LT(counts(*aligned).covered, counts(*aligned).tokens);
}

TEST_F(AlignedRolloutsTest, WithTheStudentsVocabularyEveryTokenIsAChunk) {
  const auto rows = with_row_chunks(Rollouts(info_, {answer(1, "abc", true)}));
  EXPECT_EQ(rows->micros()[0]->unit_count(Unit::kChunk), 4);
  EXPECT_EQ(rows->micros()[0]->pack().companion, nullptr);
}

TEST_F(AlignedRolloutsTest, NamesWhatCannotBeAligned) {
  BatchInfo unknown = info_;
  unknown.conversations = nullptr;
  EXPECT_EQ(error_of([&] { align_rollouts(Rollouts(unknown, {answer(1, "a", true)}), teacher()); }),
            "these rollouts do not answer the prompts of a data set, so their conversations are "
            "unknown; sample the prompts of xrun.prompts");
  AnswerTeacher strict = teacher();
  strict.chat_template = make_jinja_template("{{ raise_exception('no users') }}", "test", {});
  const std::string error =
      error_of([&] { align_rollouts(Rollouts(info_, {answer(9, "a", true)}), strict); });
  EXPECT_EQ(error.find("row 9: the teacher cannot read this prompt: "), 0u) << error;
}

TEST_F(AlignedRolloutsTest, NamesTheRowWhoseConversationCannotGoOn) {
  auto one = answer(9, "first", true);
  RolloutTurn turn;
  turn.end = std::ssize(one->ids);
  turn.finish = "stop";
  turn.reply = parse_json(R"([{"role":"tool","content":"4"}])", "test");
  one->turns.push_back(turn);
  AnswerTeacher strict = teacher();
  strict.chat_template = make_jinja_template(
      "{% for m in messages %}{% if m.role == 'tool' %}"
      "{{ raise_exception('no tools') }}{% endif %}"
      "{{ m.content + '<|endoftext|>' }}{% endfor %}",
      "test", template_tokens(*pieces()));
  const std::string error = error_of([&] { align_rollouts(Rollouts(info_, {one}), strict); });
  EXPECT_TRUE(
      error.starts_with("row 9: the teacher cannot read the environment's messages: the "
                        "chat template \"test\" cannot continue a sampled turn: "))
      << error;
  EXPECT_TRUE(error.ends_with("; give align() a template that can read them")) << error;
}

}  // namespace
}  // namespace xrun::aligned_rollouts_test
