#pragma once
// The layout of a list of tensors in flat buffers, and the ranges of it that each rank owns.

#include <cstdint>
#include <string>
#include <vector>

namespace xrun {

// The most elements in a slice. A gradient's squared norm is summed slice by slice, so the slicing
// fixes its bits.
inline constexpr int64_t kSliceElements = 1 << 16;

struct TensorShape {
  std::string name;
  std::vector<int64_t> shape;
  // The tensors of a group follow one another. Each group is laid out and divided over ranks as if
  // it were alone.
  int64_t group = 0;
};

// One tensor. Offsets count elements from the start of its bucket's buffer.
struct FlatTensor {
  std::string name;
  std::vector<int64_t> shape;
  int64_t elements = 0;
  int64_t bucket = 0;
  int64_t offset = 0;                        // a multiple of FlatIndex::kAlign
  int64_t first_slice = 0, slice_count = 0;  // none for an empty tensor
};

// A run of elements of one tensor; the next slice of the tensor begins at `end`.
struct FlatSlice {
  int64_t tensor = 0;
  int64_t begin = 0, end = 0;
};

// Consecutive tensors that share a buffer, which is exchanged at once. A block of the model fills
// whole buckets.
struct FlatBucket {
  std::string block;  // "model.layers.0.", "" for tensors outside the blocks
  int64_t group = 0;
  int64_t first_tensor = 0, tensor_count = 0;
  int64_t first_slice = 0, slice_count = 0;
  int64_t size = 0;  // elements of its buffer, padding included
};

// The layout depends on the constructor's arguments alone, so every rank has the same one.
class FlatIndex {
 public:
  // Tensors begin at multiples of this many elements: at least 64 bytes for types of two bytes or
  // more.
  static constexpr int64_t kAlign = 32;

  // A bucket ends where the block or the group changes, or with the tensor that brings it to
  // `bucket_elements`. The block of a tensor is its name up to the first part that is a number, or
  // else up to a '/'.
  explicit FlatIndex(const std::vector<TensorShape>& tensors,
                     int64_t bucket_elements = int64_t{4} << 20);

  const std::vector<FlatTensor>& tensors() const { return tensors_; }
  const std::vector<FlatBucket>& buckets() const { return buckets_; }
  const std::vector<FlatSlice>& slices() const { return slices_; }
  int64_t size() const { return size_; }  // elements of all buffers, padding included

  // The offset of a slice in its bucket's buffer.
  int64_t slice_offset(int64_t slice) const;

 private:
  void add(const TensorShape& tensor);

  std::vector<FlatTensor> tensors_;
  std::vector<FlatBucket> buckets_;
  std::vector<FlatSlice> slices_;
  int64_t size_ = 0;
};

// The ranges of `ranks` ranks. In each bucket they follow one another in rank order, are made of
// whole slices, and cover the buffer; a range may be empty. Over all buckets of a group each rank
// owns at most 1/ranks of the elements plus one slice.
class RankRanges {
 public:
  RankRanges(const FlatIndex& index, int64_t ranks);

  int64_t ranks() const { return ranks_; }
  // Elements [begin, end) of a bucket's buffer.
  int64_t begin(int64_t bucket, int64_t rank) const { return cut(bucket, rank); }
  int64_t end(int64_t bucket, int64_t rank) const { return cut(bucket, rank + 1); }
  int64_t size(int64_t bucket, int64_t rank) const {
    return end(bucket, rank) - begin(bucket, rank);
  }
  // Slices [first_slice, end_slice) of the index.
  int64_t first_slice(int64_t bucket, int64_t rank) const;
  int64_t end_slice(int64_t bucket, int64_t rank) const { return first_slice(bucket, rank + 1); }
  // Elements of the ranges of all ranks in a bucket, in rank order.
  std::vector<int64_t> sizes(int64_t bucket) const;
  int64_t total(int64_t rank) const;  // elements of a rank in all buckets

 private:
  int64_t cut(int64_t bucket, int64_t rank) const {
    return cuts_[static_cast<size_t>(bucket * (ranks_ + 1) + rank)];
  }

  int64_t ranks_, buckets_;
  std::vector<int64_t> cuts_;        // [buckets, ranks + 1] elements
  std::vector<int64_t> slice_cuts_;  // [buckets, ranks + 1] slices
};

}  // namespace xrun
