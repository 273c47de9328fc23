#pragma once
// The bytes that a recipe with limits may print: a shell may send them to a file that no other
// limit counts.

#include <cstdint>

namespace xrun {

// Set once, before the recipe is opened.
void limit_printing(int64_t mb);

// Returns the limit in MB; 0: there is none.
int64_t printing_limit();

// Counts printed bytes. Returns false once they exceed the limit.
bool may_print(uint64_t bytes);

}  // namespace xrun
