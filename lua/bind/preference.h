#pragma once
// A preference set as Lua holds it: the rows of one split, and the policy it was made for.

#include <memory>
#include <string>
#include <vector>

#include "core/data/preference_set.h"

namespace xrun {

class KeptColumns;
class Policy;

struct PreferenceData {
  PreferenceSet set;
  std::shared_ptr<Policy> policy;           // whose tokenizer and vocabulary it was made for
  std::string name;                         // of its first source, for messages
  std::shared_ptr<const KeptColumns> kept;  // of the whole set
  Json options;  // those of xrun.preference, for a set that split{ data } opens
  uint64_t seed = 0;
  bool shuffle = true;
};

}  // namespace xrun
