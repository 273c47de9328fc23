// The dense form has -1 in empty columns; the sparse one is a dict whose keys are pairs of ids.
// Rows of a model's padded embedding, beyond the tokenizer, are junk and are left out.

#include "core/distill/projection_import.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/text/tokenizer/vocabulary_fingerprint.h"

namespace xrun {

namespace {

// At most one row in 20 is padding. The most known is 2.3 % (DeepSeek LLM 7B: 102,400 rows for
// 100,015 tokens).
constexpr int64_t kMostPadding = 20;

struct ImportedEntry {
  int64_t student, teacher;
  float weight;
};

class ProjectionImporter {
 public:
  ProjectionImporter(const TorchFile& file, const Tokenizer& student, const Tokenizer& teacher)
      : file_(file), students_(student.vocab_size()), teachers_(teacher.vocab_size()) {
    result_.projection.made_by.set("command", "import");
  }

  ProjectionImport run() {
    const TorchFile::ValueId root = file_.root();
    XRUN_CHECK(file_.kind(root) == TorchKind::kDict,
               "{}: its top-level object is of type {}, wanted dict: {}", file_.name(),
               file_.kind_name(root), kForms);
    const auto indices = file_.find(root, "indices"), likelihoods = file_.find(root, "likelihoods");
    if (indices && likelihoods) {
      read_dense(*indices, *likelihoods);
      read_settings();
    } else {
      read_sparse();
    }
    fill_rows();
    return std::move(result_);
  }

 private:
  static constexpr const char* kForms =
      "\"indices\" and \"likelihoods\", or counts by pairs of token ids";

  const TorchTensor& tensor(TorchFile::ValueId value, const char* name) const {
    XRUN_CHECK(file_.kind(value) == TorchKind::kTensor && file_.as_tensor(value).shape.size() == 2,
               "{}: {} is not a tensor of [rows, k]", file_.name(), name);
    return file_.as_tensor(value);
  }

  void read_dense(TorchFile::ValueId index_value, TorchFile::ValueId likelihood_value) {
    const TorchTensor& indices = tensor(index_value, "indices");
    const TorchTensor& likelihoods = tensor(likelihood_value, "likelihoods");
    XRUN_CHECK(indices.shape == likelihoods.shape,
               "{}: indices are [{}, {}] and likelihoods [{}, {}], wanted the same shape",
               file_.name(), indices.shape[0], indices.shape[1], likelihoods.shape[0],
               likelihoods.shape[1]);
    const int64_t rows = indices.shape[0], k = indices.shape[1];
    XRUN_CHECK(rows >= students_,
               "{}: has {} rows, but the student's tokenizer has {} tokens; was it made for "
               "another student?",
               file_.name(), rows, students_);
    result_.padded_rows = rows - students_;
    XRUN_CHECK(
        result_.padded_rows <= rows / kMostPadding,
        "{}: has {} rows, but the student's tokenizer has only {} tokens, fewer than padding "
        "explains; was it made for another student?",
        file_.name(), rows, students_);
    const std::vector<int64_t> id = torch_integers(indices, file_.name() + ": indices");
    const std::vector<float> weight = torch_floats(likelihoods, file_.name() + ": likelihoods");
    for (int64_t i = 0; i < students_ * k; ++i) {
      add({i / k, id[size_t(i)], weight[size_t(i)]}, id[size_t(i)] == -1);
    }
    result_.projection.made_by.set("form", "dense");
  }

  void read_sparse() {
    const std::span<const TorchFile::ValueId> items = file_.items(file_.root());
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      const TorchFile::ValueId key = items[i], value = items[i + 1];
      const bool is_pair = file_.kind(key) == TorchKind::kTuple && file_.items(key).size() == 2 &&
                           file_.kind(file_.items(key)[0]) == TorchKind::kInt &&
                           file_.kind(file_.items(key)[1]) == TorchKind::kInt;
      const bool is_int = file_.kind(value) == TorchKind::kInt;
      XRUN_CHECK(is_pair && (is_int || file_.kind(value) == TorchKind::kFloat),
                 "{}: its dict maps {} keys to {} values, wanted {}", file_.name(),
                 file_.kind_name(key), file_.kind_name(value), kForms);
      const int64_t student = file_.as_int(file_.items(key)[0]);
      XRUN_CHECK(
          student >= 0 && student < students_,
          "{}: names the student token {}, but the student's tokenizer has {} tokens; was it "
          "made for another student?",
          file_.name(), student, students_);
      add({student, file_.as_int(file_.items(key)[1]),
           is_int ? static_cast<float>(file_.as_int(value))
                  : static_cast<float>(file_.as_float(value))},
          false);
    }
    // A repeated key of a dict keeps its last value; the order of the file is not that of rows.
    std::stable_sort(entries_.begin(), entries_.end(),
                     [](const ImportedEntry& a, const ImportedEntry& b) {
                       return std::pair(a.student, a.teacher) < std::pair(b.student, b.teacher);
                     });
    size_t size = 0;
    for (const ImportedEntry& entry : entries_) {
      const bool repeated = size > 0 && entries_[size - 1].student == entry.student &&
                            entries_[size - 1].teacher == entry.teacher;
      entries_[repeated ? size - 1 : size++] = entry;
    }
    entries_.resize(size);
    result_.projection.made_by.set("form", "counts");
  }

  void add(const ImportedEntry& entry, bool empty) {
    XRUN_CHECK(std::isfinite(entry.weight) && entry.weight >= 0,
               "{}: the student token {} has a weight of {}, wanted a number of at least 0",
               file_.name(), entry.student, entry.weight);
    if (empty || entry.weight == 0) return;
    XRUN_CHECK(
        entry.teacher >= 0 && entry.teacher < teachers_,
        "{}: the student token {} has the teacher token {}, but the teacher's tokenizer has {} "
        "tokens; was it made for another teacher?",
        file_.name(), entry.student, entry.teacher, teachers_);
    entries_.push_back(entry);
  }

  // Copies the file's scalar settings (model names, tool flags).
  void read_settings() {
    Json settings = Json::object();
    const std::span<const TorchFile::ValueId> items = file_.items(file_.root());
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      if (file_.kind(items[i]) != TorchKind::kString) continue;
      const std::string key(file_.as_string(items[i]));
      const TorchFile::ValueId value = items[i + 1];
      switch (file_.kind(value)) {
        case TorchKind::kBool: settings.set(key, file_.as_bool(value)); break;
        case TorchKind::kInt: settings.set(key, file_.as_int(value)); break;
        case TorchKind::kFloat: settings.set(key, file_.as_float(value)); break;
        case TorchKind::kString: settings.set(key, file_.as_string(value)); break;
        default: break;
      }
    }
    result_.projection.made_by.set("settings", std::move(settings));
  }

  void fill_rows() {
    ProjectionRows rows(result_.projection);
    size_t at = 0;
    for (int64_t s = 0; s < students_; ++s) {
      for (; at < entries_.size() && entries_[at].student == s; ++at) {
        rows.add(static_cast<int32_t>(entries_[at].teacher), entries_[at].weight);
      }
      rows.end_row();
    }
    result_.projection.student_vocab = students_;
    result_.projection.teacher_vocab = teachers_;
  }

  const TorchFile& file_;
  int64_t students_, teachers_;
  std::vector<ImportedEntry> entries_;
  ProjectionImport result_;
};

}  // namespace

ProjectionImport import_projection(const TorchFile& file, const Tokenizer& student,
                                   const Tokenizer& teacher) {
  ProjectionImport result = ProjectionImporter(file, student, teacher).run();
  result.projection.student = vocabulary_fingerprint(student);
  result.projection.teacher = vocabulary_fingerprint(teacher);
  return result;
}

}  // namespace xrun
