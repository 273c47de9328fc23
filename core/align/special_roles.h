#pragma once
// Roles of special tokens, by which those of two tokenizers pair: bos, eos, pad, ..., or the token
// as it is spelled.

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
bool share_role(const SpecialRoles& a, const SpecialRoles& b);

// A run of special tokens between two texts; `begin` is the index of its first token.
struct SpecialRun {
  int32_t begin = 0;
  std::vector<const SpecialRoles*> roles;  // one for each token; nullptr: pairs with none
};

// Appends the alignment of two runs: their longest common subsequence as correct pairs, every other
// token as an orphan, the student's first. Among equally long ones, the choice does not depend on
// which side is the student. Runs of more than 4 million combinations are orphans.
void pair_specials(const SpecialRun& student, const SpecialRun& teacher, Alignment& out);

}  // namespace xrun
