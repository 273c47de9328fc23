// A message's own text is the bytes inside its range that the rendering marks as Origin::kMessage.
// The pieces of both sides are matched by a longest common subsequence of equal texts. Between two
// matches, a piece may be found inside a piece of the other side.

#include "core/align/chat_regions.h"

#include <algorithm>
#include <string_view>

namespace xrun {

namespace {

// A contiguous piece of a message's text in a rendering.
struct MessagePiece {
  ByteRange bytes;
  std::string_view text;
};

constexpr size_t kMostMessagePieces = 2000;  // of a message; matching them is quadratic

// Returns nullptr if the template renders no text for the message.
const MessageRange* range_of(const ChatSide& side, int64_t message) {
  const auto found = std::find_if(side.ranges.begin(), side.ranges.end(),
                                  [&](const MessageRange& r) { return r.message == message; });
  return found == side.ranges.end() ? nullptr : &*found;
}

// Appends the bytes without blanks at the ends, unless nothing is left.
void add_piece(std::string_view rendering, ByteRange bytes, std::vector<MessagePiece>& pieces) {
  const std::string_view whole = rendering.substr(bytes.begin, bytes.end - bytes.begin);
  const std::string_view text = trimmed(whole);
  if (text.empty()) return;
  const auto begin = uint32_t(text.data() - rendering.data());
  pieces.push_back({{begin, begin + uint32_t(text.size())}, text});
}

// Returns the pieces of a message. Adjacent spans, which only differ in the generation mark, are
// one piece.
std::vector<MessagePiece> pieces_of(const ChatSide& side, const MessageRange& range) {
  const Rendering& rendering = side.tokens.rendering;
  std::vector<MessagePiece> pieces;
  ByteRange open = {0, 0};
  for (const RenderSpan& span : rendering.spans) {
    if (span.origin != Origin::kMessage) continue;
    const ByteRange bytes = {std::max(span.begin, range.bytes.begin),
                             std::min(span.end, range.bytes.end)};
    if (bytes.begin >= bytes.end) continue;
    if (bytes.begin == open.end && open.begin < open.end) {
      open.end = bytes.end;
      continue;
    }
    add_piece(rendering.text, open, pieces);
    open = bytes;
  }
  add_piece(rendering.text, open, pieces);
  return pieces;
}

// Finds the regions of one message.
class RegionMatcher {
 public:
  RegionMatcher(int64_t message, std::string_view role, const std::vector<MessagePiece>& s,
                const std::vector<MessagePiece>& t, std::vector<ChatRegion>& out)
      : message_(message), role_(role), s_(s), t_(t), out_(out) {}

  void match() {
    // Such a message gets no region, so its tokens become orphans.
    if (s_.size() > kMostMessagePieces || t_.size() > kMostMessagePieces) return;
    // length[i][j] is that of the longest common subsequence of the pieces from i and j on.
    const size_t width = t_.size() + 1;
    std::vector<uint16_t> length((s_.size() + 1) * width, 0);
    for (size_t i = s_.size(); i-- > 0;) {
      for (size_t j = t_.size(); j-- > 0;) {
        length[i * width + j] =
            s_[i].text == t_[j].text
                ? uint16_t(length[(i + 1) * width + j + 1] + 1)
                : std::max(length[(i + 1) * width + j], length[i * width + j + 1]);
      }
    }
    size_t i = 0, j = 0, gap_i = 0, gap_j = 0;
    while (i < s_.size() && j < t_.size()) {
      if (s_[i].text == t_[j].text) {
        search(gap_i, i, gap_j, j);
        add(s_[i].bytes, t_[j].bytes);
        gap_i = ++i;
        gap_j = ++j;
      } else if (length[(i + 1) * width + j] >= length[i * width + j + 1]) {
        // On a tie the student's piece is skipped, so that the result is unique.
        ++i;
      } else {
        ++j;
      }
    }
    search(gap_i, s_.size(), gap_j, t_.size());
  }

 private:
  void add(ByteRange s, ByteRange t) { out_.push_back({message_, s, t}); }

  // Finds unmatched pieces inside those of the other side, from left to right.
  void search(size_t i, size_t i_end, size_t j, size_t j_end) {
    uint32_t s_done = 0, t_done = 0;  // bytes of pieces i and j that are done
    while (i < i_end && j < j_end) {
      // A template may write the role anywhere in a message; it is not the message's own text.
      if (s_[i].text == role_) {
        ++i, s_done = 0;
        continue;
      }
      if (t_[j].text == role_) {
        ++j, t_done = 0;
        continue;
      }
      const std::string_view a = s_[i].text.substr(s_done), b = t_[j].text.substr(t_done);
      const auto size = uint32_t(std::min(a.size(), b.size()));
      // Looks for the shorter rest inside the longer one.
      const size_t at = a.size() <= b.size() ? b.find(a) : a.find(b);
      const bool s_inside = a.size() <= b.size();
      if (at != std::string_view::npos && size > 0) {
        const uint32_t s_begin = s_[i].bytes.begin + s_done + (s_inside ? 0 : uint32_t(at));
        const uint32_t t_begin = t_[j].bytes.begin + t_done + (s_inside ? uint32_t(at) : 0);
        add({s_begin, s_begin + size}, {t_begin, t_begin + size});
        (s_inside ? t_done : s_done) += uint32_t(at) + size;
      }
      if (s_inside) {
        ++i, s_done = 0;
      } else {
        ++j, t_done = 0;
      }
    }
  }

  int64_t message_;
  std::string_view role_;
  const std::vector<MessagePiece>&s_, &t_;
  std::vector<ChatRegion>& out_;
};

// The tokens that overlap a range of bytes.
struct TouchingTokens {
  int32_t begin = 0, end = 0;
  Encoding inside;  // offsets cut to the range and counted from its beginning
  bool first_crosses = false, last_crosses = false;  // the border of the range
};

// Includes tokens across the border of the range, which are never paired.
TouchingTokens touching(const ChatTokens& tokens, ByteRange range) {
  const auto touches = [&](ByteRange token) {
    return std::max(token.begin, range.begin) < std::min(token.end, range.end);
  };
  TouchingTokens out;
  const auto& offsets = tokens.offsets;
  const auto first = std::find_if(offsets.begin(), offsets.end(), touches);
  auto last = first;
  for (auto token = first; token != offsets.end() && token->begin < range.end; ++token) {
    if (touches(*token)) last = token + 1;
  }
  out.begin = int32_t(first - offsets.begin());
  out.end = int32_t(last - offsets.begin());
  for (auto token = first; token != last; ++token) {
    const uint32_t begin = std::clamp(token->begin, range.begin, range.end);
    const uint32_t end = std::clamp(token->end, range.begin, range.end);
    out.inside.offsets.push_back({begin - range.begin, end - range.begin});
    out.inside.ids.push_back(tokens.ids[size_t(token - offsets.begin())]);
  }
  if (first != last) {
    out.first_crosses = first->begin < range.begin || first->end > range.end;
    out.last_crosses = (last - 1)->begin < range.begin || (last - 1)->end > range.end;
  }
  return out;
}

// Returns true if one of the tokens [begin, end) crosses the border. A pair with it would train on
// text outside the message.
bool has_crossing(const TouchingTokens& tokens, int32_t begin, int32_t end) {
  return (tokens.first_crosses && begin == 0) ||
         (tokens.last_crosses && end == tokens.end - tokens.begin);
}

// Returns the first special token after a message's text, within its range; -1 if there is none.
int32_t turn_end(const ChatSide& side, const MessageRange& range) {
  const std::vector<MessagePiece> pieces = pieces_of(side, range);
  const uint32_t from = pieces.empty() ? range.bytes.begin : pieces.back().bytes.end;
  const auto& offsets = side.tokens.offsets;
  for (size_t k = 0; k < offsets.size() && !pieces.empty(); ++k) {
    if (offsets[k].begin < from || offsets[k].end > range.bytes.end) continue;
    if (side.table.role(side.tokens.ids[k]) >= 0) return int32_t(k);
  }
  return -1;
}

// Appends pairs in order, with orphans for the tokens between them.
class PairList {
 public:
  explicit PairList(Alignment& out) : out_(out) {}
  // Returns false for a pair that would go backwards: two templates may order regions differently.
  bool add(const AlignedPair& pair) {
    if (pair.s_begin < s_done_ || pair.t_begin < t_done_) return false;
    fill(pair.s_begin, pair.t_begin);
    out_.push_back(pair);
    s_done_ = pair.s_end;
    t_done_ = pair.t_end;
    return true;
  }
  void fill(int32_t s_end, int32_t t_end) {
    for (; s_done_ < s_end; ++s_done_) out_.push_back({s_done_, s_done_ + 1, -1, -1, false});
    for (; t_done_ < t_end; ++t_done_) out_.push_back({-1, -1, t_done_, t_done_ + 1, false});
  }

 private:
  Alignment& out_;
  int32_t s_done_ = 0, t_done_ = 0;
};

}  // namespace

std::vector<ChatRegion> chat_regions(const ChatSide& student, const ChatSide& teacher,
                                     const Json& messages) {
  std::vector<ChatRegion> regions;
  for (size_t m = 0; m < messages.size(); ++m) {
    const MessageRange* s = range_of(student, int64_t(m));
    const MessageRange* t = range_of(teacher, int64_t(m));
    if (s == nullptr || t == nullptr) continue;
    const std::vector<MessagePiece> s_pieces = pieces_of(student, *s);
    const std::vector<MessagePiece> t_pieces = pieces_of(teacher, *t);
    RegionMatcher(int64_t(m), message_role(messages.as_array()[m]), s_pieces, t_pieces, regions)
        .match();
  }
  return regions;
}

ChatAlignment align_chat(const ChatSide& student, const ChatSide& teacher, const Json& messages,
                         const WalkOptions& options) {
  ChatAlignment out;
  out.regions = chat_regions(student, teacher, messages);
  Walker walker(options);
  PairList list(out.pairs);
  size_t region = 0;
  for (size_t m = 0; m < messages.size(); ++m) {
    for (; region < out.regions.size() && out.regions[region].message == int64_t(m); ++region) {
      const TouchingTokens s = touching(student.tokens, out.regions[region].student);
      const TouchingTokens t = touching(teacher.tokens, out.regions[region].teacher);
      for (AlignedPair pair : walker.walk(student.table, s.inside, teacher.table, t.inside)) {
        // fill() makes the orphans.
        if (pair.s_begin < 0 || pair.t_begin < 0) continue;
        if (has_crossing(s, pair.s_begin, pair.s_end) ||
            has_crossing(t, pair.t_begin, pair.t_end)) {
          continue;
        }
        pair.s_begin += s.begin;
        pair.s_end += s.begin;
        pair.t_begin += t.begin;
        pair.t_end += t.begin;
        list.add(pair);
      }
      out.crossing += int(s.first_crosses) + int(s.last_crosses && s.end - s.begin > 1) +
                      int(t.first_crosses) + int(t.last_crosses && t.end - t.begin > 1);
    }
    const MessageRange* s = range_of(student, int64_t(m));
    const MessageRange* t = range_of(teacher, int64_t(m));
    // Only answers are trained, so only their ends need a partner.
    const bool ends = options.pair_specials && is_assistant(messages.as_array()[m]);
    if (s == nullptr || t == nullptr || !ends) continue;
    const int32_t s_end = turn_end(student, *s), t_end = turn_end(teacher, *t);
    if (s_end < 0 || t_end < 0) continue;
    // The ends of an answer are paired even if spelled differently: they mean the same.
    out.turn_ends += list.add({s_end, s_end + 1, t_end, t_end + 1, true});
  }
  list.fill(int32_t(student.tokens.ids.size()), int32_t(teacher.tokens.ids.size()));
  return out;
}

}  // namespace xrun
