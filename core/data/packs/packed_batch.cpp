// Slot t of segment s has a loss row exactly if cu[s] <= t, t + 1 < cu[s + 1] and token t + 1 is
// trained.

#include "core/data/packs/packed_batch.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"

namespace xrun {

namespace {

// Dimensions: S segments, T tokens, R loss rows, as in the header.
template <typename T>
void check_length(const std::vector<T>& field, const std::string& name, int64_t want,
                  const char* dimension) {
  XRUN_CHECK(static_cast<int64_t>(field.size()) == want, "batch: {} has {} entries, {} is {}", name,
             field.size(), dimension, want);
}

// A negative weight would flip the sign of a loss; NaN would spread over the step.
void check_weights(const std::vector<float>& weights, const char* name) {
  for (size_t i = 0; i < weights.size(); ++i) {
    XRUN_CHECK(std::isfinite(weights[i]) && weights[i] >= 0,
               "batch: {}[{}] is {}, wanted a finite number >= 0", name, i, weights[i]);
  }
}

// `whose` is "" or "companion.", the prefix of the fields' names.
void check_segments(const std::vector<int32_t>& cu, const std::vector<int32_t>& position_ids,
                    int64_t tokens, const char* whose = "") {
  XRUN_CHECK(!cu.empty() && cu[0] == 0, "batch: {}cu_seqlens must begin with 0", whose);
  for (size_t s = 1; s < cu.size(); ++s) {
    XRUN_CHECK(cu[s] > cu[s - 1] && cu[s] <= tokens,
               "batch: {}cu_seqlens[{}] is {}, wanted more than {} and at most T = {}", whose, s,
               cu[s], cu[s - 1], tokens);
  }
  XRUN_CHECK(cu.back() == tokens, "batch: {}cu_seqlens ends with {}, T is {}", whose, cu.back(),
             tokens);
  // Positions restart at each segment, as RoPE needs them.
  check_length(position_ids, std::string(whose) + "position_ids", tokens, "T");
  for (size_t s = 0; s + 1 < cu.size(); ++s) {
    for (int32_t t = cu[s]; t < cu[s + 1]; ++t) {
      XRUN_CHECK(position_ids[static_cast<size_t>(t)] == t - cu[s],
                 "batch: {}position_ids[{}] is {}, wanted {} (segment {} begins at {})", whose, t,
                 position_ids[static_cast<size_t>(t)], t - cu[s], s, cu[s]);
    }
  }
}

void check_rows(const PackedBatch& batch) {
  const LossRows& rows = batch.rows;
  const int64_t count = rows.size();
  check_length(rows.target, "rows.target", count, "R");
  check_length(rows.segment, "rows.segment", count, "R");
  check_length(rows.weight, "rows.weight", count, "R");
  for (size_t r = 0; r < static_cast<size_t>(count); ++r) {
    const int64_t s = rows.segment[r];
    XRUN_CHECK(s >= 0 && s < batch.segment_count(), "batch: rows.segment[{}] is {}, S is {}", r, s,
               batch.segment_count());
    const int64_t begin = batch.cu_seqlens[static_cast<size_t>(s)];
    const int64_t end = batch.cu_seqlens[static_cast<size_t>(s) + 1];
    const int64_t t = rows.hidden[r];
    // The last token of a segment predicts nothing.
    XRUN_CHECK(
        t >= begin && t + 1 < end,
        "batch: rows.hidden[{}] is {}, wanted a slot before the last of segment {}: {} to {}", r, t,
        s, begin, end - 2);
    const int32_t token = batch.tokens[static_cast<size_t>(t) + 1];
    XRUN_CHECK(rows.target[r] == token, "batch: rows.target[{}] is {}, token {} is {}", r,
               rows.target[r], t + 1, token);
    // Strictly ascending: at most one loss row per slot.
    XRUN_CHECK(r == 0 || t > rows.hidden[r - 1],
               "batch: rows.hidden[{}] is {}, wanted more than the previous one, {}", r, t,
               rows.hidden[r - 1]);
  }
  check_weights(rows.weight, "rows.weight");
}

// A pair is complete in its pack: the loss needs both sides at once.
void check_pairs(const PackedBatch& batch) {
  const size_t segments = static_cast<size_t>(batch.segment_count());
  for (size_t s = 0; s < segments; ++s) {
    const int side = batch.side[s];
    XRUN_CHECK(side >= -1 && side <= 1, "batch: side[{}] is {}, wanted 1, -1 or 0", s, side);
    if (side == 0) continue;
    // The sides are neighbours, so that pairs are found by position, without a table.
    XRUN_CHECK(side == 1 && s + 1 < segments && batch.side[s + 1] == -1 &&
                   batch.pair_id[s] == batch.pair_id[s + 1] &&
                   batch.row_id[s] == batch.row_id[s + 1],
               "batch: side[{}] is {} of pair_id {}, wanted a chosen segment with the rejected one "
               "of its pair after it",
               s, side, batch.pair_id[s]);
    ++s;  // the rejected segment
  }
}

void check_chunks(const PackedBatch& batch) {
  if (batch.chunk.empty()) return;
  check_length(batch.chunk, "chunk", batch.rows.size(), "R");
  std::map<int32_t, int32_t> segment_of;
  for (size_t r = 0; r < batch.chunk.size(); ++r) {
    const int32_t chunk = batch.chunk[r];
    XRUN_CHECK(chunk >= -1, "batch: chunk[{}] is {}, wanted a number >= 0, or -1 for none", r,
               chunk);
    if (chunk < 0) continue;
    const int32_t segment = batch.rows.segment[r];
    // A chunk belongs to one segment: its weight is that segment's.
    const int32_t first = segment_of.emplace(chunk, segment).first->second;
    XRUN_CHECK(first == segment, "batch: chunk {} has rows in the segments {} and {}, wanted one",
               chunk, first, segment);
  }
}

// Returns the segment of each chunk of a batch with a companion. Throws Error unless chunks are
// numbered from 0 in the order of their rows.
std::vector<int32_t> chunk_segments(const PackedBatch& batch) {
  std::vector<int32_t> segments;
  for (size_t r = 0; r < batch.chunk.size(); ++r) {
    const int32_t chunk = batch.chunk[r];
    const auto next = static_cast<int32_t>(segments.size());
    // The row has no chunk, or that of the row before.
    if (chunk < 0 || chunk + 1 == next) continue;
    XRUN_CHECK(chunk == next,
               "batch: chunk[{}] is {}, wanted {} or {}: beside a companion the "
               "chunks are numbered in the order of their rows",
               r, chunk, next - 1, next);
    segments.push_back(batch.rows.segment[r]);
  }
  return segments;
}

// The companion is the teacher's text of the same segments, in its own tokens.
void check_companion(const PackedBatch& batch) {
  if (!batch.companion) return;
  const CompanionPack& companion = *batch.companion;
  check_length(companion.cu_seqlens, "companion.cu_seqlens", batch.segment_count() + 1, "S + 1");
  check_segments(companion.cu_seqlens, companion.position_ids, companion.token_count(),
                 "companion.");
  check_length(batch.chunk, "chunk", batch.rows.size(), "R");
  check_length(companion.target, "companion.target", companion.row_count(), "Rt");
  check_length(companion.chunk, "companion.chunk", companion.row_count(), "Rt");
  const std::vector<int32_t> segments = chunk_segments(batch);
  const auto chunks = static_cast<int32_t>(segments.size());
  for (size_t t = 0; t < companion.tokens.size(); ++t) {
    XRUN_CHECK(companion.tokens[t] >= 0, "batch: companion.tokens[{}] is {}, wanted an id >= 0", t,
               companion.tokens[t]);
  }
  int32_t last = -1;  // chunk of the row before
  for (size_t r = 0; r < companion.hidden.size(); ++r) {
    const int32_t chunk = companion.chunk[r];
    // Each chunk of the pack has a row here, so numbers rise without a gap.
    XRUN_CHECK(chunk < chunks && (chunk == last || chunk == last + 1),
               "batch: companion.chunk[{}] is {}, wanted {} or {} of {} chunks", r, chunk, last,
               last + 1, chunks);
    last = chunk;
    const auto s = static_cast<size_t>(segments[static_cast<size_t>(chunk)]);
    const int32_t t = companion.hidden[r];
    XRUN_CHECK(t >= companion.cu_seqlens[s] && t + 1 < companion.cu_seqlens[s + 1],
               "batch: companion.hidden[{}] is {}, wanted a slot before the last of segment {}", r,
               t, s);
    XRUN_CHECK(companion.target[r] == companion.tokens[static_cast<size_t>(t) + 1],
               "batch: companion.target[{}] is {}, but token {} is {}", r, companion.target[r],
               t + 1, companion.tokens[static_cast<size_t>(t) + 1]);
    // Rows are in the order of the tokens.
    XRUN_CHECK(r == 0 || t > companion.hidden[r - 1],
               "batch: companion.hidden[{}] is {}, wanted more than the previous one, {}", r, t,
               companion.hidden[r - 1]);
  }
  XRUN_CHECK(last + 1 == chunks, "batch: the companion has rows of {} chunks, the batch has {}",
             last + 1, chunks);
}

}  // namespace

void AlignmentCounts::add(const AlignmentCounts& other) {
  chunks += other.chunks;
  wrong += other.wrong;
  one_sided += other.one_sided;
  invalid += other.invalid;
  tokens += other.tokens;
  covered += other.covered;
  cut += other.cut;
  seconds += other.seconds;
}

int64_t PackedBatch::pair_count() const { return std::count(side.begin(), side.end(), 1); }

// A pack grows by whole segments; nothing is ever split here.
void PackedBatch::append(const Segment& segment, const std::vector<int32_t>& ids,
                         const std::vector<uint8_t>& trained,
                         const std::vector<float>& token_weights) {
  XRUN_CHECK(token_weights.empty() || token_weights.size() == ids.size(),
             "batch: a segment of {} tokens with {} token weights; wanted as many, or none",
             ids.size(), token_weights.size());
  XRUN_CHECK(!ids.empty() && ids.size() == trained.size(),
             "batch: a segment of {} tokens with {} trained flags; wanted as many, at least one",
             ids.size(), trained.size());
  XRUN_CHECK(tokens.size() + ids.size() <= std::numeric_limits<int32_t>::max(),
             "batch: {} tokens in one pack, the maximum is 2^31 - 1; lower max_tokens",
             tokens.size() + ids.size());
  const int32_t begin = cu_seqlens.back();
  const int32_t index = static_cast<int32_t>(segment_count());
  tokens.insert(tokens.end(), ids.begin(), ids.end());
  for (size_t i = 0; i < ids.size(); ++i) {
    position_ids.push_back(static_cast<int32_t>(i));
    // A token is predicted by the hidden state of the one before, so token 0 has no row.
    if (i == 0 || trained[i] == 0) continue;
    rows.hidden.push_back(begin + static_cast<int32_t>(i) - 1);
    rows.target.push_back(ids[i]);
    rows.segment.push_back(index);
    rows.weight.push_back(token_weights.empty() ? segment.weight
                                                : segment.weight * token_weights[i]);
  }
  cu_seqlens.push_back(begin + static_cast<int32_t>(ids.size()));
  row_id.push_back(segment.row_id);
  pair_id.push_back(segment.pair_id);
  group_id.push_back(segment.group_id);
  segment_id.push_back(segment.segment_id);
  source.push_back(segment.source);
  side.push_back(segment.side);
  weight.push_back(segment.weight);
}

SegmentTokens PackedBatch::segment_tokens(int64_t s) const {
  const int32_t begin = cu_seqlens[static_cast<size_t>(s)];
  const int32_t end = cu_seqlens[static_cast<size_t>(s) + 1];
  SegmentTokens out;
  out.ids.assign(tokens.begin() + begin, tokens.begin() + end);
  out.trained.assign(out.ids.size(), 0);
  // Loss rows are in the order of their slots, so those of a segment are adjacent.
  const auto [first, last] = std::equal_range(rows.segment.begin(), rows.segment.end(), s);
  for (auto r = first - rows.segment.begin(); r < last - rows.segment.begin(); ++r) {
    out.trained[static_cast<size_t>(rows.hidden[static_cast<size_t>(r)] - begin) + 1] = 1;
  }
  return out;
}

// Called once a pack is built, since every later stage indexes it without checks.
void PackedBatch::validate(int64_t vocab_size) const {
  check_segments(cu_seqlens, position_ids, token_count());
  for (size_t t = 0; t < tokens.size(); ++t) {
    XRUN_CHECK(tokens[t] >= 0 && tokens[t] < vocab_size,
               "batch: tokens[{}] is {}, the vocabulary has {} ids; the tokenizer belongs to "
               "another model",
               t, tokens[t], vocab_size);
  }
  const int64_t segments = segment_count();
  check_length(row_id, "row_id", segments, "S");
  check_length(pair_id, "pair_id", segments, "S");
  check_length(group_id, "group_id", segments, "S");
  check_length(segment_id, "segment_id", segments, "S");
  check_length(source, "source", segments, "S");
  check_length(side, "side", segments, "S");
  check_length(weight, "weight", segments, "S");
  check_weights(weight, "weight");
  check_rows(*this);
  check_pairs(*this);
  check_chunks(*this);
  check_companion(*this);
  for (const auto& [name, stream] : row_streams) {
    check_length(stream, "row_streams." + name, rows.size(), "R");
  }
  for (const auto& [name, stream] : segment_streams) {
    check_length(stream, "segment_streams." + name, segments, "S");
  }
}

}  // namespace xrun
