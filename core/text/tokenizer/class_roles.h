#pragma once
// The special tokens that a tokenizer class of transformers has where its folder names none.

#include <span>
#include <string_view>

namespace xrun {

struct ClassRole {
  std::string_view name;  // "eos_token"
  std::string_view text;
};

// Returns the default roles of a class by its name, with or without "Fast"; none if the class is
// not known or has none, as PreTrainedTokenizerFast.
std::span<const ClassRole> class_roles(std::string_view tokenizer_class);

}  // namespace xrun
