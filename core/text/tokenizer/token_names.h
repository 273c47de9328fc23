#pragma once
// The special tokens that a model folder calls by name: bos_token, eos_token, image_token, ...

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/tokenizer/special_tokens.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

class TokenNames {
 public:
  TokenNames() = default;
  // Takes what has a name. Throws Error naming file and key.
  explicit TokenNames(const std::vector<SpecialToken>& tokens);

  // Names a token unless the folder said something about that name; returns whether it did.
  bool set_default(std::string_view name, std::string_view text);

  // Returns the text of a name, "" if it has none.
  std::string_view text(std::string_view name) const;

  // Returns the names that have a text (which may be empty), as templates see them.
  NamedTexts texts() const;

 private:
  using Entry = std::pair<std::string, std::optional<std::string>>;  // nothing: said to be none
  std::vector<Entry> entries_;
};

}  // namespace xrun
