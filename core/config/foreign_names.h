#pragma once
// Names that people know from TRL, Transformers and Axolotl, and the keys that replace them here.

#include <string>
#include <string_view>

namespace xrun {

// Returns one sentence for a name, or for a path as people guess it ("batch.size"): its own where
// foreign_names.cpp has one ("logging_steps"), else "here it is `optim.lr`" for a name of a key of
// the engine ("learning_rate", declared with the key as ConfigField::foreign), or "". `path`, if
// given, is set to the key, or "".
std::string foreign_name_hint(std::string_view name, std::string* path = nullptr);

}  // namespace xrun
