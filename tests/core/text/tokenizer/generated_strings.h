#pragma once
// Strings over all of Unicode, each made from a number. They equal those of
// tests/golden/make/generated_strings.py, which describes them.

#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "core/base/utf8.h"
#include "tests/tree.h"

namespace xrun {

class GeneratedStrings {
 public:
  struct Draw {
    uint64_t state;
    uint64_t below(uint64_t limit) {  // splitmix64
      uint64_t z = state += 0x9E3779B97F4A7C15;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
      return (z ^ (z >> 31)) % limit;
    }
  };

  GeneratedStrings() {
    std::ifstream file(source_path("tests/golden/character_ranges.txt"));
    for (uint32_t first, last; file >> std::hex >> first >> last;) ranges_.push_back({first, last});
  }

  std::string operator()(uint64_t index) const {
    Draw draw{index};
    std::string out;
    const uint64_t pieces = 1 + draw.below(10);
    for (uint64_t i = 0; i < pieces; ++i) add_piece(draw, out);
    return out;
  }

 private:
  static void add_word(Draw& draw, std::string& out) {
    if (draw.below(2)) out += ' ';
    const size_t begin = out.size();
    const uint64_t size = 1 + draw.below(9);
    for (uint64_t i = 0; i < size; ++i) out += char('a' + draw.below(26));
    if (draw.below(4) == 0) out[begin] = char(out[begin] - 32);
  }

  uint32_t character(Draw& draw, const std::pair<uint32_t, uint32_t>& range) const {
    return range.first + uint32_t(draw.below(range.second - range.first + 1));
  }

  void add_piece(Draw& draw, std::string& out) const {
    static constexpr const char* kBlanks[] = {" ",      "  ",     "\n",   "\r\n", "\t",
                                              "\u00a0", "\u3000", " \n ", "   ",  "\n\n"};
    static constexpr const char* kMarks[] = {"'s", "'LL", "'t ", "...",    "!?", "/",   "\"",
                                             "--", "(",   "_",   "\u2581", "'",  "://", "<0x41>"};
    const uint64_t kind = draw.below(9);
    if (kind < 3) return add_word(draw, out);
    if (kind == 4) return void(out += kBlanks[draw.below(std::size(kBlanks))]);
    if (kind == 5) return void(out += kMarks[draw.below(std::size(kMarks))]);
    if (kind == 3) {
      const uint64_t size = 1 + draw.below(6);
      for (uint64_t i = 0; i < size; ++i) out += char('0' + draw.below(10));
    } else if (kind == 6) {
      const auto& range = ranges_[draw.below(ranges_.size())];
      const uint64_t size = 1 + draw.below(4);
      for (uint64_t i = 0; i < size; ++i) append_utf8(out, character(draw, range));
    } else {
      const uint64_t size = 1 + draw.below(3);
      for (uint64_t i = 0; i < size; ++i) {
        append_utf8(out, character(draw, ranges_[draw.below(ranges_.size())]));
      }
    }
  }

  std::vector<std::pair<uint32_t, uint32_t>> ranges_;
};

}  // namespace xrun
