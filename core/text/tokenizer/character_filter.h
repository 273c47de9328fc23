#pragma once
// Normalizing character by character.

#include <string>

#include "core/text/tokenizer/aligned_text.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

// Rewrites every character: `rewrite(code_point, out)` appends what stands for it, nothing to
// remove it. What is written stands for the old character. A text that stays as it is stays a view.
template <class Rewrite>
void rewrite_characters(AlignedText& text, const Rewrite& rewrite) {
  const std::string_view old = text.text();
  std::string bytes;
  // Returns whether the character at `at` changes, and sets `bytes` to what it becomes.
  const auto changes = [&](size_t at) {
    bytes.clear();
    rewrite(utf8_character(old, at), bytes);
    return old.substr(at, utf8_size(old[at])) != bytes;
  };
  size_t at = 0;
  while (at < old.size() && !changes(at)) at += utf8_size(old[at]);
  if (at == old.size()) return;
  AlignedTextBuilder builder(text);
  size_t copied = 0;  // old bytes before this are written
  for (; at < old.size(); at += utf8_size(old[at])) {
    if (!changes(at)) continue;
    builder.copy(copied, at);
    if (!bytes.empty()) builder.insert(bytes, text.character_origin(at));
    copied = at + utf8_size(old[at]);
  }
  builder.copy(copied, old.size());
  text = builder.finish();
}

}  // namespace xrun
