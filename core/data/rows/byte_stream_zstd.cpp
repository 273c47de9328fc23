// zstd (RFC 8878): frames and skippable frames follow one another to the end of the file.

#include <zstd.h>

#include <memory>
#include <vector>

#include "core/base/error.h"
#include "core/data/rows/byte_stream.h"

namespace xrun {

namespace {

constexpr int kWindowLog = 27;  // 128 MiB, what zstd itself takes without --long

class ZstdStream : public ByteStream {
 public:
  explicit ZstdStream(std::unique_ptr<RawFile> file)
      : ByteStream(std::move(file)), state_(ZSTD_createDCtx()), input_(ZSTD_DStreamInSize()) {
    XRUN_CHECK(state_ != nullptr, "{}: no memory to decompress it", file_->name());
    ZSTD_DCtx_setParameter(state_.get(), ZSTD_d_windowLogMax, kWindowLog);
  }

  size_t read(char* to, size_t size) override {
    ZSTD_outBuffer out = {to, size, 0};
    while (out.pos < size) {
      if (in_.pos == in_.size) in_ = {input_.data(), file_->read(input_.data(), input_.size()), 0};
      if (file_->bytes() == in_.size && in_.pos == 0) check_beginning();
      if (in_.size == 0 && between_frames_) break;
      const size_t pos = out.pos;
      const size_t left = ZSTD_decompressStream(state_.get(), &out, &in_);
      XRUN_CHECK(!ZSTD_isError(left), "{}: is corrupt near byte {}: {}; bring it here again",
                 file_->name(), file_->bytes() - in_.size + in_.pos, ZSTD_getErrorName(left));
      XRUN_CHECK(in_.size > 0 || out.pos > pos,
                 "{}: is cut short: its {} bytes end inside the compressed data; bring it here "
                 "again",
                 file_->name(), file_->bytes());
      between_frames_ = left == 0;
    }
    return out.pos;
  }

 private:
  void check_beginning() const {
    const std::string_view bytes(input_.data(), in_.size);
    const bool skippable = bytes.size() > 3 && (bytes[0] & 0xF0) == 0x50 &&
                           bytes.substr(1, 3) == std::string_view("\x2A\x4D\x18");
    if (!skippable) check_magic(bytes, {kZstdMagic}, file_->name());
  }

  struct FreeState {
    void operator()(ZSTD_DCtx* state) const { ZSTD_freeDCtx(state); }
  };
  std::unique_ptr<ZSTD_DCtx, FreeState> state_;
  std::vector<char> input_;
  ZSTD_inBuffer in_ = {nullptr, 0, 0};
  bool between_frames_ = false;  // a file without a frame is no zstd file
};

}  // namespace

std::unique_ptr<ByteStream> decode_zstd(std::unique_ptr<RawFile> file) {
  return std::make_unique<ZstdStream>(std::move(file));
}

}  // namespace xrun
