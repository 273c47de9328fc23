#pragma once
// What memory there is, and whether a model or a run fits into it.

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace xrun {

struct ModelConfig;
struct PlannedModel;

// Bytes that the system can give without swapping, within the limits of the control groups that the
// process is in (versions 1 and 2). 0: nobody can tell.
//   root  of /proc and /sys, for tests
int64_t system_bytes(const std::filesystem::path& root = "/");

// What $XRUN_MEMORY_MB (10^6 bytes each) lets tensors hold, in bytes; nullopt: it is not set.
// Throws Error where it is no number above 0.
std::optional<int64_t> memory_setting();

// Bytes that tensors of this process may still take: those of the system, and what the heap has
// free already, since it gives nothing back. $XRUN_MEMORY_MB, if it is set, stands for all that
// tensors may hold: what they hold is taken off. At least 1; 0: nobody can tell. Throws Error as
// memory_setting does.
int64_t available_bytes(const std::filesystem::path& root = "/");

// Throws Error, with `where` in front, if weights in a type are more than there is.
void check_weights_fit(const ModelConfig& config, c10::ScalarType dtype, int64_t available,
                       const std::string& where);

// Throws Error if the models of a run need more (memory_plan.h) than is held and available: what
// they need by kind, what there is, and the smallest change of the configuration that fits, or that
// none does.
//   longest    tokens of the longest pair or sequence, which no micro-batch can be smaller than
//   held       of it already
//   available  0: nobody can tell, and nothing is refused
void check_memory(const std::vector<PlannedModel>& models, int64_t longest, int64_t held,
                  int64_t available);

}  // namespace xrun
