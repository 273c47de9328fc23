#pragma once
// Batches of preference rows and frozen models that read them.

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "core/data/packs/data_set.h"
#include "core/model/weights/init_model.h"
#include "core/text/chat/chat_template.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/batches/data_batch.h"
#include "core/train/models/frozen_model.h"
#include "tests/core/train/tiny_pairs.h"
#include "tests/tree.h"

namespace xrun {

inline constexpr int64_t kFrozenMaxTokens = 512;
inline const std::string kFrozenPolicy = source_path("tests/golden/tiny_dpo");

class FrozenFixture : public testing::Test {
 protected:
  FrozenFixture() : tokenizer_(Tokenizer::load(kFrozenPolicy)) { open_store("cache"); }

  // A store of sidecars of the test's own.
  void open_store(const std::string& name) {
    setenv("XRUN_CACHE", (folder_.path() / name).c_str(), 1);
  }
  std::shared_ptr<FrozenModel> frozen(FrozenCache cache = FrozenCache::kNone,
                                      c10::ScalarType dtype = at::kFloat) const {
    FrozenOptions options;
    options.cache = cache;
    options.top_k = 5;
    options.settings.dtype = dtype;
    return FrozenModel::open(kFrozenPolicy, options);
  }
  const DataSet& set() {
    if (!set_) {
      DataOptions options;
      options.sources.push_back({});
      options.sources[0].path = source_path("tests/golden/dpo_pairs.jsonl");
      options.cache_root = folder_.path() / "data";
      set_ = std::make_unique<DataSet>(
          DataSet::open(options, *tokenizer_, resolve_template(*tokenizer_).chat_template));
    }
    return *set_;
  }
  std::shared_ptr<Batch> batch(const std::vector<int64_t>& rows, int64_t step = 0) {
    BatchInfo info;
    info.total_steps = 10;
    info.step = step;
    info.tokenizer = {tokenizer_, kFrozenPolicy};
    return data_batch(set(), rows, kFrozenMaxTokens, info);
  }
  // A random model with this tokenizer.
  std::filesystem::path model_with(const std::string& name, const std::string& tokenizer) const {
    InitOptions options;
    options.hidden = 32;
    options.ffn = 64;
    options.scale = 0.2;
    options.tokenizer = tokenizer;
    options.vocab = Tokenizer::load(tokenizer)->vocab_size();
    init_model(folder_.path() / name, options);
    return folder_.path() / name;
  }
  // Hidden states and columns of every row of some batches.
  static std::vector<at::Tensor> values(FrozenModel& model, Batch& batch) {
    std::vector<at::Tensor> all;
    for (const auto& micro : batch.micros()) {
      const CompanionPack tokens = model.tokens_of(*micro);
      if (model.options().cache == FrozenCache::kTopColumns) {
        const HeadResult columns = model.row_columns(*micro, tokens, {.k = 5, .temperature = 2});
        for (const at::Tensor& one :
             {columns.logprob, columns.lse, columns.top_logprob, columns.top_id}) {
          all.push_back(one.clone());
        }
      } else {
        all.push_back(model.row_hidden(*micro, tokens).clone());
      }
    }
    return all;
  }
  static void expect_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i], b[i])) << i;
  }

  TinyFolder folder_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<DataSet> set_;
};

}  // namespace xrun
