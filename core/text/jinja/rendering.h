#pragma once
// A rendered template: its text, and the origin and generation span of every byte.

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

struct Rendering {
  std::string text;
  std::vector<RenderSpan> spans;  // tile the text in order; non-empty; neighbours differ
  std::vector<ByteRange> turns;   // one per executed generation block, in order
  // The message (from 0) in which each turn was opened; -1 or no entry if unknown.
  std::vector<int64_t> turn_messages;
};

}  // namespace xrun
