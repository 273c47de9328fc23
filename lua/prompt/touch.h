#pragma once
// Whether what is typed at a prompt can change the run that is paused there: a touch.

#include <string>
#include <string_view>
#include <vector>

#include "lua/prompt/prompt.h"

namespace xrun {

// What a chunk does besides looking, read off its tokens; functions that it defines count as run.
struct ChunkTouch {
  // It assigns a field or an element, or calls what is not known to look alone: verbs, Lua's own
  // functions without effects, operators that write nothing and draw no random number, log-probs.
  // May be true of a chunk that changes nothing, never false of one that does.
  bool touches = false;
  std::vector<std::string> places;  // assigned fields that names alone lead to, as "cfg.beta"
  std::vector<std::string> names;   // assigned names
};

// Of an input as it was typed; of ":time CHUNK" and the like what their chunk does. Names are
// looked up as the prompt has them now; nothing is called.
ChunkTouch chunk_touch(Prompt& prompt, std::string_view input);

}  // namespace xrun
