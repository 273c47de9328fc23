// A cut is at max_length, or before the character that it would divide. Each side of a pair has its
// own cut. Their prompts stay equal, since a cut keeps the beginning of both answers.

#include "core/data/rows/row_length.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/base/utf8.h"
#include "core/data/rows/conversation_tokens.h"
#include "core/text/tokenizer/token_bytes.h"

namespace xrun {

namespace {

constexpr size_t kShownRow = 1024;  // bytes, more than data_error shows

int64_t length_of(const TokenStream& stream) { return static_cast<int64_t>(stream.ids.size()); }

// Returns true if the tokens before `at` end inside a character that the tokens after it complete.
// Bytes that are not part of a character may be cut anywhere.
bool divides_character(const TokenBytes& bytes, const std::vector<int32_t>& ids, int64_t at) {
  constexpr int64_t kMostTokens = 4;  // of a character
  std::string text;
  for (int64_t i = std::max<int64_t>(at - kMostTokens, 0); i < at; ++i) {
    text += bytes.of(ids[static_cast<size_t>(i)]);
  }
  const size_t open = open_utf8_bytes(text);
  if (open == 0) return false;
  const size_t begin = text.size() - open;
  for (int64_t i = at; i < std::min(at + kMostTokens, std::ssize(ids)); ++i) {
    text += bytes.of(ids[static_cast<size_t>(i)]);
  }
  return read_utf8(text, begin).valid;
}

// Returns the number of tokens that a cut keeps: at most max_length, in whole characters.
int64_t tokens_kept(const TokenBytes& bytes, const TokenStream& stream, int64_t max_length) {
  int64_t at = std::min(max_length, length_of(stream));
  while (at > 0 && at < length_of(stream) && divides_character(bytes, stream.ids, at)) --at;
  return at;
}

void cut_stream(const Tokenizer& tokenizer, int64_t kept, TokenStream& stream, EncodedRow& out) {
  constexpr int64_t kShown = 12;  // tokens on each side of the cut
  const int64_t over = length_of(stream) - kept;
  if (over <= 0) return;
  // The ledger shows the text around the first cut of a row only.
  if (out.cut_tokens == 0) {
    const auto cut = stream.ids.begin() + kept;
    out.cut_kept = without_broken_ends(tokenizer.decode({cut - std::min(kShown, kept), cut}));
    out.cut_lost = without_broken_ends(tokenizer.decode({cut, cut + std::min(kShown, over)}));
  }
  out.cut_tokens += over;
  stream.ids.resize(static_cast<size_t>(kept));
  stream.trained.resize(static_cast<size_t>(kept));
  if (!stream.weights.empty()) stream.weights.resize(static_cast<size_t>(kept));
}

// "the chosen side has 5,310 tokens and the rejected side 17, max_length is 4,096"
std::string lengths_text(const EncodedRow& row, std::initializer_list<std::string_view> names,
                         int64_t max_length) {
  std::string text;
  for (size_t s = 0; s < names.size(); ++s) {
    const std::string tokens = count_text(length_of(row.streams[s]));
    text += s == 0 ? fmt::format("{} has {} tokens", names.begin()[s], tokens)
                   : fmt::format(" and {} {}", names.begin()[s], tokens);
  }
  return text + ", max_length is " + count_text(max_length);
}

// Returns true if a cut would leave nothing that is trained in a stream that trains something.
bool cut_takes_answer(const TokenBytes& bytes, const TokenStream& stream, int64_t max_length) {
  const auto cut = stream.trained.begin() + tokens_kept(bytes, stream, max_length);
  // Trained tokens beyond the cut and none before it.
  return std::find(cut, stream.trained.end(), 1) != stream.trained.end() &&
         std::find(stream.trained.begin(), cut, 1) == cut;
}

// Refuses a row that a cut leaves without an answer, with the least max_length that keeps some.
[[noreturn]] void refuse_cut(const TokenBytes& bytes, std::string_view name,
                             const TokenStream& stream, int64_t max_length) {
  const auto first = std::find(stream.trained.begin(), stream.trained.end(), 1);
  const int64_t prompt = first - stream.trained.begin();
  int64_t needed = prompt + 1;
  while (cut_takes_answer(bytes, stream, needed)) ++needed;
  const std::string cause =
      prompt < max_length
          ? fmt::format("max_length = {} ends inside the first character of the answer of {}",
                        count_text(max_length), name)
          : fmt::format("the prompt of {} fills max_length = {}", name, count_text(max_length));
  throw RowRefusal(kNoAnswerLeftReason,
                   fmt::format("{}, so a cut would leave nothing of the answer to train; this row "
                               "needs max_length = {} or more",
                               cause, count_text(needed)));
}

// Names the bytes, since a user has to find the stretch.
[[noreturn]] void refuse_stretch(size_t begin, size_t end, const Tokenizer& tokenizer) {
  const SplitKinds kinds = tokenizer.safe_splits();
  const std::string most = count_text(static_cast<int64_t>(tokenizer.max_stretch()));
  if (!kinds.space && !kinds.line) {
    throw RowRefusal(kTooLongReason,
                     fmt::format("the text has {} bytes; this tokenizer cannot split text and "
                                 "takes at most {}; split it into several rows",
                                 count_text(static_cast<int64_t>(end)), most));
  }
  throw RowRefusal(kTooLongReason,
                   fmt::format("bytes {} to {} of the text have {}{}{}; at most {} such bytes can "
                               "be tokenised",
                               begin, end, kinds.space ? "no space between letters" : "",
                               kinds.space && kinds.line ? " and " : "",
                               kinds.line ? "no line that begins with one" : "", most));
}

}  // namespace

TooLongError::TooLongError(std::string fault, std::string_view row,
                           std::vector<PastedSetting> settings)
    : DataError(data_error(fault, row, settings)),
      fault_(std::move(fault)),
      row_(row.substr(0, kShownRow)),
      settings_(std::move(settings)) {}

TooLongError TooLongError::counted(int64_t rows, int64_t line) const {
  const std::string lines = count_text(line);
  const std::string count =
      rows == 1 ? fmt::format("; no other row up to line {} is too long", lines)
                : fmt::format("; {} rows up to line {} are too long", count_text(rows), lines);
  return {fault_ + count, row_, settings_};
}

std::string without_broken_ends(std::string text) {
  // The cut may be inside a character, which decode turns into U+FFFD.
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  while (text.ends_with(kReplacement)) text.resize(text.size() - kReplacement.size());
  while (text.starts_with(kReplacement)) text.erase(0, kReplacement.size());
  return text;
}

void fit_length(const RowEncoding& encoding, std::initializer_list<std::string_view> names,
                EncodedRow& out) {
  const RowSettings& settings = encoding.settings;
  int64_t longest = 0;
  for (size_t s = 0; s < names.size(); ++s) longest = std::max(longest, length_of(out.streams[s]));
  if (settings.max_length <= 0 || longest <= settings.max_length) return;
  const TokenBytes bytes(*encoding.tokenizer);
  const auto takes_answer = [&](const TokenStream& stream) {
    return cut_takes_answer(bytes, stream, settings.max_length);
  };
  const auto streams_end = out.streams.begin() + std::ssize(names);
  if (settings.over_length != OverLength::kCut) {
    throw AboveMaxLength(lengths_text(out, names, settings.max_length), longest,
                         std::none_of(out.streams.begin(), streams_end, takes_answer));
  }
  for (size_t s = 0; s < names.size(); ++s) {
    TokenStream& stream = out.streams[s];
    if (takes_answer(stream)) refuse_cut(bytes, names.begin()[s], stream, settings.max_length);
    const int64_t kept = tokens_kept(bytes, stream, settings.max_length);
    if (const int64_t tokens = length_of(stream); tokens > kept) {
      add_item(out.cut_sides,
               fmt::format("{} of {} tokens of {}", count_text(tokens - kept), count_text(tokens),
                           names.begin()[s]),
               " and ");
    }
    cut_stream(*encoding.tokenizer, kept, stream, out);
  }
}

void require_borders(std::string_view text, const Tokenizer& tokenizer) {
  const size_t most = tokenizer.max_stretch();
  const SplitKinds kinds = tokenizer.safe_splits();
  // Goes from split to split: a stretch longer than `most` between two splits cannot be tokenised.
  for (size_t at = 0; text.size() - at > most;) {
    const bool none = !kinds.space && !kinds.line;
    const size_t end = none ? text.size() : find_safe_split(text, at, at + most, kinds);
    if (end - at > most) refuse_stretch(at, end, tokenizer);
    at = end;
  }
}

}  // namespace xrun
