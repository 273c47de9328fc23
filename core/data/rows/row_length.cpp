// Both streams of a pair are cut at the same token, so that their prompts stay equal.

#include "core/data/rows/row_length.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/data/rows/conversation_tokens.h"

namespace xrun {

namespace {

constexpr size_t kShownRow = 1024;  // bytes, more than data_error shows

void cut_stream(const Tokenizer& tokenizer, int64_t max_length, TokenStream& stream,
                EncodedRow& out) {
  constexpr int64_t kShown = 12;  // tokens on each side of the cut
  const int64_t over = static_cast<int64_t>(stream.ids.size()) - max_length;
  if (over <= 0) return;
  // The ledger shows the text around the first cut of a row only.
  if (out.cut_tokens == 0) {
    const auto cut = stream.ids.begin() + max_length;
    out.cut_kept = without_broken_ends(tokenizer.decode({cut - std::min(kShown, max_length), cut}));
    out.cut_lost = without_broken_ends(tokenizer.decode({cut, cut + std::min(kShown, over)}));
  }
  out.cut_tokens += over;
  stream.ids.resize(static_cast<size_t>(max_length));
  stream.trained.resize(static_cast<size_t>(max_length));
  if (!stream.weights.empty()) stream.weights.resize(static_cast<size_t>(max_length));
}

int64_t length_of(const TokenStream& stream) { return static_cast<int64_t>(stream.ids.size()); }

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

// True if the first max_length tokens of a trained stream hold nothing that is trained.
bool prompt_fills(const EncodedRow& row, size_t streams, int64_t max_length) {
  for (size_t s = 0; s < streams; ++s) {
    const std::vector<uint8_t>& trained = row.streams[s].trained;
    const auto cut = trained.begin() + std::min<int64_t>(max_length, std::ssize(trained));
    // Trained tokens beyond the limit and none within it.
    if (std::find(cut, trained.end(), 1) != trained.end() &&
        std::find(trained.begin(), cut, 1) == cut) {
      return true;
    }
  }
  return false;
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
  if (settings.over_length != OverLength::kCut) {
    throw AboveMaxLength(lengths_text(out, names, settings.max_length), longest,
                         !prompt_fills(out, names.size(), settings.max_length));
  }
  for (size_t s = 0; s < names.size(); ++s) {
    TokenStream& stream = out.streams[s];
    // Asked before the cut: it may take all of the answer.
    const bool trained = is_trained(stream);
    const auto first = std::find(stream.trained.begin(), stream.trained.end(), 1);
    const int64_t prompt = first - stream.trained.begin();
    if (const int64_t tokens = length_of(stream); tokens > settings.max_length) {
      add_item(out.cut_sides,
               fmt::format("{} of {} tokens of {}", count_text(tokens - settings.max_length),
                           count_text(tokens), names.begin()[s]),
               " and ");
    }
    cut_stream(*encoding.tokenizer, settings.max_length, stream, out);
    // A stream that trained nothing before loses nothing.
    if (!trained || is_trained(stream)) continue;
    throw RowRefusal(
        kNoAnswerLeftReason,
        fmt::format("the prompt of {} fills max_length = {}, so a cut would leave "
                    "nothing of the answer to train; this row needs max_length = {} or more",
                    names.begin()[s], count_text(settings.max_length), count_text(prompt + 1)));
  }
}

void require_borders(std::string_view text, const Tokenizer& tokenizer) {
  const size_t most = tokenizer.max_stretch();
  const SplitKinds kinds = tokenizer.safe_splits();
  // From split to split: text between two splits that exceeds `most` cannot be tokenised.
  for (size_t at = 0; text.size() - at > most;) {
    const bool none = !kinds.space && !kinds.line;
    const size_t end = none ? text.size() : find_safe_split(text, at, at + most, kinds);
    if (end - at > most) refuse_stretch(at, end, tokenizer);
    at = end;
  }
}

}  // namespace xrun
