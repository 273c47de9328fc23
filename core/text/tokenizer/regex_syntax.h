#pragma once
// Translates the regexes of tokenizer.json, written for Oniguruma, to PCRE2.

#include <string>
#include <string_view>

namespace xrun {

// Returns a PCRE2 regex with the meaning of `regex` in Oniguruma's Ruby syntax. The two read these
// differently:
//   X{n,m}+       one X{n,m} or more; to PCRE2 a possessive X{n,m}
//   X{n}?         one X{n} or none; to PCRE2 X{n}
//   {,n}          up to n; to PCRE2 text
//   [A&&[^B]]     of A, not of B; to PCRE2 a class of A, & and [, then more
//   [a[bc]]       a union; to PCRE2 a class of a and [, then text
//   \h, \H        a hexadecimal digit or not; to PCRE2 a blank or not
//   \u0061        a character; PCRE2 refuses it
//   \w, \W, \b    marks and connectors belong to words; to PCRE2 they do not
//   [[:alpha:]]   and other named sets, also as \p{Alpha}: the Unicode properties of that name
// Everything else is unchanged. Throws Error starting with `where` for a regex without such a form
// (a negated class with &&, a negated class inside a union).
std::string pcre2_syntax(std::string_view regex, const std::string& where);

// Returns at most 80 bytes of a regex around byte `at` for a message, in whole characters.
std::string regex_excerpt(std::string_view regex, size_t at);

}  // namespace xrun
