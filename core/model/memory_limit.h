#pragma once
// What memory there is, and whether a model or a run fits into it.

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace xrun {

struct MemoryShape;
struct ModelConfig;

// Bytes that this process may still take: $XRUN_MEMORY_MB (10^6 bytes each) if it is set, else what
// the system can give without swapping, within the limits of the control groups that the process is
// in (versions 1 and 2). 0: nobody can tell.
//   root  of /proc and /sys, for tests
int64_t available_bytes(const std::filesystem::path& root = "/");

// Throws Error, with `where` in front, if weights in a type are more than there is.
void check_weights_fit(const ModelConfig& config, c10::ScalarType dtype, int64_t available,
                       const std::string& where);

// Throws Error if a step (memory_plan.h) needs more than is held and available: what it needs by
// kind, what there is, and the smallest change of the configuration that fits, or that none does.
//   held       of it already
//   available  0: nobody can tell, and nothing is refused
//   longest    tokens of the longest pair or sequence, which no micro-batch can be smaller than
void check_memory(const ModelConfig& config, const MemoryShape& shape, int64_t longest,
                  int64_t held, int64_t available);

}  // namespace xrun
