#pragma once
// A model's weights divided over the ranks of a run: each rank holds ranges of them, and fetches
// whole weights block by block.

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

// The masters of a model. A rank holds the ranges that RankRanges gives it.
//   index    trained weights come first, in a group of their own: so the ranges of an optimizer,
//            which knows no other weights, are the same
//   buckets  those of the index, in the order in which a forward needs them: [0, n) are fetched in
//            the compute type, [n, 2n) are the same weights in the type of the masters
class FetchedWeights : public RangedWeights, public RangeSource {
 public:
  //   number   of this source: the result of FetchingRanks::offer
  //   compute  type of fetched weights
  FetchedWeights(FetchingRanks& ranks, int64_t number,
                 const std::vector<RangedParameter>& parameters, at::ScalarType compute,
                 c10::Device device);

  HeldRange held(size_t parameter) override;
  void put(size_t parameter, const at::Tensor& values) override;
  at::Tensor get(size_t parameter) override;
  at::Tensor master(size_t parameter) override;
  // Takes any tensor of the index, which numbers the trained weights first.
  MasterRange master_range(size_t tensor) override;
  int64_t held_bytes() const override;
  void forget() override;
  void keep_all(bool keep) override;

  std::vector<int64_t> sizes(int64_t bucket) const override;
  at::TensorOptions options(int64_t bucket) const override;
  at::Tensor range(int64_t bucket) override;

 private:
  int64_t bucket_count() const { return std::ssize(order_); }
  const std::string& block_of(int64_t bucket) const;
  int64_t likely_after(int64_t bucket) const;  // -1: none
  // Returns a tensor of the index as a view of its bucket.
  at::Tensor view_of(size_t tensor, const at::Tensor& bucket) const;

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
  std::string block_;                      // the block of the last bucket in fetched_
  bool backwards_ = false;                 // blocks are fetched from the last to the first
  bool keeps_all_ = false;
};

// Offers a model to the other ranks before it is loaded; it loads on every rank when the first of
// them needs it. Every rank makes this object at the same point of its work.
class FetchedModel {
 public:
  // The ranks share the work of its digests: each reads and checks some weights of the folder. If
  // one finds a fault, all throw.
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
