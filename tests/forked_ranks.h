#pragma once
// Ranks as forked processes that talk through rank 0, for tests of what ranks share.

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/dist/ranks.h"

namespace xrun {

// One end of the star: rank 0 has a socket to every other rank, the others one to rank 0.
class ForkedRanks : public Ranks {
 public:
  ForkedRanks(int64_t rank, std::vector<int> sockets)
      : rank_(rank), size_(rank == 0 ? std::ssize(sockets) + 1 : 0), sockets_(std::move(sockets)) {}
  void set_size(int64_t size) { size_ = size; }

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }
  int64_t calls() const { return calls_; }

  std::vector<std::string> gather(std::string_view label, const std::string& text) override {
    ++calls_;
    const std::string own = std::string(label) + '\0' + text;
    std::vector<std::string> all;
    if (rank_ == 0) {
      all.push_back(own);
      for (const int socket : sockets_) all.push_back(receive(socket));
      for (const int socket : sockets_) {
        for (const std::string& one : all) send(socket, one);
      }
    } else {
      send(sockets_[0], own);
      for (int64_t r = 0; r < size_; ++r) all.push_back(receive(sockets_[0]));
    }
    for (std::string& one : all) {
      const std::string other = one.substr(0, one.find('\0'));
      XRUN_CHECK(other == label, "rank {} called \"{}\", another rank \"{}\"", rank_, label, other);
      one.erase(0, label.size() + 1);
    }
    return all;
  }
  std::string broadcast(std::string_view label, const std::string& text, int64_t root) override {
    return gather(label, rank_ == root ? text : "")[static_cast<size_t>(root)];
  }
  void broadcast(std::string_view label, const at::Tensor& tensor, int64_t root) override {
    put(tensor, 0, broadcast(label, bytes_of(tensor), root));
  }
  std::unique_ptr<PendingCollective> exchange(std::string_view label, const at::Tensor& out,
                                              const std::vector<int64_t>& out_sizes,
                                              const at::Tensor& in,
                                              const std::vector<int64_t>& in_sizes) override {
    // Everything goes everywhere; each rank picks what is for it.
    std::string own(reinterpret_cast<const char*>(in_sizes.data()),
                    in_sizes.size() * sizeof(int64_t));
    const std::vector<std::string> all = gather(label, own + bytes_of(in));
    size_t at = 0;
    for (size_t r = 0; r < all.size(); ++r) {
      std::vector<int64_t> sizes(all.size());
      std::memcpy(sizes.data(), all[r].data(), sizes.size() * sizeof(int64_t));
      size_t begin = 0;
      for (int64_t k = 0; k < rank_; ++k) begin += static_cast<size_t>(sizes[k]);
      const auto count = static_cast<size_t>(sizes[static_cast<size_t>(rank_)]);
      XRUN_CHECK(std::cmp_equal(count, out_sizes[r]), "{}: {} elements arrive, wanted {}", label,
                 count, out_sizes[r]);
      const size_t width = out.itemsize();
      put(out, at, all[r].substr(sizes.size() * sizeof(int64_t) + begin * width, count * width));
      at += count * width;
    }
    return std::make_unique<Done>();
  }
  std::unique_ptr<PendingCollective> all_gather(std::string_view label, const at::Tensor& out,
                                                const std::vector<int64_t>& sizes,
                                                const at::Tensor& in) override {
    size_t at = 0, r = 0;
    for (const std::string& one : gather(label, bytes_of(in))) {
      XRUN_CHECK(one.size() == static_cast<size_t>(sizes[r++]) * out.itemsize(),
                 "{}: a piece has {} bytes", label, one.size());
      put(out, at, one);
      at += one.size();
    }
    return std::make_unique<Done>();
  }
  void barrier(std::string_view label) override { gather(label, ""); }

 private:
  struct Done : PendingCollective {
    void wait() override {}
  };
  static std::string bytes_of(const at::Tensor& tensor) {
    return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
  }
  static void put(const at::Tensor& tensor, size_t at, const std::string& bytes) {
    if (bytes.empty()) return;
    std::memcpy(static_cast<char*>(tensor.mutable_data_ptr()) + at, bytes.data(), bytes.size());
  }
  static void send(int socket, const std::string& text) {
    const uint64_t size = text.size();
    std::string bytes(reinterpret_cast<const char*>(&size), sizeof size);
    bytes += text;
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t n = ::send(socket, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      XRUN_CHECK(n > 0, "another rank is gone");
      at += static_cast<size_t>(n);
    }
  }
  static void read_all(int socket, char* to, size_t size) {
    for (size_t at = 0; at < size;) {
      const ssize_t n = ::recv(socket, to + at, size - at, 0);
      XRUN_CHECK(n > 0, "another rank is gone");
      at += static_cast<size_t>(n);
    }
  }
  static std::string receive(int socket) {
    uint64_t size = 0;
    read_all(socket, reinterpret_cast<char*>(&size), sizeof size);
    std::string text(size, '\0');
    read_all(socket, text.data(), size);
    return text;
  }

  int64_t rank_, size_;
  std::vector<int> sockets_;
  int64_t calls_ = 0;
};

// Runs `work` on `size` forked processes of one thread each and returns what each returned, or
// "throws: " and the message of what it threw. With size 0 it is one process without ranks.
inline std::vector<std::string> on_ranks(int64_t size,
                                         const std::function<std::string(Ranks*)>& work) {
  const size_t processes = static_cast<size_t>(std::max<int64_t>(size, 1));
  std::vector<int> at_zero, at_others, results;
  for (size_t r = 1; r < processes; ++r) {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    at_zero.push_back(pair[0]);
    at_others.push_back(pair[1]);
  }
  std::vector<pid_t> children;
  for (size_t r = 0; r < processes; ++r) {
    int out[2];
    EXPECT_EQ(::pipe(out), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      // A socket that stays open here would hide the end of its rank.
      for (const int socket : r == 0 ? at_others : at_zero) ::close(socket);
      for (size_t k = 0; r > 0 && k < at_others.size(); ++k) {
        if (k + 1 != r) ::close(at_others[k]);
      }
      at::set_num_threads(1);
      std::string text;
      try {
        ForkedRanks ranks(static_cast<int64_t>(r),
                          r == 0 ? at_zero : std::vector<int>{at_others[r - 1]});
        ranks.set_size(size);
        text = work(size == 0 ? nullptr : &ranks);
      } catch (const std::exception& error) {
        text = std::string("throws: ") + error.what();
      }
      for (size_t at = 0; at < text.size();) {
        const ssize_t n = ::write(out[1], text.data() + at, text.size() - at);
        if (n <= 0) break;
        at += static_cast<size_t>(n);
      }
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    ::close(out[1]);
    results.push_back(out[0]);
    children.push_back(child);
  }
  for (const int socket : at_zero) ::close(socket);
  for (const int socket : at_others) ::close(socket);
  std::vector<std::string> texts;
  for (size_t r = 0; r < processes; ++r) {
    std::string& text = texts.emplace_back();
    char bytes[4096];
    for (ssize_t n; (n = ::read(results[r], bytes, sizeof bytes)) > 0;) {
      text.append(bytes, static_cast<size_t>(n));
    }
    ::close(results[r]);
    int status = 0;
    ::waitpid(children[r], &status, 0);
    EXPECT_EQ(status, 0) << "rank " << r << ": " << text;
  }
  return texts;
}

// Expects that `work` returns on every rank of 1 to `most` ranks what one process returns.
inline void expect_one_process(int64_t most, const std::function<std::string(Ranks*)>& work) {
  const std::string wanted = on_ranks(0, work).front();
  EXPECT_FALSE(wanted.starts_with("throws: ")) << wanted;
  for (int64_t size = 1; size <= most; ++size) {
    const std::vector<std::string> got = on_ranks(size, work);
    for (size_t r = 0; r < got.size(); ++r) {
      EXPECT_EQ(got[r], wanted) << "rank " << r << " of " << size;
    }
  }
}

}  // namespace xrun
