#pragma once
// A projection: a sparse matrix of student tokens by teacher tokens. Row s lists the teacher tokens
// that spell student token s, with their weights.

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"

namespace xrun {

// Compressed rows. The entries of a row are sorted by falling weight; all weights are positive. A
// row may name a teacher token twice (files of NeMo-RL do); its weights then add.
struct Projection {
  int64_t student_vocab = 0, teacher_vocab = 0;  // tokens of the two tokenizers
  std::vector<int64_t> begin = {0};              // [student_vocab + 1], first entry of each row
  std::vector<int32_t> id;                       // [entries], a teacher token
  std::vector<float> weight;                     // [entries], at most 1 unless they are counts
  std::string student, teacher;                  // vocabulary fingerprints
  Json made_by = Json::object();                 // provenance: command, settings, tokenizer names

  int64_t entries() const { return static_cast<int64_t>(id.size()); }
  int64_t row_size(int64_t row) const { return begin[size_t(row) + 1] - begin[size_t(row)]; }
};

// Writes a safetensors file: begin I64, id I32, weight F32, the rest as metadata. Equal projections
// give equal bytes; an old file is replaced only by a complete one. Throws Error.
void save_projection(const Projection& projection, const std::filesystem::path& path);

// Reads a file of save_projection. Throws Error that names the file if it is damaged, of another
// kind, or breaks a rule of Projection.
Projection load_projection(const std::filesystem::path& path);

// Reads a file for two vocabularies. Throws Error that names both tokenizers if it was made for
// others.
Projection load_projection(const std::filesystem::path& path, const std::string& student,
                           const std::string& teacher);

// Returns pairs (student token, teacher token) sorted by student token: of each row whose largest
// weight is at least `least_weight`, the token of that weight. If several rows name one teacher
// token, the largest weight wins, then the lowest student token.
//   least_weight  1: tokens of equal spelling (gold); 0.6: relaxed (h-kl)
// Throws Error if there is no pair, or if the weights are counts.
std::vector<std::pair<int32_t, int32_t>> exact_map(const Projection& projection,
                                                   double least_weight = 1.0);

// Appends rows to a projection, in order.
class ProjectionRows {
 public:
  explicit ProjectionRows(Projection& projection) : projection_(projection) {}
  void add(int32_t id, float weight) { row_.push_back({id, weight}); }
  // Sorts the entries added since the last row (stable) and ends their row.
  void end_row();

 private:
  struct RowEntry {
    int32_t id;
    float weight;
  };
  Projection& projection_;
  std::vector<RowEntry> row_;
};

}  // namespace xrun
