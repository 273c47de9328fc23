#pragma once
// Patterns of tokenizer.json ({"String": ..} or {"Regex": ..}) and the stretches they cut.

#include <cstdint>
#include <string_view>

#include "core/text/tokenizer/text_border.h"
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
  // Appends stretches that tile `text` (valid UTF-8): matches from left to right, and what lies
  // between them. Throws Error if the regex engine gives up on this text.
  virtual void find(std::string_view text, std::vector<Stretch>& out) const = 0;
  // Returns what is left of a border: kPiece where two matches always meet, the border itself where
  // what lies on both sides is found as if the other were not there, and no match crosses it.
  virtual Border border_after(Border border) const {
    (void)border;
    return Border::kNone;
  }
};

// Makes the pattern of a component's "pattern" member. A regex whose splitter is written by hand
// (text_splitter.cpp) gets that; any other one is run by PCRE2.
// Throws Error that names the place if the regex cannot be compiled.
std::unique_ptr<const TextPattern> make_text_pattern(const ComponentSpec& spec);

// The parts that make_text_pattern chooses from.
std::unique_ptr<const TextPattern> make_literal_pattern(std::string literal);  // not empty
std::unique_ptr<const TextPattern> make_regex_pattern(const std::string& regex,
                                                      const std::string& where);
// Returns the hand-written splitter of exactly this regex, or nullptr.
std::unique_ptr<const TextPattern> make_known_splitter(std::string_view regex);
// Makes a pattern that matches every single character of which `test` is true.
std::unique_ptr<const TextPattern> make_character_pattern(bool (*test)(uint32_t code_point));
// Returns the splitter that the ByteLevel pre-tokenizer has built in.
std::unique_ptr<const TextPattern> make_gpt2_splitter();

}  // namespace xrun
