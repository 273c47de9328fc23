#include "core/data/preference_cache.h"

#include <cstring>

#include "core/base/error.h"
#include "core/data/cache_reader.h"
#include "core/data/preference_type.h"

namespace xrun {

namespace {

// 64 bits and more are read one by one; a pair has some hundreds.
void read_bits(const CacheReader::Elements& bits, std::vector<uint8_t>& out) {
  out.resize(bits.count);
  for (uint64_t i = 0; i < bits.count; ++i) {
    const uint64_t at = bits.first_bit + i;
    out[i] = (static_cast<unsigned char>(bits.data[at / 8]) >> (at % 8)) & 1;
  }
}

template <typename T>
void read_ids(const CacheReader::Elements& ids, std::vector<int32_t>& out) {
  out.resize(ids.count);
  for (uint64_t i = 0; i < ids.count; ++i) {
    T id;
    std::memcpy(&id, ids.data + i * sizeof(T), sizeof(T));
    out[i] = static_cast<int32_t>(id);
  }
}

bool has_column(const CacheManifest& manifest, const std::string& name, ColumnType type) {
  for (const Column& column : manifest.columns) {
    if (column.name == name) return column.type == type;
  }
  return false;
}

}  // namespace

std::shared_ptr<const PairCache> PairCache::open(const std::filesystem::path& dir) {
  return std::shared_ptr<const PairCache>(new PairCache(dir));
}

PairCache::PairCache(const std::filesystem::path& dir)
    : reader_(std::make_unique<CacheReader>(dir, kPreferenceRowType)) {
  const CacheManifest& manifest = reader_->manifest();
  const Json& summary = manifest.summary;
  longest_ = {summary.at("longest_row").as_int(), summary.at("longest_tokens").as_int()};
  max_id_ = {summary.at("max_id_row").as_int(), summary.at("max_id").as_int()};
  for (const Json& entry : summary.at("kept").as_array()) {
    kept_.push_back({entry.at("name").as_string(), entry.at("type").as_string() == "number"});
  }
  if (size() == 0) return;
  wide_ = has_column(manifest, "chosen_ids", ColumnType::kU32);
  const ColumnType ids = wide_ ? ColumnType::kU32 : ColumnType::kU16;
  for (SideColumns* side : {&chosen_, &rejected_}) {
    const auto& names = kSideColumnNames[side == &chosen_ ? 0 : 1];
    side->offsets = reader_->column(names[0], ColumnType::kI64);
    side->ids = reader_->column(names[1], ids);
    side->mask = reader_->column(names[2], ColumnType::kBits);
    for (size_t column : {side->ids, side->mask}) {
      XRUN_CHECK(manifest.columns[column].offsets == static_cast<int32_t>(side->offsets),
                 "{}: column {} does not follow {}", dir.string(), column, names[0]);
    }
  }
  file_ = reader_->column("file", ColumnType::kI32);
  line_ = reader_->column("line", ColumnType::kI64);
  prompt_hash_ = reader_->column("prompt_hash", ColumnType::kU64);
  weight_ = reader_->column("weight", ColumnType::kF32);
  for (size_t k = 0; k < kept_.size(); ++k) {
    const std::string name = fmt::format("keep{}", k);
    kept_places_.push_back(kept_[k].is_number
                               ? KeptPlace{0, reader_->column(name, ColumnType::kF64)}
                               : KeptPlace{reader_->column(name + "_offsets", ColumnType::kI64),
                                           reader_->column(name, ColumnType::kU8)});
    const Column& values = manifest.columns[kept_places_[k].values];
    XRUN_CHECK(
        kept_[k].is_number || values.offsets == static_cast<int32_t>(kept_places_[k].offsets),
        "{}: column \"{}\" has no offsets", dir.string(), name);
  }
}

PairCache::~PairCache() = default;

const PairCache::SideColumns& PairCache::side_columns(Side side) const {
  return side == Side::kChosen ? chosen_ : rejected_;
}

int64_t PairCache::size() const { return reader_->rows(); }

int64_t PairCache::length(int64_t row, Side side) const {
  return static_cast<int64_t>(reader_->count(reader_->place(row), side_columns(side).offsets));
}

int64_t PairCache::pair_tokens(int64_t row) const {
  return length(row, Side::kChosen) + length(row, Side::kRejected);
}

void PairCache::read(int64_t row, Side side, std::vector<int32_t>& ids,
                     std::vector<uint8_t>& trained) const {
  const CacheReader::Place place = reader_->place(row);
  const SideColumns& columns = side_columns(side);
  const CacheReader::Elements tokens = reader_->elements(place, columns.ids);
  if (wide_) {
    read_ids<uint32_t>(tokens, ids);
  } else {
    read_ids<uint16_t>(tokens, ids);
  }
  read_bits(reader_->elements(place, columns.mask), trained);
}

SourceLine PairCache::at(int64_t row) const {
  const CacheReader::Place place = reader_->place(row);
  return {reader_->value<int32_t>(place, file_), reader_->value<int64_t>(place, line_)};
}

uint64_t PairCache::prompt_hash(int64_t row) const {
  return reader_->value<uint64_t>(reader_->place(row), prompt_hash_);
}

float PairCache::weight(int64_t row) const {
  return reader_->value<float>(reader_->place(row), weight_);
}

const std::vector<KeptColumn>& PairCache::kept_columns() const { return kept_; }

double PairCache::kept_number(int64_t row, size_t column) const {
  XRUN_CHECK(kept_.at(column).is_number, "the kept column \"{}\" holds strings",
             kept_[column].name);
  return reader_->value<double>(reader_->place(row), kept_places_[column].values);
}

std::string_view PairCache::kept_string(int64_t row, size_t column) const {
  XRUN_CHECK(!kept_.at(column).is_number, "the kept column \"{}\" holds numbers",
             kept_[column].name);
  const CacheReader::Elements text =
      reader_->elements(reader_->place(row), kept_places_[column].values);
  return {text.data, text.count};
}

PairCache::Extreme PairCache::longest_pair() const { return longest_; }
PairCache::Extreme PairCache::max_token_id() const { return max_id_; }
const std::string& PairCache::key() const { return reader_->manifest().key; }
const Json& PairCache::key_document() const { return reader_->manifest().key_document; }
const SourceLedger& PairCache::ledger() const { return reader_->manifest().ledger; }
const std::filesystem::path& PairCache::dir() const { return reader_->dir(); }
void PairCache::verify() const { reader_->verify(); }

}  // namespace xrun
