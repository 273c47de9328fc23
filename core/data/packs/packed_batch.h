#pragma once
// A packed micro-batch: segments laid end to end, their loss rows and, for a teacher, the same
// documents in its tokens.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace xrun {

// The trained predictions of a batch, [R] each, in the order of their slots. Slot t has a row only
// if token t + 1 is trained and in the same segment as token t, so the first token of a segment is
// never a target and no row crosses a segment's end.
struct LossRows {
  std::vector<int32_t> hidden;   // slot t, whose hidden state predicts
  std::vector<int32_t> target;   // the token id at t + 1
  std::vector<int32_t> segment;  // the segment of both
  std::vector<float> weight;     // trained mask times the weights of row and token, >= 0

  int64_t size() const { return static_cast<int64_t>(hidden.size()); }
};

// The tokens of one segment, with a flag for each: 1 for a target, 0 for others and for the first.
struct SegmentTokens {
  std::vector<int32_t> ids;
  std::vector<uint8_t> trained;
};

// Counts of a pack's chunks; they add up over packs.
struct AlignmentCounts {
  int64_t chunks = 0;     // valid ones
  int64_t wrong = 0;      // pairs whose sides spell different bytes
  int64_t one_sided = 0;  // tokens of either side without a partner
  int64_t invalid = 0;    // correct pairs of which some tokens can train, but not all
  int64_t tokens = 0;     // loss rows of positive weight, including those that were cut
  int64_t covered = 0;    // of these, in a valid chunk
  int64_t cut = 0;        // of these, beyond the prefix that both models read
  double seconds = 0;     // spent on aligning

  void add(const AlignmentCounts& other);
};

// The documents of a pack in a teacher's tokens. Segment s has the text of the pack's segment s. A
// chunk is a span of student tokens and a span of teacher tokens that spell the same bytes. It is
// valid if each student token has a loss row of positive weight and each teacher token is predicted
// (token 0 is not). The tables contain only valid chunks.
struct CompanionPack {
  std::vector<int32_t> tokens, position_ids;  // [Tt]
  std::vector<int32_t> cu_seqlens = {0};      // [S + 1], strictly increasing
  // [Rt] the rows that predict the tokens of chunks: the slot whose hidden state predicts, the
  // token, and the chunk by its number in PackedBatch::chunk, ascending.
  std::vector<int32_t> hidden, target, chunk;
  std::string fingerprint;  // of the teacher's vocabulary

  int64_t token_count() const { return static_cast<int64_t>(tokens.size()); }
  int64_t row_count() const { return static_cast<int64_t>(hidden.size()); }  // Rt
};

// T tokens in S segments with R loss rows. Segments never see each other. A plain value; the empty
// batch (T = S = R = 0, cu_seqlens = {0}) is legal and contributes nothing.
struct PackedBatch {
  std::vector<int32_t> tokens;            // [T]
  std::vector<int32_t> cu_seqlens = {0};  // [S + 1], strictly increasing, 0 first and T last
  std::vector<int32_t> position_ids;      // [T], 0 to n - 1 in each segment
  LossRows rows;                          // [R]
  std::vector<int64_t> row_id;            // [S], row of the data set, the same in every split
  std::vector<int64_t> pair_id;           // [S], index of the pair in its step; -1 for no pair
  std::vector<int64_t> group_id;          // [S], equal for a shared prompt; for pairs the pair_id
  std::vector<int64_t> segment_id;        // [S], index of the segment in its step
  std::vector<int32_t> source;            // [S], index of the data source
  std::vector<int8_t> side;               // [S], +1 chosen, -1 rejected, 0 none
  std::vector<float> weight;              // [S], loss weight of the data row, >= 0
  // [R], the valid chunk of a loss row, -1 for none; empty if the data have no chunks. With a
  // companion, chunks are numbered from 0 in the order of their rows.
  std::vector<int32_t> chunk;
  std::shared_ptr<const CompanionPack> companion;             // null: not aligned with a teacher
  AlignmentCounts alignment = {};                             // zeros without chunks
  std::map<std::string, std::vector<float>> row_streams;      // by name, [R]: old_logprob, ...
  std::map<std::string, std::vector<float>> segment_streams;  // by name, [S]: reward, ...

  int64_t token_count() const { return static_cast<int64_t>(tokens.size()); }
  int64_t segment_count() const { return static_cast<int64_t>(cu_seqlens.size()) - 1; }
  int64_t pair_count() const;  // segments of side +1

  // Appends one segment: its tokens, its loss rows (trained[i] = 1: token i is a target; trained[0]
  // is ignored) and its ids. Requires n >= 1 tokens and n trained flags; token_weights scale the
  // segment's weight, one per token, or are empty.
  struct Segment {
    int64_t row_id = -1, pair_id = -1, group_id = -1, segment_id = -1;
    int32_t source = 0;
    int8_t side = 0;
    float weight = 1;
  };
  void append(const Segment& segment, const std::vector<int32_t>& ids,
              const std::vector<uint8_t>& trained, const std::vector<float>& token_weights = {});

  // Returns segment s as it was appended, except trained[0] and token weights.
  SegmentTokens segment_tokens(int64_t s) const;

  // Throws Error that names field, index and value at the first broken invariant:
  //   fields have the right lengths; segments and positions fit the tokens
  //   ids are in [0, vocab_size), and weights are finite and >= 0
  //   loss rows are inside their segments and have the right target
  //   a chosen segment is followed by the rejected one of its pair
  //   a chunk is inside one segment, and a companion has the same segments and chunks
  void validate(int64_t vocab_size) const;
};

}  // namespace xrun
