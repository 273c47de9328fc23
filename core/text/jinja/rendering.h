#pragma once
// A rendered template: its text, and for every byte who wrote it and whether it is trained.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/byte_range.h"

namespace xrun {

// Who wrote a piece of text. Only the template's own text may become special tokens; whatever came
// from messages, tools or other arguments is data.
enum class Origin : uint8_t { kTemplate, kMessage };

// Half open, in bytes of the rendering.
struct RenderSpan {
  uint32_t begin;
  uint32_t end;
  Origin origin;
  bool generation;  // inside {% generation %}: trained
  bool operator==(const RenderSpan&) const = default;
};

struct Rendering {
  std::string text;
  std::vector<RenderSpan> spans;  // tile the text in order; neighbours differ; none is empty
  std::vector<ByteRange> turns;   // the generation blocks in order, one an executed block
  // The message, counted from 0, that each of them was opened in; -1 or no entry: not known.
  std::vector<int64_t> turn_messages;
};

}  // namespace xrun
