// A data set keeps or drops each row with a reason, and its packs, steps and splits hold whole
// rows.

#include "core/data/packs/data_set.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>

#include "core/data/cache/cache_manifest.h"
#include "core/data/cache/row_cache.h"
#include "tests/core/data/rows/pair_fixture.h"

namespace xrun::data_set_test {
namespace {

namespace fs = std::filesystem;
using DataSets = PairFixture;

TEST_F(DataSets, EveryRowIsKeptOrDroppedWithItsReason) {
  const DataSet set = open(pair_row("q", "yes", "no") + "\n" + pair_row("q", "", "no") +
                           pair_row("q", "same", "same") + pair_row("q", "a\xFF", "b") +
                           "{\"chosen\":1,\"rejected\":2}\n" + pair_row("q", "yes", "maybe"));
  const SourceLedger& ledger = set.ledger().sources.at(0);
  EXPECT_EQ(ledger.rows, 6);
  EXPECT_EQ(ledger.lines, 7);
  EXPECT_EQ(ledger.kept, 3);
  EXPECT_EQ(ledger.repaired, 1);
  EXPECT_EQ(ledger.dropped, (std::map<std::string, int64_t>{
                                {"empty_answer", 1}, {"same_answers", 1}, {"wrong_type", 1}}));
  ASSERT_EQ(ledger.bad.size(), 3u);
  EXPECT_TRUE(ledger.location(ledger.bad[0].at).ends_with("pairs.jsonl:3"));
  EXPECT_EQ(set.size(), 3);
  EXPECT_TRUE(set.location(1).ends_with("pairs.jsonl:5"));
}

TEST_F(DataSets, PacksHoldWholePairsWithTheirTrainedTokens) {
  const DataSet set = open(numbered_pairs(10));
  std::vector<int64_t> rows(10);
  std::iota(rows.begin(), rows.end(), 0);
  std::set<int64_t> seen;
  for (const PackedBatch& batch : set.pack(rows, 120)) {
    EXPECT_EQ(error_of([&] { batch.validate(tokenizer().vocab_size()); }), "");
    EXPECT_LE(batch.token_count(), 120);
    for (int32_t s = 0; s < batch.segment_count(); s += 2) {
      const size_t at = static_cast<size_t>(s);
      const int64_t row = batch.row_id[at];
      EXPECT_TRUE(seen.insert(row).second);
      EXPECT_EQ(trained_text(batch, s), "yes" + std::to_string(row) + "<|im_end|>");
      EXPECT_EQ(trained_text(batch, s + 1), std::string(1 + row % 5, 'n') + "<|im_end|>");
      EXPECT_EQ(batch.pair_id[at], row);
      EXPECT_EQ(batch.segment_id[at + 1], 2 * row + 1);
    }
  }
  EXPECT_EQ(seen.size(), 10u);
}

// A cache whose manifest understates its largest id: packs do not trust the manifest.
TEST_F(DataSets, AnIdBeyondTheVocabularyNeverReachesAPack) {
  DataOptions asked = options(numbered_pairs(2));
  const fs::path dir = open(asked).cache_dirs()[0];
  CacheManifest manifest = read_manifest(dir, kManifestName);
  manifest.summary.set("max_id", 1);
  write_file_atomic(dir / kManifestName, encode_manifest(manifest));
  asked.vocab_limit = 5;
  const DataSet set = open(asked);
  EXPECT_NE(error_of([&] {
              set.pack({0, 1}, 1000);
            }).find("the vocabulary has 5 ids"),
            std::string::npos);
}

TEST_F(DataSets, APairLongerThanAPackIsNamedBeforeAnyStep) {
  const DataSet set = open(pair_row("q", "yes", "no") + pair_row("q", std::string(300, 'y'), "no"));
  EXPECT_EQ(error_of([&] { set.check_fits(1000); }), "");
  const std::string message = error_of([&] { set.check_fits(100); });
  EXPECT_NE(message.find("pairs.jsonl:2: the pair has 346 tokens (322 chosen, 24 rejected), "
                         "batch.max_tokens is 100"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("batch.max_tokens=346"), std::string::npos) << message;
  EXPECT_NE(message.find("max_length=50 --set over_length=drop"), std::string::npos) << message;
  EXPECT_EQ(error_of([&] { set.pack({1}, 100); }), message);
  EXPECT_EQ(error_of([&] { set.split(0.5).first.check_fits(100); }), "");  // it is held out
}

TEST_F(DataSets, ALengthThatWouldLeaveOutEveryRowIsNotOffered) {
  const DataSet set = open(pair_row("q", "yes", "no"));
  const std::string message = error_of([&] { set.check_fits(10); });
  EXPECT_NE(message.find("batch.max_tokens="), std::string::npos) << message;
  EXPECT_EQ(message.find("max_length="), std::string::npos) << message;
}

TEST_F(DataSets, FoldedPacksCountASharedPromptOnce) {
  const std::string prompt(150, 'q');
  const DataSet set = open(pair_row(prompt, "yes", "no") + numbered_pairs(4));
  PackLimits limits(300);
  const std::string message = error_of([&] { set.check_fits(limits); });
  EXPECT_NE(message.find("pairs.jsonl:1: the pair has"), std::string::npos) << message;
  limits.fold = true;
  EXPECT_EQ(error_of([&] { set.check_fits(limits); }), "");
  const std::vector<PackedBatch> packs = set.pack({1, 0, 2}, limits);
  ASSERT_EQ(packs.size(), 1u);
  EXPECT_GT(packs[0].token_count(), 300);  // whole sequences, in the order of the units
  EXPECT_EQ(packs[0].row_id, (std::vector<int64_t>{1, 1, 0, 0, 2, 2}));
  limits.max_tokens = 100;
  const std::string folded = error_of([&] { set.check_fits(limits); });
  EXPECT_NE(folded.find("with the shared prefix once, batch.max_tokens is 100"), std::string::npos)
      << folded;
  EXPECT_EQ(error_of([&] { set.pack({0}, limits); }), folded);
  // The value that is offered suffices, and one less does not.
  const size_t offered = folded.find("batch.max_tokens=") + std::strlen("batch.max_tokens=");
  limits.max_tokens = std::stoll(folded.substr(offered));
  EXPECT_LT(limits.max_tokens, 300);
  EXPECT_EQ(error_of([&] { set.check_fits(limits); }), "");
  --limits.max_tokens;
  EXPECT_NE(error_of([&] { set.check_fits(limits); })
                .find(fmt::format("with the shared prefix once, batch.max_tokens is {}\n",
                                  limits.max_tokens)),
            std::string::npos);
}

TEST_F(DataSets, FoldedPacksOfRowsThatShareNothingAreThePlainOnes) {
  const DataSet set = open(numbered_pairs(10));
  std::vector<int64_t> rows(10);
  std::iota(rows.begin(), rows.end(), 0);
  PackLimits limits(120);
  limits.fold = true;  // rows of less than 64 tokens
  const std::vector<PackedBatch> plain = set.pack(rows, 120), folded = set.pack(rows, limits);
  ASSERT_EQ(folded.size(), plain.size());
  for (size_t p = 0; p < plain.size(); ++p) {
    EXPECT_EQ(folded[p].tokens, plain[p].tokens);
    EXPECT_EQ(folded[p].cu_seqlens, plain[p].cu_seqlens);
    EXPECT_EQ(folded[p].pair_id, plain[p].pair_id);
    EXPECT_EQ(folded[p].segment_id, plain[p].segment_id);
    EXPECT_EQ(folded[p].rows.hidden, plain[p].rows.hidden);
  }
}

TEST_F(DataSets, StepsAreOneStreamOfEpochs) {
  const DataSet set = open(numbered_pairs(10));
  const StepPlan plan{4, 2, {}, 7};
  EXPECT_EQ(set.steps_total(plan), 5);
  std::vector<int64_t> stream;
  for (int64_t step = 0; step < 5; ++step) {
    const std::vector<int64_t> rows = set.step_units(plan, step);
    EXPECT_EQ(rows.size(), 4u);
    stream.insert(stream.end(), rows.begin(), rows.end());
  }
  EXPECT_TRUE(set.step_units(plan, 5).empty());
  const std::vector<int64_t> first(stream.begin(), stream.begin() + 10);
  const std::vector<int64_t> second(stream.begin() + 10, stream.end());
  EXPECT_EQ(std::set<int64_t>(first.begin(), first.end()).size(), 10u);
  EXPECT_EQ(std::set<int64_t>(second.begin(), second.end()).size(), 10u);
  EXPECT_NE(first, second);
}

TEST_F(DataSets, TheLastPartialStepTrains) {
  const DataSet set = open(numbered_pairs(10));
  EXPECT_EQ(set.steps_total({4, 1, {}, 7}), 3);
  EXPECT_EQ(set.step_units({4, 1, {}, 7}, 2).size(), 2u);
}

TEST_F(DataSets, WithoutShuffleAStepTakesItsRowsInOrder) {
  const DataSet set = open(numbered_pairs(10));
  EXPECT_EQ(set.step_units({3, 1, kFileOrder, 7}, 2), (std::vector<int64_t>{6, 7, 8}));
}

TEST_F(DataSets, ASplitByRowHoldsOutTheLastAndKeepsRowIds) {
  const DataSet set = open(numbered_pairs(20));
  const auto [train, valid] = set.split(0.1);
  EXPECT_EQ(train.size(), 18);
  ASSERT_EQ(valid.size(), 2);
  EXPECT_EQ(valid.unit(0), 18);
  EXPECT_EQ(valid.step_units({8, 1, kFileOrder, 0}, 0), (std::vector<int64_t>{18, 19}));
  EXPECT_EQ(valid.fingerprint(), set.fingerprint());
  const auto [all, none] = set.split(0);
  EXPECT_EQ(all.size(), 20);
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(none.steps_total({8, 1, {}, 0}), 0);
}

TEST_F(DataSets, ASplitByPromptSharesNoPrompt) {
  const DataSet set = open(numbered_pairs(30));
  const auto [train, valid] = set.split(0.2, SplitBy::kPrompt);
  EXPECT_EQ(train.size() + valid.size(), 30);
  EXPECT_GE(valid.size(), 4);
  std::set<uint64_t> prompts;
  for (int64_t i = 0; i < valid.size(); ++i) prompts.insert(set.prompt_hash(valid.unit(i)));
  for (int64_t i = 0; i < train.size(); ++i) {
    EXPECT_EQ(prompts.count(set.prompt_hash(train.unit(i))), 0u);
  }
}

TEST_F(DataSets, ThePromptEndsWhereTheAnswerBegins) {
  const DataSet set = open(pair_row("hello", "yes", "no"));
  EXPECT_EQ(text_of(set.prompt_ids(0)),
            "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n");
}

TEST_F(DataSets, ACanonicalPackDependsOnTheCacheAlone) {
  const DataSet set = open(numbered_pairs(600));
  const DataSet valid = set.split(0.1).second;
  for (const int64_t capacity : {1, 200, 700}) {
    for (int64_t row = 0; row < set.size();) {
      const PackedBatch pack = set.canonical_pack(row, capacity);
      const int64_t rows = pack.pair_count();
      ASSERT_TRUE(rows == 1 || pack.token_count() <= capacity) << row;
      for (int64_t r = 0; r < rows; ++r) {
        const auto segment = static_cast<size_t>(2 * r);
        ASSERT_EQ(pack.row_id[segment], row + r);
        ASSERT_EQ(valid.canonical_pack(row + r, capacity).tokens, pack.tokens) << row + r;
      }
      row += rows;
      const bool full =
          row == set.size() || row % 256 == 0 || pack.token_count() + set.tokens(row) > capacity;
      ASSERT_TRUE(full) << row << ": the next row would fit";
    }
  }
}

TEST_F(DataSets, SourcesAreMixedByWeight) {
  DataOptions both = options(numbered_pairs(40), "a.jsonl");
  both.sources.push_back(options(numbered_pairs(20), "b.jsonl").sources[0]);
  both.sources[0].weight = 3;
  const DataSet set = open(both);
  EXPECT_EQ(set.total_rows(), 60);
  EXPECT_EQ(set.ledger().sources.size(), 2u);
  int64_t of_first = 0;
  const std::vector<int64_t> rows = set.step_units({2048, 0, {}, 1}, 0);
  for (int64_t row : rows) of_first += row < 40;
  EXPECT_EQ(of_first, 1536);
  EXPECT_TRUE(set.location(45).ends_with("b.jsonl:6"));
}

TEST_F(DataSets, ASourceOfWeightZeroIsNeverDrawn) {
  DataOptions both = options(numbered_pairs(4), "a.jsonl");
  both.sources.push_back(options(numbered_pairs(3), "b.jsonl").sources[0]);
  both.sources[0].weight = 0;
  const DataSet set = open(both);
  EXPECT_EQ(set.size(), 3);
  EXPECT_EQ(set.step_units({8, 1, kFileOrder, 0}, 0), (std::vector<int64_t>{4, 5, 6}));
  both.sources[1].weight = 0;
  EXPECT_NE(error_of([&] { open(both); }).find("weight above 0"), std::string::npos);
}

TEST_F(DataSets, AFlippedByteIsFoundByVerify) {
  const DataSet set = open(numbered_pairs(5));
  EXPECT_EQ(error_of([&] { set.verify(); }), "");
  const fs::path file = set.cache_dirs()[0] / "segment_000000.bin";
  std::string bytes = read_file(file);
  bytes[bytes.size() - 80] ^= 1;
  write_file_atomic(file, bytes);
  const DataSet again = open(options(numbered_pairs(5)));
  EXPECT_NE(error_of([&] { again.verify(); }).find("is damaged"), std::string::npos);
}

TEST_F(DataSets, TheFirstBatchOfABuiltCacheComesWithin50Ms) {
  const DataOptions some = options(numbered_pairs(300));
  open(some);
  const auto start = std::chrono::steady_clock::now();
  const DataSet set = open(some);
  const std::vector<PackedBatch> packs = set.pack(set.step_units({8, 1, {}, 0}, 0), 4096);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                      std::chrono::steady_clock::now() - start)
                      .count();
  EXPECT_EQ(packs.size(), 1u);
  EXPECT_LT(ms, 50);
}

TEST(DataSettings, NamesAreParsedOrSuggested) {
  EXPECT_EQ(parse_over_length("cut"), OverLength::kCut);
  EXPECT_EQ(parse_train_on("last"), TrainOn::kLast);
  EXPECT_EQ(parse_split_by("prompt"), SplitBy::kPrompt);
  EXPECT_EQ(parse_mixture_stop("first"), MixtureStop::kFirst);
  EXPECT_EQ(error_of([] { parse_over_length("dropp"); }),
            "over_length is \"dropp\", wanted \"raise\", \"drop\" or \"cut\"; did you mean "
            "\"drop\"?");
}

}  // namespace
}  // namespace xrun::data_set_test
