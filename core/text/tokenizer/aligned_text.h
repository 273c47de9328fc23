#pragma once
// Text on its way through a tokenizer, each byte tied to the bytes of the input it stands for.

#include <algorithm>
#include <cstdint>

#include "core/base/error.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

// A stage of a tokenizer makes more of a text than any text needs.
class TextGrowth : public Error {
 public:
  using Error::Error;
};

// Runs a stage; where a text grows without bound the Error begins with the stage's place.
template <class Run>
void run_stage(const std::string& place, const Run& run) {
  try {
    run();
  } catch (const TextGrowth& growth) {
    throw Error(place + ": " + growth.what());
  }
}

// One character of a changed text, as an edit of the old text read from left to right: change 0
// replaces the next old character, 1 is inserted after it, -n replaces it and removes the n after.
struct CharacterEdit {
  uint32_t character;
  int32_t change;
};

// A text and, for each of its bytes, a range of the input. Until something is changed it is a view
// of the input and needs no memory; the input must outlive it. The text is always valid UTF-8. It
// may grow to 64 times the input and 1 MiB, and to 4 GiB; what makes it grow beyond throws
// TextGrowth.
class AlignedText {
 public:
  AlignedText() = default;
  // The input's own bytes from `begin` on: byte i stands for input byte begin + i.
  AlignedText(std::string_view text, uint32_t begin)
      : view_(text),
        shift_(begin),
        most_(std::min(64 * text.size() + (size_t{1} << 20), size_t{UINT32_MAX})) {}

  std::string_view text() const { return owned_ ? std::string_view(bytes_) : view_; }
  size_t size() const { return text().size(); }

  // Returns the bytes of the input from the begin of the first byte's range to the end of the last
  // one's. Requires begin < end <= size().
  ByteRange origin(size_t begin, size_t end) const {
    if (!owned_) return {shift_ + uint32_t(begin), shift_ + uint32_t(end)};
    return {ranges_[begin].begin, ranges_[end - 1].end};
  }
  // Returns the origin of the whole character that byte `at` belongs to.
  ByteRange character_origin(size_t at) const;
  // Lets the first character stand for what is before it as well, from a byte of the input on.
  // Requires a text that was built.
  void extend_front(uint32_t begin);
  // Returns a part; the input's own bytes stay a view.
  AlignedText slice(size_t begin, size_t end) const;

 private:
  friend class AlignedTextBuilder;
  std::string_view view_;
  std::string bytes_;  // with ranges_, used once owned_ is set
  std::vector<ByteRange> ranges_;
  uint32_t shift_ = 0;
  bool owned_ = false;
  size_t most_ = 0;  // bytes that the text may grow to
};

// Writes a changed version of a text from left to right.
class AlignedTextBuilder {
 public:
  explicit AlignedTextBuilder(const AlignedText& from);
  // Appends bytes of the old text with what they stand for.
  void copy(size_t begin, size_t end);
  // Appends new bytes; each of them stands for the whole of `origin`.
  void insert(std::string_view bytes, ByteRange origin);
  // Writes old bytes [begin, end) as edited, with the alignments that Hugging Face gives: a
  // replaced character stands for the first old one, an inserted one for the old one before it.
  void edit(size_t begin, size_t end, std::span<const CharacterEdit> edits);
  AlignedText finish();

 private:
  void check_size() const;
  const AlignedText& from_;
  AlignedText out_;
};

// Returns `input` with every maximal invalid piece read as U+FFFD, which stands for that piece, and
// sets `replaced` to the bytes of all these pieces.
AlignedText repaired_text(std::string_view input, uint32_t& replaced);

}  // namespace xrun
