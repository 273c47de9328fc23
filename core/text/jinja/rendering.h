#pragma once
// A rendered template: its text, and the origin, generation span and template line of every byte.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/strings.h"

namespace xrun {

// The author of a piece of text. Only the template's own text may become special tokens; text from
// messages, tools and other arguments is data.
enum class Origin : uint8_t { kTemplate, kMessage };

// Half-open, in bytes of the rendering.
struct RenderSpan {
  uint32_t begin;
  uint32_t end;
  Origin origin;
  bool generation;  // inside {% generation %}: trained
  bool operator==(const RenderSpan&) const = default;
};

// The bytes up to `end` were written by a line of the template.
struct RenderLine {
  uint32_t end;
  int32_t line;  // from 1
  bool operator==(const RenderLine&) const = default;
};

struct Rendering {
  std::string text;
  std::vector<RenderSpan> spans;  // tile the text in order; non-empty; neighbours differ
  std::vector<ByteRange> turns;   // one per executed generation block, in order
  // The message (from 0) in which each turn was opened; -1 or no entry if unknown.
  std::vector<int64_t> turn_messages;
  // In order, from the beginning of the text. The lines of bytes after the last entry are unknown,
  // as are those of all bytes of a template in Lua.
  std::vector<RenderLine> lines = {};
};

// Returns the author of a byte; kMessage past the end.
inline Origin origin_at(const Rendering& rendering, size_t at) {
  const auto span =
      std::upper_bound(rendering.spans.begin(), rendering.spans.end(), at,
                       [](size_t value, const RenderSpan& one) { return value < one.end; });
  return span == rendering.spans.end() ? Origin::kMessage : span->origin;
}

// Returns the template's line that wrote a byte; 0 if it is unknown.
inline int32_t line_at(const Rendering& rendering, size_t at) {
  const auto line =
      std::upper_bound(rendering.lines.begin(), rendering.lines.end(), at,
                       [](size_t value, const RenderLine& one) { return value < one.end; });
  return line == rendering.lines.end() ? 0 : line->line;
}

}  // namespace xrun
