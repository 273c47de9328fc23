// The origin of a token is that of the spans that wrote its bytes in the rendering.

#include "core/console/inspect/segment_traces.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/utf8.h"
#include "core/console/terminal/shown_text.h"

namespace xrun {

namespace {

constexpr size_t kCutTextBytes = 160;

TokenOrigin origin_of(const Rendering& rendering, ByteRange bytes) {
  bool written[2] = {false, false};
  // Begins at the first span that ends after the token's first byte.
  auto span = std::upper_bound(rendering.spans.begin(), rendering.spans.end(), bytes.begin,
                               [](uint32_t at, const RenderSpan& one) { return at < one.end; });
  for (; span != rendering.spans.end() && span->begin < bytes.end; ++span) {
    written[span->origin == Origin::kMessage] = true;
  }
  if (written[0] && written[1]) return TokenOrigin::kBoth;
  if (written[1]) return TokenOrigin::kMessage;
  return written[0] ? TokenOrigin::kTemplate : TokenOrigin::kUnknown;
}

// Adds roles, origins and the cut from the stream that the segment came from.
void add_trace(InspectedSegment& segment, const RowTrace::Stream& trace) {
  size_t range = 0;
  for (size_t i = 0; i < segment.tokens.size(); ++i) {
    const ByteRange bytes = trace.offsets[i];
    segment.tokens[i].origin = origin_of(trace.rendering, bytes);
    const size_t before = range;
    // A token belongs to the message in which it ends.
    while (range + 1 < trace.messages.size() && trace.messages[range].bytes.end < bytes.end) {
      ++range;
    }
    // Without messages, or within one, no turn begins.
    if (trace.messages.empty() || (i > 0 && range == before)) continue;
    const MessageRange& message = trace.messages[range];
    segment.turns.push_back(
        {shown_text(message.role.empty() ? "template" : message.role, Blanks::kBreaksMarked),
         message.message, i});
  }
  const size_t count = segment.tokens.size();
  // The stream begins with the segment's tokens; those after them were cut off.
  segment.cut_tokens = static_cast<int64_t>(trace.ids.size() - count);
  if (segment.cut_tokens == 0) return;
  const std::string_view text = trace.rendering.text;
  segment.cut_text = shown_text(shortened(text.substr(trace.offsets[count].begin), kCutTextBytes),
                                Blanks::kBreaksMarked);
}

// Adds remarks on oddities, which are not errors.
void add_remarks(InspectedSegment& segment, const Tokenizer& tokenizer, bool trains) {
  const std::vector<InspectedToken>& tokens = segment.tokens;
  const std::optional<int32_t> bos = tokenizer.bos_id();
  // The template and the tokenizer may both add one.
  if (bos && tokens.size() > 1 && tokens[0].id == *bos && tokens[1].id == *bos) {
    segment.remarks.push_back("begins with two BOS tokens");
  }
  if (trains && segment.targets() == 0) segment.remarks.push_back("none of its tokens is trained");
  const auto odd = std::find_if(tokens.begin(), tokens.end(), [](const InspectedToken& token) {
    return token.target && token.origin == TokenOrigin::kBoth;
  });
  if (odd != tokens.end()) {
    segment.remarks.push_back(
        fmt::format("the trained token {} at position {} belongs to both template and message",
                    odd->shown, odd->position));
  }
}

}  // namespace

SegmentTraces::SegmentTraces(const InspectedSource& source, const InspectedStep& step)
    // The trace of a whole row does not line up with a window, which is a piece of it.
    : windows_(source.set.window_length() > 0) {
  std::vector<int64_t> rows;
  for (const InspectedPack& pack : step.packs) {
    for (const InspectedSegment& segment : pack.segments) {
      // Both sides of a pair come from one row.
      if (index_.try_emplace(segment.row, rows.size()).second) rows.push_back(segment.row);
    }
  }
  traces_ =
      windows_ ? std::vector<RowTrace>(rows.size()) : source.set.trace(rows, source.tokenizer);
}

const RowTrace::Stream* SegmentTraces::stream(const InspectedSegment& segment) const {
  const std::vector<RowTrace::Stream>& streams = row(segment).streams;
  // Only a pair has a second stream.
  const size_t side = segment.side < 0 ? 1 : 0;
  return side < streams.size() ? &streams[side] : nullptr;
}

void trace_segments(const InspectedSource& source, const SegmentTraces& traces,
                    InspectedStep& step) {
  for (InspectedPack& pack : step.packs) {
    for (InspectedSegment& segment : pack.segments) {
      const std::string& failure = traces.row(segment).failure;
      if (const RowTrace::Stream* const stream = traces.stream(segment)) {
        add_trace(segment, *stream);
      } else if (!failure.empty()) {
        segment.remarks.push_back("roles are unknown: " +
                                  shown_text(failure, Blanks::kBreaksMarked));
      } else if (!traces.windows()) {
        // Without a rendering, only the number of cut tokens is known.
        segment.cut_tokens = source.set.cut_tokens(segment.row);
      }
      add_remarks(segment, source.tokenizer, source.set.kind() != RowKind::kPrompts);
    }
  }
}

}  // namespace xrun
