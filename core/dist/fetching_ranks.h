#pragma once
// Ranks that fetch tensors from each other: each rank holds ranges of the tensors, and any rank may
// fetch at any time.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/dist/ranks.h"

namespace xrun {

// Buckets of elements, each divided over the ranks. Sizes and types are the same on every rank.
class RangeSource {
 public:
  virtual ~RangeSource() = default;
  virtual std::vector<int64_t> sizes(int64_t bucket) const = 0;  // [ranks] elements
  virtual at::TensorOptions options(int64_t bucket) const = 0;
  virtual at::Tensor range(int64_t bucket) = 0;  // this rank's, flat and contiguous
};

// Passes every collective on to `ranks`. Before each one the ranks meet: a rank that has reached
// its next collective serves the fetches of others until all have reached it. So a rank may fetch
// while others compute, have no work, or have failed, and the number of fetches may differ between
// ranks. Reports of failures show fetches as collectives.
class FetchingRanks : public Ranks {
 public:
  explicit FetchingRanks(Ranks& ranks) : ranks_(ranks) {}
  ~FetchingRanks() override;

  // Makes ranks meet from the next collective on; until then nothing can be fetched. Called on
  // every rank between the same collectives.
  void begin_meetings() { meets_ = true; }
  // Offers a source, on every rank in the same order; returns its number. `load` makes the source
  // on the first fetch by any rank, and may not fetch.
  int64_t offer(std::function<std::shared_ptr<RangeSource>()> load);
  // Drops a source that no rank will fetch from again.
  void withdraw(int64_t source);

  // Returns a whole bucket, [sum of sizes]. Waits until all other ranks fetch or reach a
  // collective.
  //   next  the bucket of this source that is probably fetched next and is sent meanwhile; -1: none
  at::Tensor fetch(int64_t source, int64_t bucket, int64_t next = -1);
  // Drops what was sent ahead, since the values have changed.
  void forget_ahead();

  int64_t rank() const override { return ranks_.rank(); }
  int64_t size() const override { return ranks_.size(); }
  std::vector<std::string> gather(std::string_view label, const std::string& text) override;
  std::string broadcast(std::string_view label, const std::string& text, int64_t root) override;
  void broadcast(std::string_view label, const at::Tensor& tensor, int64_t root) override;
  std::unique_ptr<PendingCollective> exchange(std::string_view label, const at::Tensor& out,
                                              const std::vector<int64_t>& out_sizes,
                                              const at::Tensor& in,
                                              const std::vector<int64_t>& in_sizes) override;
  std::unique_ptr<PendingCollective> all_gather(std::string_view label, const at::Tensor& out,
                                                const std::vector<int64_t>& sizes,
                                                const at::Tensor& in) override;
  void barrier(std::string_view label) override;
  bool fails_together() override { return ranks_.fails_together(); }
  void abandon_device_calls() override { ranks_.abandon_device_calls(); }
  Stopped stop_together(const std::string& message) override {
    return ranks_.stop_together(message);
  }
  void fail(int status, const std::string& message) override { ranks_.fail(status, message); }

  int64_t fetched_bytes() const { return fetched_bytes_; }  // by this rank, from others

 private:
  struct FetchRequest {
    int64_t source = -1, bucket = -1;  // -1: nothing
    bool operator==(const FetchRequest&) const = default;
  };
  // The message of one rank when ranks meet.
  struct Message {
    bool fetches = false;  // false: it has reached a collective
    FetchRequest now, next;
    int64_t label = 0;  // the hash of the collective's label
  };
  struct Transfer {
    FetchRequest request;  // of this rank; nothing: it only serves
    at::Tensor out;        // the bucket that this rank receives, flat
    at::Tensor in;         // the ranges that this rank sends, flat
    std::unique_ptr<PendingCollective> pending;
  };
  struct Offer {
    std::function<std::shared_ptr<RangeSource>()> load;
    std::shared_ptr<RangeSource> source;
  };
  void meet(std::string_view label);  // before a collective
  // Returns the messages of all ranks, by rank.
  std::vector<Message> exchange_messages(const Message& own);
  // Begins the transfer that serves the requests of all ranks, by rank.
  Transfer begin(const std::vector<FetchRequest>& requests);
  void begin_exchange(const std::vector<FetchRequest>& requests, std::vector<int64_t> out_sizes,
                      Transfer& transfer);
  void keep(Transfer transfer);
  RangeSource& source(int64_t number);

  Ranks& ranks_;
  std::map<int64_t, Offer> offers_;
  int64_t next_number_ = 0;
  bool meets_ = false;
  Transfer ahead_;   // of the bucket that is probably fetched next
  Transfer served_;  // to other ranks, perhaps under way
  int64_t fetched_bytes_ = 0;
};

}  // namespace xrun
