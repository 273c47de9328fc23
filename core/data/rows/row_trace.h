#pragma once
// How a row became its tokens: the rendering behind them, for whoever shows it. Made anew from the
// row's file; training never needs it.

#include <cstdint>
#include <string>
#include <vector>

#include "core/text/chat/chat_template.h"
#include "core/text/chat/message_ranges.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

// One stream of a row, before over_length = "cut" took anything off.
struct StreamTrace {
  std::vector<int32_t> ids;
  std::vector<ByteRange> offsets;  // bytes of rendering.text, one a token
  Rendering rendering;
  std::vector<MessageRange> messages;
};

// The streams of a row: a pair's chosen and rejected side, else one; none for rows without a
// template.
struct RowTrace {
  std::vector<StreamTrace> streams;
  std::string failure;  // why there are none
};

}  // namespace xrun
