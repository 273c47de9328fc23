// mismatched sequence i = prompt of sequence i + answer of sequence i - 1: the pairs (x, y') on
// which KTO estimates its reference point (Ethayarajh et al. 2024, section 4.1).

#include "core/train/batches/data_batch.h"

#include <ATen/ops/tensor.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/data/packs/data_set.h"
#include "core/data/packs/pack.h"
#include "core/text/chat/turn_tail.h"

namespace xrun {
namespace {

template <typename T>
at::Tensor numbers(const DataSet& set, const std::string& name, const std::vector<int64_t>& rows,
                   at::ScalarType type) {
  std::vector<T> values;
  for (int64_t row : rows) values.push_back(static_cast<T>(set.extra_number(row, name)));
  return at::tensor(values, type);
}

// A sequence cut where its answer begins.
struct Halves {
  SegmentTokens prompt, answer;
  float weight;
  int32_t source;
};

SegmentTokens slice_of(const SegmentTokens& whole, std::ptrdiff_t begin, std::ptrdiff_t end) {
  return {{whole.ids.begin() + begin, whole.ids.begin() + end},
          {whole.trained.begin() + begin, whole.trained.begin() + end}};
}

// The sequences of a batch in its order.
std::vector<Halves> cut_sequences(const Batch& batch) {
  std::vector<Halves> packed;
  for (const auto& micro : batch.micros()) {
    const PackedBatch& pack = micro->pack();
    for (int64_t s = 0; s < pack.segment_count(); ++s) {
      const SegmentTokens whole = pack.segment_tokens(s);
      // The answer begins at the first trained token; what is trained after it stays with it.
      const auto answer = std::find(whole.trained.begin(), whole.trained.end(), 1);
      const auto begin = answer - whole.trained.begin(), end = std::ssize(whole.ids);
      const auto at = static_cast<size_t>(s);
      packed.push_back({slice_of(whole, 0, begin), slice_of(whole, begin, end), pack.weight[at],
                        pack.source[at]});
    }
  }
  std::vector<Halves> ordered;
  // Sequence i of the batch, wherever packing has put it.
  for (const int64_t segment : batch.segment_order()) {
    ordered.push_back(std::move(packed[static_cast<size_t>(segment)]));
  }
  return ordered;
}

int64_t longest_pack(const Batch& batch) {
  int64_t longest = 0;
  for (const auto& micro : batch.micros()) longest = std::max(longest, micro->token_count());
  return longest;
}

SegmentTokens joined(SegmentTokens prompt, const SegmentTokens& answer, int64_t most) {
  // The prompt stays whole; the answer is cut at its end.
  const auto room = std::max<int64_t>(0, most - std::ssize(prompt.ids));
  const auto taken = std::min<std::ptrdiff_t>(room, std::ssize(answer.ids));
  prompt.ids.insert(prompt.ids.end(), answer.ids.begin(), answer.ids.begin() + taken);
  prompt.trained.insert(prompt.trained.end(), answer.trained.begin(),
                        answer.trained.begin() + taken);
  return prompt;
}

// Throws unless the batch has answers to take from.
void check_answers(const Batch& batch) {
  for (const auto& micro : batch.micros()) {
    XRUN_CHECK(micro->unit() != Unit::kPair && micro->pair_count() == 0,
               "mismatched prompts and answers need single answers, but this batch is made of "
               "pairs; read the rows with xrun.feedback or xrun.chat");
  }
  XRUN_CHECK(batch.size() >= 2,
             "mismatched prompts and answers need two sequences, this batch has {}; skip it "
             "(batch.size), or raise batch.sequences",
             batch.size());
}

struct Mismatched {
  std::vector<SegmentTokens> tokens;
  std::vector<int64_t> sizes;
};

// Each has at most `most` tokens.
Mismatched mismatch(const std::vector<Halves>& halves, int64_t most) {
  Mismatched out;
  for (size_t i = 0; i < halves.size(); ++i) {
    // Cyclic, so that every prompt gets an answer of another row.
    const Halves& before = halves[i == 0 ? halves.size() - 1 : i - 1];
    out.tokens.push_back(joined(halves[i].prompt, before.answer, most));
    out.sizes.push_back(std::ssize(out.tokens.back().ids));
  }
  return out;
}

}  // namespace

ExtraColumns::ExtraColumns(const DataSet& set) : set_(std::make_shared<const DataSet>(set)) {
  for (const ExtraColumn& column : set.extra_columns()) {
    const FieldType number = column.is_whole ? FieldType::kWhole : FieldType::kReal;
    fields_.push_back({column.name, column.is_number ? number : FieldType::kString});
  }
}

void ExtraColumns::add_to(Batch& batch) const {
  for (const auto& micro : batch.micros()) {
    const std::vector<int64_t>& rows = micro->pack().row_id;
    if (set_->kind() == RowKind::kFeedback) {
      std::vector<int64_t> labels;
      for (int64_t row : rows) labels.push_back(set_->label(row));
      micro->set_field("label", at::tensor(labels, at::kLong), false);
    }
    for (const auto& [name, type] : fields_) {
      if (type == FieldType::kString) {
        std::vector<std::string> texts;
        for (int64_t row : rows) texts.push_back(set_->extra_string(row, name));
        micro->set_strings(name, std::move(texts));
      } else if (type == FieldType::kWhole) {
        micro->set_field(name, numbers<int64_t>(*set_, name, rows, at::kLong), false);
      } else {
        micro->set_field(name, numbers<float>(*set_, name, rows, at::kFloat), false);
      }
    }
  }
}

Unit unit_of_rows(RowKind kind) {
  return kind == RowKind::kPreference ? Unit::kPair : Unit::kToken;
}

std::shared_ptr<Batch> data_batch(const DataSet& set, const ExtraColumns& extra,
                                  const std::vector<int64_t>& units, int64_t max_tokens,
                                  BatchInfo info) {
  info.unit = unit_of_rows(set.kind());
  info.max_tokens = max_tokens;
  info.data_key = set.fingerprint();
  info.aligned = set.companion() != nullptr;
  info.chunked = set.has_chunks();
  XRUN_CHECK(!set.has_chunks() || info.fold.rows == SharedRows::kPerSample,
             "batch.fold_weight changes the weights of shared rows, but a chunk of an aligned set "
             "counts once in each row; leave fold_weight = \"per_sample\"");
  // A single source would repeat each metric under a second name.
  if (set.source_names().size() > 1) info.sources = set.source_names();
  if (set.window_length() == 0) {  // a window's segments are parts of rows
    info.canonical_pack = [set](int64_t row, int64_t tokens) {
      return set.canonical_pack(row, tokens);
    };
  }
  // By value: the batch may outlive the recipe's handle, and a set is a few shared pointers.
  info.row_name = [set](int64_t row) { return set.location(row); };
  info.conversations = [set](const std::vector<int64_t>& rows, const Tokenizer& tokenizer) {
    return set.conversations(rows, tokenizer);
  };
  std::vector<PackedBatch> packs = set.pack(units, pack_limits(max_tokens, info.fold));
  weigh_shared_rows(packs, info.fold);
  auto batch = std::make_shared<Batch>(std::move(info), std::move(packs));
  extra.add_to(*batch);
  return batch;
}

std::shared_ptr<Batch> data_batch(const DataSet& set, const std::vector<int64_t>& units,
                                  int64_t max_tokens, BatchInfo info) {
  return data_batch(set, ExtraColumns(set), units, max_tokens, std::move(info));
}

std::shared_ptr<Batch> mismatched_batch(const Batch& batch) {
  check_answers(batch);
  const BatchInfo& from = batch.info();
  const std::vector<Halves> halves = cut_sequences(batch);
  const Mismatched sequences =
      mismatch(halves, std::min(from.max_tokens > 0 ? from.max_tokens : kNoTokenLimit,
                                from.max_length > 0 ? from.max_length : kNoTokenLimit));
  const int64_t longest = *std::max_element(sequences.sizes.begin(), sequences.sizes.end());
  // A prompt with a longer answer than its own may exceed the packs of the batch.
  const int64_t capacity =
      std::max(from.max_tokens > 0 ? from.max_tokens : longest_pack(batch), longest);
  std::vector<PackedBatch> packs;
  for (const std::vector<int64_t>& pack : best_fit_decreasing(sequences.sizes, capacity)) {
    PackedBatch& out = packs.emplace_back();
    for (const int64_t i : pack) {
      const auto at = static_cast<size_t>(i);
      // Without row_id: nothing is looked up or cached for a sequence that no row has.
      PackedBatch::Segment segment{.group_id = i, .segment_id = i};
      segment.weight = halves[at].weight;
      segment.source = halves[at].source;
      out.append(segment, sequences.tokens[at].ids, sequences.tokens[at].trained);
    }
  }
  BatchInfo info = from;
  info.unit = Unit::kToken;
  // No row has these tokens, so no cached value belongs to them.
  info.data_key.clear();
  info.row_name = nullptr;
  return std::make_shared<Batch>(std::move(info), std::move(packs));
}

}  // namespace xrun
