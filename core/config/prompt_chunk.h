#pragma once
// An input of the prompt as a chunk of Lua whose top-level locals outlive it.

#include <string>
#include <string_view>

namespace xrun {

// Returns the chunk with each `local` that stands outside of every block taken away, so that what
// it declares is a name of the environment: `local x, y` becomes `x, y = nil`, `local function f`
// `function f`. Lines and the bytes around stay where they are.
std::string with_lasting_locals(std::string_view chunk);

}  // namespace xrun
