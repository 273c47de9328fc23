#pragma once
// The options that the Metaspace pre-tokenizer and the Metaspace decoder share.

#include "core/text/tokenizer/tokenizer_component.h"

#include <string>

namespace xrun {

enum class PrependScheme { kFirst, kNever, kAlways };

struct MetaspaceOptions {
  std::string replacement;  // one character, usually U+2581
  PrependScheme scheme = PrependScheme::kAlways;
  bool split = true;
};

// Reads them; throws Error that names the place if a member is wrong.
MetaspaceOptions read_metaspace(const ComponentSpec& spec);

}  // namespace xrun
