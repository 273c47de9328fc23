#pragma once
// Roles of special tokens, by which those of two tokenizers pair: bos, eos, pad, ..., or the
// token's own spelling.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/align/alignment.h"

namespace xrun {

// Prefix of a role named after the token's own spelling: "token <|im_end|>".
inline constexpr std::string_view kSpelledRole = "token ";

// Returns the number of a role; equal names have equal numbers in the whole process. Never
// negative. Thread-safe.
int32_t special_role(std::string_view name);
// Returns the name of a number that special_role() has given.
std::string special_role_name(int32_t role);

// The roles of one token: GPT-2's <|endoftext|> is bos, eos and itself. Never empty.
using SpecialRoles = std::vector<int32_t>;
// Returns true if two tokens have at least one role in common.
bool share_role(const SpecialRoles& a, const SpecialRoles& b);

// A run of special tokens between two texts; `begin` is the index of its first token.
struct SpecialRun {
  int32_t begin = 0;
  std::vector<const SpecialRoles*> roles;  // of each token; nullptr: it pairs with no other
};

// Appends the alignment of two runs: their longest common subsequence as correct pairs, and every
// other token as an orphan, the student's first. Which of several equally long subsequences is
// taken does not depend on which side is the student. If the runs have more than 4 million
// combinations, all tokens are orphans.
void pair_specials(const SpecialRun& student, const SpecialRun& teacher, Alignment& out);

}  // namespace xrun
