// A text is cut at the added tokens that match the input. The rest is normalised, cut at the other
// added tokens, cut into pieces, and tokenised by the model. Long stretches pass through these
// stages in parts, cut at safe split points.

#include <simdjson.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/text/tokenizer/tokenizer_pipeline.h"

namespace xrun {

namespace {

constexpr size_t kRetainedTokens = size_t{1} << 20;  // capacity that a thread keeps
constexpr size_t kFlushTokens = size_t{1} << 16;     // passed to `take` at once, at least

// Reserves room for the tokens of a whole text at the rate of its first part, plus an eighth.
void reserve_rest(Encoding& first, size_t text_bytes) {
  if (first.offsets.empty() || first.offsets.back().end == 0) return;
  // Growth by doubling would hold up to twice the tokens.
  const double rate = double(first.ids.size()) / first.offsets.back().end;
  const auto size = std::min(size_t(rate * 1.125 * double(text_bytes)), text_bytes);
  first.ids.reserve(size);
  first.offsets.reserve(size);
}

// Calls plain(begin, end) between matches and match(m) for each of them, in order.
template <class Plain, class Match>
void walk_matches(size_t size, const std::vector<AddedMatch>& matches, Plain plain, Match match) {
  size_t done = 0;
  for (const AddedMatch& m : matches) {
    if (done < m.begin) plain(done, m.begin);
    match(m);
    done = m.end;
  }
  if (done < size) plain(done, size);
}

}  // namespace

// The encoding of one text.
class Tokenizer::State::Encoder {
 public:
  Encoder(const State& state, std::string_view input, const EncodeOptions& options,
          const TakeTokens& take, size_t part_bytes)
      : state_(state),
        input_(input),
        special_(options),
        add_tokens_(options.add_post_processor),
        take_(take),
        part_bytes_(part_bytes) {}

  void run(const AlignedText& whole) {
    std::vector<AddedMatch> matches;
    // First pass: tokens that match the input itself, before any stage changes it.
    state_.added.find_all(whole, false, special_, matches);
    walk_matches(
        whole.size(), matches, [&](size_t begin, size_t end) { section(whole.slice(begin, end)); },
        [&](const AddedMatch& m) { add(m.id, whole.origin(m.begin, m.end)); });
    flush(true);
  }

 private:
  // Encodes a stretch without tokens that match the input.
  void section(AlignedText text) {
    if (text.size() <= part_bytes_) return part(std::move(text), true);
    const SplitKinds kinds = state_.safe_splits();
    for (size_t at = 0; at < text.size();) {
      check_interrupt();  // a text may have gigabytes
      const bool last = text.size() - at <= part_bytes_;
      const size_t end =
          last ? text.size() : find_safe_split(text.text(), at, at + part_bytes_, kinds);
      part(text.slice(at, end), at == 0);
      at = end;
      if (tokens_.ids.size() >= kFlushTokens) flush(false);
    }
  }

  void part(AlignedText text, bool begins_section) {
    if (const Normalizer* normalizer = state_.stages.normalizer.get()) {
      run_stage("the tokenizer's normalizer",
                [&] { begins_section ? normalizer->apply(text) : normalizer->apply_rest(text); });
    }
    if (text.size() == 0) return;
    std::vector<AddedMatch> matches;
    // Second pass: tokens that match normalised text.
    state_.added.find_all(text, true, special_, matches);
    if (matches.empty()) return plain(std::move(text), !begins_section);
    walk_matches(
        text.size(), matches,
        [&](size_t begin, size_t end) {
          plain(text.slice(begin, end), begin == 0 && !begins_section);
        },
        [&](const AddedMatch& m) { add(m.id, text.origin(m.begin, m.end)); });
  }

  // Encodes normalised text without added tokens; `is_rest`: it follows a split point.
  void plain(AlignedText text, bool is_rest) {
    thread_local std::vector<ByteRange> spare;
    PieceList list{std::move(text), std::move(spare)};
    list.pieces.assign(1, {0, uint32_t(list.text.size())});
    if (const PreTokenizer* cut = state_.stages.pre_tokenizer.get()) {
      run_stage("the tokenizer's pre_tokenizer", [&] { cut->apply(list); });
    }
    thread_local std::vector<ModelToken> tokens;
    tokens.clear();
    // Only the first piece of the text may get the space that SentencePiece puts before a text.
    const bool is_first = !list.pieces.empty() &&
                          list.text.origin(list.pieces[0].begin, list.pieces[0].end).begin == 0;
    const TokenModel& model = *state_.stages.model;
    const auto tokenize = is_rest    ? &TokenModel::tokenize_rest
                          : is_first ? &TokenModel::tokenize
                                     : &TokenModel::tokenize_inner;
    (model.*tokenize)(list.text.text(), list.pieces, tokens);
    for (const ModelToken& token : tokens) {
      add(token.id, list.text.origin(token.begin, token.end));
    }
    if (tokens.capacity() > kRetainedTokens) tokens = {};
    if (list.pieces.capacity() <= kRetainedTokens) spare = std::move(list.pieces);
  }

  void add(int32_t id, ByteRange range) {
    tokens_.ids.push_back(id);
    tokens_.offsets.push_back(range);
  }

  // Passes the tokens on after post-processing.
  void flush(bool last) {
    if (state_.stages.post_processor) post_process(last);
    take_(std::move(tokens_));
    tokens_ = {};
    is_first_ = false;
  }

  // The first part determines the tokens after the text, which are appended to the last part.
  void post_process(bool last) {
    const auto spelling = [&](int32_t id, ByteRange range) {
      if (state_.added.find(id) == nullptr) return state_.piece(id);
      return input_.substr(range.begin, range.end - range.begin);
    };
    // The post-processor adds its tokens around the first part only.
    const PostContext context{input_, spelling, add_tokens_ && is_first_, is_first_};
    const size_t size = tokens_.ids.size();
    state_.stages.post_processor->apply(tokens_, context);
    if (is_first_ && !last) {
      std::vector<int32_t> before;
      if (add_tokens_) state_.stages.post_processor->leading(before);
      // [before] [tokens] [after]: the last group waits for the last part.
      const size_t end = before.size() + size;
      trailing_.assign(tokens_.ids.begin() + int64_t(end), tokens_.ids.end());
      tokens_.ids.resize(end);
      tokens_.offsets.resize(end);
    }
    if (!is_first_ && last) {
      for (const int32_t id : trailing_) add(id, {0, 0});
    }
  }

  const State& state_;
  std::string_view input_;
  SpecialRanges special_;
  bool add_tokens_;
  const TakeTokens& take_;
  size_t part_bytes_;
  Encoding tokens_;                // not passed on yet
  bool is_first_ = true;           // no tokens were passed on
  std::vector<int32_t> trailing_;  // from the post-processor, for the last part
};

SplitKinds Tokenizer::State::safe_splits() const {
  const auto survives = [&](SafeSplit split) {
    if (stages.normalizer) split = stages.normalizer->split_after(split);
    split = added.split_after(split);
    if (stages.pre_tokenizer) split = stages.pre_tokenizer->split_after(split);
    return stages.model->split_after(split) == SafeSplit::kPiece;
  };
  return {survives(SafeSplit::kSpace), survives(SafeSplit::kLine)};
}

SplitKinds Tokenizer::safe_splits() const { return state_->safe_splits(); }
size_t Tokenizer::max_stretch() const { return state_->stages.model->max_stretch(); }

uint32_t Tokenizer::encode_parts(std::string_view text, const EncodeOptions& options,
                                 const TakeTokens& take, size_t part_bytes) const {
  // Offsets are 32 bits.
  XRUN_CHECK(text.size() < UINT32_MAX, "a text of {} bytes is too long to be tokenised at once",
             text.size());
  uint32_t replaced = 0;
  const bool valid = simdjson::validate_utf8(text.data(), text.size());
  const AlignedText whole = valid ? AlignedText(text, 0) : repaired_text(text, replaced);
  State::Encoder(*state_, text, options, take, part_bytes).run(whole);
  return replaced;
}

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  Encoding out;
  const auto take = [&](Encoding&& part) {
    // The first part is moved: most texts have no other.
    if (out.ids.empty()) {
      out = std::move(part);
      if (text.size() > kPartBytes) reserve_rest(out, text.size());
      return;
    }
    out.ids.insert(out.ids.end(), part.ids.begin(), part.ids.end());
    out.offsets.insert(out.offsets.end(), part.offsets.begin(), part.offsets.end());
  };
  out.replaced = encode_parts(text, options, take);
  return out;
}

}  // namespace xrun
