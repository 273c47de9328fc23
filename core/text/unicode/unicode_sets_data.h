#pragma once
// The generated tables of unicode_sets.h and normal_form.h; make/unicode_sets_data.py writes
// unicode_sets_data.cpp.

#include <cstddef>
#include <cstdint>

namespace xrun::unicode_data {

struct CodeRange {
  uint32_t first;  // inclusive, sorted, disjoint
  uint32_t last;
};

struct ValueRange {
  uint32_t first;
  uint32_t last;
  uint8_t value;  // 0 outside all ranges
};

struct LowerDifference {
  uint32_t from;
  uint32_t to;
};

struct CompatibilityRow {
  uint32_t from;
  uint16_t begin;  // in kCompatibilityPool
  uint16_t size;
};

extern const CodeRange kAccents[];
extern const size_t kAccentsSize;
extern const CodeRange kBertAccents[];
extern const size_t kBertAccentsSize;
extern const CodeRange kBertControls[];
extern const size_t kBertControlsSize;
extern const CodeRange kPunctuation[];
extern const size_t kPunctuationSize;
extern const LowerDifference kLowerDifferences[];  // from letter_case.h, sorted
extern const size_t kLowerDifferencesSize;
extern const ValueRange kGraphemes[];  // a GraphemeClass; Hangul syllables are not in it
extern const size_t kGraphemesSize;
extern const CompatibilityRow
    kCompatibility[];  // full forms, where they are not the canonical ones
extern const size_t kCompatibilitySize;
extern const uint32_t kCompatibilityPool[];
extern const size_t kCompatibilityPoolSize;

}  // namespace xrun::unicode_data
