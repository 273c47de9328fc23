// One conversation through two templates: messages and the ends of turns are aligned.

#include "core/align/chat_regions.h"

#include <gtest/gtest.h>

#include "core/text/chat/chat_template.h"
#include "tests/core/align/piece_tokenizer.h"

namespace xrun::chat_regions_test {

namespace {

// A conversation as one side reads it; tokens are bytes, and the special tokens given.
class ChatSideFixture {
 public:
  ChatSideFixture(const std::vector<RoleToken>& specials, const std::string& source,
                  const Json& messages, std::vector<std::string> words = {})
      : tokenizer_(piece_tokenizer(vocabulary(std::move(words)), specials)),
        table_(*tokenizer_),
        template_(make_jinja_template(source, "test", {})),
        tokens_(encode_chat(*tokenizer_, *template_, messages, Json::object())),
        ranges_(message_ranges(*template_, messages, Json::object(), tokens_.rendering)) {}
  ChatSide side() const { return {table_, tokens_, ranges_}; }
  std::string text(ByteRange range) const {
    return tokens_.rendering.text.substr(range.begin, range.end - range.begin);
  }
  std::string text(int32_t begin, int32_t end) const {
    return text({tokens_.offsets[size_t(begin)].begin, tokens_.offsets[size_t(end - 1)].end});
  }
  int64_t size() const { return int64_t(tokens_.ids.size()); }

 private:
  static std::vector<std::string> vocabulary(std::vector<std::string> words) {
    for (int byte = 0; byte < 256; ++byte) words.emplace_back(1, char(byte));
    return words;
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  TokenTable table_;
  std::shared_ptr<const ChatTemplate> template_;
  ChatTokens tokens_;
  std::vector<MessageRange> ranges_;
};

const char* const kMarked =
    "{% for m in messages %}[{{ m.role }}]{% if m.role == 'assistant' %}{% generation %}"
    "{{ m.content }}{{ '<end>' }}{% endgeneration %}{% else %}{{ m.content + '<end>' }}{% endif %}"
    "{% endfor %}";
const char* const kSplit =
    "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{% set parts = "
    "m.content.split('</think>') %}{% if parts|length > 1 %}{{ '(' + parts[0][7:] + ')' }}"
    "{% endif %}{{ ' ' + parts[-1] + '</s>' }}{% endgeneration %}{% else %}"
    "{{ 'Q: ' + m.content + '\\n' }}{% endif %}{% endfor %}";

Json conversation(const std::string& answer) {
  return parse_json(R"([{"role": "user", "content": "why?"}, {"role": "assistant", "content": )" +
                        dump_json(answer) + "}]",
                    "test");
}

TEST(ChatRegions, AreTheMessagesOfBothRenderings) {
  const Json messages = conversation("It is so.");
  const ChatSideFixture s({{"<end>", "eos_token"}}, kMarked, messages);
  const ChatSideFixture t({{"</s>", "eos_token"}}, kSplit, messages);
  const auto regions = chat_regions(s.side(), t.side(), messages);
  ASSERT_EQ(regions.size(), 2u);
  for (const ChatRegion& region : regions)
    EXPECT_EQ(s.text(region.student), t.text(region.teacher));
  EXPECT_EQ(s.text(regions[0].student), "why?");
  EXPECT_EQ(s.text(regions[1].student), "It is so.");
  EXPECT_EQ(regions[1].message, 1);
}

TEST(ChatRegions, ReasoningAndAnswerAreFoundInAWholeMessage) {
  const Json messages = conversation("<think>because</think>It is so.");
  const ChatSideFixture s({{"<end>", "eos_token"}}, kMarked, messages);
  const ChatSideFixture t({{"</s>", "eos_token"}}, kSplit, messages);
  const auto regions = chat_regions(s.side(), t.side(), messages);
  ASSERT_EQ(regions.size(), 3u);
  EXPECT_EQ(s.text(regions[1].student), "because");
  EXPECT_EQ(t.text(regions[1].teacher), "because");
  EXPECT_EQ(s.text(regions[2].student), "It is so.");
  EXPECT_EQ(t.text(regions[2].teacher), "It is so.");
}

TEST(AlignChat, AlignsContentsAndTheEndsOfAssistantTurns) {
  const Json messages = conversation("It is so.");
  const ChatSideFixture s({{"<end>", "eos_token"}}, kMarked, messages);
  const ChatSideFixture t({{"</s>", "eos_token"}}, kSplit, messages, {"It is", " so"});
  const ChatAlignment aligned = align_chat(s.side(), t.side(), messages);
  check_alignment(aligned.pairs, s.size(), t.size());
  std::string said;
  for (const AlignedPair& pair : aligned.pairs) {
    if (!pair.correct) continue;
    said += "|" + s.text(pair.s_begin, pair.s_end);
    if (s.text(pair.s_begin, pair.s_end) == "<end>") {
      EXPECT_EQ(t.text(pair.t_begin, pair.t_end), "</s>");
    } else {
      EXPECT_EQ(s.text(pair.s_begin, pair.s_end), t.text(pair.t_begin, pair.t_end));
    }
  }
  // The user's end of turn has no partner, and neither has the text of the templates.
  EXPECT_EQ(said, "|w|h|y|?|I|t| |i|s| |s|o|.|<end>");
  EXPECT_EQ(aligned.turn_ends, 1);
  EXPECT_EQ(aligned.crossing, 0);
}

TEST(AlignChat, TokensAcrossABorderAreOrphans) {
  const Json messages = conversation("It is so.");
  const ChatSideFixture s({{"<end>", "eos_token"}}, kMarked, messages, {"]It", "o.<"});
  const ChatSideFixture t({{"</s>", "eos_token"}}, kSplit, messages, {" It"});
  // Without merges a longer piece is never chosen, so the tokens are made by hand.
  EXPECT_EQ(align_chat(s.side(), t.side(), messages).crossing, 0);
  ChatTokens tokens = t.side().tokens;
  const std::string& text = tokens.rendering.text;
  const auto at = size_t(text.find(" It"));
  tokens.ids.erase(tokens.ids.begin() + int64_t(at), tokens.ids.begin() + int64_t(at) + 2);
  tokens.offsets.erase(tokens.offsets.begin() + int64_t(at),
                       tokens.offsets.begin() + int64_t(at) + 2);
  tokens.offsets[at] = {uint32_t(at), uint32_t(at) + 3};
  tokens.ids[at] = 0;
  const ChatSide crossed{t.side().table, tokens, t.side().ranges};
  const ChatAlignment aligned = align_chat(s.side(), crossed, messages);
  check_alignment(aligned.pairs, s.size(), t.size() - 2);
  EXPECT_EQ(aligned.crossing, 1);
  std::string said;
  for (const AlignedPair& pair : aligned.pairs) {
    if (pair.correct) said += s.text(pair.s_begin, pair.s_end);
  }
  EXPECT_EQ(said, "why? is so.<end>");
}

}  // namespace

}  // namespace xrun::chat_regions_test
