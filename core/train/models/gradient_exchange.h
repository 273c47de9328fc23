#pragma once
// Sums the gradients of a step over ranks while the backward runs.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/dist/flat_index.h"
#include "core/dist/ranks.h"

namespace xrun {

class FetchingRanks;
class IncomingWeights;

// The division of models' and optimizers' state among the ranks of a run. Every level gives the
// same bits.
struct DistOptions {
  Ranks* ranks = nullptr;  // null: one process
  // 0: every rank holds all moments and the summed gradient. 1: moments are in ranges, each rank
  // updates its own, and frozen models are in ranges. 2: gradients too. 3: weights too.
  int64_t level = 1;
  // True: gradients are exchanged after every item of a rank and added in the batch's order, which
  // gives the bits of one process. False: each rank adds up its own items, and the sums are
  // exchanged after the last ones, which sends less.
  bool exact = true;

  bool divides_moments() const { return ranks != nullptr && level > 0; }
};

// The items of a step that ranks compute at a time: each rank at most one, a micro-batch or several
// that share a held prefix. Item r belongs to rank r.
struct ExchangedItems {
  int64_t count = 1;         // ranks 0 .. count - 1 have an item; the same on every rank
  bool one_backward = true;  // false: its backwards are summed before they are sent or added
  bool last = true;          // of the step
};

// Returns the ranks if they hold models in ranges, which they do from level `from_level` on; null
// if models are whole: at a lower level, with one rank, or if the ranks cannot fetch.
FetchingRanks* ranks_to_fetch_from(const DistOptions& dist, int64_t from_level);

// Every rank makes the same calls with the same items. Once all weights of a bucket have their
// gradient, it goes to the ranks that own its ranges, the last bucket first, while the backward
// goes on. Each owner adds the pieces in rank order, so a sum has the bits of one process that
// computes the items in order. A weight to which no item gave a gradient has none. Throws Error
// that names a weight to which one backward gives two gradients. Between begin_exchange and
// end_exchange the gradients of the weights belong to this object. Not thread-safe.
class GradientExchange {
 public:
  //   weights   fp32 leaves, one for each tensor of the index
  //   incoming  the updated weights that travel in free_buffer(); null: none
  // `index`, `ranges` and the ranks must outlive the object.
  GradientExchange(const FlatIndex& index, const RankRanges& ranges,
                   std::vector<at::Tensor> weights, const DistOptions& options,
                   std::shared_ptr<IncomingWeights> incoming = nullptr);
  ~GradientExchange();
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  void begin_exchange(const ExchangedItems& items);
  // Sends what the backward has not sent. After the last items everything is added; after earlier
  // ones a few buckets may still be under way. Must be called even after an exception in this
  // rank's item, since the other ranks wait for its part; missing gradients then count as none.
  void end_exchange();

  // The sum over this rank's range of a bucket, [ranges.size(bucket, rank)] fp32; values of weights
  // without a gradient are unspecified.
  const at::Tensor& sum(int64_t bucket) const { return sums_[static_cast<size_t>(bucket)]; }
  // Returns true if a weight with a slice in this rank's range has a gradient.
  bool has_gradient(int64_t tensor) const { return seen_[static_cast<size_t>(tensor)]; }

  // Returns the buffer that this rank's gradients of a bucket are sent from, [size of the bucket]
  // fp32. It is free between the last end_exchange of a step and the next backward, which waits for
  // incoming weights. Undefined if there is none: from level 2 on, and before the first gradient.
  at::Tensor free_buffer(int64_t bucket) const;

  // Frees the sums, waits for collectives that an exception left behind, and drops the gradients of
  // the weights.
  void clear();

  // Drops all collectives without waiting, since some may never end, and clears.
  void abandon();

  // Bytes that this rank has sent to others since the object was made.
  int64_t sent_bytes() const { return sent_bytes_; }

 private:
  friend class GradientReady;
  // The tensors of a bucket in one rank's range: its piece is their flags, then the range.
  struct RankPiece {
    std::vector<int64_t> tensors;
    int64_t size = 0;  // elements, flags included
  };
  struct Launched {
    int64_t bucket = 0;
    at::Tensor in = {}, out = {};
    std::unique_ptr<PendingCollective> pending = {};
  };
  const RankPiece& piece(int64_t bucket, int64_t rank) const;
  bool sends(int64_t rank) const;    // it has gradients to exchange now
  void on_gradient(int64_t tensor);  // called by the backward
  void pack(int64_t tensor);         // moves a gradient into the bucket's pieces
  void launch_ready();
  void launch(int64_t bucket);
  void finish_oldest();
  void finish_sent_from(int64_t bucket);
  void add(int64_t bucket, const at::Tensor& values);

  const FlatIndex& index_;
  const RankRanges& ranges_;
  std::vector<at::Tensor> weights_;
  DistOptions options_;
  int64_t rank_, size_;
  std::shared_ptr<IncomingWeights> incoming_;
  std::vector<RankPiece> pieces_;    // [buckets, ranks]
  std::vector<at::Tensor> staging_;  // [buckets], what this rank sends; undefined: not in use
  std::vector<at::Tensor> sums_;     // [buckets]
  std::vector<bool> seen_;           // [tensors]
  std::vector<bool> packed_;         // [tensors], since begin_exchange
  std::vector<int64_t> missing_;     // [buckets], gradients that are not there yet
  ExchangedItems items_;
  bool open_ = false, exchanges_ = false;
  int64_t senders_ = 0;  // ranks that have had an item since the last exchange
  int64_t next_ = -1;    // the bucket to launch next, counting down
  std::deque<Launched> pending_;
  int64_t sent_bytes_ = 0;
};

}  // namespace xrun
