// Rows diverge at the branching nodes of their trie (min_run = 1). One row per child is compared
// with the rows of the children before it, so that a difference that many rows have is found once.

#include "core/prefix/row_breaks.h"

#include <algorithm>
#include <optional>

namespace xrun {

namespace {

constexpr size_t kMostCompared = 64;      // siblings with which a child is compared
constexpr int64_t kMostDiffering = 24;    // tokens; enough for a date, a name, an empty thought
constexpr int64_t kLeastEqualAfter = 16;  // tokens; fewer are the markup that every prompt has

int64_t ssize_of(const ComparedRow& row) { return std::ssize(row.tokens); }

// Returns the end, in bytes of the rendering, of the first `count` messages; 0 if it is unknown.
// A message range ends too early if later messages change how the template renders the message. The
// generation blocks do not, so where the template reports their messages, they decide.
uint32_t end_of_messages(const RowTrace::Stream& trace, int64_t count) {
  uint32_t end = 0;
  for (const MessageRange& range : trace.messages) {
    if (range.message >= 0 && range.message < count) end = range.bytes.end;
  }
  const Rendering& rendering = trace.rendering;
  for (size_t t = 0; t < std::min(rendering.turns.size(), rendering.turn_messages.size()); ++t) {
    const int64_t message = rendering.turn_messages[t];
    if (message >= 0 && message < count) end = std::max(end, rendering.turns[t].end);
    if (message != count) continue;
    end = std::max(end, rendering.turns[t].begin);
    break;
  }
  return end;
}

// Returns the number of equal messages that both rows begin with; -1 if even the template's
// arguments differ.
int64_t count_equal_messages(const RowTrace::Stream& a, const RowTrace::Stream& b) {
  const size_t most = std::min(a.inputs.size(), b.inputs.size());
  size_t equal = 0;
  while (equal < most && a.inputs[equal] == b.inputs[equal]) ++equal;
  return static_cast<int64_t>(equal) - 1;  // the arguments come first
}

// The tokens of the equal messages that a row does not share, because they follow the break.
struct LostTokens {
  int64_t count = 0;
  bool merged = false;  // it is one token, which spans the end of the equal messages
};

// The row must have a trace: only the rendering tells which bytes belong to which message.
LostTokens lost_tokens(const ComparedRow& row, int64_t position, int64_t equal_messages) {
  const std::vector<ByteRange>& offsets = row.trace->offsets;
  // Tokens that begin inside the equal messages, from the break on.
  const uint32_t end = end_of_messages(*row.trace, equal_messages);
  LostTokens lost;
  for (auto t = static_cast<size_t>(position); t < row.tokens.size(); ++t) {
    if (offsets[t].begin >= end) break;
    ++lost.count;
  }
  const ByteRange first = offsets[static_cast<size_t>(position)];
  lost.merged = lost.count == 1 && first.end > end &&
                origin_at(row.trace->rendering, first.begin) == Origin::kMessage;
  return lost;
}

// Returns a break of cause kTemplate or kMerged, inside messages that both rows begin with.
std::optional<RowBreak> template_break(const ComparedRow& a, const ComparedRow& b,
                                       const RowBreak& known) {
  if (a.trace == nullptr || b.trace == nullptr) return std::nullopt;
  RowBreak found = known;
  found.equal_messages = count_equal_messages(*a.trace, *b.trace);
  if (found.equal_messages <= 0) return std::nullopt;
  const LostTokens of_a = lost_tokens(a, known.at.position, found.equal_messages);
  const LostTokens of_b = lost_tokens(b, known.at.position, found.equal_messages);
  if (of_a.merged || of_b.merged) {
    found.cause = BreakCause::kMerged;
  } else if (std::max(of_a.count, of_b.count) > 1) {
    found.cause = BreakCause::kTemplate;
  } else {
    return std::nullopt;  // a single token, such as the end of text that closes a conversation
  }
  return found;
}

// Returns a break of cause kText: a few differing tokens, then many equal ones. Answers may differ,
// so a break at trained tokens of two conversations is not one.
std::optional<RowBreak> text_break(const ComparedRow& a, const ComparedRow& b,
                                   const RowBreak& known, int64_t min_run) {
  const int64_t position = known.at.position;
  const auto trained = [&](const ComparedRow& row) {
    // Both rows have a token there: children of one node begin with different tokens.
    return row.trace != nullptr && row.trained[static_cast<size_t>(position)] != 0;
  };
  if (trained(a) && trained(b)) return std::nullopt;
  const int64_t least = std::max(min_run, kLeastEqualAfter);
  // By rising number of differing tokens, so that the shortest difference is found: at most 624
  // alignments, each rejected by its first unequal token.
  for (int64_t both = 1; both <= 2 * kMostDiffering; ++both) {
    for (int64_t i = std::max<int64_t>(0, both - kMostDiffering);
         i <= std::min(both, kMostDiffering); ++i) {
      // i tokens differ in row a, both - i in row b.
      const int64_t from_a = position + i, from_b = position + both - i;
      if (from_a + least > ssize_of(a) || from_b + least > ssize_of(b)) continue;
      const TokenList rest_a = a.tokens.subspan(static_cast<size_t>(from_a));
      const TokenList rest_b = b.tokens.subspan(static_cast<size_t>(from_b));
      const auto count = static_cast<size_t>(least);
      if (common_prefix(rest_a.first(count), rest_b.first(count)) < least) continue;
      RowBreak found = known;
      found.cause = BreakCause::kText;
      found.differing_a = i;
      found.differing_b = both - i;
      found.equal_after = common_prefix(rest_a, rest_b);
      return found;
    }
  }
  return std::nullopt;
}

// Compares rows where their trie branches, so equal rows cost nothing.
class BreakFinder {
 public:
  BreakFinder(std::span<const ComparedRow> rows, int64_t min_run)
      : rows_(rows), min_run_(min_run), trie_(trie_of(rows)) {
    for (const int32_t leaf : trie_.leaf) shares_.push_back(shares_enough(leaf));
  }

  std::vector<RowBreak> find() {
    std::vector<std::vector<size_t>> children(trie_.parent.size() + 1);  // those of node n at n + 1
    for (size_t n = 0; n < trie_.parent.size(); ++n) {
      children[static_cast<size_t>(trie_.parent[n] + 1)].push_back(
          static_cast<size_t>(trie_.first[n]));
    }
    std::vector<RowBreak> breaks;
    for (const std::vector<size_t>& firsts : children) {
      for (size_t j = 1; j < firsts.size(); ++j) {
        // The nearest sibling first: rows are often neighbours of those they resemble.
        for (size_t back = 1; back <= std::min(j, kMostCompared); ++back) {
          const std::optional<RowBreak> found = compare(firsts[j - back], firsts[j]);
          if (!found) continue;
          breaks.push_back(*found);
          break;
        }
      }
    }
    // In the order of the rows, not of the trie.
    std::stable_sort(breaks.begin(), breaks.end(),
                     [](const RowBreak& x, const RowBreak& y) { return x.b < y.b; });
    return breaks;
  }

 private:
  static PrefixTrie trie_of(std::span<const ComparedRow> rows) {
    std::vector<TokenList> lists;
    std::vector<int64_t> lengths;
    for (const ComparedRow& row : rows) {
      lists.push_back(row.tokens);
      lengths.push_back(ssize_of(row));
    }
    return prefix_trie(lengths, sort_lists(lists), 1);
  }

  // Returns true if a row that ends in a node shares min_run tokens with some other row.
  bool shares_enough(int32_t node) const {
    for (; node >= 0; node = trie_.parent[static_cast<size_t>(node)]) {
      const auto n = static_cast<size_t>(node);
      if (trie_.lists[n] > 1) return trie_.end[n] >= min_run_;
    }
    return false;
  }

  std::optional<RowBreak> compare(size_t i, size_t j) const {
    const ComparedRow& a = rows_[i];
    const ComparedRow& b = rows_[j];
    RowBreak found;
    found.a = i;
    found.b = j;
    found.at = prefix_break(a.tokens, b.tokens);
    const int64_t shared = found.at.position;
    // In this order: the frequencies would prevent sharing whatever the texts are, and an equal
    // message explains more than equal tokens do.
    if (a.frequency_class != b.frequency_class && shared >= min_run_) {
      found.cause = BreakCause::kFrequencies;
      return found;
    }
    if (const auto broken = template_break(a, b, found)) return broken;
    if (const auto broken = text_break(a, b, found, min_run_)) return broken;
    // They share half of the shorter row, but fewer than min_run tokens: a smaller min_run would
    // fold them.
    const bool half = 2 * shared >= std::min(ssize_of(a), ssize_of(b));
    const bool folded = shares_[i] && shares_[j];  // each shares enough with some other row
    if (!half || folded || shared >= min_run_) return std::nullopt;
    found.cause = BreakCause::kShort;
    return found;
  }

  std::span<const ComparedRow> rows_;
  int64_t min_run_;
  PrefixTrie trie_;
  std::vector<bool> shares_;  // by row: shares_enough
};

}  // namespace

const char* break_cause_name(BreakCause cause) {
  constexpr const char* kNames[] = {"template", "merged", "text", "frequencies", "short"};
  return kNames[static_cast<size_t>(cause)];
}

std::vector<RowBreak> find_row_breaks(std::span<const ComparedRow> rows, int64_t min_run) {
  return BreakFinder(rows, min_run).find();
}

}  // namespace xrun
