#pragma once
// Entries of a tokenizer.json that xrun writes itself, with the members of the tokenizers library.
// They are in base because rooms that may not include each other write such files: a folder for
// plain bytes (core/text/chat) and one made from GGUF (core/model/weights).

#include <cstdint>
#include <string>

#include "core/base/json.h"

namespace xrun {

// The ByteLevel pre-tokenizer or decoder. With `use_regex` it also splits words as GPT-2 does.
Json byte_level_json(bool use_regex);

// An entry of added_tokens, matched as it is spelled, before any normalizer.
Json added_token_json(int64_t id, const std::string& content, bool special);

}  // namespace xrun
