#pragma once
// A student, its batches and teachers of its own or another vocabulary, for losses of views.

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/data/packs/companion_source.h"
#include "core/model/weights/init_model.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/models/frozen_model.h"
#include "tests/core/train/trained.h"
#include "tests/tree.h"

namespace xrun {

class KdViewFixture : public testing::Test {
 protected:
  inline static const std::string kOwn = source_path("tests/golden/tiny_dpo");
  inline static const std::string kOther = source_path("tests/data/tokenizers/smol");

  KdViewFixture() : student_(Policy::open(kOwn)) {}

  std::shared_ptr<Batch> batch(std::vector<PackedBatch> packs) const {
    BatchInfo info;
    info.data_key = "data";
    info.tokenizer = {student_->tokenizer(), kOwn};
    info.total_steps = 10;
    return std::make_shared<Batch>(std::move(info), std::move(packs));
  }
  std::shared_ptr<Batch> batch() const { return batch(tiny_packs(tiny_pairs(5), 2)); }
  std::shared_ptr<FrozenModel> teacher(const std::filesystem::path& dir,
                                       FrozenCache cache = FrozenCache::kNone) const {
    FrozenOptions options;
    options.cache = cache;
    options.top_k = 7;
    return FrozenModel::open(dir, options);
  }
  // A random model with more embedding rows than its tokenizer has ids.
  std::filesystem::path random_model(const std::string& tokenizer, int64_t padding = 0) const {
    InitOptions options;
    options.hidden = 48;
    options.heads = 4;
    options.ffn = 64;
    options.scale = 0.2;
    options.seed = 5 + static_cast<uint64_t>(padding);  // other weights, or a mean is each of them
    options.tokenizer = tokenizer;
    options.vocab = Tokenizer::load(tokenizer)->vocab_size() + padding;
    const auto dir = folder_.path() / ("random_" + std::to_string(options.vocab));
    if (!std::filesystem::exists(dir)) init_model(dir, options);
    return dir;
  }
  // A random model whose tokenizer has one token more than the student's.
  std::filesystem::path extended_model() const {
    const auto dir = folder_.path() / "extended";
    std::filesystem::create_directories(dir);
    std::filesystem::copy_file(kOwn + "/tokenizer_config.json", dir / "tokenizer_config.json");
    Json json = read_json(kOwn + "/tokenizer.json");
    Json added = json.at("added_tokens"), more = added.as_array().back();
    more.set("id", student_->tokenizer()->vocab_size());
    more.set("content", "<|tool|>");
    added.push_back(more);
    json.set("added_tokens", added);
    write_file_atomic(dir / "tokenizer.json", dump_json(json));
    return random_model(dir.string());
  }
  // Packs with a companion: every two trained tokens of a segment are a chunk, of `tokens` tokens
  // of the teacher.
  std::vector<PackedBatch> aligned_packs(size_t per_pack, const std::string& fingerprint,
                                         int tokens = 1) const {
    std::vector<PackedBatch> packs = tiny_packs(tiny_pairs(4), per_pack);
    for (PackedBatch& pack : packs) {
      auto companion = std::make_shared<CompanionPack>();
      companion->fingerprint = fingerprint;
      pack.chunk.assign(pack.rows.hidden.size(), -1);
      int32_t chunk = -1;
      for (int32_t s = 0; s < static_cast<int32_t>(pack.segment_count()); ++s) {
        const auto begin = static_cast<int32_t>(companion->tokens.size());
        companion->tokens.push_back(1);
        companion->position_ids.push_back(0);
        int64_t own = 0;
        for (size_t r = 0; r < pack.rows.segment.size(); ++r) {
          if (pack.rows.segment[r] != s) continue;
          if (own++ % 2 == 0) {
            const int64_t segment = pack.segment_id[static_cast<size_t>(s)];
            ++chunk;
            for (int i = 0; i < tokens; ++i) {
              companion->hidden.push_back(static_cast<int32_t>(companion->tokens.size()) - 1);
              companion->tokens.push_back(
                  static_cast<int32_t>((7 * own + 13 * segment + 17 * i + 11) % 200));
              companion->position_ids.push_back(static_cast<int32_t>(companion->tokens.size()) - 1 -
                                                begin);
              companion->target.push_back(companion->tokens.back());
              companion->chunk.push_back(chunk);
            }
          }
          pack.chunk[r] = chunk;
        }
        companion->cu_seqlens.push_back(static_cast<int32_t>(companion->tokens.size()));
      }
      pack.companion = companion;
    }
    return packs;
  }

  TinyFolder folder_;
  std::shared_ptr<Policy> student_;
};

}  // namespace xrun
