// A conversation's ids and loss mask equal those of Transformers, and text never becomes a special
// token.

#include "core/text/chat/chat_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <csignal>

#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/hash.h"
#include "core/text/chat/message_ranges.h"
#include "tests/core/text/chat/template_fixture.h"
#include "tests/error_of.h"

namespace xrun::chat_tokens_test {

namespace {

std::shared_ptr<const Tokenizer> tiny() {
  return Tokenizer::load(kSourceDir / "tests/data/tiny_tokenizer");
}

// The tokens' bytes, trained ones in braces.
std::string shown(const ChatTokens& tokens) {
  std::string out;
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    const ByteRange& range = tokens.offsets[i];
    const std::string text = tokens.rendering.text.substr(range.begin, range.end - range.begin);
    out += tokens.mask[i] ? fmt::format("{{{}}}", text) : text;
  }
  return out;
}

TEST(ChatTokens, TrainsOnlyTheAnswerAndItsEnd) {
  const auto tokenizer = tiny();
  const auto resolved = resolve_template(*tokenizer);
  const ChatTokens tokens = encode_chat(*tokenizer, *resolved.chat_template,
                                        messages({{"user", "q"}, {"assistant", "ab"}}), {});
  EXPECT_EQ(shown(tokens),
            "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n{a}{b}{<|im_end|>}\n");
  EXPECT_EQ(tokens.straddlers, 0);
}

TEST(ChatTokens, AMessageThatSpellsASpecialTokenStaysPlain) {
  const auto tokenizer = tiny();
  const auto resolved = resolve_template(*tokenizer);
  const ChatTokens tokens =
      encode_chat(*tokenizer, *resolved.chat_template,
                  messages({{"user", "<|im_end|>"}, {"assistant", "<|endoftext|>"}}), {});
  const int32_t end = *tokenizer->id_of("<|im_end|>");
  EXPECT_EQ(std::count(tokens.ids.begin(), tokens.ids.end(), end), 2);  // the template's two
  EXPECT_EQ(std::count(tokens.ids.begin(), tokens.ids.end(), *tokenizer->id_of("<|endoftext|>")),
            0);
}

TEST(ChatTokens, ARoleCannotCompleteASpecialTokenOfTheTemplate) {
  const auto tokenizer = tiny();
  const auto chat_template = jinja_of("<|im_{{ messages[0].role }}|>");
  const ChatTokens tokens = encode_chat(*tokenizer, *chat_template, messages({{"end", ""}}), {});
  EXPECT_EQ(tokens.rendering.text, "<|im_end|>");
  EXPECT_EQ(tokens.ids.size(), 10u);  // bytes, no special token
}

TEST(ChatTokens, OnlyFlaggedTurnsAreTrained) {
  const auto tokenizer = tiny();
  const auto resolved = resolve_template(*tokenizer);
  ChatTokens tokens = encode_chat(
      *tokenizer, *resolved.chat_template,
      messages({{"user", "q"}, {"assistant", "a"}, {"user", "r"}, {"assistant", "b"}}), {});
  ASSERT_EQ(tokens.rendering.turns.size(), 2u);
  EXPECT_EQ(tokens.rendering.turn_messages, (std::vector<int64_t>{1, 3}));
  train_turns(tokens, {0, 1});
  EXPECT_EQ(shown(tokens).find("{a}"), std::string::npos);
  EXPECT_NE(shown(tokens).find("{b}{<|im_end|>}"), std::string::npos);
  train_turns(tokens, {0, 0});
  EXPECT_EQ(std::count(tokens.mask.begin(), tokens.mask.end(), 1), 0);
}

TEST(ChatTokens, ATokenAcrossTheBoundaryIsTrainedWholeAndCounted) {
  const auto tokenizer = Tokenizer::load(kSourceDir / "tests/data/tokenizers/smol");
  // Byte-level pieces take the space before a word into its first token.
  const auto chat_template =
      jinja_of("a {% generation %}{{ messages[0].content }}{% endgeneration %}");
  const ChatTokens tokens =
      encode_chat(*tokenizer, *chat_template, messages({{"assistant", "the"}}), {});
  ASSERT_GE(tokens.ids.size(), 2u);
  EXPECT_EQ(tokens.straddlers, 1);
  EXPECT_EQ(tokens.mask[0], 0);
  EXPECT_EQ(tokens.mask[1], 1);
}

TEST(ChatTokens, CountsSharedMessagesAndTheirTurns) {
  const auto chosen =
      messages({{"user", "q"}, {"assistant", "a"}, {"user", "r"}, {"assistant", "x"}});
  const auto rejected =
      messages({{"user", "q"}, {"assistant", "a"}, {"user", "r"}, {"assistant", "y"}});
  const auto chat_template = resolve_template(*tiny()).chat_template;
  EXPECT_EQ(count_shared_messages(chosen, rejected), 3u);
  EXPECT_EQ(count_shared_turns(*chat_template, chosen, rejected, {}), 1u);
  EXPECT_EQ(count_shared_messages(chosen, Json()), 0u);
  EXPECT_EQ(count_shared_turns(*chat_template, chosen, messages({{"user", "other"}}), {}), 0u);
}

// A template interrupted by Ctrl-C while it renders, as a Lua function may be.
class InterruptedTemplate : public ChatTemplate {
 public:
  Rendering render(const Json&, const Json&) const override { throw Interrupted(SIGINT); }
  bool marks_generation() const override { return true; }
  const std::string& source() const override { return source_; }
  std::string name() const override { return "interrupted"; }
  std::string digest() const override { return ""; }

 private:
  std::string source_;
};

TEST(ChatTokens, AnInterruptionIsNotARefusal) {
  const InterruptedTemplate interrupted;
  const Json shared = messages({{"user", "q"}, {"assistant", "a"}});
  EXPECT_EQ(signal_of([&] { count_shared_turns(interrupted, shared, shared, {}); }), SIGINT);
  const Rendering rendering{
      .text = "q a", .spans = {{0, 3, Origin::kMessage, false}}, .turns = {}, .turn_messages = {}};
  EXPECT_EQ(signal_of([&] { message_ranges(interrupted, shared, {}, rendering); }), SIGINT);
}

// The rows of the golden: both sides of pairs, then conversations with their tools.
std::vector<Json> golden_rows() {
  std::vector<Json> rows;
  for (const Json& pair : read_rows(shared_data() / "preferences/dpo_en.jsonl")) {
    rows.push_back(Json(Json::Object{{"messages", pair.at("chosen")}}));
    rows.push_back(Json(Json::Object{{"messages", pair.at("rejected")}}));
  }
  for (const char* name : {"chat/toolcall_en.jsonl", "chat/alpaca_en.jsonl"}) {
    for (Json& row : read_rows(shared_data() / name)) rows.push_back(std::move(row));
  }
  return rows;
}

// The ids and the mask as bytes; "null" if the row does not render.
std::string row_bytes(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                      const Json& row) {
  Json kwargs = Json::object();
  if (const Json* tools = row.find("tools")) kwargs.set("tools", *tools);
  try {
    const ChatTokens tokens = encode_chat(tokenizer, chat_template, row.at("messages"), kwargs);
    std::string bytes(reinterpret_cast<const char*>(tokens.ids.data()), tokens.ids.size() * 4);
    if (tokens.mask.empty()) return bytes.append(tokens.ids.size(), '\0');  // no marks
    return bytes.append(tokens.mask.begin(), tokens.mask.end());
  } catch (const Error&) {
    return "null";
  }
}

// XXH3-64 of 20 rows each.
std::vector<std::string> block_hashes(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                                      const std::vector<Json>& rows) {
  std::vector<std::string> hashes;
  for (size_t begin = 0; begin < rows.size(); begin += 20) {
    std::string bytes;
    for (size_t i = begin; i < std::min(begin + 20, rows.size()); ++i) {
      bytes += row_bytes(tokenizer, chat_template, rows[i]);
    }
    hashes.push_back(fmt::format("{:016x}", hash_u64(bytes)));
  }
  return hashes;
}

// A tokenizer of the golden; that of the fetched model may be absent.
std::filesystem::path tokenizer_folder(const std::string& name) {
  const auto folder = shared_data() / "tokenizers" / name;
  return std::filesystem::exists(folder) ? folder : cache_root() / "models" / name;
}

class RealRows : public testing::TestWithParam<const char*> {};

TEST_P(RealRows, IdsAndMasksMatchTransformers) {
  const std::string key = GetParam(), name = key.substr(0, key.find('/'));
  const std::filesystem::path folder = tokenizer_folder(name);
  if (!std::filesystem::exists(shared_data() / "preferences/dpo_en.jsonl") ||
      !std::filesystem::exists(folder)) {
    GTEST_SKIP() << "no data at " << shared_data() << ", or no " << folder;
  }
  static const std::vector<Json> rows = golden_rows();
  static const Json golden = read_json((kSourceDir / "tests/golden/template_masks.json").string());
  const auto tokenizer = Tokenizer::load(folder);
  const std::string wanted = key.substr(name.size() + 1);
  const auto chat_template =
      wanted == "own" ? make_jinja_template(tokenizer->chat_templates().front().second, "own",
                                            template_tokens(*tokenizer), "2024-07-26")
                      : resolve_template(*tokenizer, wanted, "2024-07-26").chat_template;
  const auto hashes = block_hashes(*tokenizer, *chat_template, rows);
  ASSERT_EQ(hashes.size(), golden.at(key).size());
  for (size_t i = 0; i < hashes.size(); ++i) {
    EXPECT_EQ(hashes[i], golden.at(key).as_array()[i].as_string()) << "rows from " << 20 * i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, RealRows,
                         testing::Values("gpt2/chatml", "qwen/chatml", "qwen/qwen2.5", "qwen/qwen3",
                                         "qwen/smollm2", "llama2/llama-2", "llama2/llama-3",
                                         "llama2/llama-3.1", "smollm2-135m-instruct/own",
                                         "smollm2-135m-instruct/smollm2"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = std::isalnum(c) ? c : '_';
                           return name;
                         });

}  // namespace

}  // namespace xrun::chat_tokens_test
