// A row of kTopColumns is k ids (u32), k log-probs, the log-sum-exp and the target's log-prob (fp32
// in u32 words); a row of kHidden is D numbers of the storage type. A segment's entry has its rows
// one after the other.

#include "core/train/models/frozen_rows.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/model/model.h"
#include "core/model/ops/device.h"
#include "core/train/batches/micro_batch.h"
#include "core/train/batches/unit.h"
#include "core/train/models/chunk_columns.h"

namespace xrun {
namespace {

constexpr int64_t kColumnsFormat = 2, kHiddenFormat = 1;
// Entries held in memory before they are written; a kill may lose as many.
constexpr size_t kRowsFlushAt = 64;

// Returns the range [first, second) of a companion's rows that belong to segment s; rows ascend by
// slot.
std::pair<size_t, size_t> rows_of(const CompanionPack& tokens, size_t s) {
  const auto first =
      std::lower_bound(tokens.hidden.begin(), tokens.hidden.end(), tokens.cu_seqlens[s]);
  const auto last = std::lower_bound(first, tokens.hidden.end(), tokens.cu_seqlens[s + 1]);
  return {static_cast<size_t>(first - tokens.hidden.begin()),
          static_cast<size_t>(last - tokens.hidden.begin())};
}

// Segment s alone, with slots and chunks counted from its first.
CompanionPack segment_alone(const CompanionPack& tokens, size_t s) {
  const int32_t begin = tokens.cu_seqlens[s], end = tokens.cu_seqlens[s + 1];
  CompanionPack alone;
  alone.tokens.assign(tokens.tokens.begin() + begin, tokens.tokens.begin() + end);
  alone.position_ids.assign(tokens.position_ids.begin() + begin, tokens.position_ids.begin() + end);
  alone.cu_seqlens = {0, end - begin};
  const auto [first, last] = rows_of(tokens, s);
  for (size_t r = first; r < last; ++r) {
    alone.hidden.push_back(tokens.hidden[r] - begin);
    alone.target.push_back(tokens.target[r]);
    alone.chunk.push_back(tokens.chunk[r] - tokens.chunk[first]);
  }
  return alone;
}

uint64_t hash_of(const std::vector<int32_t>& values) {
  return hash_u64({reinterpret_cast<const char*>(values.data()), 4 * values.size()});
}

// A hash of the tokens that the model reads and of the rows that it gives values for; with chunks
// also of their division.
uint64_t stamp_of(const CompanionPack& alone, bool chunks) {
  return hash_u64(fmt::format("{:016x}{:016x}{:016x}", hash_of(alone.tokens), hash_of(alone.hidden),
                              hash_of(alone.target)) +
                  (chunks ? fmt::format("{:016x}", hash_of(alone.chunk)) : ""));
}

// Returns a tensor's elements, row by row, as raw bytes.
std::string bytes_of(const at::Tensor& tensor) {
  const at::Tensor host = tensor.cpu().contiguous();
  return {static_cast<const char*>(host.const_data_ptr()), host.nbytes()};
}

template <typename T>
std::optional<std::string> find_typed(const Sidecar& sidecar, const SidecarEntry& entry) {
  const auto values = sidecar.find<T>(entry);
  if (!values) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(values->data()), values->size() * sizeof(T));
}

template <typename T>
void add_typed(Sidecar& sidecar, const SidecarEntry& entry, const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  sidecar.add<T>(entry, std::span<const T>(values));
}

}  // namespace

CompanionPack own_tokens(const PackedBatch& pack) {
  CompanionPack own;
  own.tokens = pack.tokens;
  own.position_ids = pack.position_ids;
  own.cu_seqlens = pack.cu_seqlens;
  const Grouping chunks = group_by(pack.chunk);
  // The chunks of an aligned pack number the companion's rows, not these.
  const bool by_row = pack.chunk.empty() || pack.companion != nullptr;
  for (size_t r = 0; r < pack.rows.hidden.size(); ++r) {
    const int64_t chunk = by_row ? static_cast<int64_t>(r) : chunks.unit[r];
    if (chunk < 0) continue;
    own.hidden.push_back(pack.rows.hidden[r]);
    own.target.push_back(pack.rows.target[r]);
    own.chunk.push_back(static_cast<int32_t>(chunk));
  }
  return own;
}

at::Tensor companion_hidden(Model& model, const CompanionPack& tokens) {
  const at::NoGradGuard no_grad;
  PackInput input;
  input.tokens = int64_tensor(tokens.tokens);
  input.position_ids = int64_tensor(tokens.position_ids);
  input.cu_seqlens = tokens.cu_seqlens;
  // The whole pack runs; only the rows that predict a chunk's token are kept.
  const at::Tensor hidden = model.forward(input);
  return at::index_select(hidden, 0, on_device(int64_tensor(tokens.hidden), hidden.device()));
}

FrozenRows::FrozenRows(FrozenSource source, Form form)
    : source_(std::move(source)), form_(std::move(form)) {}

FrozenRows::~FrozenRows() {
  try {
    flush();
  } catch (const std::exception&) {
    // A lost value is computed again; a destructor has nobody to tell.
  }
}

SidecarEntry FrozenRows::entry_of(const PackedBatch& pack, const CompanionPack& tokens,
                                  size_t s) const {
  const bool chunks = form_.cache == FrozenCache::kTopColumns;
  return {pack.row_id[s], pack.side[s], stamp_of(segment_alone(tokens, s), chunks)};
}

int64_t FrozenRows::value_bytes() const {
  if (form_.cache == FrozenCache::kTopColumns) return 4 * (2 * form_.top_k + 2);
  return form_.width * static_cast<int64_t>(c10::elementSize(source_.settings().dtype));
}

ColumnType FrozenRows::value_type() const {
  // Sidecars store whole numbers, so floats travel as the words of their bits.
  const bool words =
      form_.cache == FrozenCache::kTopColumns || c10::elementSize(source_.settings().dtype) == 4;
  return words ? ColumnType::kU32 : ColumnType::kU16;
}

SidecarKey FrozenRows::key(const std::string& data_key, int64_t max_tokens,
                           const std::string& student) const {
  const bool top = form_.cache == FrozenCache::kTopColumns;
  SidecarKey key =
      frozen_key(top ? "teacher_columns" : "teacher_hidden", top ? kColumnsFormat : kHiddenFormat,
                 source_, data_key, canonical_tokens(max_tokens));
  key.type = value_type();
  // An entry has as many rows as its segment, so there is no common width.
  key.width = 0;
  key.made_by.set("vocabulary", form_.vocabulary);
  key.made_by.set("student_vocabulary", student);
  if (!top) return key;
  // Hidden states do not depend on what the head does with them; columns do.
  key.made_by.set("columns", form_.columns);
  key.made_by.set("k", form_.top_k);
  key.made_by.set("temperature", form_.temperature);
  return key;
}

Sidecar& FrozenRows::sidecar(const SidecarKey& key) {
  // The whole key: a run may read data of several caches and pack sizes.
  const std::string name = dump_json(key.document());
  const auto known = sidecars_.find(name);
  if (known != sidecars_.end()) return *known->second;
  auto opened = std::make_unique<Sidecar>(sidecar_root(), key);
  if (!opened->damage().empty()) counts_.damage = opened->damage();
  return *sidecars_.emplace(name, std::move(opened)).first->second;
}

std::optional<std::string> FrozenRows::find(Sidecar& stored, const SidecarEntry& entry) const {
  const auto find_value = [&] {
    return value_type() == ColumnType::kU32 ? find_typed<uint32_t>(stored, entry)
                                            : find_typed<uint16_t>(stored, entry);
  };
  if (auto known = find_value()) return known;
  stored.refresh();  // another rank may have computed it since
  return find_value();
}

void FrozenRows::add(Sidecar& stored, const SidecarEntry& entry, const std::string& bytes) const {
  value_type() == ColumnType::kU32 ? add_typed<uint32_t>(stored, entry, bytes)
                                   : add_typed<uint16_t>(stored, entry, bytes);
}

void FrozenRows::flush() {
  for (auto& [name, sidecar] : sidecars_) sidecar->flush();
}

// Returns the bytes of each segment, from one forward and one product with the vocabulary.
std::vector<std::string> FrozenRows::compute_pack(const CompanionPack& tokens) {
  const at::NoGradGuard no_grad;
  Model& model = source_.model();
  const at::Tensor hidden = companion_hidden(model, tokens);
  std::string all;
  if (form_.cache == FrozenCache::kHidden) {
    all = bytes_of(hidden);
  } else {
    const at::Tensor index =
        at::arange(hidden.size(0), at::dtype(at::kLong).device(hidden.device()));
    const HeadOptions options{.temperature = form_.temperature,
                              .columns = form_.columns,
                              .lse = true,
                              .top_k = form_.top_k,
                              .head_mb = source_.settings().head_mb};
    HeadResult result =
        model.head(hidden, index, on_device(int64_tensor(tokens.target), hidden.device()), options);
    share_chunk_columns(result, hidden, model.head_weight(), tokens.chunk, options);
    // Ids of a vocabulary fit 32 bits, at half the bytes.
    const std::string ids = bytes_of(result.top_id.to(at::kInt));
    const std::string top = bytes_of(result.top_logprob), lse = bytes_of(result.lse),
                      target = bytes_of(result.logprob);
    const auto row = static_cast<size_t>(4 * form_.top_k);
    for (size_t r = 0; r < tokens.hidden.size(); ++r) {
      all.append(ids, r * row, row).append(top, r * row, row);
      // The target's own log-prob: the target may not be among the k.
      all.append(lse, 4 * r, 4).append(target, 4 * r, 4);
    }
  }
  const auto width = static_cast<size_t>(value_bytes());
  std::vector<std::string> segments;
  for (size_t s = 0; s + 1 < tokens.cu_seqlens.size(); ++s) {
    const auto [first, last] = rows_of(tokens, s);
    segments.push_back(all.substr(first * width, (last - first) * width));
  }
  // All segments of the pack, also those that nobody has asked for yet.
  counts_.computed += std::ssize(segments);
  return segments;
}

// Computes the pack that a segment's values come from: the canonical pack of its row where the data
// set has one with these tokens, else the segment alone.
std::map<SidecarEntry, std::string> FrozenRows::compute(const MicroBatch& micro,
                                                        const CompanionPack& tokens, size_t segment,
                                                        const SidecarEntry& wanted, bool storable) {
  const BatchInfo& info = micro.info();
  std::map<SidecarEntry, std::string> values;
  if (storable && info.canonical_pack) {
    const PackedBatch pack = info.canonical_pack(wanted.row, canonical_tokens(info.max_tokens));
    // If the teacher reads a companion of the micro-batch, it reads that of this pack too.
    const bool aligned = !tokens.fingerprint.empty();
    if (!aligned || pack.companion != nullptr) {
      const CompanionPack made = aligned ? *pack.companion : own_tokens(pack);
      std::vector<SidecarEntry> entries;
      for (size_t s = 0; s < pack.row_id.size(); ++s) entries.push_back(entry_of(pack, made, s));
      // By stamp: a truncated or changed row has other tokens than the canonical pack's.
      if (std::find(entries.begin(), entries.end(), wanted) != entries.end()) {
        std::vector<std::string> bytes = compute_pack(made);
        for (size_t s = 0; s < entries.size(); ++s) {
          values.emplace(entries[s], std::move(bytes[s]));
        }
        return values;
      }
    }
  }
  // Alone, so that its bits do not depend on the other rows of the batch.
  values.emplace(wanted, compute_pack(segment_alone(tokens, segment)).front());
  return values;
}

std::vector<std::string> FrozenRows::values(const MicroBatch& micro, const CompanionPack& tokens,
                                            const std::string& student) {
  const BatchInfo& info = micro.info();
  const PackedBatch& pack = micro.pack();
  Sidecar* stored = nullptr;
  if (!info.data_key.empty()) stored = &sidecar(key(info.data_key, info.max_tokens, student));
  std::map<SidecarEntry, std::string> fresh;  // computed by this call
  std::vector<std::string> out;
  for (size_t s = 0; s < pack.row_id.size(); ++s) {
    const SidecarEntry entry = entry_of(pack, tokens, s);
    // A batch made by hand has no key, and a negative row id belongs to no data set.
    const bool storable = stored != nullptr && entry.row >= 0;
    // A row may occur twice in one pack; its value is made once.
    auto known = fresh.find(entry);
    if (known == fresh.end()) {
      if (auto bytes = storable ? find(*stored, entry) : std::nullopt) {
        const auto [first, last] = rows_of(tokens, s);
        const int64_t wanted =
            (static_cast<int64_t>(last) - static_cast<int64_t>(first)) * value_bytes();
        XRUN_CHECK(std::ssize(*bytes) == wanted,
                   "{}: row {} has {} bytes, wanted {}; delete this folder, and its values are "
                   "computed again",
                   stored->dir().string(), entry.row, bytes->size(), wanted);
        ++counts_.cached;
        out.push_back(std::move(*bytes));
        continue;
      }
      auto made = compute(micro, tokens, s, entry, storable);
      // Neighbours in the canonical pack are stored too: they cost nothing more.
      for (const auto& [of, bytes] : made) {
        if (storable) add(*stored, of, bytes);
      }
      if (storable && stored->unsaved() >= kRowsFlushAt) stored->flush();
      fresh.merge(made);
      known = fresh.find(entry);
    }
    out.push_back(known->second);
  }
  return out;
}

at::Tensor FrozenRows::hidden(const MicroBatch& micro, const CompanionPack& tokens,
                              const std::string& student) {
  std::string all;
  for (const std::string& bytes : values(micro, tokens, student)) all += bytes;
  const auto rows = static_cast<int64_t>(tokens.hidden.size());
  // Segments are stored in slot order, so their bytes concatenated are the matrix.
  at::Tensor host = at::empty({rows, form_.width}, source_.settings().dtype);
  if (!all.empty()) std::memcpy(host.mutable_data_ptr(), all.data(), all.size());
  // The vocabulary projection, which multiplies them, is on this device.
  return on_device(host, source_.settings().device);
}

HeadResult FrozenRows::columns(const MicroBatch& micro, const CompanionPack& tokens,
                               const std::string& student) {
  const auto rows = static_cast<int64_t>(tokens.hidden.size());
  const int64_t k = form_.top_k;
  const at::Tensor id = at::empty({rows, k}, at::kInt), top = at::empty({rows, k}, at::kFloat),
                   lse = at::empty({rows}, at::kFloat), target = at::empty({rows}, at::kFloat);
  auto* const ids = static_cast<char*>(id.mutable_data_ptr());
  auto* const tops = static_cast<char*>(top.mutable_data_ptr());
  auto* const sums = static_cast<char*>(lse.mutable_data_ptr());
  auto* const targets = static_cast<char*>(target.mutable_data_ptr());
  const auto row = static_cast<size_t>(4 * k);
  size_t r = 0;
  for (const std::string& bytes : values(micro, tokens, student)) {
    const auto width = static_cast<size_t>(value_bytes());
    for (size_t at = 0; at < bytes.size(); at += width, ++r) {
      const char* const from = bytes.data() + at;
      std::memcpy(ids + r * row, from, row);
      std::memcpy(tops + r * row, from + row, row);
      std::memcpy(sums + 4 * r, from + 2 * row, 4);
      std::memcpy(targets + 4 * r, from + 2 * row + 4, 4);
    }
  }
  HeadResult result;
  result.logprob = on_device(target, micro.device());
  result.lse = on_device(lse, micro.device());
  result.top_logprob = on_device(top, micro.device());
  result.top_id = on_device(id.to(at::kLong), micro.device());
  return result;
}

}  // namespace xrun
