// Times caching a file of rows, with 1 and with 2 workers in turn, after checking that both give
// the same bytes; and opening a cache of many rows that it makes itself.
//   cache_bench build TOKENIZER_DIR KIND ROWS [RUNS [FOLDER]]   KIND: preference, chat, text, ...;
//     the cache is left in FOLDER if given
//   cache_bench open FOLDER [ROWS] [RUNS]              makes FOLDER if it is missing
//   cache_bench repeat IN.jsonl OUT.jsonl MB           repeats the rows, numbered
// CPU time is user and system time of all threads; cache_peer.py measures `datasets` likewise.

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/hash.h"
#include "core/base/temporary_dir.h"
#include "core/data/cache/cache_manifest.h"
#include "core/data/cache/row_cache.h"
#include "core/data/cache/row_columns.h"
#include "core/data/cache/shard_file.h"
#include "core/data/packs/data_set.h"
#include "core/text/chat/chat_template.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tools/bench/spread.h"

namespace xrun {
namespace {

namespace fs = std::filesystem;

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double peak_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1000;
}

double resident_mb() {
  // The file has the total and the resident size, in pages of 4096 bytes.
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return static_cast<double>(resident) * 4096 / 1e6;
}

RowKind kind_named(const std::string& name) {
  for (int kind = 0; kind <= static_cast<int>(RowKind::kFeedback); ++kind) {
    if (name == row_kind_name(RowKind{kind})) return RowKind{kind};
  }
  throw Error("there is no kind of rows called " + name);
}

// Returns the digest of all files of a folder except its lock.
std::string digest_of(const fs::path& dir) {
  std::vector<std::string> names;
  for (const fs::path& path : list_folder(dir)) {
    if (path.filename() != kLockName) names.push_back(path.string());
  }
  Hasher hasher;
  for (const std::string& name : names)
    hasher.field(name.substr(dir.string().size()), hash_file(name));
  return hasher.hex();
}

struct Figures {
  std::vector<double> rows_per_s, mb_per_s, mb_per_cpu_s, wall_ms;
};

void bench_build(const std::string& tokenizer_dir, RowKind kind, const std::string& file, int runs,
                 const std::string& keep) {
  const auto tokenizer = Tokenizer::load(tokenizer_dir);
  const auto resolved = resolve_template(*tokenizer, "chatml");
  const TemporaryDir scratch("cache_bench");
  const double mb = static_cast<double>(size_of_file(file)) / 1e6;
  Figures figures[2];
  std::string digest;
  // Run -1 warms the page cache up and is not counted.
  for (int run = -1; run < runs; ++run) {
    for (int workers : {1, 2}) {
      DataOptions options;
      options.kind = kind;
      options.sources.emplace_back().path = file;
      options.cache_root = scratch.path() / "store";
      options.workers = workers;
      Stopwatch watch;
      const double cpu = cpu_seconds();
      const DataSet set = DataSet::open(options, *tokenizer, resolved.chat_template);
      const double wall_ms = watch.lap_ms();
      const double cpu_s = cpu_seconds() - cpu;
      const std::string got = digest_of(set.cache_dirs()[0]);
      XRUN_CHECK(digest.empty() || got == digest, "the bytes with {} workers differ", workers);
      digest = got;
      const auto rows = static_cast<double>(set.ledger().rows());
      if (!keep.empty() && run < 0 && workers == 1) {
        std::error_code code;
        const fs::path made = set.cache_dirs()[0], copy = fs::path(keep) / made.filename();
        fs::copy(made, copy, fs::copy_options::recursive, code);
        XRUN_CHECK(!code, "{}: cannot be copied to {}: {}", made.string(), copy.string(),
                   code.message());
      }
      remove_tree(options.cache_root);
      if (run < 0) continue;
      Figures& mine = figures[workers - 1];
      mine.rows_per_s.push_back(rows / wall_ms * 1000);
      mine.mb_per_s.push_back(mb / wall_ms * 1000);
      mine.mb_per_cpu_s.push_back(mb / cpu_s);
      mine.wall_ms.push_back(wall_ms);
    }
  }
  print_note("{}: {:.1f} MB, the same bytes with 1 and 2 workers\n", file, mb);
  std::vector<double> gain;
  for (size_t run = 0; run < figures[0].wall_ms.size(); ++run) {
    gain.push_back(figures[0].wall_ms[run] / figures[1].wall_ms[run]);
  }
  for (int w = 0; w < 2; ++w) {
    const std::string name = fmt::format("cache, {} worker{}", w + 1, w == 0 ? "" : "s");
    print_figure({name, figures[w].mb_per_cpu_s, "MB a CPU second"});
    print_figure({name + ", rows", figures[w].rows_per_s, "rows/s"});
  }
  print_figure({"cache, 2 workers", figures[1].mb_per_s, "MB/s", gain, "times the rate of 1"});
  print_note("peak RSS {:.0f} MB\n", peak_mb());
}

// Makes a cache of pairs with 20 to 83 tokens per side, which follow from the number of the row.
void make_cache(const fs::path& dir, int64_t rows) {
  RowColumns columns({RowKind::kPreference, 50'000, {}, false});
  CacheManifest manifest;
  manifest.key_document = Json::object();
  manifest.key_document.set("generated_rows", rows);
  manifest.key = cache_key(manifest.key_document);
  XRUN_CHECK(dir.filename() == manifest.key, "the folder must be called {}", manifest.key);
  manifest.row_type = row_kind_name(RowKind::kPreference);
  manifest.columns = columns.columns();
  make_dirs(dir);
  ShardData shard(manifest.columns);
  StoredRow packed;
  const auto commit = [&] {
    append_shard(dir, shard, {}, manifest);
    shard = ShardData(manifest.columns);
  };
  for (int64_t r = 0; r < rows; ++r) {
    EncodedRow row;
    for (TokenStream& stream : row.streams) {
      // 2654435761 is 2^32 over the golden ratio (Knuth's multiplicative hash): it scatters the
      // lengths.
      const size_t length = 20 + static_cast<size_t>(r * 2654435761 % 64);
      stream.ids.assign(length, static_cast<int32_t>(r % 50'000));
      stream.trained.assign(length, 1);
    }
    row.prompt_hash = static_cast<uint64_t>(r);
    store_row(std::move(row), id_type(columns.schema()), packed);
    columns.append(packed, {0, r + 1}, shard);
    shard.end_row();
    if (shard.bytes() >= kShardBytes) commit();
  }
  if (shard.rows() > 0) commit();
  manifest.summary = columns.summary();
  write_file_atomic(dir / kManifestName, encode_manifest(manifest));
}

void bench_open(const fs::path& folder, int64_t rows, int runs) {
  // As in make_cache: the key is the folder's name.
  Json document = Json::object();
  document.set("generated_rows", rows);
  const fs::path dir = folder / cache_key(document);
  if (!path_exists(dir / kManifestName)) make_cache(dir, rows);
  constexpr int kBatch = 32;
  std::vector<double> open_ms, batch_ms, both_ms;
  double first_rss = 0;
  for (int run = 0; run < runs; ++run) {
    Stopwatch watch;
    const auto cache = RowCache::open(dir, RowKind::kPreference);
    open_ms.push_back(watch.lap_ms());
    TokenStream stream;
    // Rows scattered over the whole cache, different ones in each run.
    for (int i = 0; i < kBatch; ++i) {
      const int64_t row = (i * 7'919'317LL + run * 1'000'003LL) % rows;
      for (size_t s = 0; s < 2; ++s) {
        cache->read(row, s, stream);
        XRUN_CHECK(stream.ids.size() == 20 + static_cast<size_t>(row * 2654435761 % 64) &&
                       stream.ids[0] == row % 50'000,
                   "row {} has other tokens", row);
      }
      XRUN_CHECK(cache->prompt_hash(row) == static_cast<uint64_t>(row),
                 "row {} has another prompt hash", row);
    }
    batch_ms.push_back(watch.lap_ms());
    both_ms.push_back(open_ms.back() + batch_ms.back());
    if (run == 0) first_rss = resident_mb();
  }
  print_note("{} rows in {}\n", rows, dir.string());
  print_note("first of this process: open {:.2f} ms, batch of {} pairs {:.2f} ms, RSS {:.0f} MB\n",
             open_ms[0], kBatch, batch_ms[0], first_rss);
  print_figure({"opening a cache", open_ms, "ms"});
  print_figure({"its first batch", batch_ms, "ms"});
  print_figure({"both", both_ms, "ms"});
}

// Numbers the first content of each row, so that no two rows are equal.
void repeat_rows(const std::string& from, const std::string& to, int64_t mb) {
  const std::string bytes = read_file(from);
  XRUN_CHECK(bytes.ends_with('\n'), "{}: its last line has no end", from);
  const std::string mark = "\"content\": \"";
  FileWriter out(to);
  for (int64_t round = 0; out.size() < static_cast<uint64_t>(mb) * 1'000'000; ++round) {
    for (size_t at = 0; at < bytes.size();) {
      const size_t end = bytes.find('\n', at);
      std::string line = bytes.substr(at, end + 1 - at);
      const size_t content = line.find(mark);
      XRUN_CHECK(content != std::string::npos, "{}: a row without {}", from, mark);
      line.insert(content + mark.size(), fmt::format("{}. ", round));
      out.write(line);
      at = end + 1;
    }
  }
  out.close();
}

int run(int count, char** arguments) {
  const std::string mode = count > 1 ? arguments[1] : "";
  const auto number = [&](int at, int64_t otherwise) {
    return count > at ? std::stoll(arguments[at]) : otherwise;
  };
  if (mode == "build" && count >= 5) {
    bench_build(arguments[2], kind_named(arguments[3]), arguments[4],
                static_cast<int>(number(5, 5)), count > 6 ? arguments[6] : "");
  } else if (mode == "open" && count >= 3) {
    bench_open(arguments[2], number(3, 10'000'000), static_cast<int>(number(4, 11)));
  } else if (mode == "repeat" && count == 5) {
    repeat_rows(arguments[2], arguments[3], number(4, 0));
  } else {
    fmt::print(stderr,
               "usage: cache_bench build|open|repeat ...; see the top of cache_bench.cpp\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace xrun

int main(int count, char** arguments) {
  try {
    return xrun::run(count, arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "cache_bench: {}\n", error.what());
    return 1;
  }
}
