// gzip (RFC 1952): members follow one another; what stands behind the last one may be zeros, as
// tapes pad, and nothing else.

#include <zlib.h>

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "core/data/rows/byte_stream.h"

namespace xrun {

namespace {

constexpr size_t kInputBytes = 1 << 17;
constexpr int kGzipWindow = 15 + 16;  // zlib's way to say: a gzip header, any window

class GzipStream : public ByteStream {
 public:
  explicit GzipStream(std::unique_ptr<RawFile> file)
      : ByteStream(std::move(file)), input_(kInputBytes) {
    XRUN_CHECK(::inflateInit2(&state_, kGzipWindow) == Z_OK, "{}: no memory to decompress it",
               file_->name());
  }
  ~GzipStream() override { ::inflateEnd(&state_); }

  size_t read(char* to, size_t size) override {
    size_t total = 0;
    while (total < size && begin_member()) {
      const size_t most = std::min<size_t>(size - total, UINT32_MAX);
      state_.next_out = reinterpret_cast<Bytef*>(to + total);
      state_.avail_out = static_cast<uInt>(most);
      const int code = ::inflate(&state_, Z_NO_FLUSH);
      total += most - state_.avail_out;
      check(code);
      in_member_ = code != Z_STREAM_END;
    }
    return total;
  }

 private:
  // Returns false behind the last member.
  bool begin_member() {
    if (state_.avail_in == 0) fill();
    if (in_member_) {
      XRUN_CHECK(state_.avail_in > 0,
                 "{}: is cut short: its {} bytes end inside the compressed data; bring it here "
                 "again",
                 file_->name(), file_->bytes());
      return true;
    }
    while (seen_member_ && state_.avail_in > 0 && *state_.next_in == 0) {
      ++state_.next_in;
      if (--state_.avail_in == 0) fill();
    }
    if (seen_member_ && state_.avail_in == 0) return false;
    if (!seen_member_) {
      check_magic({input_.data(), state_.avail_in}, {kGzipMagic}, file_->name());
    }
    ::inflateReset(&state_);
    in_member_ = seen_member_ = true;
    return begin_member();
  }

  void fill() {
    state_.next_in = reinterpret_cast<Bytef*>(input_.data());
    state_.avail_in = static_cast<uInt>(file_->read(input_.data(), input_.size()));
  }

  void check(int code) const {
    // Z_BUF_ERROR wants more input, which the next round brings or refuses.
    if (code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR) return;
    throw Error(fmt::format("{}: is corrupt near byte {}: {}; bring it here again", file_->name(),
                            file_->bytes() - state_.avail_in,
                            state_.msg != nullptr ? state_.msg : "it is no gzip data"));
  }

  z_stream state_{};
  std::vector<char> input_;
  bool in_member_ = false, seen_member_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> decode_gzip(std::unique_ptr<RawFile> file) {
  return std::make_unique<GzipStream>(std::move(file));
}

}  // namespace xrun
