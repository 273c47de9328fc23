#pragma once
// Names that people know from TRL, Transformers and Axolotl, and the keys that replace them here.

#include <string>
#include <string_view>

namespace xrun {

// Returns "here it is `optim.lr`" for a name that corresponds to a key of the engine
// ("learning_rate", declared with the key as ConfigField::foreign), one sentence for another known
// name ("logging_steps"), or "". `path`, if given, is set to the key, or "".
std::string foreign_name_hint(std::string_view name, std::string* path = nullptr);

}  // namespace xrun
