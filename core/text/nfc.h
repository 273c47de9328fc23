#pragma once
// Unicode normal form C, the version 9.0 that Hugging Face's tokenizers applies.

#include <cstdint>
#include <vector>

namespace xrun {

// One character of the normal form, as an edit of the old text read from left to right:
// change 0 replaces the next old character, 1 is inserted after it, -n replaces it and removes the
// n after it.
struct NfcEdit {
  uint32_t character;
  int32_t change;
};

// Returns the normal form of a stretch that begins at a stable character or at the text's begin,
// and ends before a stable one (unicode.h, kNfcUnstable) or at the text's end.
std::vector<NfcEdit> compose_nfc(const std::vector<uint32_t>& characters);

}  // namespace xrun
