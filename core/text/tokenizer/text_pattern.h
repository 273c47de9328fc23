#pragma once
// The patterns of tokenizer.json, {"String": ..} or {"Regex": ..}, and the stretches that they cut.

#include <cstdint>
#include <string_view>

#include "core/text/tokenizer/safe_split.h"
#include "core/text/tokenizer/tokenizer_component.h"

namespace xrun {

struct Stretch {
  uint32_t begin;
  uint32_t end;
  bool is_match;
};

// Immutable, thread-safe.
class TextPattern {
 public:
  virtual ~TextPattern() = default;
  // Appends stretches that tile `text` (valid UTF-8): the matches from left to right and the text
  // between them. Throws Error if the regex engine gives up on this text.
  virtual void find(std::string_view text, std::vector<Stretch>& out) const = 0;
  // Returns the split point after the pattern: kPiece if two matches always meet there; the
  // same kind if no match crosses it and each side is matched as it would be alone.
  virtual SafeSplit split_after(SafeSplit split) const {
    (void)split;
    return SafeSplit::kNone;
  }
};

// Makes the pattern of a component's "pattern" member. A known regex gets its hand-written splitter
// (text_splitters.cpp), any other one runs in PCRE2. Throws Error naming the path if the regex does
// not compile.
std::unique_ptr<const TextPattern> make_text_pattern(const ComponentSpec& spec);

// The patterns that make_text_pattern chooses from.
std::unique_ptr<const TextPattern> make_literal_pattern(std::string literal);  // not empty
std::unique_ptr<const TextPattern> make_regex_pattern(const std::string& regex,
                                                      const std::string& where);
// Returns the hand-written splitter of exactly this regex, or nullptr.
std::unique_ptr<const TextPattern> make_known_splitter(std::string_view regex);
// Makes a pattern that matches each character for which `test` is true.
std::unique_ptr<const TextPattern> make_character_pattern(bool (*test)(uint32_t code_point));
// Makes the splitter of the ByteLevel pre-tokenizer.
std::unique_ptr<const TextPattern> make_gpt2_splitter();

}  // namespace xrun
