#pragma once
// The special tokens that a model folder calls by name: bos_token, eos_token, image_token, ...

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/text/tokenizer.h"

namespace xrun {

// The names that every tokenizer may have, in transformers' order.
inline constexpr std::string_view kRoleNames[] = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

class TokenNames {
 public:
  // Calls `found` for what a tokenizer_config.json or special_tokens_map.json names: the roles,
  // then every other key that ends in "_token" with a text behind it, then the members of an
  // extra_special_tokens that is an object. The value is a text, an object with "content" or, for a
  // role that the file says there is none of, null.
  static void each(const Json& file,
                   const std::function<void(const std::string& name, const Json& value)>& found);

  // Takes the names of a file; where they were known, it has the last word. Throws Error naming
  // file and key.
  void read(const Json& json, const std::string& file);

  // Names a token unless the folder said something about that name; returns whether it did.
  bool set_default(std::string_view name, std::string_view text);

  // Returns the text of a name, "" if it has none.
  std::string_view text(std::string_view name) const;

  // Returns the names that have a text (which may be empty), as templates see them.
  NamedTexts texts() const;

 private:
  using Entry = std::pair<std::string, std::optional<std::string>>;  // nothing: said to be none
  Entry* find(std::string_view name);
  std::vector<Entry> entries_;
};

}  // namespace xrun
