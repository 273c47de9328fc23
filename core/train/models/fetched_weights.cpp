// Only the weights of one block at a time are whole. The buckets of a block follow one another, so
// a forward fetches ascending buckets, and a backward takes the blocks in descending order.

#include "core/train/models/fetched_weights.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <numeric>
#include <sstream>
#include <utility>

#include "core/base/error.h"
#include "core/dist/agreement.h"
#include "core/model/model_load.h"
#include "core/model/weights/hf_config.h"
#include "core/model/weights/weight_layout.h"
#include "core/train/models/shared_reading.h"

namespace xrun {

namespace {

// Returns the numbers of the parameters, those of trained weights first.
std::vector<size_t> trained_first(const std::vector<RangedParameter>& parameters) {
  std::vector<size_t> numbers(parameters.size());
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  std::stable_partition(numbers.begin(), numbers.end(),
                        [&](size_t i) { return parameters[i].trained; });
  return numbers;
}

std::vector<TensorShape> shapes_in_ranges(const std::vector<RangedParameter>& parameters) {
  std::vector<TensorShape> shapes;
  for (const size_t i : trained_first(parameters)) {
    shapes.push_back({parameters[i].name, parameters[i].shape, parameters[i].trained ? 0 : 1});
  }
  return shapes;
}

}  // namespace

FetchedWeights::FetchedWeights(FetchingRanks& ranks, int64_t number,
                               const std::vector<RangedParameter>& parameters,
                               at::ScalarType compute, c10::Device device)
    : ranks_(ranks),
      number_(number),
      index_(shapes_in_ranges(parameters)),
      ranges_(index_, ranks.size()),
      compute_(compute),
      device_(device),
      tensor_of_(parameters.size()),
      order_(index_.buckets().size()),
      bucket_of_(parameters.size()) {
  const std::vector<size_t> numbers = trained_first(parameters);
  for (size_t t = 0; t < numbers.size(); ++t) tensor_of_[numbers[t]] = t;
  const auto first_tensor = [&](int64_t bucket) {
    return static_cast<size_t>(index_.buckets()[static_cast<size_t>(bucket)].first_tensor);
  };
  std::iota(order_.begin(), order_.end(), int64_t{0});
  std::sort(order_.begin(), order_.end(), [&](int64_t a, int64_t b) {
    return numbers[first_tensor(a)] < numbers[first_tensor(b)];
  });
  for (int64_t b = 0; b < bucket_count(); ++b) {
    const int64_t in_index = order_[static_cast<size_t>(b)];
    const size_t first = first_tensor(in_index);
    const int64_t count = index_.buckets()[static_cast<size_t>(in_index)].tensor_count;
    std::fill_n(bucket_of_.begin() + static_cast<int64_t>(first), count, b);
    // A bucket is of one group, whose masters have one type.
    masters_.push_back(parameters[numbers[first]].master);
    // Zeroed because padding is sent too.
    own_.push_back(
        at::empty({ranges_.size(in_index, ranks.rank())}, options(bucket_count() + b)).zero_());
  }
}

RangedWeights::HeldRange FetchedWeights::held(size_t parameter) {
  const MasterRange own = master_range(tensor_of_[parameter]);
  return {own.begin, own.held.numel()};
}

void FetchedWeights::put(size_t parameter, const at::Tensor& values) {
  const at::NoGradGuard no_grad;
  master_range(tensor_of_[parameter]).held.copy_(values);
}

RangedWeights::MasterRange FetchedWeights::master_range(size_t tensor) {
  const FlatTensor& flat = index_.tensors()[tensor];
  const int64_t first = ranges_.begin(flat.bucket, ranks_.rank());
  const int64_t begin = std::max(flat.offset, first);
  const int64_t end =
      std::min(flat.offset + flat.elements, ranges_.end(flat.bucket, ranks_.rank()));
  const at::Tensor& own = own_[static_cast<size_t>(bucket_of_[tensor])];
  // Other ranks hold all of this parameter.
  if (begin >= end) return {0, own.narrow(0, 0, 0)};
  return {begin - flat.offset, own.narrow(0, begin - first, end - begin)};
}

int64_t FetchedWeights::held_bytes() const {
  int64_t bytes = 0;
  for (const at::Tensor& own : own_) bytes += static_cast<int64_t>(own.nbytes());
  return bytes;
}

at::Tensor FetchedWeights::view_of(size_t tensor, const at::Tensor& bucket) const {
  const FlatTensor& flat = index_.tensors()[tensor];
  return bucket.narrow(0, flat.offset, flat.elements).view(flat.shape);
}

const std::string& FetchedWeights::block_of(int64_t bucket) const {
  return index_.buckets()[static_cast<size_t>(order_[static_cast<size_t>(bucket)])].block;
}

// A forward goes on with the next bucket. A backward goes on within the block, then with the first
// bucket of the block before it.
int64_t FetchedWeights::likely_after(int64_t bucket) const {
  const bool last_of_block =
      bucket + 1 == bucket_count() || block_of(bucket + 1) != block_of(bucket);
  if (!backwards_ || !last_of_block) return bucket + 1 < bucket_count() ? bucket + 1 : -1;
  int64_t first = bucket;
  while (first > 0 && block_of(first - 1) == block_of(bucket)) --first;
  int64_t before = first - 1;
  // The tensors outside the blocks need no values in a backward.
  if (before < 0 || block_of(before).empty()) return -1;
  while (before > 0 && block_of(before - 1) == block_of(before)) --before;
  return before;
}

at::Tensor FetchedWeights::get(size_t parameter) {
  const at::NoGradGuard no_grad;
  const size_t tensor = tensor_of_[parameter];
  const int64_t bucket = bucket_of_[tensor];
  if (const auto found = fetched_.find(bucket); found != fetched_.end()) {
    return view_of(tensor, found->second);
  }
  if (!fetched_.empty() && !keeps_all_ && block_ != block_of(bucket)) {
    // This block comes before the last one: the backward has begun.
    backwards_ = bucket < fetched_.begin()->first && !block_of(bucket).empty();
    fetched_.clear();
  }
  block_ = block_of(bucket);
  int64_t next = likely_after(bucket);
  // The next bucket travels while this one is used; a wrong guess costs one transfer.
  if (next >= 0 && fetched_.contains(next)) next = -1;
  fetched_[bucket] = ranks_.fetch(number_, bucket, next);
  return view_of(tensor, fetched_[bucket]);
}

at::Tensor FetchedWeights::master(size_t parameter) {
  const size_t tensor = tensor_of_[parameter];
  const int64_t bucket = bucket_of_[tensor];
  // One copy serves both types.
  if (masters_[static_cast<size_t>(bucket)] == compute_) return get(parameter);
  return view_of(tensor, ranks_.fetch(number_, bucket_count() + bucket));
}

void FetchedWeights::forget() {
  fetched_.clear();
  ranks_.forget_ahead();
}

void FetchedWeights::keep_all(bool keep) {
  if (keeps_all_ && !keep) fetched_.clear();
  keeps_all_ = keep;
}

std::vector<int64_t> FetchedWeights::sizes(int64_t bucket) const {
  return ranges_.sizes(order_[static_cast<size_t>(bucket % bucket_count())]);
}

at::TensorOptions FetchedWeights::options(int64_t bucket) const {
  const at::ScalarType master = masters_[static_cast<size_t>(bucket % bucket_count())];
  return at::TensorOptions().dtype(bucket < bucket_count() ? compute_ : master).device(device_);
}

at::Tensor FetchedWeights::range(int64_t bucket) {
  const at::NoGradGuard no_grad;
  return own_[static_cast<size_t>(bucket % bucket_count())].to(options(bucket).dtype());
}

namespace {

// Returns [first, last), the weights of a folder whose digests this rank computes: about as many
// elements as every other rank of its group.
std::pair<size_t, size_t> digest_share(const std::vector<WeightSpec>& specs,
                                       const ReadingGroup& group) {
  std::vector<double> ends;  // elements up to and including each weight
  for (const WeightSpec& spec : specs) {
    const auto elements = static_cast<double>(c10::multiply_integers(spec.shape));
    ends.push_back((ends.empty() ? 0 : ends.back()) + elements);
  }
  const auto first_of = [&](size_t share) -> size_t {
    if (share == 0) return 0;
    if (share == group.size()) return specs.size();
    const double begin =
        ends.back() * static_cast<double>(share) / static_cast<double>(group.size());
    // A weight belongs to the share in which it ends.
    return static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin());
  };
  return {first_of(group.own), first_of(group.own + 1)};
}

// Each rank reads its share, and all throw if one finds a fault.
std::shared_ptr<const FolderDigests> shared_digests(FetchingRanks& ranks,
                                                    const std::filesystem::path& dir,
                                                    const LoadOptions& options) {
  auto digests = std::make_shared<FolderDigests>();
  const ReadingGroup group = reading_group(ranks, weight_files(dir));
  const auto own_digests = [&] {
    digests->state = weight_files_state(dir);
    const ModelConfig config =
        options.classifiers ? read_frozen_config(dir) : read_model_config(dir);
    const auto [first, last] = digest_share(weight_specs(config), group);
    std::string text;
    for (const WeightDigest& one : digest_weights(dir, options, first, last)) {
      text += one.master + " " + one.rounded + " ";
    }
    return text;
  };
  const auto all = gather_results(&ranks, "digests of the weights", own_digests);
  for (const size_t rank : group.ranks) {
    std::istringstream words(all[rank]);
    for (WeightDigest one; words >> one.master >> one.rounded;) digests->weights.push_back(one);
  }
  return digests;
}

}  // namespace

FetchedModel::FetchedModel(FetchingRanks& ranks, const std::filesystem::path& dir,
                           const LoadOptions& options, std::function<void()> load)
    : ranks_(ranks),
      digests_(shared_digests(ranks, dir, options)),
      number_(ranks.offer([this, load = std::move(load)] {
        load();
        XRUN_CHECK(weights_, "a model in ranges loaded without its ranges");
        return weights_;
      })) {}

FetchedModel::~FetchedModel() { ranks_.withdraw(number_); }

LoadOptions FetchedModel::in_ranges(LoadOptions options) {
  options.digests = digests_;
  options.make_ranged = [this](const std::vector<RangedParameter>& parameters,
                               at::ScalarType compute, c10::Device device) {
    weights_ = std::make_shared<FetchedWeights>(ranks_, number_, parameters, compute, device);
    return weights_;
  };
  return options;
}

}  // namespace xrun
