#include "core/text/tokenizer/regex_sets.h"

#include <string>

namespace xrun {

namespace {

constexpr NamedSet kSets[] = {
    {"alpha", "\\p{Alphabetic}", "\\p{Alphabetic}"},
    {"alnum", "\\p{Alphabetic}\\p{Nd}", "\\p{Alphabetic}\\p{Nd}"},
    {"lower", "\\p{Lowercase}", "\\p{Lowercase}"},
    {"upper", "\\p{Uppercase}", "\\p{Uppercase}"},
    {"punct", "\\p{P}\\p{S}", "\\p{P}"},
    {"word", kWord, kWordOutside},
    {"cntrl", "\\p{Cc}", "\\p{Cc}"},
    {"digit", "", "\\p{Nd}"},
    {"space", "", "\\s"},
    {"blank", "", "\\h"},
    {"xdigit", "", kHexDigits},
};

}  // namespace

const NamedSet* find_named_set(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c != ' ' && c != '-' && c != '_') plain += c >= 'A' && c <= 'Z' ? char(c + 32) : c;
  }
  for (const NamedSet& set : kSets) {
    if (set.name == plain) return &set;
  }
  return nullptr;
}

}  // namespace xrun
