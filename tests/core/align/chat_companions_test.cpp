// Chat rows rendered in a teacher's own template: chunks cover the texts of messages and the ends
// of turns.

#include "core/align/chat_companions.h"

#include <gtest/gtest.h>

#include "core/align/aligned_rows.h"
#include "core/base/file.h"
#include "tests/core/align/two_tokenizers.h"
#include "tests/error_of.h"

namespace xrun::chat_companions_test {
namespace {

class ChatCompanionsTest : public TwoTokenizers {
 protected:
  ChatCompanionsTest() {
    write_file_atomic(rows(), R"({"messages":[{"role":"user","content":"Where is it?"},)"
                              R"({"role":"assistant","content":"On the hill."},)"
                              R"({"role":"user","content":"Which?"},)"
                              R"({"role":"assistant","content":"The old town 水."}]})"
                              "\n"
                              R"({"prompt":"Say two","completion":"two and three towns"})"
                              "\n");
  }
  std::filesystem::path rows() const { return folder_.path() / "chats.jsonl"; }
  // The rows of a student of bytes, with the template of its tokenizer.
  DataSet set(int64_t max_length = 0) const {
    DataOptions options;
    options.kind = RowKind::kChat;
    options.sources.push_back({});
    options.sources[0].path = rows().string();
    options.settings.max_length = max_length;
    if (max_length > 0) options.settings.over_length = OverLength::kCut;
    options.cache_root = folder_.path() / "data";
    options.vocab_limit = bytes()->vocab_size();
    return DataSet::open(options, *bytes(), resolve_template(*bytes()).chat_template);
  }
  static std::shared_ptr<const ChatTemplate> teacher_template(const std::string& before = "") {
    return make_jinja_template(before +
                                   "{% for m in messages %}{{ m.role + ':\\n' + m.content + "
                                   "'<|endoftext|>' }}{% endfor %}",
                               "test", template_tokens(*pieces()));
  }
  std::shared_ptr<const ChatCompanions> companions(const DataSet& set, int64_t limit = 0) const {
    return std::make_shared<const ChatCompanions>(
        set,
        std::make_shared<const Retokenizer>(bytes(), pieces(), RetokenizerOptions{.limit = limit}),
        teacher_template());
  }
  static CompanionTokens align_row(const CompanionSource& source, const DataSet& set, int64_t row) {
    const TokenStream stream = set.stream(row, 0);
    return source.align({{row, 0, stream.ids}}).front();
  }
  // Returns the student's text of all chunks. Expects that both sides of each spell the same bytes
  // or end a turn.
  static std::string chunk_text(const DataSet& set, int64_t row, const CompanionTokens& companion) {
    const TokenStream stream = set.stream(row, 0);
    std::string text;
    for (const CompanionTokens::Chunk& chunk : companion.chunks) {
      const int32_t first = stream.ids[static_cast<size_t>(chunk.s_begin)];
      if (bytes()->is_special(first)) {
        EXPECT_EQ(companion.ids[static_cast<size_t>(chunk.t_begin)], *pieces()->eos_id());
        text += bytes()->piece(first);
        continue;
      }
      const std::string s = spelled(*bytes(), stream.ids, chunk.s_begin, chunk.s_end);
      EXPECT_EQ(s, spelled(*pieces(), companion.ids, chunk.t_begin, chunk.t_end));
      text += s;
    }
    return text;
  }

  ScratchFolder folder_;
};

TEST_F(ChatCompanionsTest, MessagesAndEndsOfTurnsAreChunks) {
  const DataSet set = this->set();
  const CompanionTokens companion = align_row(*companions(set), set, 0);
  EXPECT_EQ(pieces()->decode(companion.ids, /*skip_special=*/false),
            "user:\nWhere is it?<|endoftext|>assistant:\nOn the hill.<|endoftext|>"
            "user:\nWhich?<|endoftext|>assistant:\nThe old town 水.<|endoftext|>");
  EXPECT_EQ(chunk_text(set, 0, companion),
            "userWhere is it?assistantOn the hill.<|im_end|>"
            "userWhich?assistantThe old town 水.<|im_end|>");
  EXPECT_EQ(companion.wrong, 0);
  EXPECT_GT(companion.one_sided, 20);  // the two templates' own texts
}

TEST_F(ChatCompanionsTest, APackCoversEveryTrainedToken) {
  const DataSet set = this->set();
  const DataSet aligned = set.with_companion(companions(set));
  const std::vector<PackedBatch> packs = aligned.pack({0, 1}, 1000);
  ASSERT_EQ(packs.size(), 1u);
  const AlignmentCounts& counts = packs[0].alignment;
  EXPECT_EQ(counts.covered, counts.tokens);  // every trained byte, the ends of turns included
  EXPECT_EQ(counts.wrong, 0);
  EXPECT_LT(counts.chunks, counts.tokens);
}

TEST_F(ChatCompanionsTest, ACutRowHasTheFirstChunksOfItsConversation) {
  const DataSet whole = set(), cut = set(40);
  const int64_t last = cut.total_rows() - 1;  // 40 tokens hold no answer of row 0: it was dropped
  ASSERT_EQ(cut.tokens(last), 40);
  const CompanionTokens companion = align_row(*companions(cut), cut, last);
  const CompanionTokens full = align_row(*companions(whole), whole, 1);
  ASSERT_LT(companion.chunks.size(), full.chunks.size());
  ASSERT_GT(companion.chunks.size(), 0u);
  for (size_t i = 0; i < companion.chunks.size(); ++i) {
    EXPECT_EQ(companion.chunks[i], full.chunks[i]);
    EXPECT_LE(companion.chunks[i].s_end, 40);
  }
}

TEST_F(ChatCompanionsTest, ATeacherReadsUpToItsLimit) {
  const DataSet set = this->set();
  const CompanionTokens companion = align_row(*companions(set, 12), set, 0);
  EXPECT_LE(companion.ids.size(), 12u);
  EXPECT_GT(companion.chunks.size(), 0u);
  EXPECT_GE(companion.covered, companion.chunks.back().s_end);
}

TEST_F(ChatCompanionsTest, StoredCompanionsNeedNoFile) {
  const DataSet set = this->set();
  const ScratchFolder store;
  const CompanionTokens first = align_row(AlignedRows(companions(set), store.path()), set, 0);
  std::filesystem::remove(rows());
  const AlignedRows again(companions(set), store.path());
  EXPECT_EQ(align_row(again, set, 0), first);
  EXPECT_EQ(again.counts().cached, 1);
  const std::string error = error_of([&] { align_row(again, set, 1); });
  EXPECT_NE(error.find("chats.jsonl:2: the row cannot be read again: "), std::string::npos)
      << error;
}

TEST_F(ChatCompanionsTest, AConversationThatTheTeacherRefusesIsNamed) {
  const DataSet set = this->set();
  const ChatCompanions strict(
      set, std::make_shared<const Retokenizer>(bytes(), pieces()),
      teacher_template(
          "{% if messages|length > 2 %}{{ raise_exception('one turn only') }}{% endif %}"));
  EXPECT_GT(align_row(strict, set, 1).chunks.size(), 0u);
  const std::string error = error_of([&] { align_row(strict, set, 0); });
  EXPECT_NE(error.find("chats.jsonl:1: the teacher cannot read this conversation: "),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("one turn only"), std::string::npos) << error;
}

}  // namespace
}  // namespace xrun::chat_companions_test
