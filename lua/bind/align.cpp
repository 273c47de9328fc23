// Alignments of two tokenizers: of token lists, and of the rows of a data set with its teacher.

#include "lua/bind/align.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/align/aligned_rows.h"
#include "core/align/text_alignment.h"
#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/base/utf8.h"
#include "core/model/weights/hf_config.h"
#include "core/train/frozen_model.h"
#include "core/train/policy.h"
#include "lua/bind/modules.h"
#include "lua/bind/session.h"
#include "lua/state/args.h"
#include "lua/tensor/token_tensors.h"

namespace xrun {

namespace {

constexpr int64_t kSampledRows = 64;    // aligned at once, for the report
constexpr double kWarnCoverage = 0.95;  // exact tokenizers cover all of a text but its specials
constexpr size_t kShownBytes = 60;      // of a row in the warning

// A side of an alignment: anything with a tokenizer.
struct TokenizerOwner {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::string name;
  int64_t max_length = 0;  // tokens that its model reads; 0: there is no model
};

TokenizerOwner model_owner(std::shared_ptr<const Tokenizer> tokenizer,
                           const std::filesystem::path& dir, const std::filesystem::path& base) {
  return {std::move(tokenizer), dir.filename().string(), read_model_config(base).max_length};
}

TokenizerOwner read_owner(lua_State* L, int i, const char* what) {
  const ClassInfo* const info = class_of(L, i);
  if (info == &class_info<LuaTokenizer>) {
    return {arg<LuaTokenizer&>(L, i).tokenizer, "the teacher", 0};
  }
  if (info == &class_info<Policy>) {
    const Policy& policy = arg<Policy&>(L, i);
    return model_owner(policy.tokenizer(), policy.dir(), policy.dir());
  }
  if (info == &class_info<FrozenModel>) {
    const FrozenModel& frozen = arg<FrozenModel&>(L, i);
    return model_owner(frozen.tokenizer(), frozen.dir(), frozen.base_dir());
  }
  throw_argument(L, i, what, "a model of xrun.frozen, a policy or a tokenizer");
}

// ---- class Alignment

int make_aligner(lua_State* L) {
  const TokenizerOwner student = read_owner(L, 1, "student"), teacher = read_owner(L, 2, "teacher");
  push(L, std::make_shared<TextAligner>(student.tokenizer, teacher.tokenizer));
  return 1;
}

// { s_begin, s_end, t_begin, t_end, correct }
void push_pair(lua_State* L, const AlignedPair& pair) {
  push(L, std::vector<int64_t>{pair.s_begin, pair.s_end, pair.t_begin, pair.t_end});
  push(L, pair.correct);
  lua_rawseti(L, -2, 5);
}

int push_pairs(TextAligner& self, lua_State* L) {
  const std::vector<int32_t> student = read_ids(L, 2, "student_ids");
  const std::vector<int32_t> teacher = read_ids(L, 3, "teacher_ids");
  const Alignment pairs = self.pairs(student, teacher);
  lua_createtable(L, static_cast<int>(pairs.size()), 0);
  for (size_t i = 0; i < pairs.size(); ++i) {
    push_pair(L, pairs[i]);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  return 1;
}

// ---- data sets

std::string row_text(const DataHandle& data, int64_t row) {
  std::string text = data.policy->tokenizer()->decode(data.set.stream(row, 0).ids);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return shortened(text, kShownBytes);
}

// "data.txt:3 loses 4 of 9: Albury is a town ..."
std::string worst_text(const DataHandle& data, const AlignmentSample& sample) {
  std::vector<std::string> rows;
  for (const AlignmentSample::Row& row : sample.worst) {
    rows.push_back(fmt::format("\n  {} loses {} of {}: {}", data.set.location(row.row),
                               count_text(row.lost), count_text(row.tokens),
                               row_text(data, row.row)));
  }
  return fmt::format("{}", fmt::join(rows, ""));
}

void report_sample(lua_State* L, const DataHandle& data, const AlignmentSample& sample,
                   const std::string& teacher) {
  const auto per_chunk = [&](int64_t tokens) {
    return static_cast<double>(tokens) / static_cast<double>(std::max<int64_t>(sample.chunks, 1));
  };
  XRUN_CHECK(sample.chunks > 0 || sample.tokens == 0,
             "{}: no token of {} is in a chunk with the tokens of {}; compare the two tokenizers "
             "by `xrun align --report`",
             data.name, counted(sample.rows, "row"), teacher);
  std::string line =
      fmt::format("{}: {:.1f} % of the trained tokens of {} are aligned with {}, {:.2f} in a chunk",
                  data.name, 100 * sample.coverage(), counted(sample.rows, "row"), teacher,
                  per_chunk(sample.tokens - sample.lost));
  if (sample.coverage() < kWarnCoverage) {
    line += "; the rest gets no supervision from it:" + worst_text(data, sample);
  }
  session_of(L).notices.add(line);
}

}  // namespace

std::shared_ptr<DataHandle> align_set(lua_State* L, const DataHandle& data, int i) {
  const RowKind kind = data.set.kind();
  XRUN_CHECK(kind == RowKind::kText || kind == RowKind::kTokens,
             "{} rows cannot be aligned: the student's template has made their tokens, and the "
             "teacher has another one; align text or token rows (xrun.text, xrun.tokens)",
             row_kind_name(kind));
  const TokenizerOwner teacher = read_owner(L, i, "teacher");
  auto aligned = std::make_shared<DataHandle>(data);
  auto aligner = std::make_shared<const TextAligner>(data.policy->tokenizer(), teacher.tokenizer,
                                                     teacher.max_length);
  if (aligner->same_vocabulary()) {
    aligned->set = data.set.with_companion(nullptr);
    return aligned;
  }
  const auto rows = std::make_shared<const AlignedRows>(std::move(aligner), sidecar_root(),
                                                        recipe_context(L).options.threads);
  report_sample(L, data, sample_alignment(data.set, *rows, kSampledRows), teacher.name);
  aligned->set = data.set.with_companion(rows);
  return aligned;
}

void open_align(LuaState& state) {
  Class<TextAligner>(state, "Alignment", "Two tokenizers of one text, token by token.")
      .method("pairs", {{"student_ids", "integer[]|Tensor"}, {"teacher_ids", "integer[]|Tensor"}},
              {{"table[]"}},
              "The pairs of two token lists of one text, in order: { s_begin, s_end, t_begin, "
              "t_end, correct }, half-open ranges from 0; the side without a partner is -1, -1. "
              "correct: both sides spell the same bytes, or are special tokens of one role.",
              push_pairs);
  state.function(
      "align",
      {{"student", "Policy|FrozenModel|Tokenizer"}, {"teacher", "Policy|FrozenModel|Tokenizer"}},
      {"Alignment"}, "Compares two tokenizers by the bytes of their tokens.", make_aligner);
}

}  // namespace xrun
