// When ranks meet, each sends the bucket that it wants now and the one that it will probably want
// next, or that it has reached a collective. Every rank has the messages of all, so all begin the
// same transfers: those wanted now, then those wanted next, which run while the ranks compute.

#include "core/dist/fetching_ranks.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <iterator>

#include "core/base/error.h"
#include "core/base/hash.h"

namespace xrun {

namespace {

constexpr const char* kMeeting = "meeting before a collective or a fetch";
constexpr int64_t kWords = 6;  // of a message

}  // namespace

FetchingRanks::~FetchingRanks() {
  for (Transfer* transfer : {&ahead_, &served_}) {
    try {
      if (transfer->pending) transfer->pending->wait();
    } catch (const std::exception&) {
      // The ranks are ending; the failure has been reported.
    }
  }
}

int64_t FetchingRanks::offer(std::function<std::shared_ptr<RangeSource>()> load) {
  // Every rank offers in the same order, so a number means the same source on all of them.
  offers_[next_number_].load = std::move(load);
  return next_number_++;
}

void FetchingRanks::withdraw(int64_t source) { offers_.erase(source); }

RangeSource& FetchingRanks::source(int64_t number) {
  const auto offer = offers_.find(number);
  XRUN_CHECK(offer != offers_.end(),
             "another rank requests source {}, which this rank does not offer", number);
  // Loaded at the first request of any rank, so that a model that no rank reads costs no memory.
  if (!offer->second.source) offer->second.source = offer->second.load();
  return *offer->second.source;
}

// All messages have one size, so one collective without lengths is enough.
std::vector<FetchingRanks::Message> FetchingRanks::exchange_messages(const Message& own) {
  const std::vector<int64_t> sizes(static_cast<size_t>(size()), kWords);
  const at::Tensor in = at::empty({kWords}, at::kLong),
                   all = at::empty({size() * kWords}, at::kLong);
  const int64_t words[] = {own.fetches,     own.now.source,  own.now.bucket,
                           own.next.source, own.next.bucket, own.label};
  std::copy(std::begin(words), std::end(words), in.mutable_data_ptr<int64_t>());
  ranks_.all_gather(kMeeting, all, sizes, in)->wait();
  std::vector<Message> messages;
  const int64_t* received = all.const_data_ptr<int64_t>();
  for (int64_t r = 0; r < size(); ++r, received += kWords) {
    messages.push_back(
        {received[0] != 0, {received[1], received[2]}, {received[3], received[4]}, received[5]});
  }
  return messages;
}

void FetchingRanks::meet(std::string_view label) {
  // Without models in ranges nobody fetches, and a collective needs no meeting.
  if (!meets_) return;
  Message own;
  own.label = static_cast<int64_t>(hash_u64(label));
  while (true) {
    const std::vector<Message> all = exchange_messages(own);
    if (std::none_of(all.begin(), all.end(), [](const Message& m) { return m.fetches; })) {
      const bool same = std::all_of(all.begin(), all.end(),
                                    [&](const Message& m) { return m.label == own.label; });
      // Different collectives would wait for each other forever. A barrier under different labels
      // is an error instead.
      if (!same) ranks_.barrier(label);
      return;
    }
    std::vector<FetchRequest> now, next;
    for (const Message& message : all) {
      now.push_back(message.now);
      next.push_back(message.next);
    }
    // This rank waits for a collective; another one needs its ranges first.
    if (const Transfer transfer = begin(now); transfer.pending) transfer.pending->wait();
    keep(begin(next));
  }
}

// Of the transfers that this rank only serves, one may be under way at a time.
void FetchingRanks::keep(Transfer transfer) {
  if (transfer.request.source >= 0) {
    ahead_ = std::move(transfer);
    return;
  }
  if (served_.pending) served_.pending->wait();
  served_ = std::move(transfer);
}

void FetchingRanks::forget_ahead() {
  if (ahead_.pending) ahead_.pending->wait();
  ahead_ = {};
}

// Each rank sends every other rank its range of the bucket that the other one wants.
FetchingRanks::Transfer FetchingRanks::begin(const std::vector<FetchRequest>& requests) {
  Transfer transfer;
  const auto n = static_cast<size_t>(size()), me = static_cast<size_t>(rank());
  const auto first = std::find_if(requests.begin(), requests.end(),
                                  [](const FetchRequest& request) { return request.source >= 0; });
  // All ranks see the same requests, so no rank begins a collective.
  if (first == requests.end()) return transfer;
  transfer.request = requests[me];
  const bool all_want_one =
      std::all_of(requests.begin(), requests.end(),
                  [&](const FetchRequest& request) { return request == requests.front(); });
  std::vector<int64_t> out_sizes(n);  // elements that each rank sends to this one
  const FetchRequest& typed = transfer.request.source >= 0 ? transfer.request : *first;
  const at::TensorOptions options = source(typed.source).options(typed.bucket);
  if (transfer.request.source >= 0) {
    out_sizes = source(transfer.request.source).sizes(transfer.request.bucket);
  }
  int64_t out_size = 0;
  for (size_t r = 0; r < n; ++r) {
    out_size += out_sizes[r];
    if (r != me) fetched_bytes_ += out_sizes[r] * static_cast<int64_t>(options.dtype().itemsize());
  }
  transfer.out = at::empty({out_size}, options);
  // The usual case: ranks run the same block of the model at the same time.
  if (all_want_one) {
    transfer.in = source(first->source).range(first->bucket);
    transfer.pending =
        ranks_.all_gather("weights of a block", transfer.out, out_sizes, transfer.in);
  } else {
    begin_exchange(requests, std::move(out_sizes), transfer);
  }
  return transfer;
}

// Each rank gets a bucket of its own choice. Buckets travel as bytes, since their types may differ.
void FetchingRanks::begin_exchange(const std::vector<FetchRequest>& requests,
                                   std::vector<int64_t> out_sizes, Transfer& transfer) {
  const size_t n = requests.size();
  std::vector<int64_t> in_sizes(n);
  std::vector<at::Tensor> ranges(n);
  int64_t bytes = 0;
  for (size_t r = 0; r < n; ++r) {
    if (requests[r].source < 0) continue;
    ranges[r] = source(requests[r].source).range(requests[r].bucket);
    in_sizes[r] = static_cast<int64_t>(ranges[r].nbytes());
    bytes += in_sizes[r];
  }
  const auto item = static_cast<int64_t>(transfer.out.element_size());
  for (int64_t& size : out_sizes) size *= item;
  transfer.in = at::empty({bytes}, transfer.out.options().dtype(at::kByte));
  int64_t at = 0;
  for (size_t r = 0; r < n; ++r) {
    if (in_sizes[r] > 0) transfer.in.narrow(0, at, in_sizes[r]).copy_(ranges[r].view(at::kByte));
    at += in_sizes[r];
  }
  transfer.pending = ranks_.exchange("weights of some ranks' blocks", transfer.out.view(at::kByte),
                                     out_sizes, transfer.in, in_sizes);
}

at::Tensor FetchingRanks::fetch(int64_t source, int64_t bucket, int64_t next) {
  XRUN_CHECK(meets_, "a rank fetches before the ranks meet; call begin_meetings first");
  const FetchRequest wanted{source, bucket};
  at::Tensor found;
  // Requested at the previous fetch, and transferred while the ranks computed.
  if (ahead_.request == wanted) {
    ahead_.pending->wait();
    found = ahead_.out;
  }
  // If the guess was wrong, the bucket that was sent ahead is of no use.
  forget_ahead();
  // Nothing to request: the others meet this rank at its next fetch or collective.
  if (found.defined() && next < 0) return found;
  const Message own{.fetches = true,
                    .now = found.defined() ? FetchRequest{} : wanted,
                    .next = next < 0 ? FetchRequest{} : FetchRequest{source, next}};
  std::vector<FetchRequest> now, ahead;
  for (const Message& message : exchange_messages(own)) {
    now.push_back(message.now);
    ahead.push_back(message.next);
  }
  Transfer transfer = begin(now);
  if (transfer.pending) transfer.pending->wait();
  if (!found.defined()) found = transfer.out;
  keep(begin(ahead));
  return found;
}

std::vector<std::string> FetchingRanks::gather(std::string_view label, const std::string& text) {
  meet(label);
  return ranks_.gather(label, text);
}

std::string FetchingRanks::broadcast(std::string_view label, const std::string& text,
                                     int64_t root) {
  meet(label);
  return ranks_.broadcast(label, text, root);
}

void FetchingRanks::broadcast(std::string_view label, const at::Tensor& tensor, int64_t root) {
  meet(label);
  ranks_.broadcast(label, tensor, root);
}

std::unique_ptr<PendingCollective> FetchingRanks::exchange(std::string_view label,
                                                           const at::Tensor& out,
                                                           const std::vector<int64_t>& out_sizes,
                                                           const at::Tensor& in,
                                                           const std::vector<int64_t>& in_sizes) {
  meet(label);
  return ranks_.exchange(label, out, out_sizes, in, in_sizes);
}

std::unique_ptr<PendingCollective> FetchingRanks::all_gather(std::string_view label,
                                                             const at::Tensor& out,
                                                             const std::vector<int64_t>& sizes,
                                                             const at::Tensor& in) {
  meet(label);
  return ranks_.all_gather(label, out, sizes, in);
}

void FetchingRanks::barrier(std::string_view label) {
  meet(label);
  ranks_.barrier(label);
}

}  // namespace xrun
