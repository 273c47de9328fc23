// Neighbouring runs always differ, so a string of one origin has a single run however often it was
// sliced and joined.

#include "core/text/jinja/jinja_text.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/interrupt.h"
#include "core/base/utf8.h"

namespace xrun::jinja {

namespace {

bool is_ascii(std::string_view bytes) {
  // Eight bytes at a time: the high bit of any of them marks a character beyond ASCII.
  uint64_t high = 0;
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    high |= word;
  }
  for (; at < bytes.size(); ++at) high |= static_cast<unsigned char>(bytes[at]);
  return (high & 0x8080808080808080) == 0;
}

// Extends the last run if the mark is the same.
void add_run(RunList& runs, uint32_t end, Mark mark) {
  if (!runs.empty() && runs.back().mark == mark) {
    runs.back().end = end;
  } else {
    runs.push_back({end, mark});
  }
}

// Returns the run that holds the byte at `at`, or the end.
const MarkedRun* run_at(const Text& text, size_t at) {
  return std::upper_bound(text.runs.begin(), text.runs.end(), at,
                          [](size_t value, const MarkedRun& run) { return value < run.end; });
}

}  // namespace

void Budget::check_steps() {
  if (left_ < 0) throw Fault("the template does not terminate (too many steps)");
  check_interrupt();
  next_check_ = std::max<int64_t>(0, left_ - kCheckSteps);
}

Text& TextBuilder::text() {
  if (text_ == nullptr) text_ = std::make_shared<Text>();
  return *text_;
}

void TextBuilder::append(std::string_view bytes, Mark mark) {
  Text& built = text();
  built.ascii = built.ascii && is_ascii(bytes);
  add(bytes, mark);
}

void TextBuilder::append(const Text& text) { append(text, 0); }

void TextBuilder::append(const Text& text, uint32_t turn) {
  Text& built = this->text();
  built.ascii = built.ascii && text.ascii;
  size_t begin = 0;
  for (const MarkedRun& run : text.runs) {
    // Text of an inner block keeps its own number.
    const Mark mark{run.mark.origin, run.mark.turn != 0 ? run.mark.turn : turn};
    add(std::string_view(text.bytes).substr(begin, run.end - begin), mark);
    begin = run.end;
  }
}

void TextBuilder::add(std::string_view bytes, Mark mark) {
  if (bytes.empty()) return;
  Text& text = this->text();
  XRUN_JINJA_CHECK(text.bytes.size() + bytes.size() <= kMaxTextBytes,
                   "the text grows beyond {} MiB", kMaxTextBytes >> 20);
  text.bytes += bytes;
  add_run(text.runs, static_cast<uint32_t>(text.bytes.size()), mark);
}

void TextBuilder::append(const Text& text, size_t begin, size_t end) {
  for (const MarkedRun* run = run_at(text, begin); run != text.runs.end() && begin < end; ++run) {
    const size_t to = std::min<size_t>(run->end, end);
    append(std::string_view(text.bytes).substr(begin, to - begin), run->mark);
    begin = to;
  }
}

size_t TextBuilder::mark_turn(size_t from, uint32_t turn) {
  RunList& runs = text().runs;
  std::vector<MarkedRun> tail;  // last one first
  for (; !runs.empty() && runs.back().end > from; runs.pop_back()) tail.push_back(runs.back());
  // The end of the runs that stay, at most `from`.
  const size_t begin = runs.empty() ? 0 : runs.back().end;
  // The run that reaches across `from` is cut there.
  if (!tail.empty() && begin < from) add_run(runs, static_cast<uint32_t>(from), tail.back().mark);
  for (auto run = tail.rbegin(); run != tail.rend(); ++run) {
    // An inner block's number gives way to that of the block around it.
    add_run(runs, run->end, {run->mark.origin, turn});
  }
  return tail.size();
}

TextPtr TextBuilder::take() {
  if (text_ == nullptr) return std::make_shared<Text>();
  return std::exchange(text_, nullptr);
}

TextPtr make_text(std::string_view bytes, Mark mark) {
  XRUN_JINJA_CHECK(bytes.size() <= kMaxTextBytes, "the text grows beyond {} MiB",
                   kMaxTextBytes >> 20);
  auto text = std::make_shared<Text>();
  text->bytes = bytes;
  text->ascii = is_ascii(bytes);
  if (!bytes.empty()) text->runs.push_back({static_cast<uint32_t>(bytes.size()), mark});
  return text;
}

TextPtr slice_text(const TextPtr& text, size_t begin, size_t end) {
  if (begin == 0 && end >= text->bytes.size()) return text;
  TextBuilder builder;
  if (begin < end) builder.append(*text, begin, end);
  return builder.take();
}

TextPtr join_texts(const Text& a, const Text& b) {
  TextBuilder builder;
  builder.append(a);
  builder.append(b);
  return builder.take();
}

void charge_copies(Budget& budget, int64_t times, const Text& text, size_t rest) {
  const size_t size = text.bytes.size();
  const bool fits = rest <= kMaxTextBytes &&
                    (size == 0 || static_cast<size_t>(times) <= (kMaxTextBytes - rest) / size);
  XRUN_JINJA_CHECK(fits, "the text grows beyond {} MiB", kMaxTextBytes >> 20);
  budget.charge(times * (text.runs.end() - text.runs.begin()));
  budget.charge_bytes(rest + size * static_cast<size_t>(times));
}

Mark mark_at(const Text& text, size_t at) {
  if (text.runs.empty()) return {};
  const MarkedRun* run = run_at(text, at);
  return run == text.runs.end() ? text.runs.back().mark : run->mark;
}

int64_t text_length(const Text& text) {
  if (text.ascii) return static_cast<int64_t>(text.bytes.size());
  int64_t length = 0;
  for (size_t at = 0; at < text.bytes.size(); ++length) at += read_utf8(text.bytes, at).size;
  return length;
}

size_t byte_of_point(const Text& text, int64_t index) {
  if (text.ascii) return static_cast<size_t>(index);
  size_t at = 0;
  while (index-- > 0 && at < text.bytes.size()) at += read_utf8(text.bytes, at).size;
  return at;
}

size_t find_bytes(std::string_view bytes, std::string_view needle, size_t from) {
  if (from > bytes.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  // memmem is linear; string_view::find is quadratic on adversarial input.
  const void* found =
      memmem(bytes.data() + from, bytes.size() - from, needle.data(), needle.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - bytes.data());
}

void append_escaped(TextBuilder& out, const Text& text) {
  size_t plain = 0;
  for (size_t at = 0; at < text.bytes.size(); ++at) {
    const size_t which = std::string_view("&<>'\"").find(text.bytes[at]);
    if (which == std::string_view::npos) continue;
    static constexpr std::string_view kEntities[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    out.append(text, plain, at);
    out.append(kEntities[which], mark_at(text, at));
    plain = at + 1;
  }
  out.append(text, plain, text.bytes.size());
}

}  // namespace xrun::jinja
