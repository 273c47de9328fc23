#pragma once
// The text that a tokenizer's stages change; each byte maps to the input bytes it represents.

#include <algorithm>
#include <cstdint>

#include "core/base/error.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

// Thrown when a stage makes a text grow beyond its limit (see AlignedText).
class TextGrowth : public Error {
 public:
  using Error::Error;
};

// Runs a stage; a TextGrowth becomes an Error that begins with `where`, the stage's path.
template <class Run>
void run_stage(const std::string& where, const Run& run) {
  try {
    run();
  } catch (const TextGrowth& growth) {
    throw Error(where + ": " + growth.what());
  }
}

// One character of a changed text. Edits go through the old text from left to right: change 0
// replaces the next old character, 1 inserts before it, -n replaces it and removes the n after it.
struct CharacterEdit {
  uint32_t character;
  int32_t change;
};

// A text of valid UTF-8 and, for each of its bytes, a range of the input. An unchanged text is a
// view of the input, which must outlive it. TextGrowth is thrown for a text beyond 64 times the
// input plus 1 MiB, or beyond 4 GiB.
class AlignedText {
 public:
  AlignedText() = default;
  // A view of input bytes: byte i is input byte begin + i.
  AlignedText(std::string_view text, uint32_t begin)
      : view_(text),
        shift_(begin),
        most_(std::min(64 * text.size() + (size_t{1} << 20), size_t{UINT32_MAX})) {}

  std::string_view text() const { return owned_ ? std::string_view(bytes_) : view_; }
  size_t size() const { return text().size(); }

  // Returns the input range from the start of the first byte's range to the end of the last byte's;
  // for no bytes, an empty range there. Requires begin <= end <= size().
  ByteRange origin(size_t begin, size_t end) const {
    if (!owned_) return {shift_ + uint32_t(begin), shift_ + uint32_t(end)};
    if (begin == end) return empty_origin(begin);
    return {ranges_[begin].begin, ranges_[end - 1].end};
  }
  // Returns the origin of the whole character that contains byte `at`.
  ByteRange character_origin(size_t at) const;
  // Extends the range of the first character back to an input byte. Requires a text that was built.
  void extend_front(uint32_t begin);
  // Returns bytes [begin, end); a slice of a view is a view.
  AlignedText slice(size_t begin, size_t end) const;

 private:
  friend class AlignedTextBuilder;
  ByteRange empty_origin(size_t at) const;
  std::string_view view_;
  std::string bytes_;  // with ranges_, used once owned_ is set
  std::vector<ByteRange> ranges_;
  uint32_t shift_ = 0;
  bool owned_ = false;
  size_t most_ = 0;  // limit of the size in bytes
};

// Writes a changed version of a text from left to right.
class AlignedTextBuilder {
 public:
  explicit AlignedTextBuilder(const AlignedText& from);
  // Appends bytes of the old text with their ranges.
  void copy(size_t begin, size_t end);
  // Appends new bytes, each aligned with the whole of `origin`.
  void insert(std::string_view bytes, ByteRange origin);
  // Appends old bytes [begin, end) as edited, with Hugging Face's alignments: a replaced character
  // maps to the first old one, an inserted one to the old one before it.
  void edit(size_t begin, size_t end, std::span<const CharacterEdit> edits);
  AlignedText finish();

 private:
  void check_size() const;
  const AlignedText& from_;
  AlignedText out_;
};

// Returns `input` with every maximal invalid piece replaced by U+FFFD, aligned with that piece, and
// sets `replaced` to the number of bytes in these pieces.
AlignedText repaired_text(std::string_view input, uint32_t& replaced);

}  // namespace xrun
