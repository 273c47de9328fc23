#pragma once
// The generated tables of unicode.h and normal_form.h; make/unicode_data.py writes
// unicode_data.cpp.

#include <cstddef>
#include <cstdint>

namespace xrun::unicode_data {

struct CombiningClass {
  uint32_t first;  // inclusive range of code points
  uint32_t last;
  uint8_t value;
};

struct Decomposition {
  uint32_t from;
  uint32_t to[4];  // zero-padded
};

struct Composition {
  uint32_t first;
  uint32_t second;
  uint32_t composed;
};

extern const uint8_t kPalette[];  // [128] symbol of a block -> property bits of unicode.h
extern const size_t kPaletteSize;
extern const uint16_t kBlockOf[];  // code point / 128 -> block; beyond the end as the last entry
extern const size_t kBlockOfSize;
extern const char kBlocks[];           // 128 symbols per block
extern const uint32_t kExtraDigits[];  // numeric in Rust, not in the regex engine
extern const size_t kExtraDigitsSize;
extern const CombiningClass kClasses[];  // sorted; all other code points have class 0
extern const size_t kClassesSize;
extern const Decomposition kDecompositions[];  // full canonical ones, sorted, without Hangul
extern const size_t kDecompositionsSize;
extern const Composition kCompositions[];  // primary composites, sorted, without Hangul
extern const size_t kCompositionsSize;

}  // namespace xrun::unicode_data
