#include "core/text/tokenizer/package_numbering.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_set>

namespace xrun {

std::string package_numbering(const std::vector<AddedToken>& added, const Vocabulary& vocabulary) {
  const int64_t pieces = vocabulary.count();
  int64_t last = -1;  // the largest id that the package has given
  size_t others = 0;
  std::string first;
  std::unordered_set<std::string_view> seen;
  for (const AddedToken& token : added) {
    if (!seen.insert(token.content).second) continue;
    const std::optional<int32_t> known = vocabulary.find(token.content);
    const int64_t id = known ? *known : std::max(last + 1, pieces);
    last = std::max(last, id);
    if (id == token.id) continue;
    ++others;
    if (first.empty()) {
      first = fmt::format(
          "the added token \"{}\" has the id {} in tokenizer.json, which is kept; "
          "transformers gives it {}",
          token.content, token.id, id);
    }
  }
  return others > 1 ? fmt::format("{} (and {} more)", first, others - 1) : first;
}

}  // namespace xrun
