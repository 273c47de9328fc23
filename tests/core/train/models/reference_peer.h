#pragma once
// The key under which a reference stores its log-probs.

#include <string>

#include "core/train/models/reference.h"

namespace xrun {

struct ReferencePeer {
  static SidecarKey sidecar_key(const Reference& reference, const std::string& data_key) {
    return reference.logprobs_.key(data_key, /*max_tokens=*/0);
  }
  // The same as text.
  static std::string key_text(const Reference& reference, const std::string& data_key) {
    return dump_json(sidecar_key(reference, data_key).document());
  }
};

}  // namespace xrun
