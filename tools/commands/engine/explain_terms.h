#pragma once
// Documentation of names that are neither settings nor Lua names: the laws of templates, the
// reasons to drop a row, metrics, variables of the environment.

#include <string>
#include <vector>

namespace xrun {

// A name and what it means, in one sentence.
struct ExplainedTerm {
  std::string name;
  std::string meaning;
};

// Returns all terms, in the order of their tables.
std::vector<ExplainedTerm> explained_terms();

// Returns the meaning of a term and what to do about it, or "".
std::string explain_term(const std::string& name);

}  // namespace xrun
