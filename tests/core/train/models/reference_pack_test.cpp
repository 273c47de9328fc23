// The values of a reference over the rows of a data set: computed in canonical packs.

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "core/data/packs/data_set.h"
#include "core/text/chat/chat_template.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/batches/data_batch.h"
#include "tests/core/train/trained.h"
#include "tests/tree.h"

namespace xrun::reference_pack_test {
namespace {

constexpr int64_t kMaxTokens = 512;

class ReferencePacks : public testing::Test {
 protected:
  // A reference whose policy has moved, with its own empty store.
  std::shared_ptr<Reference> moved(const std::string& store, c10::ScalarType dtype = at::kFloat) {
    setenv("XRUN_CACHE", (folder_.path() / store).c_str(), 1);
    PolicyOptions options;
    options.dtype = dtype;
    const auto policy = Policy::open(source_path("tests/golden/tiny_dpo"), options);
    const auto reference = policy->reference();
    AdamW adamw({policy}, {.lr = 1e-2});
    BatchInfo info;
    info.total_steps = 10;
    const std::shared_ptr<Batch> batch = data_batch(set(), {0}, kMaxTokens, info);
    train_step({{batch.get(), dpo(policy, reference, 0.1)}}, &adamw);
    return reference;
  }
  const DataSet& set() {
    if (!set_) {
      const auto tokenizer = Tokenizer::load(source_path("tests/golden/tiny_dpo"));
      DataOptions options;
      options.sources.push_back({});
      options.sources[0].path = source_path("tests/golden/dpo_pairs.jsonl");
      options.cache_root = folder_.path() / "data";
      set_ = std::make_unique<DataSet>(
          DataSet::open(options, *tokenizer, resolve_template(*tokenizer).chat_template));
    }
    return *set_;
  }
  at::Tensor values(Reference& reference, const std::vector<int64_t>& rows) {
    return reference.logprob(*data_batch(set(), rows, kMaxTokens));
  }

  TinyFolder folder_;
  std::unique_ptr<DataSet> set_;
};

TEST_F(ReferencePacks, ANewRowIsComputedWithTheRowsOfItsPack) {
  const auto reference = moved("store");
  const PackedBatch pack = set().canonical_pack(20, kMaxTokens);
  ASSERT_GT(pack.pair_count(), 1);
  values(*reference, {20});
  EXPECT_EQ(reference->counts().computed, pack.segment_count());
  const int64_t cached = reference->counts().cached;
  const std::set<int64_t> rows(pack.row_id.begin(), pack.row_id.end());
  values(*reference, {rows.begin(), rows.end()});
  EXPECT_EQ(reference->counts().computed, pack.segment_count());
  EXPECT_EQ(reference->counts().cached, cached + pack.segment_count());
}

// In bfloat16 what is computed beside a token may change its bits; its canonical pack does not.
TEST_F(ReferencePacks, AValueDependsOnNeitherVisitOrderNorBatch) {
  for (const c10::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const auto one = moved(dtype == at::kFloat ? "a" : "b", dtype);
    const at::Tensor last = values(*one, {40});
    const at::Tensor first = values(*one, {3, 17});
    const auto two = moved(dtype == at::kFloat ? "c" : "d", dtype);
    const at::Tensor all = values(*two, {17, 40, 3, 18});
    EXPECT_TRUE(at::equal(all.slice(0, 2, 4), last));
    EXPECT_TRUE(at::equal(all.slice(0, 0, 2), first.slice(0, 2, 4)));
    EXPECT_TRUE(at::equal(all.slice(0, 4, 6), first.slice(0, 0, 2)));
    two->flush();
    setenv("XRUN_CACHE", (folder_.path() / (dtype == at::kFloat ? "c" : "d")).c_str(), 1);
  }
}

// The property that makes packs safe on a CPU: a token has the bits that it has alone.
TEST_F(ReferencePacks, InFloat32APackGivesTheBitsOfEachPairAlone) {
  const auto reference = moved("store");
  for (const int64_t row : {0, 20, 77}) {
    BatchInfo alone;
    alone.unit = Unit::kPair;
    Batch batch(alone, set().pack({row}, kMaxTokens));
    EXPECT_TRUE(at::equal(values(*reference, {row}), reference->logprob(batch))) << row;
  }
}

}  // namespace
}  // namespace xrun::reference_pack_test
