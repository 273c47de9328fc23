#pragma once
// The options for opening a data set.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/config/config_field.h"
#include "core/data/cache/cache_build.h"
#include "core/data/packs/mixture.h"
#include "core/data/rows/data_settings.h"
#include "core/data/rows/row.h"

namespace xrun {

class ChatTemplate;

struct DataSource {
  std::string path;   // a file of rows or a glob
  double weight = 1;  // share of the rows drawn among several sources; 0: never drawn
  std::vector<std::pair<std::string, std::string>> fields;  // as RowSettings::fields
  std::vector<std::string> keep;                            // as RowSettings::keep
  std::string name;                                         // "" is the path
  int64_t quota_rows = 0, quota_tokens = 0;                 // as RowStream::StreamSource; 0: none
  std::shared_ptr<const RowTransformSource> transform;      // the recipe's filter and map, or null
  std::shared_ptr<const ChatTemplate> chat_template;        // null: that of the set
};

struct BuildProgress {
  std::string source;
  bool hashing = false;  // its files are being hashed; no row is read yet
  int64_t rows = 0;
  double fraction = 0;  // done, of the bytes of the source or of the file being hashed
};

struct DataOptions {
  RowKind kind = RowKind::kPreference;
  std::vector<DataSource> sources;
  RowSettings settings;  // of every source, except fields and keep
  std::vector<std::string> disabled_laws;
  bool strict = false;            // a dropped, cut or repaired row is an Error
  double max_bad = kMaxBadShare;  // share of bad rows above which a source is refused
  int64_t vocab_limit = 0;        // ids must be below; 0: unknown
  MixtureStop stop = MixtureStop::kAll;
  MixtureOrder order = MixtureOrder::kBlocks;
  std::vector<MixtureStage>
      stages;  // replace the sources' weights; empty: the weights hold throughout
  std::filesystem::path cache_root;    // "": $XRUN_CACHE, else ~/.cache/xrun
  uint64_t shard_bytes = kShardBytes;  // of a shard; a kill during a build may lose the rows of two
  int workers = 0;                     // threads that build a cache; 0: one per core
  // Called at most every 0.2 s during a build, and after each hashed MiB; may throw.
  std::function<void(const BuildProgress&)> progress;
  std::function<void(const std::string&)> notice;  // as CacheSource::notice; null: none
  std::string config_path = {};  // "data": the sources in the configuration, for messages; "": none
};

}  // namespace xrun
