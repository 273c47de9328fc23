#pragma once
// Defaults of settings that are also used without a configuration.

#include <cstdint>

namespace xrun {

constexpr double kMaxBadShare = 0.5;       // max_bad
constexpr int64_t kMaxMicroTokens = 8192;  // batch.max_tokens

}  // namespace xrun
