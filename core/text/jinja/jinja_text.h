#pragma once
// Strings of the template engine: bytes that carry their origin and their generation block.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/text/jinja/rendering.h"

namespace xrun::jinja {

// An error inside a template; the caller adds the template's name and line.
class Fault : public Error {
 public:
  using Error::Error;
};

#define XRUN_JINJA_CHECK(cond, ...)                         \
  do {                                                      \
    if (!(cond)) [[unlikely]]                               \
      throw ::xrun::jinja::Fault(fmt::format(__VA_ARGS__)); \
  } while (false)

// The remaining work of a rendering, so that a hostile template terminates. One step is about one
// node of the tree or 64 bytes of text.
class Budget {
 public:
  explicit Budget(int64_t steps)
      : left_(steps), next_check_(std::max<int64_t>(0, steps - kCheckSteps)) {}
  // Throws Fault when the budget is spent. A rendering of a million steps, far more than templates
  // take, can be interrupted.
  void charge(int64_t steps) {
    left_ -= steps;
    if (left_ < next_check_) [[unlikely]]
      check_steps();
  }
  void charge_bytes(size_t bytes) { charge(static_cast<int64_t>(bytes / 64)); }

 private:
  static constexpr int64_t kCheckSteps = 1'000'000;  // steps between two checks, about 0.1 s
  void check_steps();

  int64_t left_, next_check_;
};

struct Mark {
  Origin origin = Origin::kTemplate;
  uint32_t turn = 0;  // generation block, from 1; 0 outside
  bool operator==(const Mark&) const = default;
};

// The bytes up to `end` carry `mark`.
struct MarkedRun {
  uint32_t end;
  Mark mark;
};

// Runs in order. One or two, the common case, need no allocation.
class RunList {
 public:
  RunList() = default;
  RunList(const RunList&) = delete;
  RunList& operator=(RunList&& other) noexcept {
    size_ = other.size_;
    few_[0] = other.few_[0];
    few_[1] = other.few_[1];
    many_ = std::move(other.many_);
    return *this;
  }
  void push_back(MarkedRun run) {
    if (many_.empty() && size_ < 2) {
      few_[size_++] = run;
      return;
    }
    if (many_.empty()) many_.assign(few_, few_ + size_);
    many_.push_back(run);
    ++size_;
  }
  void pop_back() {
    --size_;
    if (!many_.empty()) many_.pop_back();
  }
  bool empty() const { return size_ == 0; }
  const MarkedRun* begin() const { return many_.empty() ? few_ : many_.data(); }
  const MarkedRun* end() const { return begin() + size_; }
  MarkedRun& back() { return many_.empty() ? few_[size_ - 1] : many_.back(); }
  const MarkedRun& back() const { return *(end() - 1); }

 private:
  MarkedRun few_[2] = {};
  size_t size_ = 0;
  std::vector<MarkedRun> many_;
};

// Base of the objects that values share.
struct SharedValue {
  virtual ~SharedValue() = default;
};

// An immutable UTF-8 text. Runs tile it in order; an empty text has none.
struct Text : SharedValue {
  std::string bytes;
  RunList runs;
  bool ascii = true;  // then code points are bytes
};
using TextPtr = std::shared_ptr<const Text>;

inline constexpr size_t kMaxTextBytes = size_t{64} << 20;

// Builds a string piece by piece. Throws Fault beyond kMaxTextBytes.
class TextBuilder {
 public:
  void append(std::string_view bytes, Mark mark);
  void append(const Text& text);
  // Text outside generation blocks becomes part of block `turn`.
  void append(const Text& text, uint32_t turn);
  void append(const Text& text, size_t begin, size_t end);
  // Puts all bytes from `from` on into a generation block; returns the number of runs rewritten.
  size_t mark_turn(size_t from, uint32_t turn);
  size_t size() const { return text_ == nullptr ? 0 : text_->bytes.size(); }
  // Returns the text and starts over.
  TextPtr take();

 private:
  Text& text();
  void add(std::string_view bytes, Mark mark);  // does not update text().ascii
  std::shared_ptr<Text> text_;                  // created by the first append
};

TextPtr make_text(std::string_view bytes, Mark mark = {});
TextPtr slice_text(const TextPtr& text, size_t begin, size_t end);  // bytes
TextPtr join_texts(const Text& a, const Text& b);

// Charges for a string of `times` copies of `text` and `rest` more bytes before it is built. Throws
// Fault beyond kMaxTextBytes.
void charge_copies(Budget& budget, int64_t times, const Text& text, size_t rest = 0);

// Returns the mark of the byte at `at`, beyond the end that of the last byte; the template's if the
// text is empty.
Mark mark_at(const Text& text, size_t at);

int64_t text_length(const Text& text);  // code points
// Returns the byte at which a code point begins (0 <= index <= length).
size_t byte_of_point(const Text& text, int64_t index);

// Returns the first offset of `needle` in `bytes` at or after `from`, or npos; linear in both
// sizes.
size_t find_bytes(std::string_view bytes, std::string_view needle, size_t from = 0);

// Appends `text` with characters & < > ' " as HTML entities, as MarkupSafe spells them.
void append_escaped(TextBuilder& out, const Text& text);

}  // namespace xrun::jinja
