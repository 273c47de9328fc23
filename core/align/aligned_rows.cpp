// The entry of a document is a list of int32:
//   number of teacher ids | the ids | wrong pairs | one-sided tokens | covered | chunks
// A chunk is four numbers: on each side the gap after the previous chunk, and the length. If all
// four are below 128 they take one int32, low byte first (s gap, s length, t gap, t length), else
// -1 and the four. An entry has a hash of the student's ids, so a row with different tokens never
// reads it.

#include "core/align/aligned_rows.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/data/packs/data_set.h"

namespace xrun {

namespace {

constexpr int32_t kSmall = 128;        // four numbers below fit one int32 >= 0
constexpr size_t kFlushEntries = 256;  // a flush syncs the disk, so not at every step
constexpr size_t kWorstRows = 3;

// The key contains both tokenizers and the limit, so another teacher has other entries.
SidecarKey key_of(const CompanionMaker& maker) {
  SidecarKey key;
  key.name = "companions";
  key.type = ColumnType::kI32;
  key.width = 0;
  key.made_by = maker.made_by();
  return key;
}

void put_chunk(std::vector<int32_t>& out, const int32_t (&numbers)[4]) {
  const bool small =
      std::all_of(std::begin(numbers), std::end(numbers), [](int32_t n) { return n < kSmall; });
  if (small) {
    out.push_back(numbers[0] | numbers[1] << 8 | numbers[2] << 16 | numbers[3] << 24);
  } else {
    out.push_back(-1);
    out.insert(out.end(), std::begin(numbers), std::end(numbers));
  }
}

// Stores gaps instead of positions: most of them are 0, so that a chunk takes one int32.
std::vector<int32_t> stored_form(const CompanionTokens& document) {
  std::vector<int32_t> out = {static_cast<int32_t>(document.ids.size())};
  out.insert(out.end(), document.ids.begin(), document.ids.end());
  out.push_back(static_cast<int32_t>(document.wrong));
  out.push_back(static_cast<int32_t>(document.one_sided));
  out.push_back(document.covered);
  int32_t s = 0, t = 0;
  for (const CompanionTokens::Chunk& chunk : document.chunks) {
    put_chunk(out, {chunk.s_begin - s, chunk.s_end - chunk.s_begin, chunk.t_begin - t,
                    chunk.t_end - chunk.t_begin});
    s = chunk.s_end;
    t = chunk.t_end;
  }
  return out;
}

// Reads the numbers of an entry one by one. Throws Error if the entry is too short.
class EntryReader {
 public:
  EntryReader(std::span<const int32_t> values, const std::filesystem::path& dir)
      : values_(values), dir_(dir) {}

  bool at_end() const { return at_ == values_.size(); }
  // Takes the bounds of the number: an entry with a right checksum may be of another build.
  int32_t next(int64_t least = 0, int64_t most = std::numeric_limits<int32_t>::max()) {
    check(at_ < values_.size());
    const int32_t value = values_[at_++];
    check(value >= least && value <= most);
    return value;
  }
  size_t left() const { return values_.size() - at_; }
  void check(bool good) const {
    XRUN_CHECK(good, "{}: holds an entry that no alignment makes; remove {}",
               (dir_ / "values.bin").string(), dir_.string());
  }

 private:
  std::span<const int32_t> values_;
  const std::filesystem::path& dir_;
  size_t at_ = 0;
};

// The inverse of stored_form, for a document of `tokens` tokens and a teacher of `vocab` ids.
CompanionTokens read_entry(EntryReader in, int64_t tokens, int64_t vocab) {
  CompanionTokens out;
  const auto ids = static_cast<size_t>(in.next(1, static_cast<int64_t>(in.left()) - 1));
  for (size_t i = 0; i < ids; ++i) out.ids.push_back(in.next(0, vocab - 1));
  out.wrong = in.next();
  out.one_sided = in.next();
  out.covered = in.next(-1, tokens);
  int64_t s = 0, t = 0;
  while (!in.at_end()) {
    int64_t numbers[4];
    if (const int32_t packed = in.next(-1); packed >= 0) {
      for (int i = 0; i < 4; ++i) numbers[i] = packed >> (8 * i) & 0xFF;
    } else {
      for (int64_t& number : numbers) number = in.next();
    }
    s += numbers[0] + numbers[1];
    t += numbers[2] + numbers[3];
    in.check(numbers[1] > 0 && numbers[3] > 0 && s <= tokens && t <= std::ssize(out.ids));
    out.chunks.push_back({static_cast<int32_t>(s - numbers[1]), static_cast<int32_t>(s),
                          static_cast<int32_t>(t - numbers[3]), static_cast<int32_t>(t)});
  }
  return out;
}

}  // namespace

AlignedRows::AlignedRows(std::shared_ptr<const CompanionMaker> maker,
                         const std::filesystem::path& root)
    : maker_(std::move(maker)), sidecar_(std::make_unique<Sidecar>(root, key_of(*maker_))) {
  counts_.damage = sidecar_->damage();
}

AlignedRows::~AlignedRows() {
  try {
    flush();
  } catch (...) {  // a later run aligns these documents again
  }
}

void AlignedRows::flush() const {
  const std::lock_guard lock(mutex_);
  sidecar_->flush();
}

SidecarCounts AlignedRows::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::vector<size_t> AlignedRows::read_cached(const std::vector<Document>& documents,
                                             const std::vector<uint64_t>& stamps,
                                             std::vector<CompanionTokens>& out) const {
  const std::lock_guard lock(mutex_);
  std::vector<size_t> missing;
  for (size_t i = 0; i < documents.size(); ++i) {
    const Document& document = documents[i];
    const auto values = sidecar_->find<int32_t>({document.row, document.side, stamps[i]});
    if (values) {
      out[i] =
          read_entry({*values, sidecar_->dir()}, std::ssize(document.ids), maker_->vocab_size());
    } else {
      missing.push_back(i);
    }
  }
  counts_.cached += std::ssize(documents) - std::ssize(missing);
  counts_.computed += std::ssize(missing);
  return missing;
}

std::vector<CompanionTokens> AlignedRows::align(const std::vector<Document>& documents) const {
  std::vector<CompanionTokens> out(documents.size());
  std::vector<uint64_t> stamps;
  for (const Document& document : documents) {
    stamps.push_back(
        hash_u64({reinterpret_cast<const char*>(document.ids.data()), document.ids.size_bytes()}));
  }
  const std::vector<size_t> missing = read_cached(documents, stamps, out);
  if (missing.empty()) return out;
  // Aligns without the lock, so that other threads can read meanwhile.
  std::vector<Document> wanted;
  for (const size_t i : missing) wanted.push_back(documents[i]);
  std::vector<CompanionTokens> made = maker_->align(wanted);
  for (size_t m = 0; m < missing.size(); ++m) out[missing[m]] = std::move(made[m]);
  const std::lock_guard lock(mutex_);
  for (const size_t i : missing) {
    const std::vector<int32_t> values = stored_form(out[i]);
    sidecar_->add<int32_t>({documents[i].row, documents[i].side, stamps[i]}, values);
  }
  if (sidecar_->unsaved() >= kFlushEntries) sidecar_->flush();
  return out;
}

double AlignmentSample::coverage() const {
  return tokens > 0 ? 1 - static_cast<double>(lost) / static_cast<double>(tokens) : 1;
}

AlignmentSample sample_alignment(const DataSet& set, const CompanionSource& source, int64_t rows) {
  AlignmentSample sample;
  std::vector<TokenStream> streams;
  std::vector<int64_t> ids;
  // Spread evenly over the set, since neighbouring rows of a file resemble each other.
  const int64_t count = std::min(rows, set.size());
  for (int64_t i = 0; i < count; ++i) {
    ids.push_back(set.unit(i * set.size() / count));
    streams.push_back(set.stream(ids.back(), 0));
  }
  std::vector<CompanionSource::Document> documents;
  for (size_t i = 0; i < streams.size(); ++i) documents.push_back({ids[i], 0, streams[i].ids});
  const std::vector<CompanionTokens> companions = source.align(documents);
  for (size_t i = 0; i < companions.size(); ++i) {
    const std::vector<uint8_t>& trained = streams[i].trained;
    AlignmentSample::LossyRow row{ids[i], 0, 0};
    // + 1: nothing predicts the first token.
    row.tokens = std::count(trained.begin() + 1, trained.end(), 1);
    row.lost = row.tokens;
    for (const CompanionTokens::Chunk& chunk : companions[i].chunks) {
      // Counts as CompanionPack does: every token of a chunk must be predicted and trained.
      const int32_t begin = std::max(chunk.s_begin, 1);
      const auto covered = std::count(trained.begin() + begin, trained.begin() + chunk.s_end, 1);
      if (chunk.t_begin < 1 || covered != chunk.s_end - chunk.s_begin) continue;
      row.lost -= covered;
      ++sample.chunks;
    }
    sample.cut_rows += companions[i].covered >= 0;
    sample.tokens += row.tokens;
    sample.lost += row.lost;
    if (row.lost > 0) sample.worst.push_back(row);
  }
  sample.rows = count;
  // Compares lost / tokens by products, since a row may have 0 tokens.
  std::stable_sort(sample.worst.begin(), sample.worst.end(), [](const auto& a, const auto& b) {
    return a.lost * b.tokens > b.lost * a.tokens;
  });
  if (sample.worst.size() > kWorstRows) sample.worst.resize(kWorstRows);
  return sample;
}

}  // namespace xrun
