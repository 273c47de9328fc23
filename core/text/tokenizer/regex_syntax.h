#pragma once
// Regexes of tokenizer.json, written for Oniguruma, in the spelling of PCRE2.

#include <string>
#include <string_view>

namespace xrun {

// Returns a regex that means to PCRE2 what `regex` means to Oniguruma's Ruby syntax, where the two
// read the same characters differently:
//   X{n,m}+       one X{n,m} or more; to PCRE2 a possessive X{n,m}
//   {,n}          up to n; to PCRE2 text
//   [A&&[^B]]     of A, not of B; to PCRE2 a class of A, & and [, and more behind it
//   [a[bc]]       a union; to PCRE2 a class of a and [, and text behind it
//   \h, \H        a hexadecimal digit, none; to PCRE2 a blank, none
//   \u0061        a character; PCRE2 refuses it
//   \w, \W, \b    marks and connectors belong to words; to PCRE2 they do not
//   [[:alpha:]]   and other sets by name, also as \p{Alpha}: Unicode's properties of that name
// Everything else stays as it is. Throws Error that begins with `where` for what has no such form
// (a negated class with &&, a negated class inside a union).
std::string pcre2_syntax(std::string_view regex, const std::string& where);

// Returns the bytes of a regex around a place for a message, 80 at most, between whole characters.
std::string regex_excerpt(std::string_view regex, size_t at);

}  // namespace xrun
