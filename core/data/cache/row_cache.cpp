// Columns are looked up by name and type once, when a cache is opened; rows are then read by index.

#include "core/data/cache/row_cache.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "core/data/cache/cache_reader.h"
#include "core/data/cache/row_columns.h"

namespace xrun {

namespace {

// Elements of a row.
struct ElementRange {
  uint64_t begin, end;
};

// Reads the bits one by one; a row has some hundreds.
void read_bits(const CacheReader::Elements& bits, ElementRange range, std::vector<uint8_t>& out) {
  out.resize(range.end - range.begin);
  for (uint64_t i = 0; i < out.size(); ++i) {
    const uint64_t at = bits.first_bit + range.begin + i;
    out[i] = (static_cast<unsigned char>(bits.data[at / 8]) >> (at % 8)) & 1;
  }
}

// Ids are stored with 16 or 32 bits and returned with 32.
template <typename T>
void read_ids(const CacheReader::Elements& ids, ElementRange range, std::vector<int32_t>& out) {
  out.resize(range.end - range.begin);
  for (uint64_t i = 0; i < out.size(); ++i) {
    T id;
    // memcpy: the bytes are mapped, so no object of type T lives there.
    std::memcpy(&id, ids.data + (range.begin + i) * sizeof(T), sizeof(T));
    out[i] = static_cast<int32_t>(id);
  }
}

bool has_column(const CacheManifest& manifest, const std::string& name, ColumnType type) {
  return std::any_of(manifest.columns.begin(), manifest.columns.end(), [&](const Column& column) {
    return column.name == name && column.type == type;
  });
}

}  // namespace

std::shared_ptr<const RowCache> RowCache::open(const std::filesystem::path& dir, RowKind kind) {
  return std::shared_ptr<const RowCache>(new RowCache(dir, kind));
}

RowCache::RowCache(const std::filesystem::path& dir, RowKind kind)
    : reader_(std::make_unique<CacheReader>(dir, row_kind_name(kind))), kind_(kind) {
  const Json& summary = reader_->manifest().summary;
  longest_ = {summary.at("longest_row").as_int(), summary.at("longest_tokens").as_int()};
  max_id_ = {summary.at("max_id_row").as_int(), summary.at("max_id").as_int()};
  // "kept": the key of the format, docs/cache-format.md.
  for (const Json& entry : summary.at("kept").as_array()) {
    const bool is_number = entry.at("type").as_string() == "number";
    extra_.push_back(
        {entry.at("name").as_string(), is_number, is_number && entry.at("whole").as_bool()});
  }
  streams_.resize(stream_names(kind).size());
  first_token_ = {0};
  // An empty cache has no shard and so no columns.
  if (size() == 0) return;
  find_columns();
  find_extra();
}

void RowCache::find_columns() {
  const CacheManifest& manifest = reader_->manifest();
  const std::vector<std::string> names = stream_names(kind_);
  // The ids of one cache all have one width, which its vocabulary decided.
  wide_ = has_column(manifest, names[0] + "_ids", ColumnType::kU32);
  has_weights_ = has_column(manifest, names[0] + "_weights", ColumnType::kF32);
  const ColumnType ids = wide_ ? ColumnType::kU32 : ColumnType::kU16;
  for (size_t s = 0; s < names.size(); ++s) {
    StreamColumns& stream = streams_[s];
    stream.offsets = reader_->column(names[s] + "_offsets", ColumnType::kI64);
    stream.ids = reader_->column(names[s] + "_ids", ids);
    stream.mask = reader_->column(names[s] + "_mask", ColumnType::kBits);
    stream.weights = has_weights_ ? reader_->column(names[s] + "_weights", ColumnType::kF32) : 0;
    // Without weights the ids are checked twice.
    for (size_t column : {stream.ids, stream.mask, has_weights_ ? stream.weights : stream.ids}) {
      XRUN_CHECK(manifest.columns[column].offsets == static_cast<int32_t>(stream.offsets),
                 "{}: column {} does not follow {}_offsets", dir().string(), column, names[s]);
    }
  }
  for (const ShardEntry& shard : manifest.shards) {
    // Running totals, so that a token number finds its shard without reading offsets.
    first_token_.push_back(first_token_.back() + shard.elements[streams_[0].ids]);
  }
  file_ = reader_->column("file", ColumnType::kI32);
  line_ = reader_->column("line", ColumnType::kI64);
  prompt_hash_ = reader_->column("prompt_hash", ColumnType::kU64);
  weight_ = reader_->column("weight", ColumnType::kF32);
  if (kind_ == RowKind::kFeedback) label_ = reader_->column("label", ColumnType::kU8);
}

// Column keepK holds the K-th extra column of the summary, whatever its name.
void RowCache::find_extra() {
  const CacheManifest& manifest = reader_->manifest();
  for (size_t k = 0; k < extra_.size(); ++k) {
    const std::string name = fmt::format("keep{}", k);
    extra_at_.push_back(extra_[k].is_number
                            ? ExtraAt{0, reader_->column(name, ColumnType::kF64)}
                            : ExtraAt{reader_->column(name + "_offsets", ColumnType::kI64),
                                      reader_->column(name, ColumnType::kU8)});
    const Column& values = manifest.columns[extra_at_[k].values];
    XRUN_CHECK(extra_[k].is_number || values.offsets == static_cast<int32_t>(extra_at_[k].offsets),
               "{}: column \"{}\" has no offsets", dir().string(), name);
  }
}

RowCache::~RowCache() = default;

int64_t RowCache::size() const { return reader_->rows(); }

int64_t RowCache::length(int64_t row, size_t stream) const {
  return static_cast<int64_t>(reader_->count(reader_->find(row), streams_.at(stream).offsets));
}

int64_t RowCache::tokens(int64_t row) const {
  int64_t sum = 0;
  for (size_t s = 0; s < streams_.size(); ++s) sum += length(row, s);
  return sum;
}

void RowCache::read(int64_t row, size_t stream, TokenStream& out) const {
  read_part(row, stream, 0, length(row, stream), out);
}

// Reads no more than the part: windows read parts of long documents.
void RowCache::read_part(int64_t row, size_t stream, int64_t begin, int64_t end,
                         TokenStream& out) const {
  const CacheReader::ShardRow at = reader_->find(row);
  const StreamColumns& columns = streams_.at(stream);
  const CacheReader::Elements tokens = reader_->elements(at, columns.ids);
  const ElementRange range{static_cast<uint64_t>(begin), static_cast<uint64_t>(end)};
  XRUN_CHECK(begin >= 0 && begin <= end && range.end <= tokens.count,
             "tokens {} to {} are out of range, row {} has {}", begin, end, row, tokens.count);
  if (wide_) {
    read_ids<uint32_t>(tokens, range, out.ids);
  } else {
    read_ids<uint16_t>(tokens, range, out.ids);
  }
  read_bits(reader_->elements(at, columns.mask), range, out.trained);
  // The caller reuses `out`, and rows without weights must not inherit those of the last row.
  out.weights.clear();
  if (!has_weights_ || begin == end) return;
  const CacheReader::Elements weights = reader_->elements(at, columns.weights);
  out.weights.resize(range.end - range.begin);
  std::memcpy(out.weights.data(), weights.data + range.begin * sizeof(float),
              out.weights.size() * sizeof(float));
}

SourceLine RowCache::at(int64_t row) const {
  const CacheReader::ShardRow at = reader_->find(row);
  return {reader_->value<int32_t>(at, file_), reader_->value<int64_t>(at, line_)};
}

uint64_t RowCache::prompt_hash(int64_t row) const {
  return reader_->value<uint64_t>(reader_->find(row), prompt_hash_);
}

float RowCache::weight(int64_t row) const {
  return reader_->value<float>(reader_->find(row), weight_);
}

int8_t RowCache::label(int64_t row) const {
  // Only feedback has labels.
  if (kind_ != RowKind::kFeedback) return 0;
  return static_cast<int8_t>(reader_->value<uint8_t>(reader_->find(row), label_));
}

int64_t RowCache::first_token(int64_t row) const {
  if (row == size()) return first_token_.back();
  const CacheReader::ShardRow at = reader_->find(row);
  return first_token_[at.shard] + reader_->value<int64_t>(at, streams_[0].offsets);
}

// Returns the last row that begins at or before the token, since rows are never empty. Takes
// log2(rows) steps, each of which reads one offset.
int64_t RowCache::row_of_token(int64_t token) const {
  XRUN_CHECK(token >= 0 && token < first_token_.back(), "token {} is out of range, there are {}",
             token, first_token_.back());
  // Bisects, since first_token() rises with the row.
  int64_t low = 0;
  for (int64_t high = size(); high - low > 1;) {
    const int64_t middle = low + (high - low) / 2;
    (first_token(middle) <= token ? low : high) = middle;
  }
  return low;
}

const std::vector<ExtraColumn>& RowCache::extra_columns() const { return extra_; }

double RowCache::extra_number(int64_t row, size_t column) const {
  return reader_->value<double>(reader_->find(row), extra_at_[column].values);
}

std::string_view RowCache::extra_string(int64_t row, size_t column) const {
  const CacheReader::Elements text =
      reader_->elements(reader_->find(row), extra_at_[column].values);
  return {text.data, text.count};
}

RowCache::Extreme RowCache::longest() const { return longest_; }
RowCache::Extreme RowCache::max_token_id() const { return max_id_; }
const std::string& RowCache::key() const { return reader_->manifest().key; }
const Json& RowCache::key_document() const { return reader_->manifest().key_document; }
const SourceLedger& RowCache::ledger() const { return reader_->manifest().ledger; }
const std::filesystem::path& RowCache::dir() const { return reader_->dir(); }
void RowCache::verify() const { reader_->verify(); }

}  // namespace xrun
