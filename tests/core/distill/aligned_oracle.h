#pragma once
// The loss of a step over aligned documents, from each document's dense logits in fp64: without
// packs, alignments, blocks or fused products.

#include <ATen/core/Tensor.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/data/packs/packed_batch.h"
#include "core/distill/kd_view.h"
#include "core/text/tokenizer/token_bytes.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/batches/batch.h"
#include "core/train/batches/micro_batch.h"
#include "core/train/models/policy.h"
#include "tests/core/distill/kd_oracle.h"

namespace xrun {

struct OracleSide {
  Policy& model;
  const Tokenizer& tokenizer;
};

// The tokens of one chunk on both sides, and the rows of the dense logits that predict them.
struct OracleChunk {
  std::vector<int32_t> student, teacher;  // tokens
  std::vector<int64_t> student_row, teacher_row;
};

// All tokens of a document as one pack of one segment.
inline std::shared_ptr<Batch> whole_document(const std::vector<int32_t>& ids) {
  PackedBatch pack;
  std::vector<uint8_t> trained(ids.size(), 1);
  trained[0] = 0;
  pack.append({.row_id = 0, .segment_id = 0}, ids, trained);
  return std::make_shared<Batch>(BatchInfo{.total_steps = 1}, std::vector<PackedBatch>{pack});
}

// The chunks of a document, found from the bytes that each token spells: ends that both sides
// share. Token 0 of a side has no row.
inline std::vector<OracleChunk> chunks_of(const OracleSide& student_side,
                                          const std::vector<int32_t>& student,
                                          const OracleSide& teacher_side,
                                          const std::vector<int32_t>& teacher) {
  const auto ends = [](const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
    std::map<size_t, size_t> token_of_end;  // bytes read so far, number of tokens
    const TokenBytes token(tokenizer);
    size_t bytes = 0;
    for (size_t i = 0; i < ids.size(); ++i) token_of_end[bytes += token.of(ids[i]).size()] = i + 1;
    return token_of_end;
  };
  const auto s = ends(student_side.tokenizer, student), t = ends(teacher_side.tokenizer, teacher);
  std::vector<OracleChunk> chunks;
  size_t from_s = 0, from_t = 0;
  for (const auto& [bytes, to_s] : s) {
    const auto found = t.find(bytes);
    if (found == t.end()) continue;
    if (from_s > 0 && from_t > 0) {
      OracleChunk chunk;
      for (size_t i = from_s; i < to_s; ++i) {
        chunk.student.push_back(student[i]);
        chunk.student_row.push_back(static_cast<int64_t>(i) - 1);
      }
      for (size_t i = from_t; i < found->second; ++i) {
        chunk.teacher.push_back(teacher[i]);
        chunk.teacher_row.push_back(static_cast<int64_t>(i) - 1);
      }
      chunks.push_back(std::move(chunk));
    }
    from_s = to_s;
    from_t = found->second;
  }
  return chunks;
}

// log_softmax of a document's logits in fp64, [tokens - 1, columns]; with a policy's gradient.
inline at::Tensor dense_logs(Policy& policy, const std::vector<int32_t>& ids, int64_t columns,
                             double temperature) {
  const auto one = whole_document(ids);
  const at::Tensor z = policy.logits(one->micros()[0]->all());
  return at::log_softmax(z.to(at::kDouble).narrow(1, 0, columns).div(temperature), 1);
}

struct OracleLoss {
  at::Tensor loss;  // with the student's graph
  int64_t chunks = 0;
};

// Returns the mean loss of all chunks plus `ce` times the mean cross entropy of all tokens.
inline OracleLoss aligned_oracle(const std::vector<std::string>& texts, const OracleSide& student,
                                 const OracleSide& teacher, const KdPair& pair, double ce) {
  const double temperature = pair.options.temperature;
  std::vector<at::Tensor> losses, nll;
  for (const std::string& text : texts) {
    const std::vector<int32_t> s = student.tokenizer.encode(text).ids;
    const std::vector<int32_t> t = teacher.tokenizer.encode(text).ids;
    if (s.size() < 2) continue;
    const at::Tensor p = dense_logs(student.model, s, student.tokenizer.vocab_size(), temperature);
    const at::Tensor own = dense_logs(student.model, s, student.model.vocab(), 1);
    for (int64_t r = 0; r < own.size(0); ++r) nll.push_back(-own[r][s[static_cast<size_t>(r) + 1]]);
    if (t.size() < 2) continue;
    const at::Tensor q =
        dense_logs(teacher.model, t, teacher.tokenizer.vocab_size(), temperature).detach();
    for (const OracleChunk& chunk : chunks_of(student, s, teacher, t)) {
      losses.push_back(oracle_chunk(p.index_select(0, at::tensor(chunk.student_row)),
                                    oracle_ids(chunk.student),
                                    q.index_select(0, at::tensor(chunk.teacher_row)),
                                    oracle_ids(chunk.teacher), pair.options, pair.map.get()));
    }
  }
  return {at::stack(losses).mean() + ce * at::stack(nll).mean(), std::ssize(losses)};
}

}  // namespace xrun
