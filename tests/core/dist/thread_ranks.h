#pragma once
// Ranks as threads of one process, for tests.

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/dist/ranks.h"

namespace xrun {

// State shared by the threads: one call at a time, which all of them make with one label.
class ThreadGroup {
 public:
  explicit ThreadGroup(int64_t size) : size_(size), calls_(static_cast<size_t>(size)) {}
  int64_t size() const { return size_; }

  // One rank's part of a call. Tensors are read by the other ranks until all of them are done.
  struct RankCall {
    std::string label, text;
    at::Tensor in, out;
    std::vector<int64_t> sizes;
  };
  // Waits for all ranks, calls f with everybody's part, and waits until all have returned from f.
  void meet(int64_t rank, RankCall call,
            const std::function<void(const std::vector<RankCall>&)>& f) {
    calls_[static_cast<size_t>(rank)] = std::move(call);
    wait();
    std::exception_ptr error;
    try {
      for (const RankCall& other : calls_) {
        XRUN_CHECK(other.label == calls_.front().label, "one rank calls \"{}\", another \"{}\"",
                   calls_.front().label, other.label);
      }
      f(calls_);
    } catch (...) {
      error = std::current_exception();
    }
    wait();
    if (error) std::rethrow_exception(error);
  }

 private:
  void wait() {
    std::unique_lock lock(mutex_);
    const int64_t round = round_;
    if (++waiting_ == size_) {
      waiting_ = 0;
      ++round_;
      all_.notify_all();
      return;
    }
    // A test that hangs would stop the suite.
    XRUN_CHECK(all_.wait_for(lock, std::chrono::seconds(30), [&] { return round_ != round; }),
               "a rank did not come to a call in 30 s");
  }

  int64_t size_;
  std::vector<RankCall> calls_;
  std::mutex mutex_;
  std::condition_variable all_;
  int64_t waiting_ = 0, round_ = 0;
};

class ThreadRanks : public Ranks {
 public:
  ThreadRanks(ThreadGroup& group, int64_t rank) : group_(group), rank_(rank) {}
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return group_.size(); }

  std::vector<std::string> gather(std::string_view label, const std::string& text) override {
    std::vector<std::string> all;
    group_.meet(rank_, {std::string(label), text, {}, {}, {}}, [&](const auto& calls) {
      for (const auto& call : calls) all.push_back(call.text);
    });
    return all;
  }
  std::string broadcast(std::string_view label, const std::string& text, int64_t root) override {
    return gather(label, text)[static_cast<size_t>(root)];
  }
  void broadcast(std::string_view label, const at::Tensor& tensor, int64_t root) override {
    const at::Tensor sent = tensor.clone();
    group_.meet(rank_, {std::string(label), "", sent, tensor, {}},
                [&](const auto& calls) { tensor.copy_(calls[static_cast<size_t>(root)].in); });
  }
  // Runs at once; `in` is copied, so that pieces may be read while others are written.
  std::unique_ptr<PendingCollective> exchange(std::string_view label, const at::Tensor& out,
                                              const std::vector<int64_t>& out_sizes,
                                              const at::Tensor& in,
                                              const std::vector<int64_t>& in_sizes) override {
    group_.meet(rank_, {std::string(label), "", in.clone(), out, in_sizes}, [&](const auto& calls) {
      int64_t to = 0;
      for (size_t r = 0; r < calls.size(); ++r) {
        int64_t from = 0;
        for (int64_t k = 0; k < rank_; ++k) from += calls[r].sizes[static_cast<size_t>(k)];
        const int64_t size = calls[r].sizes[static_cast<size_t>(rank_)];
        XRUN_CHECK(size == out_sizes[r], "{}: rank {} sends {} elements, rank {} wants {}", label,
                   r, size, rank_, out_sizes[r]);
        out.narrow(0, to, size).copy_(calls[r].in.narrow(0, from, size));
        to += size;
      }
      XRUN_CHECK(to == out.numel(), "{}: {} elements for room of {}", label, to, out.numel());
    });
    return std::make_unique<Done>();
  }
  std::unique_ptr<PendingCollective> all_gather(std::string_view label, const at::Tensor& out,
                                                const std::vector<int64_t>& sizes,
                                                const at::Tensor& in) override {
    group_.meet(rank_, {std::string(label), "", in.clone(), out, sizes}, [&](const auto& calls) {
      int64_t to = 0;
      for (size_t r = 0; r < calls.size(); ++r) {
        XRUN_CHECK(calls[r].in.numel() == sizes[r] && calls[r].sizes == sizes,
                   "{}: rank {} gives {} elements, wanted {}", label, r, calls[r].in.numel(),
                   sizes[r]);
        out.narrow(0, to, sizes[r]).copy_(calls[r].in);
        to += sizes[r];
      }
      XRUN_CHECK(to == out.numel(), "{}: {} elements for room of {}", label, to, out.numel());
    });
    return std::make_unique<Done>();
  }
  void barrier(std::string_view label) override { gather(label, ""); }

 private:
  struct Done : PendingCollective {
    void wait() override {}
  };
  ThreadGroup& group_;
  int64_t rank_;
};

// Runs f(ranks) on `size` threads and rethrows the error of the lowest rank that has one.
inline void on_threads(int64_t size, const std::function<void(Ranks&)>& f) {
  ThreadGroup group(size);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        ThreadRanks ranks(group, rank);
        f(ranks);
      } catch (...) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace xrun
