// rate = (n - 1) / n of a bucket over the seconds of an all-to-all, the median of several.

#include "core/dist/link_rate.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "core/base/process_usage.h"
#include "core/base/threads.h"
#include "core/dist/gloo_backend.h"

namespace xrun {

namespace {

constexpr int64_t kBucketBytes = 16 << 20;  // a full bucket of gradients in fp32
constexpr int kExchanges = 9;               // the first is not counted
constexpr const char* kLoopbackAddress = "127.0.0.1";

// Returns the seconds of each exchange of one rank.
std::vector<double> exchange_seconds(const c10::intrusive_ptr<c10d::Store>& store, int64_t rank,
                                     int64_t ranks) {
  const auto group = make_gloo_backend(store, rank, ranks, kLoopbackAddress);
  const int64_t piece = kBucketBytes / ranks;
  at::Tensor in = at::zeros({piece * ranks}, at::kByte),
             out = at::zeros({piece * ranks}, at::kByte);
  std::vector<int64_t> sizes(static_cast<size_t>(ranks), piece);
  std::vector<double> seconds;
  for (int i = 0; i < kExchanges; ++i) {
    const auto begin = SteadyClock::now();
    group->alltoall_base(out, in, sizes, sizes)->wait();
    if (i > 0) seconds.push_back(seconds_since(begin));
  }
  return seconds;
}

}  // namespace

double time_loopback(int64_t ranks) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::vector<double>> seconds(static_cast<size_t>(ranks));
  for_each_on_threads(seconds.size(), static_cast<int>(ranks), [&](size_t rank) {
    seconds[rank] = exchange_seconds(store, static_cast<int64_t>(rank), ranks);
  });
  std::vector<double>& first = seconds.front();
  std::nth_element(first.begin(), first.begin() + std::ssize(first) / 2, first.end());
  const auto n = static_cast<double>(ranks);
  return kBucketBytes * (n - 1) / n / first[first.size() / 2];
}

}  // namespace xrun
