// A limited process runs one recipe and prints from one thread, so the count needs no lock.

#include "core/sandbox/print_limit.h"

namespace xrun {

namespace {
int64_t limit_mb = 0;
uint64_t printed = 0;
}  // namespace

void limit_printing(int64_t mb) { limit_mb = mb; }

int64_t printing_limit() { return limit_mb; }

bool may_print(uint64_t bytes) {
  printed += bytes;
  return limit_mb == 0 || printed <= static_cast<uint64_t>(limit_mb) << 20;
}

}  // namespace xrun
