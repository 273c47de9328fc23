// A bucket's buffer holds its tensors in order, each at a multiple of kAlign elements; slices never
// straddle a tensor. Ranges cut a bucket only between slices.

#include "core/dist/flat_index.h"

#include <algorithm>
#include <cmath>

namespace xrun {

namespace {

int64_t aligned(int64_t elements) {
  return (elements + FlatIndex::kAlign - 1) / FlatIndex::kAlign * FlatIndex::kAlign;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

// Returns "model.layers.0." of "model.layers.0.mlp.up_proj.weight". For a name without a number,
// returns the part up to a '/', which tells objects apart.
std::string block_of(const std::string& name) {
  for (size_t at = 0; at < name.size();) {
    const size_t end = name.find('.', at);
    if (end == std::string::npos) break;
    if (is_number(name.substr(at, end - at))) return name.substr(0, end + 1);
    at = end + 1;
  }
  return name.substr(0, name.find('/') + 1);
}

}  // namespace

FlatIndex::FlatIndex(const std::vector<TensorShape>& tensors, int64_t bucket_elements) {
  bool full = true;
  for (const TensorShape& tensor : tensors) {
    std::string block = block_of(tensor.name);
    if (full || buckets_.back().block != block || buckets_.back().group != tensor.group) {
      buckets_.push_back({.block = std::move(block),
                          .group = tensor.group,
                          .first_tensor = static_cast<int64_t>(tensors_.size()),
                          .first_slice = static_cast<int64_t>(slices_.size())});
    }
    add(tensor);
    full = buckets_.back().size >= bucket_elements;
  }
  for (const FlatBucket& bucket : buckets_) size_ += bucket.size;
}

void FlatIndex::add(const TensorShape& tensor) {
  FlatBucket& bucket = buckets_.back();
  FlatTensor flat{.name = tensor.name,
                  .shape = tensor.shape,
                  .elements = 1,
                  .bucket = static_cast<int64_t>(buckets_.size()) - 1,
                  .offset = bucket.size,
                  .first_slice = static_cast<int64_t>(slices_.size())};
  for (const int64_t size : tensor.shape) flat.elements *= size;
  const auto number = static_cast<int64_t>(tensors_.size());
  for (int64_t begin = 0; begin < flat.elements; begin += kSliceElements) {
    slices_.push_back({number, begin, std::min(begin + kSliceElements, flat.elements)});
  }
  flat.slice_count = static_cast<int64_t>(slices_.size()) - flat.first_slice;
  bucket.size += aligned(flat.elements);
  bucket.slice_count += flat.slice_count;
  ++bucket.tensor_count;
  tensors_.push_back(std::move(flat));
}

int64_t FlatIndex::slice_offset(int64_t slice) const {
  const FlatSlice& of = slices_[static_cast<size_t>(slice)];
  return tensors_[static_cast<size_t>(of.tensor)].offset + of.begin;
}

// Each bucket is cut so that all ranks own equally much of the group's buckets so far: if a bucket
// has too few slices for a rank, the next buckets make up for it.
RankRanges::RankRanges(const FlatIndex& index, int64_t ranks)
    : ranks_(ranks), buckets_(static_cast<int64_t>(index.buckets().size())) {
  const auto n = static_cast<size_t>(ranks);
  std::vector<double> loads(n);
  double done = 0;
  int64_t group = 0;
  for (const FlatBucket& bucket : index.buckets()) {
    if (bucket.group != group) {
      group = bucket.group;
      loads.assign(n, 0);
      done = 0;
    }
    done += static_cast<double>(bucket.size);
    std::vector<double> wanted(n);
    double sum = 0;
    for (size_t r = 0; r < n; ++r) {
      wanted[r] = std::max(0.0, done / static_cast<double>(n) - loads[r]);
      sum += wanted[r];
    }
    const int64_t last = bucket.first_slice + bucket.slice_count;
    int64_t slice = bucket.first_slice, cut = 0;
    double target = 0;
    for (size_t r = 0; r < n; ++r) {
      cuts_.push_back(cut);
      slice_cuts_.push_back(slice);
      target += sum > 0 ? wanted[r] / sum * static_cast<double>(bucket.size) : 0;
      const int64_t before = cut;
      while (slice < last) {
        const int64_t next = slice + 1 < last ? index.slice_offset(slice + 1) : bucket.size;
        // The boundary nearest to the target.
        if (r + 1 < n && std::fabs(static_cast<double>(next) - target) >
                             std::fabs(static_cast<double>(cut) - target)) {
          break;
        }
        cut = next;
        ++slice;
      }
      if (r + 1 == n) cut = bucket.size;  // also where the bucket has no slice
      loads[r] += static_cast<double>(cut - before);
    }
    cuts_.push_back(cut);
    slice_cuts_.push_back(slice);
  }
}

int64_t RankRanges::first_slice(int64_t bucket, int64_t rank) const {
  return slice_cuts_[static_cast<size_t>(bucket * (ranks_ + 1) + rank)];
}

std::vector<int64_t> RankRanges::sizes(int64_t bucket) const {
  std::vector<int64_t> sizes;
  for (int64_t rank = 0; rank < ranks_; ++rank) sizes.push_back(size(bucket, rank));
  return sizes;
}

int64_t RankRanges::total(int64_t rank) const {
  int64_t sum = 0;
  for (int64_t bucket = 0; bucket < buckets_; ++bucket) sum += size(bucket, rank);
  return sum;
}

}  // namespace xrun
