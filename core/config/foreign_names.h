#pragma once
// Names that people know from TRL, Transformers and Axolotl, and the keys that replace them here.

#include <string>
#include <string_view>

namespace xrun {

// Returns a hint for a name of another library, or for a path that people guess ("batch.size"):
//   the sentence of foreign_names.cpp, if it has one ("logging_steps")
//   "here it is `optim.lr`" for a name that ConfigField::foreign declares ("learning_rate")
//   "" for any other name
// Sets `path`, if given, to the key, or to "".
std::string foreign_name_hint(std::string_view name, std::string* path = nullptr);

}  // namespace xrun
