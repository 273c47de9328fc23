#pragma once
// Limits the bytes that an untrusted recipe prints: a shell may redirect them to a file that no
// other limit counts.

#include <cstdint>

namespace xrun {

// Sets the limit in MB; 0: none. Called once, before the recipe is opened.
void limit_printing(int64_t mb);

// Returns the limit in MB; 0: none.
int64_t printing_limit();

// Counts printed bytes. Returns false once they exceed the limit.
bool may_print(uint64_t bytes);

}  // namespace xrun
