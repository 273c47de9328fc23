// safetensors: begin I64 [student_vocab + 1], id I32 [entries], weight F32 [entries]; metadata
// format, version, student, teacher (fingerprints), teacher_vocab, made_by (JSON), xxh3 (digest of
// all others but the first two). Nothing depends on the time or the machine.

#include "core/distill/projection.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/hash.h"
#include "core/base/strings.h"
#include "core/model/weights/safetensors.h"

namespace xrun {

namespace {

constexpr const char* kProjectionFormat = "xrun.projection";
constexpr const char* kProjectionVersion = "2";

// The name and fingerprint of one side, for messages.
std::string tokenizer_label(const Projection& projection, const char* side) {
  const std::string& fingerprint =
      side == std::string_view("student") ? projection.student : projection.teacher;
  const std::string name = text_member(projection.made_by, side);
  return fmt::format("{}{}{}", name, name.empty() ? "" : " ", fingerprint);
}

template <class T>
std::vector<T> read_list(const SafetensorsFile& file, const char* name, at::ScalarType type) {
  const SafetensorsEntry& entry = file.entry(name);
  XRUN_CHECK(entry.dtype == type && entry.shape.size() == 1, "{}: '{}' is not a list of {}",
             file.path().string(), name, safetensors_dtype_name(type));
  const at::Tensor tensor = file.read(name);
  const T* data = tensor.const_data_ptr<T>();
  return std::vector<T>(data, data + tensor.numel());
}

template <class T>
at::Tensor as_list(const std::vector<T>& values, at::ScalarType type) {
  // Only read; from_blob has no form for constant data.
  return at::from_blob(const_cast<T*>(values.data()), {static_cast<int64_t>(values.size())}, type);
}

template <class T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// Detects damage that passes every other check, such as a changed weight.
std::string digest_of(const Projection& p) {
  return Hasher()
      .field("student", p.student)
      .field("teacher", p.teacher)
      .field("teacher_vocab", p.teacher_vocab)
      .field("made_by", dump_json(p.made_by))
      .field("begin", bytes_of(p.begin))
      .field("id", bytes_of(p.id))
      .field("weight", bytes_of(p.weight))
      .hex();
}

void check_rows(const Projection& p, const std::string& where) {
  // Before rows are read through begin.
  XRUN_CHECK(!p.begin.empty() && p.begin.front() == 0 && p.begin.back() == p.entries() &&
                 std::is_sorted(p.begin.begin(), p.begin.end()) && p.id.size() == p.weight.size(),
             "{}: its rows do not cover its {} entries", where, p.entries());
  for (int64_t row = 0; row < p.student_vocab; ++row) {
    for (auto i = size_t(p.begin[size_t(row)]); i < size_t(p.begin[size_t(row) + 1]); ++i) {
      XRUN_CHECK(p.id[i] >= 0 && p.id[i] < p.teacher_vocab,
                 "{}: row {} names the teacher token {}, but the teacher has {} tokens", where, row,
                 p.id[i], p.teacher_vocab);
      // An entry of weight 0 would have no effect; a negative weight would make a negative
      // probability.
      XRUN_CHECK(std::isfinite(p.weight[i]) && p.weight[i] > 0,
                 "{}: row {} has a weight of {}, wanted a positive number", where, row,
                 p.weight[i]);
      // Readers take the first entries of a row as its largest.
      XRUN_CHECK(i == size_t(p.begin[size_t(row)]) || p.weight[i] <= p.weight[i - 1],
                 "{}: row {} is not sorted by falling weight", where, row);
    }
  }
}

}  // namespace

void save_projection(const Projection& projection, const std::filesystem::path& path) {
  // A projection that load_projection would refuse is not saved.
  check_rows(projection, path.string());
  const std::filesystem::path folder = absolute_path(path).parent_path();
  XRUN_CHECK(is_folder(folder), "{}: cannot be written, there is no folder {}; make it first",
             path.string(), folder.string());
  // By process: two runs may make the same projection at once.
  const std::filesystem::path unfinished = fmt::format("{}.unfinished{}", path.string(), getpid());
  try {
    write_safetensors(unfinished,
                      {{"begin", as_list(projection.begin, at::kLong)},
                       {"id", as_list(projection.id, at::kInt)},
                       {"weight", as_list(projection.weight, at::kFloat)}},
                      {{"format", kProjectionFormat},
                       {"version", kProjectionVersion},
                       {"student", projection.student},
                       {"teacher", projection.teacher},
                       {"teacher_vocab", std::to_string(projection.teacher_vocab)},
                       {"made_by", dump_json(projection.made_by)},
                       {"xxh3", digest_of(projection)}});
    // The name appears with the whole contents, or not at all.
    rename_durable(unfinished, path);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(unfinished, ignored);
    throw;
  }
}

Projection load_projection(const std::filesystem::path& path) {
  const std::string where = path.string();
  XRUN_CHECK(!where.ends_with(".pt") && !where.ends_with(".pth"),
             "{}: is a file of torch.save; `xrun projection import` converts NeMo-RL's", where);
  const SafetensorsFile file(path);
  const auto text = [&](const char* key) {
    const auto found = file.metadata().find(key);
    XRUN_CHECK(found != file.metadata().end(),
               "{}: has no '{}' in its metadata; `xrun projection build` makes projections", where,
               key);
    return found->second;
  };
  XRUN_CHECK(text("format") == kProjectionFormat, "{}: its format is {}, wanted {}", where,
             text("format"), kProjectionFormat);
  XRUN_CHECK(text("version") == kProjectionVersion,
             "{}: has version {}, this xrun reads version {}; build it again", where,
             text("version"), kProjectionVersion);
  Projection projection;
  projection.student = text("student");
  projection.teacher = text("teacher");
  projection.made_by = parse_json(text("made_by"), where + " (made_by)");
  // Metadata of safetensors are strings.
  const std::string vocab = text("teacher_vocab");
  const auto [end, error] =
      std::from_chars(vocab.data(), vocab.data() + vocab.size(), projection.teacher_vocab);
  XRUN_CHECK(error == std::errc() && end == vocab.data() + vocab.size() &&
                 projection.teacher_vocab >= 0 && projection.teacher_vocab <= INT32_MAX,
             "{}: teacher_vocab is {}, wanted a number of tokens", where, vocab);
  projection.begin = read_list<int64_t>(file, "begin", at::kLong);
  projection.id = read_list<int32_t>(file, "id", at::kInt);
  projection.weight = read_list<float>(file, "weight", at::kFloat);
  // -1 for an empty list, which check_rows refuses.
  projection.student_vocab = static_cast<int64_t>(projection.begin.size()) - 1;
  XRUN_CHECK(digest_of(projection) == text("xxh3"),
             "{}: is damaged: its contents have the digest {}, its metadata say {}; remove it and "
             "build it again",
             where, digest_of(projection), text("xxh3"));
  check_rows(projection, where);
  return projection;
}

Projection load_projection(const std::filesystem::path& path, const std::string& student,
                           const std::string& teacher) {
  Projection projection = load_projection(path);
  const bool exchanged = projection.student == teacher && projection.teacher == student;
  XRUN_CHECK(projection.student == student && projection.teacher == teacher,
             "{}: was made for the student tokenizer {} and the teacher tokenizer {}, but the "
             "student's is {} and the teacher's {}; {}",
             path.string(), tokenizer_label(projection, "student"),
             tokenizer_label(projection, "teacher"), student, teacher,
             exchanged ? "it is the projection of the other direction"
                       : "build it again: xrun projection build");
  return projection;
}

std::vector<std::pair<int32_t, int32_t>> exact_map(const Projection& projection,
                                                   double least_weight) {
  // The student token of each teacher token, -1: none yet.
  std::vector<int32_t> student(size_t(projection.teacher_vocab), -1);
  const auto largest = [&](int64_t row) {
    return projection.weight[size_t(projection.begin[size_t(row)])];
  };
  for (int64_t row = 0; row < projection.student_vocab; ++row) {
    if (projection.row_size(row) == 0) continue;
    // bf16 rows of NeMo-RL sum to 1 within 0.01.
    XRUN_CHECK(largest(row) < 1.05f,
               "row {} of the projection has a weight of {}: its weights are counts, and an exact "
               "map needs shares; build a projection with `xrun projection build`",
               row, largest(row));
    if (double(largest(row)) < least_weight) continue;
    int32_t& holder = student[size_t(projection.id[size_t(projection.begin[size_t(row)])])];
    // One student token per teacher token; of equal weights the lowest id stays.
    if (holder < 0 || largest(row) > largest(holder)) holder = static_cast<int32_t>(row);
  }
  std::vector<std::pair<int32_t, int32_t>> pairs;
  for (size_t t = 0; t < student.size(); ++t) {
    if (student[t] >= 0) pairs.emplace_back(student[t], static_cast<int32_t>(t));
  }
  XRUN_CHECK(!pairs.empty(),
             "the projection maps none of the {} student tokens onto one of the {} teacher tokens "
             "with a weight of at least {}: the two vocabularies have nothing in common; inspect "
             "it with `xrun projection show`",
             projection.student_vocab, projection.teacher_vocab, least_weight);
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

void ProjectionRows::end_row() {
  // Stable, so that equal weights keep the order in which they were added on every machine.
  std::stable_sort(row_.begin(), row_.end(),
                   [](const RowEntry& a, const RowEntry& b) { return a.weight > b.weight; });
  for (const RowEntry& entry : row_) {
    projection_.id.push_back(entry.id);
    projection_.weight.push_back(entry.weight);
  }
  projection_.begin.push_back(projection_.entries());
  row_.clear();
}

}  // namespace xrun
