// UAX #15: full decomposition, canonical ordering and, for the composed forms, composition with the
// last starter unless a character of the same or a higher class is between them. Hangul syllables
// follow from arithmetic, all other characters from tables.

#include "core/text/tokenizer/normal_form.h"

#include <algorithm>
#include <span>

#include "core/text/unicode/unicode.h"
#include "core/text/unicode/unicode_data.h"
#include "core/text/unicode/unicode_sets_data.h"

namespace xrun {

namespace {

using namespace unicode_data;

// The Unicode Standard, section 3.12: SBase, LBase, ... and the counts of Hangul syllables.
constexpr uint32_t kS = 0xAC00, kL = 0x1100, kV = 0x1161, kT = 0x11A7;
constexpr uint32_t kLCount = 19, kVCount = 21, kTCount = 28, kSCount = kLCount * kVCount * kTCount;

struct Decomposed {
  uint32_t character;
  uint8_t ccc;     // canonical combining class; 0: a starter
  int32_t change;  // as in CharacterEdit
};

uint8_t combining_class(uint32_t c) {
  const CombiningClass* end = kClasses + kClassesSize;
  const CombiningClass* found = std::upper_bound(
      kClasses, end, c, [](uint32_t value, const CombiningClass& k) { return value < k.first; });
  if (found == kClasses) return 0;
  --found;
  return c <= found->last ? found->value : 0;
}

bool is_composed(NormalForm form) { return form == NormalForm::kNfc || form == NormalForm::kNfkc; }
bool is_compatible(NormalForm form) {
  return form == NormalForm::kNfkc || form == NormalForm::kNfkd;
}

const Decomposition* canonical(uint32_t c) {
  const Decomposition* end = kDecompositions + kDecompositionsSize;
  const auto less = [](const Decomposition& d, uint32_t value) { return d.from < value; };
  const Decomposition* found = std::lower_bound(kDecompositions, end, c, less);
  return found != end && found->from == c ? found : nullptr;
}

// Marks the blocks of 128 characters that contain compatibility forms.
const std::vector<bool>& compatibility_blocks() {
  static const std::vector<bool> blocks = [] {
    std::vector<bool> marked(0x110000 / 128);
    for (size_t i = 0; i < kCompatibilitySize; ++i) marked[kCompatibility[i].from / 128] = true;
    return marked;
  }();
  return blocks;
}

// Returns the full compatibility form; empty if it equals the canonical one.
std::span<const uint32_t> compatibility(uint32_t c) {
  if (!compatibility_blocks()[c / 128]) return {};
  const CompatibilityRow* end = kCompatibility + kCompatibilitySize;
  const auto less = [](const CompatibilityRow& row, uint32_t value) { return row.from < value; };
  const CompatibilityRow* found = std::lower_bound(kCompatibility, end, c, less);
  if (found == end || found->from != c) return {};
  return {kCompatibilityPool + found->begin, found->size};
}

bool is_hangul_syllable(uint32_t c) { return c >= kS && c < kS + kSCount; }

void decompose(uint32_t c, NormalForm form, std::vector<Decomposed>& out) {
  const auto add = [&](uint32_t character, bool first) {
    // The first character replaces the old one, the others are inserted.
    out.push_back({character, combining_class(character), first ? 0 : 1});
  };
  if (is_hangul_syllable(c)) {
    const uint32_t s = c - kS;
    add(kL + s / (kVCount * kTCount), true);
    add(kV + s % (kVCount * kTCount) / kTCount, false);
    if (s % kTCount != 0) add(kT + s % kTCount, false);
    return;
  }
  if (is_compatible(form)) {
    const std::span<const uint32_t> parts = compatibility(c);
    for (size_t i = 0; i < parts.size(); ++i) add(parts[i], i == 0);
    if (!parts.empty()) return;
  }
  const Decomposition* found = canonical(c);
  if (found == nullptr) return add(c, true);
  // At most four characters, padded with 0; the table is fully expanded.
  for (int i = 0; i < 4 && found->to[i] != 0; ++i) add(found->to[i], i == 0);
}

// Returns the composite of two characters, or 0.
uint32_t composite(uint32_t a, uint32_t b) {
  if (a >= kL && a < kL + kLCount && b >= kV && b < kV + kVCount) {
    // L + V -> LV
    return kS + ((a - kL) * kVCount + (b - kV)) * kTCount;
  }
  if (a >= kS && a < kS + kSCount && (a - kS) % kTCount == 0 && b > kT && b < kT + kTCount) {
    // LV + T -> LVT
    return a + (b - kT);
  }
  const auto less = [](const Composition& x, const std::pair<uint32_t, uint32_t>& y) {
    return x.first != y.first ? x.first < y.first : x.second < y.second;
  };
  const Composition* end = kCompositions + kCompositionsSize;
  const Composition* found = std::lower_bound(kCompositions, end, std::pair(a, b), less);
  return found != end && found->first == a && found->second == b ? found->composed : 0;
}

// UAX #15, canonical ordering: sorts each run of non-starters by class; equal classes keep their
// order.
void order_marks(std::vector<Decomposed>& parts) {
  for (auto begin = parts.begin(); begin != parts.end();) {
    if (begin->ccc == 0) {
      ++begin;
      continue;
    }
    const auto end =
        std::find_if(begin, parts.end(), [](const Decomposed& p) { return p.ccc == 0; });
    std::stable_sort(begin, end,
                     [](const Decomposed& a, const Decomposed& b) { return a.ccc < b.ccc; });
    begin = end;
  }
}

std::vector<CharacterEdit> compose(const std::vector<Decomposed>& parts) {
  std::vector<CharacterEdit> out;
  size_t starter = SIZE_MAX;  // index in `out` of the last starter
  int last_class = -1;        // class of the character written after it; -1: none
  for (const Decomposed& part : parts) {
    // A character is blocked if one of the same or a higher class is between it and the starter.
    // After the starter itself last_class is -1, so even another starter may compose (Hangul).
    if (starter != SIZE_MAX && last_class < int(part.ccc)) {
      const uint32_t c = composite(out[starter].character, part.character);
      if (c != 0) {
        // Two old characters become one: the edit removes one more.
        out[starter] = {c, out[starter].change + part.change - 1};
        continue;
      }
    }
    out.push_back({part.character, part.change});
    if (part.ccc == 0) starter = out.size() - 1;
    last_class = part.ccc == 0 ? -1 : part.ccc;
  }
  return out;
}

}  // namespace

bool is_unstable(uint32_t c, NormalForm form) {
  if (c < 0x80) return false;
  if (is_compatible(form) && !compatibility(c).empty()) return true;
  if (is_composed(form)) return unicode_properties(c) & kNfcUnstable;
  // Decomposed forms: any character that decomposes, or that reordering may move.
  return is_hangul_syllable(c) || canonical(c) != nullptr || combining_class(c) != 0;
}

std::vector<CharacterEdit> normalize(const std::vector<uint32_t>& characters, NormalForm form) {
  std::vector<Decomposed> parts;
  for (uint32_t c : characters) decompose(c, form, parts);
  order_marks(parts);
  if (is_composed(form)) return compose(parts);
  std::vector<CharacterEdit> out;
  for (const Decomposed& part : parts) out.push_back({part.character, part.change});
  return out;
}

}  // namespace xrun
