#pragma once
// Oniguruma's sets of characters as PCRE2 spells them, for the inside of a class.

#include <string_view>

namespace xrun {

inline constexpr std::string_view kHexDigits = "0-9A-Fa-f";
// \w in a class, and what it has besides outside of one: Oniguruma reads Latin-1 from another
// table.
inline constexpr std::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
inline constexpr std::string_view kWordOutside =
    "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\xb2\\xb3\\xb9\\xbc-\\xbe";
inline constexpr std::string_view kNotWord =
    "\\p{C}\\p{Z}\\p{S}\\p{No}\\p{Pd}\\p{Ps}\\p{Pe}\\p{Pi}\\p{Pf}\\p{Po}";

// Names of sets, [:name:] and \p{name}, that PCRE2 does not know or knows as other sets.
struct NamedSet {
  std::string_view name;
  std::string_view bracket;   // [:name:]; "" where both mean the same
  std::string_view property;  // \p{name}
};
// Finds a set by its name, in which case, spaces, - and _ do not count; nullptr: PCRE2 knows it as
// Oniguruma does, or neither does.
const NamedSet* find_named_set(std::string_view name);

}  // namespace xrun
