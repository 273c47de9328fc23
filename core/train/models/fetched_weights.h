#pragma once
// The weights of a model in ranges over the ranks of a run, fetched block by block.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/dist/fetching_ranks.h"
#include "core/dist/flat_index.h"
#include "core/model/model.h"
#include "core/model/ranged_weights.h"

namespace xrun {

// The masters of a model: a rank holds the ranges that RankRanges gives it. In the index trained
// weights come first, in a group of their own, so that the ranges are those of an optimizer that
// knows no others. Buckets of the source: those of the index in the compute type, in the order in
// which a forward needs them, then the same in the type of the masters.
class FetchedWeights : public RangedWeights, public RangeSource {
 public:
  //   number   of this source among those that the ranks offer
  //   compute  type of fetched weights
  FetchedWeights(FetchingRanks& ranks, int64_t number,
                 const std::vector<RangedParameter>& parameters, at::ScalarType compute,
                 c10::Device device);

  HeldRange held(size_t parameter) override;
  void put(size_t parameter, const at::Tensor& values) override;
  at::Tensor get(size_t parameter) override;
  at::Tensor master(size_t parameter) override;
  MasterRange range(size_t tensor) override;  // of the index, which begins with the trained ones
  int64_t held_bytes() const override;
  void forget() override;
  void keep_all(bool keep) override;

  std::vector<int64_t> sizes(int64_t bucket) const override;
  at::TensorOptions options(int64_t bucket) const override;
  at::Tensor range(int64_t bucket) override;

 private:
  int64_t bucket_count() const { return std::ssize(order_); }
  const std::string& block_of(int64_t bucket) const;
  int64_t likely_after(int64_t bucket) const;
  at::Tensor of(size_t tensor, const at::Tensor& bucket) const;

  FetchingRanks& ranks_;
  int64_t number_;
  FlatIndex index_;
  RankRanges ranges_;
  at::ScalarType compute_;
  c10::Device device_;
  std::vector<size_t> tensor_of_;          // [parameters], numbers in the index
  std::vector<int64_t> order_;             // [buckets], their numbers in the index
  std::vector<int64_t> bucket_of_;         // [tensors of the index]
  std::vector<at::ScalarType> masters_;    // [buckets], the type
  std::vector<at::Tensor> own_;            // [buckets], this rank's range of the masters
  std::map<int64_t, at::Tensor> fetched_;  // by bucket, in the compute type
  std::string block_;                      // of fetched_
  bool backwards_ = false;                 // blocks are fetched from the last to the first
  bool keeps_all_ = false;
};

// A model's place among the sources of the ranks, made at the same point of every rank's work,
// before the model loads: it loads when any rank needs it.
class FetchedModel {
 public:
  // The ranks share the computation of its digests: each reads some weights of the folder, whose
  // values it checks. All throw if one finds a fault.
  //   options  without make_ranged
  //   load     loads the model with in_ranges(options)
  FetchedModel(FetchingRanks& ranks, const std::filesystem::path& dir, const LoadOptions& options,
               std::function<void()> load);
  ~FetchedModel();
  FetchedModel(const FetchedModel&) = delete;
  FetchedModel& operator=(const FetchedModel&) = delete;

  LoadOptions in_ranges(LoadOptions options);
  const std::shared_ptr<FetchedWeights>& weights() const { return weights_; }

 private:
  FetchingRanks& ranks_;
  std::shared_ptr<const FolderDigests> digests_;
  int64_t number_;
  std::shared_ptr<FetchedWeights> weights_;  // null before the model loads
};

}  // namespace xrun
