// Step 1: weights of both passes and of similar special tokens in double, then float, then bf16;
// rows normalised in bf16, the k largest columns of the dense row, the "scale trick" (the last
// column becomes 0.2), rows normalised again. Step 2: rows of tokens with one spelling become
// one-hot. Step 3: sorted, cut and normalised again. Sums and quotients of bf16 are rounded once,
// from float, as PyTorch does on a CPU.
//
// The last column is a defect: it names whatever token of weight 0 the selection left there, and
// step 3 counts it twice, once sorted in and once at the end.

#include "core/distill/projection_nemo.h"

#include <c10/util/BFloat16.h>

#include <algorithm>
#include <array>
#include <set>
#include <unordered_map>

#include "core/align/dp_canonical.h"
#include "core/base/error.h"
#include "core/distill/projection_specials.h"

namespace xrun {

namespace {

// More entries of a row than any vocabulary has tokens; rows times entries cannot overflow.
constexpr int64_t kMostColumns = int64_t{1} << 20;

// Constants of the tools.
constexpr double kLeastSimilarity = 0.3, kSimilarityWeight = 0.8;
constexpr float kScaleColumn = 0.2f;

// Rounds to the nearest bf16, ties to even.
float to_bf16(float value) { return c10::BFloat16(value); }

// Divides a row by its sum, unless that is 0.
void normalise_bf16(std::span<float> row) {
  double sum = 0;
  for (const float value : row) sum += value;
  const float divisor = to_bf16(static_cast<float>(sum));
  if (divisor == 0) return;
  for (float& value : row) value = to_bf16(value / divisor);
}

// The tools leave out these two tokens, in both passes and on both sides.
std::set<int32_t> ignored_ids(const Tokenizer& tokenizer) {
  std::set<int32_t> ids;
  for (const char* piece : {"<|endoftext|>", "<eos>"}) {
    if (const std::optional<int32_t> id = tokenizer.id_of(piece)) ids.insert(*id);
  }
  return ids;
}

// Calls add(id of `from`, id of `to`, weight).
template <class Add>
void nemo_pass(const Tokenizer& from, const Tokenizer& to, const ProjectionOptions& settings,
               const Add& add) {
  const std::set<int32_t> ignored = ignored_ids(from), ignored_to = ignored_ids(to);
  EncodeOptions options;
  options.all_special = true;
  for (int32_t id = 0; id < from.vocab_size(); ++id) {
    if (ignored.contains(id)) continue;
    std::string text = from.decode(std::array{id});
    if (text.starts_with("<|") && text.ends_with("|>")) continue;
    if (settings.canonical) text = canonical_token(text);
    std::vector<int32_t> ids = to.encode(text, options).ids;
    const auto is_ignored = [&](int32_t other) { return ignored_to.contains(other); };
    if (std::any_of(ids.begin(), ids.end(), is_ignored)) continue;
    if (std::cmp_greater(ids.size(), settings.tokens_to_cut)) {
      ids.resize(size_t(settings.tokens_to_cut));
    }
    const std::vector<double> weights = spelling_weights(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) add(id, ids[i], weights[i]);
  }
}

std::vector<ProjectionCount> nemo_counts(const Tokenizer& student, const Tokenizer& teacher,
                                         const ProjectionOptions& options) {
  std::vector<ProjectionCount> counts;
  nemo_pass(student, teacher, options, [&](int32_t s, int32_t t, double weight) {
    counts.push_back({s, t, weight});
  });
  if (options.reverse) {
    nemo_pass(teacher, student, options, [&](int32_t t, int32_t s, double weight) {
      counts.push_back({s, t, weight});
    });
  }
  if (options.specials) {
    for (const SimilarSpecials& pair :
         similar_specials(student, teacher, kLeastSimilarity, options.prep_top_k)) {
      counts.push_back({pair.student, pair.teacher, pair.similarity * kSimilarityWeight});
    }
  }
  return summed_counts(std::move(counts));
}

struct SortedEntry {
  float weight;
  int64_t id;
};

// The k largest columns of a dense row of `width` columns that is 0 but for `row`, which rises by
// id. Which columns of weight 0 fill up is left to the algorithm of torch.topk on a CPU.
std::vector<SortedEntry> largest_columns(const std::vector<SortedEntry>& row, int64_t width,
                                         int64_t k) {
  const auto larger = [](const SortedEntry& a, const SortedEntry& b) {
    return a.weight > b.weight;
  };
  // torch.topk's condition for a partial sort. That keeps its first k elements in a heap, which a
  // later column of weight 0 never enters, so those columns need not be there.
  const bool partial = k * 64 <= width;
  std::vector<SortedEntry> columns;
  for (int64_t id = 0; id < (partial ? k : width); ++id) columns.push_back({0, id});
  for (const SortedEntry& entry : row) {
    if (entry.id < std::ssize(columns)) {
      columns[size_t(entry.id)] = entry;
    } else {
      columns.push_back(entry);
    }
  }
  if (partial) {
    std::partial_sort(columns.begin(), columns.begin() + k, columns.end(), larger);
  } else {
    std::nth_element(columns.begin(), columns.begin() + k - 1, columns.end(), larger);
    std::sort(columns.begin(), columns.begin() + k - 1, larger);
  }
  columns.resize(size_t(k));
  return columns;
}

// Step 1.
DenseProjection multitoken_projection(const Tokenizer& student, const Tokenizer& teacher,
                                      const ProjectionOptions& options) {
  const std::vector<ProjectionCount> counts = nemo_counts(student, teacher, options);
  const int64_t width = teacher.vocab_size(), k = std::min(options.prep_top_k, width);
  DenseProjection dense{student.vocab_size(), options.prep_top_k, {}, {}};
  dense.id.assign(size_t(dense.rows * dense.columns), -1);
  dense.weight.assign(size_t(dense.rows * dense.columns), 0);
  size_t at = 0;
  std::vector<SortedEntry> row;
  std::vector<float> weights;
  for (int64_t s = 0; s < dense.rows; ++s) {
    row.clear();
    weights.clear();
    for (; at < counts.size() && counts[at].student == s; ++at) {
      row.push_back({0, counts[at].teacher});
      weights.push_back(to_bf16(static_cast<float>(counts[at].weight)));
    }
    normalise_bf16(weights);
    for (size_t i = 0; i < row.size(); ++i) row[i].weight = weights[i];
    const std::vector<SortedEntry> columns = largest_columns(row, width, k);
    const std::span<float> out =
        std::span(dense.weight).subspan(size_t(s * dense.columns), size_t(dense.columns));
    for (size_t i = 0; i < columns.size(); ++i) {
      dense.id[size_t(s * dense.columns) + i] = columns[i].id;
      out[i] = columns[i].weight;
    }
    if (options.scale_trick) {
      out.back() = to_bf16(kScaleColumn);
      normalise_bf16(out);
    }
  }
  return dense;
}

// Step 2. As there, only as many ids are read as a vocabulary has pieces, so unused ids hide the
// last tokens; an id without a piece is None there and equals any other None.
void apply_exact_map(const Tokenizer& student, const Tokenizer& teacher, DenseProjection& dense) {
  const auto pieces = [](const Tokenizer& tokenizer) {
    int64_t count = 0;
    for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) count += !tokenizer.piece(id).empty();
    return count;
  };
  std::unordered_map<std::string_view, int32_t> ids;
  const int64_t teachers = pieces(teacher), students = pieces(student);
  for (int32_t t = 0; t < teachers; ++t) ids[teacher.piece(t)] = t;  // the last one wins
  for (int32_t s = 0; s < students; ++s) {
    const auto found = ids.find(student.piece(s));
    if (found == ids.end()) continue;
    const auto first = dense.id.begin() + s * dense.columns;
    const auto weights = dense.weight.begin() + s * dense.columns;
    std::fill_n(first, dense.columns, -1);
    std::fill_n(weights, dense.columns, 0.0f);
    *first = found->second;
    *weights = 1;
  }
}

// Step 3 for one row.
void sort_and_cut(std::span<const int64_t> ids, std::span<const float> weights, bool keep_last,
                  std::span<int64_t> new_ids, std::span<float> new_weights) {
  std::vector<SortedEntry> valid;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != -1 && weights[i] > 0) valid.push_back({weights[i], ids[i]});
  }
  if (valid.empty()) return;
  // Cut at the end, whether the last column is among the valid ones or not.
  if (keep_last) valid.resize(std::min(valid.size(), ids.size() - 1));
  // Not stable, as torch.sort is not; the order of ties is that of libstdc++ in both.
  std::sort(valid.begin(), valid.end(),
            [](const SortedEntry& a, const SortedEntry& b) { return a.weight > b.weight; });
  const size_t room = new_ids.size() - (keep_last ? 1 : 0);
  for (size_t i = 0; i < std::min(valid.size(), room); ++i) {
    new_ids[i] = valid[i].id;
    new_weights[i] = valid[i].weight;
  }
  if (keep_last && ids.back() != -1 && weights.back() > 0) {
    new_ids.back() = ids.back();
    new_weights.back() = weights.back();
  }
  normalise_bf16(new_weights);
}

}  // namespace

DenseProjection nemo_projection(const Tokenizer& student, const Tokenizer& teacher,
                                const ProjectionOptions& options) {
  for (const int64_t columns : {options.prep_top_k, options.top_k}) {
    XRUN_CHECK(columns >= 1 && columns <= kMostColumns,
               "a projection of NeMo-RL: {} entries of a row, wanted 1 to {}; change --top-k or "
               "--prep-top-k",
               columns, kMostColumns);
  }
  DenseProjection prepared = multitoken_projection(student, teacher, options);
  if (options.exact) apply_exact_map(student, teacher, prepared);
  DenseProjection dense{prepared.rows, options.top_k, {}, {}};
  dense.id.assign(size_t(dense.rows * dense.columns), -1);
  dense.weight.assign(size_t(dense.rows * dense.columns), 0);
  const auto wide = size_t(prepared.columns), narrow = size_t(dense.columns);
  for (size_t s = 0; s < size_t(dense.rows); ++s) {
    sort_and_cut(std::span(prepared.id).subspan(s * wide, wide),
                 std::span(prepared.weight).subspan(s * wide, wide), options.scale_trick,
                 std::span(dense.id).subspan(s * narrow, narrow),
                 std::span(dense.weight).subspan(s * narrow, narrow));
  }
  return dense;
}

Projection projection_of(const DenseProjection& dense) {
  Projection projection;
  ProjectionRows rows(projection);
  for (size_t i = 0; i < dense.id.size(); ++i) {
    if (dense.id[i] >= 0 && dense.weight[i] > 0) {
      rows.add(static_cast<int32_t>(dense.id[i]), dense.weight[i]);
    }
    if ((i + 1) % size_t(dense.columns) == 0) rows.end_row();
  }
  projection.student_vocab = dense.rows;
  return projection;
}

}  // namespace xrun
