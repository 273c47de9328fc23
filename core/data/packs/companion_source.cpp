// On both sides a loss row predicts the token after its slot, so token i of a document is in a
// chunk through the row of slot i - 1, and token 0 has no row. A chunk is valid if all of its
// tokens have rows.

#include "core/data/packs/companion_source.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/base/error.h"

namespace xrun {

namespace {

// Chunks of a side ascend and do not overlap, so each begins at or after the end of the last.
void check_range(size_t segment, const char* side, int32_t begin, int32_t end, int32_t least,
                 size_t tokens) {
  XRUN_CHECK(begin >= least && end > begin && end <= static_cast<int64_t>(tokens),
             "companion: a chunk of segment {} has the {} tokens [{}, {}), wanted a range in [{}, "
             "{})",
             segment, side, begin, end, least, tokens);
}

struct CutBatch {
  PackedBatch batch;
  int64_t lost = 0;  // loss rows of positive weight that were cut off
};

// Cuts segment s to its first lengths[s] tokens, at least one, and to their loss rows.
CutBatch cut_segments(const PackedBatch& whole, const std::vector<int32_t>& lengths) {
  CutBatch cut{whole};
  PackedBatch& out = cut.batch;
  out.tokens.clear();
  out.position_ids.clear();
  out.cu_seqlens = {0};
  for (size_t s = 0; s < lengths.size(); ++s) {
    const auto first = whole.tokens.begin() + whole.cu_seqlens[s];
    out.tokens.insert(out.tokens.end(), first, first + lengths[s]);
    for (int32_t i = 0; i < lengths[s]; ++i) out.position_ids.push_back(i);
    out.cu_seqlens.push_back(out.cu_seqlens.back() + lengths[s]);
  }
  out.rows = {};
  std::vector<uint8_t> trains(lengths.size(), 0);
  for (auto& [name, stream] : out.row_streams) stream.clear();
  for (size_t r = 0; r < whole.rows.hidden.size(); ++r) {
    const auto s = static_cast<size_t>(whole.rows.segment[r]);
    const int32_t token = whole.rows.hidden[r] - whole.cu_seqlens[s];
    if (token + 1 >= lengths[s]) {  // its target is cut
      cut.lost += whole.rows.weight[r] > 0;
      continue;
    }
    trains[s] |= whole.rows.weight[r] > 0;
    out.rows.hidden.push_back(out.cu_seqlens[s] + token);
    out.rows.target.push_back(whole.rows.target[r]);
    out.rows.segment.push_back(whole.rows.segment[r]);
    out.rows.weight.push_back(whole.rows.weight[r]);
    for (auto& [name, stream] : out.row_streams) {
      stream.push_back(whole.row_streams.at(name)[r]);
    }
  }
  // A sequence whose trained tokens are all cut off does not count in a mean over sequences. The
  // others keep their weight, which must not depend on their neighbours in the pack.
  for (size_t s = 0; s < lengths.size(); ++s) {
    const bool is_cut = lengths[s] < whole.cu_seqlens[s + 1] - whole.cu_seqlens[s];
    if (is_cut && trains[s] == 0) out.weight[s] = 0;
  }
  return cut;
}

// Cuts each segment to at most length_of(segment, its length) tokens, but at least one. Returns the
// number of trained tokens that the batch lost.
template <class LengthOf>
int64_t cut_to(PackedBatch& batch, const LengthOf& length_of) {
  std::vector<int32_t> lengths;
  bool cuts = false;
  for (size_t s = 0; s + 1 < batch.cu_seqlens.size(); ++s) {
    const int32_t length = batch.cu_seqlens[s + 1] - batch.cu_seqlens[s];
    lengths.push_back(std::clamp(length_of(s, length), 1, length));
    cuts |= lengths.back() < length;
  }
  if (!cuts) return 0;
  CutBatch cut = cut_segments(batch, lengths);
  batch = std::move(cut.batch);
  return cut.lost;
}

int64_t cut_to_covered(PackedBatch& batch, const std::vector<CompanionTokens>& documents) {
  return cut_to(batch, [&](size_t s, int32_t length) {
    return documents[s].covered < 0 ? length : documents[s].covered;
  });
}

// Appends the documents of a pack one by one.
class CompanionBuilder {
 public:
  CompanionBuilder(PackedBatch& batch, const std::string& fingerprint)
      : batch_(batch), companion_(std::make_shared<CompanionPack>()) {
    companion_->fingerprint = fingerprint;
    // -1: a row outside every chunk.
    batch_.chunk.assign(static_cast<size_t>(batch_.rows.size()), -1);
  }

  void add(size_t segment, const CompanionTokens& document) {
    CompanionPack& out = *companion_;
    XRUN_CHECK(!document.ids.empty(), "companion: segment {} has no tokens", segment);
    const auto begin = static_cast<int32_t>(out.tokens.size());
    out.tokens.insert(out.tokens.end(), document.ids.begin(), document.ids.end());
    for (size_t i = 0; i < document.ids.size(); ++i) {
      out.position_ids.push_back(static_cast<int32_t>(i));
    }
    out.cu_seqlens.push_back(static_cast<int32_t>(out.tokens.size()));
    batch_.alignment.wrong += document.wrong;
    batch_.alignment.one_sided += document.one_sided;
    add_chunks(segment, document, begin);
  }

  void finish() { batch_.companion = std::move(companion_); }

 private:
  // `begin` is the document's first slot in the companion.
  void add_chunks(size_t segment, const CompanionTokens& document, int32_t begin) {
    const LossRows& rows = batch_.rows;
    const int32_t slot = batch_.cu_seqlens[segment];
    const auto length = static_cast<size_t>(batch_.cu_seqlens[segment + 1] - slot);
    const auto end_row = rows.segment.size();
    int32_t s_last = 0, t_last = 0;
    for (const CompanionTokens::Chunk& chunk : document.chunks) {
      // Throws instead of clamping: a wrong chunk comes from the aligner, not from the data.
      check_range(segment, "student", chunk.s_begin, chunk.s_end, s_last, length);
      check_range(segment, "teacher", chunk.t_begin, chunk.t_end, t_last, document.ids.size());
      s_last = chunk.s_end;
      t_last = chunk.t_end;
      // Rows and chunks both rise, so one pass over the rows serves all chunks of the pack.
      const auto token = [&] { return rows.hidden[row_] + 1 - slot; };
      const auto in_segment = [&] {
        return row_ < end_row && std::cmp_equal(rows.segment[row_], segment);
      };
      while (in_segment() && token() < chunk.s_begin) count_row();
      // Unless all tokens of a chunk are predicted and trained, it compares different texts.
      const size_t first_row = row_;
      int64_t trained = 0;
      for (; in_segment() && token() < chunk.s_end; count_row()) {
        trained += rows.weight[row_] > 0;
      }
      // t_begin 0 would need a row that predicts the teacher's first token.
      if (chunk.t_begin < 1 || trained != chunk.s_end - chunk.s_begin) {
        batch_.alignment.invalid += trained > 0;
        continue;
      }
      for (size_t r = first_row; r < row_; ++r) batch_.chunk[r] = next_;
      batch_.alignment.covered += trained;
      for (int32_t i = chunk.t_begin; i < chunk.t_end; ++i) {
        companion_->hidden.push_back(begin + i - 1);
        companion_->target.push_back(document.ids[static_cast<size_t>(i)]);
        companion_->chunk.push_back(next_);
      }
      ++next_;
      ++batch_.alignment.chunks;
    }
    while (row_ < end_row && std::cmp_equal(rows.segment[row_], segment)) count_row();
  }

  void count_row() {
    if (batch_.rows.weight[row_] > 0) ++batch_.alignment.tokens;
    ++row_;
  }

  PackedBatch& batch_;
  std::shared_ptr<CompanionPack> companion_;
  size_t row_ = 0;    // the first loss row after those that were counted
  int32_t next_ = 0;  // number of the next valid chunk
};

}  // namespace

void add_companion(PackedBatch& batch, const std::vector<CompanionTokens>& documents,
                   const std::string& fingerprint, double seconds) {
  XRUN_CHECK(std::ssize(documents) == batch.segment_count(),
             "companion: {} documents for {} segments", documents.size(), batch.segment_count());
  const int64_t lost = cut_to_covered(batch, documents);
  batch.alignment = {.tokens = lost, .cut = lost, .seconds = seconds};
  CompanionBuilder builder(batch, fingerprint);
  for (size_t s = 0; s < documents.size(); ++s) builder.add(s, documents[s]);
  builder.finish();
}

// One call for all packs, since align() spreads its documents over threads.
void add_companions(std::vector<PackedBatch>& packs, const CompanionSource& source) {
  std::vector<CompanionSource::Document> documents;
  for (const PackedBatch& pack : packs) {
    for (size_t s = 0; s + 1 < pack.cu_seqlens.size(); ++s) {
      const auto first = static_cast<size_t>(pack.cu_seqlens[s]);
      const auto end = static_cast<size_t>(pack.cu_seqlens[s + 1]);
      documents.push_back(
          // Views: align() must not outlive the packs.
          {pack.row_id[s], pack.side[s], std::span(pack.tokens).subspan(first, end - first)});
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  std::vector<CompanionTokens> companions = source.align(documents);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  auto next = std::make_move_iterator(companions.begin());
  for (PackedBatch& pack : packs) {
    const auto end = next + pack.segment_count();
    add_companion(pack, {next, end}, source.fingerprint(), seconds.count());
    seconds = {};  // the sum over the packs is the time of the step
    next = end;
  }
}

// Without a companion each trained token is a chunk of its own.
void number_row_chunks(PackedBatch& batch, int64_t limit) {
  const int64_t lost = limit <= 0 ? 0 : cut_to(batch, [&](size_t, int32_t length) {
    return static_cast<int32_t>(std::min<int64_t>(length, limit));
  });
  int32_t next = 0;
  batch.chunk.clear();
  for (const float weight : batch.rows.weight) batch.chunk.push_back(weight > 0 ? next++ : -1);
  batch.alignment = {.chunks = next, .tokens = next + lost, .covered = next, .cut = lost};
}

}  // namespace xrun
