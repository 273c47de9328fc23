// A source's cache is the folder that the hash of its recorded key names; token ids become text by
// the tokenizer whose digest the key has.

#include "core/run/record/source_sample.h"

#include <algorithm>
#include <memory>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/data/cache/cache_manifest.h"
#include "core/data/cache/row_cache.h"
#include "core/data/cache/row_columns.h"
#include "core/data/rows/row.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kSampleRows = 3;
constexpr int64_t kMostTokens = 1000;  // of a stream's text
// Lengths of a histogram, sampled at even distances.
constexpr int64_t kMostLengths = 20000;
constexpr size_t kMostSources = 50;

// The tokenizers that the run may have used, the likeliest first.
std::vector<fs::path> tokenizer_folders(const Json& record, const Json& config,
                                        const fs::path& run_dir) {
  return {run_dir / "hf", text_member(record, "model_folder"), text_member(config, "model")};
}

// Finds the tokenizers of a run's sources; each folder is loaded once.
class RunTokenizer {
 public:
  RunTokenizer(const Json& record, const Json& config, const fs::path& run_dir)
      : folders_(tokenizer_folders(record, config, run_dir)) {}

  // The tokenizer of a digest. Throws Error if none of the folders has it.
  const Tokenizer& of_digest(const std::string& digest) {
    for (const auto& tokenizer : loaded_) {
      if (tokenizer->digest() == digest) return *tokenizer;
    }
    // Each folder is tried once. A tokenizer that does not fit may be that of another source.
    while (!folders_.empty()) {
      const fs::path folder = folders_.front();
      folders_.erase(folders_.begin());
      std::error_code code;
      if (folder.empty() || !fs::is_directory(folder, code)) continue;
      try {
        loaded_.push_back(Tokenizer::load(folder));
      } catch (const Error&) {
        continue;  // the next folder may hold it
      }
      if (loaded_.back()->digest() == digest) return *loaded_.back();
    }
    throw Error("the run's tokenizer is neither in its hf/ nor in a folder that `model` names");
  }

 private:
  std::vector<fs::path> folders_;
  std::vector<std::shared_ptr<const Tokenizer>> loaded_;
};

RowKind kind_of(const std::string& name) {
  for (const RowKind kind : {RowKind::kPreference, RowKind::kChat, RowKind::kText,
                             RowKind::kPrompts, RowKind::kTokens, RowKind::kFeedback}) {
    if (name == row_kind_name(kind)) return kind;
  }
  throw Error(fmt::format("this xrun does not know its kind of rows: {}", name));
}

std::vector<RowPiece> pieces_of(const TokenStream& stream, bool whole, const Tokenizer& tokenizer) {
  std::vector<RowPiece> pieces;
  for (size_t begin = 0; begin < stream.ids.size();) {
    // Runs of tokens with one flag, decoded together: a character may span several tokens.
    size_t end = begin + 1;
    while (end < stream.ids.size() && stream.trained[end] == stream.trained[begin]) ++end;
    pieces.push_back(
        {tokenizer.decode({stream.ids.data() + begin, end - begin}), stream.trained[begin] != 0});
    begin = end;
  }
  if (!whole) pieces.push_back({" ...", false});
  return pieces;
}

SampleRow read_row(const RowCache& cache, int64_t row, const Tokenizer& tokenizer) {
  SampleRow out{cache.ledger().location(cache.at(row)), {}};
  if (cache.kind() == RowKind::kFeedback) {
    out.location += fmt::format(", label {}", cache.label(row) != 0);
  }
  for (size_t stream = 0; stream < cache.stream_count(); ++stream) {
    const int64_t length = cache.length(row, stream);
    TokenStream tokens;
    cache.read_part(row, stream, 0, std::min(length, kMostTokens), tokens);
    out.streams.push_back(pieces_of(tokens, length <= kMostTokens, tokenizer));
  }
  return out;
}

void read_lengths(const RowCache& cache, SourceSample& sample) {
  // Every stride-th row, so that a huge cache costs no more.
  const int64_t stride = std::max<int64_t>(1, cache.size() / kMostLengths);
  sample.lengths.resize(cache.stream_count());
  for (size_t stream = 0; stream < cache.stream_count(); ++stream) {
    for (int64_t row = 0; row < cache.size(); row += stride) {
      sample.lengths[stream].push_back(static_cast<double>(cache.length(row, stream)));
    }
  }
}

void read_source(const Json& key, const fs::path& store, RunTokenizer& tokenizer,
                 SourceSample& sample) {
  // The recorded key names the folder, as it did when the run built it.
  const fs::path dir = store / cache_key(key);
  std::error_code code;
  XRUN_CHECK(fs::is_directory(dir, code), "its token cache is no longer in {}", store.string());
  const RowKind kind = kind_of(text_member(key, "row_type"));
  const auto cache = RowCache::open(dir, kind);
  sample.streams = stream_names(kind);
  read_lengths(*cache, sample);
  const Tokenizer& texts = tokenizer.of_digest(text_member(key, "tokenizer"));
  const int64_t count = std::min(kSampleRows, cache->size());
  // Spread over the source, the first row included.
  for (int64_t i = 0; i < count; ++i) {
    sample.rows.push_back(read_row(*cache, i * cache->size() / count, texts));
  }
}

}  // namespace

std::vector<SourceSample> sample_sources(const Json& record, const Json& config,
                                         const fs::path& run_dir, const fs::path& store) {
  std::vector<SourceSample> out;
  const Json* inputs = record.find("inputs");
  const Json* sets = inputs == nullptr ? nullptr : inputs->find("data");
  if (sets == nullptr || !sets->is_object()) return out;
  RunTokenizer tokenizer(record, config, run_dir);
  for (const auto& set : sets->as_object()) {
    const Json* keys = set.second.find("keys");
    if (keys == nullptr || !keys->is_array()) continue;
    for (const Json& key : keys->as_array()) {
      if (out.size() >= kMostSources) return out;
      SourceSample sample;
      sample.name = text_member(key, "name");
      try {
        read_source(key, store, tokenizer, sample);
      } catch (const Error& error) {
        sample.gap = error.what();
      }
      out.push_back(std::move(sample));
    }
  }
  return out;
}

}  // namespace xrun
