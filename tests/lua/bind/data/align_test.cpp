// Alignments from Lua: pairs of token lists, and data sets with the tokens of a teacher.

#include <algorithm>

#include "tests/lua/bind/session_fixture.h"

namespace xrun::align_test {

class AlignBinding : public SessionTest {
 protected:
  AlignBinding() {
    std::string text;
    for (int i = 0; i < 12; ++i) {
      text += "{\"text\":\"the town " + std::to_string(i) + " has 水 and a hill\"}\n";
    }
    write_file_atomic("text.jsonl", text);
  }
  // A recipe that trains -log p of each chunk; `teacher` is an expression.
  static std::string recipe(const std::string& teacher, const std::string& batch = "sequences = 4",
                            const std::string& open = "text") {
    return R"(local xrun = require "xrun"
local cfg = xrun.config {
  model = "tiny", data = { { path = "text.jsonl" } }, optim = { lr = 1e-3 }, steps = 3,
  valid = { fraction = 0.25 }, batch = { )" +
           batch + R"( }, max_length = 64,
}
local policy = xrun.policy(cfg.model)
local adamw = xrun.adamw(policy, cfg.optim)
local pieces = xrun.tokenizer(")" +
           source_path("recipes/data/tokenizer") + R"(")
local texts = xrun.)" +
           open + "(cfg.data, policy):align(" + teacher + R"()
local train, valid = texts:split(cfg.valid)
local function nll(t) return { chunk = -t:chunk_sum(policy:token_logprob(t)) } end
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, batch in run:steps(train, cfg.batch) do run:log(adamw:step(batch, nll)) end
run:log(run:evaluate(valid, nll))
run:export(policy)
)";
  }
};

TEST_F(AlignBinding, PairsOfTwoTokenListsAreHalfOpenRangesFromZero) {
  const std::string script = R"(
local xrun = require "xrun"
local bytes = xrun.tokenizer("tiny")
local pieces = xrun.tokenizer(")" +
                             source_path("recipes/data/tokenizer") + R"(")
local student, teacher = pieces:encode("a town"), bytes:encode("a town")
local got = {}
for _, pair in ipairs(xrun.align(pieces, bytes):pairs(student, teacher)) do
  local words = {}
  for i, value in ipairs(pair) do words[i] = tostring(value) end
  got[#got + 1] = table.concat(words, " ")
end
print(table.concat(got, "; "))
local ids = xrun.align(bytes, pieces):pairs({ 1 }, { 2, 3 })
print(#ids)
local short, right = xrun.align(pieces, bytes, { max_span = 1 }):pairs(student, teacher), 0
for _, pair in ipairs(short) do right = right + (pair[5] and 1 or 0) end
print(right .. " short of " .. #short)
print(#xrun.align(pieces, pieces):pairs({ 5, 300 }, { 5, 300 }) .. " equal ids")
)";
  ASSERT_EQ(run(script, "r"), "");
  has(output_, "0 1 0 1 true; ");
  has(output_, " 6 true\n");
  has(output_, "1 short of 2\n2 equal ids\n");
}

TEST_F(AlignBinding, AnAlignedSetTrainsEvaluatesAndCountsItsChunks) {
  ASSERT_EQ(run(recipe("pieces"), "r"), "");
  has(output_, "text.jsonl: 93.1 % of the trained tokens of 12 rows are aligned with ");
  // No row of the teacher predicts the bytes of "the", which begins each row.
  for (const double coverage : values("r", "align/coverage")) {
    EXPECT_GT(coverage, 0.8);
    EXPECT_LT(coverage, 1);
  }
  EXPECT_EQ(values("r", "align/wrong"), (std::vector<double>{0, 0, 0}));
  for (const double chunks : values("r", "align/chunks")) EXPECT_GT(chunks, 20);
  EXPECT_EQ(values("r", "valid/loss").size(), 1u);
  // Again from the cache, and in other micro-batches.
  ASSERT_EQ(run(recipe("pieces"), "again"), "");
  EXPECT_EQ(metrics("again"), metrics("r"));
  ASSERT_EQ(run(recipe("pieces", "sequences = 4, max_tokens = 40"), "small"), "");
  EXPECT_EQ(values("small", "align/chunks"), values("r", "align/chunks"));
  const std::vector<double> whole = values("r", "train/loss"),
                            small = values("small", "train/loss");
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(small.at(i), whole[i], 1e-5 * whole[i]);
}

TEST_F(AlignBinding, WindowsOfAnAlignedSetAreAligned) {
  ASSERT_EQ(run(recipe("pieces", "tokens = 128, max_tokens = 128"), "r"), "");
  for (const double coverage : values("r", "align/coverage")) EXPECT_GT(coverage, 0.8);
}

TEST_F(AlignBinding, WithItsOwnVocabularyEveryTokenIsAChunk) {
  ASSERT_EQ(run(recipe("policy"), "r"), "");
  EXPECT_EQ(values("r", "align/coverage"), (std::vector<double>{1, 1, 1}));
  std::string plain = recipe("policy");
  const std::string chunks = "{ chunk = -t:chunk_sum(policy:token_logprob(t)) }";
  plain.replace(plain.find(chunks), chunks.size(), "-policy:token_logprob(t)");
  ASSERT_EQ(run(plain, "plain"), "");
  EXPECT_EQ(values("r", "train/loss"), values("plain", "train/loss"));
}

TEST_F(AlignBinding, ATextThatTheTeacherCannotReadToItsEndIsReported) {
  std::string words;
  for (int i = 0; i < 200; ++i) words += " hill" + std::to_string(i);
  write_file_atomic("text.jsonl", "{\"text\":\"" + words.substr(1) + "\"}\n{\"text\":\"short\"}\n");
  std::string text = recipe("xrun.policy('short')");
  text.replace(text.find("max_length = 64"), 15, "over_length = 'cut'");
  text.replace(text.find("fraction = 0.25"), 15, "fraction = 0");
  InitOptions options = init_preset("tiny");
  options.tokenizer = source_path("recipes/data/tokenizer");
  options.vocab = Tokenizer::load(options.tokenizer)->vocab_size();
  options.max_length = 40;
  init_model("short", options);
  ASSERT_EQ(run(text, "r"), "");
  has(output_, "% of the trained tokens of 2 rows are aligned with short, ");
  has(output_,
      "; the rest gets no supervision from it (it reads at most 40 tokens; rows are cut there, "
      "unless batch.tokens makes shorter windows):\n");
  has(output_, "text.jsonl:1 loses ");
  double cut = 0;
  for (const double tokens : values("r", "align/tokens_cut")) cut += tokens;
  EXPECT_GT(cut, 0);
}

TEST_F(AlignBinding, ATeacherOfTheSameVocabularyThatReadsLessCutsTheRows) {
  write_file_atomic("text.jsonl",
                    "{\"text\":\"a town on a hill beside the old river\"}\n{\"text\":\"short\"}\n");
  std::string text = recipe("xrun.policy('short')");
  text.replace(text.find("fraction = 0.25"), 15, "fraction = 0");
  InitOptions options = init_preset("tiny");
  options.tokenizer = "tiny";
  options.vocab = Tokenizer::load("tiny")->vocab_size();
  options.max_length = 20;
  init_model("short", options);
  ASSERT_EQ(run(text, "r"), "");
  has(output_,
      "warning: text.jsonl: short reads at most 20 tokens, and 1 of 2 rows have more; they are cut "
      "there and lose ");
  for (const double cut : values("r", "align/tokens_cut")) EXPECT_GT(cut, 10);
}

TEST_F(AlignBinding, NamesWhatCannotBeAligned) {
  has(run(recipe("{}"), "r1"),
      "argument 2 (teacher): got a table, wanted a model of xrun.frozen, a policy or a tokenizer");
  write_file_atomic("text.jsonl",
                    "{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":\"c\"}\n"
                    "{\"prompt\":\"d\",\"chosen\":\"e\",\"rejected\":\"f\"}\n");
  has(run(recipe("pieces", "pairs = 1", "preference"), "r2"),
      "preference rows cannot be aligned; align rows of xrun.text, xrun.tokens or xrun.chat, or "
      "sampled answers");
}

}  // namespace xrun::align_test
