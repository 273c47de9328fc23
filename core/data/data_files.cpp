#include "core/data/data_files.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/interrupt.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

struct Refused {
  const char* ending;
  const char* hint;  // {0} is the path
};

// What users bring and what turns it into lines of JSON.
constexpr Refused kRefused[] = {
    {".parquet",
     "python3 -c \"import pandas; pandas.read_parquet('{0}').to_json('{0}.jsonl', "
     "orient='records', lines=True)\""},
    {".json",
     "python3 -c \"import json; [print(json.dumps(r)) for r in json.load(open('{0}'))]\" "
     "> {0}l"},
    {".csv",
     "python3 -c \"import pandas; pandas.read_csv('{0}').to_json('{0}.jsonl', "
     "orient='records', lines=True)\""},
    {".gz", "gunzip -k '{0}'"},
    {".zst", "unzstd '{0}'"},
};

void refuse_other_kinds(const std::string& path) {
  for (const Refused& kind : kRefused) {
    if (!path.ends_with(kind.ending)) continue;
    throw Error(fmt::format("{}: preference rows are read from .jsonl files; convert it with\n  {}",
                            path, fmt::format(fmt::runtime(kind.hint), path)));
  }
}

std::vector<std::string> expand_glob(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  std::sort(paths.begin(), paths.end());
  return paths;
}

DataFile read_data_file(const std::string& path, const HashProgress& progress) {
  const fs::file_status status = fs::status(path);
  XRUN_CHECK(fs::exists(status), "{}: there is no such data file (the current folder is {})", path,
             fs::current_path().string());
  XRUN_CHECK(!fs::is_directory(status), "{0}: is a folder; name its files, say {0}/*.jsonl", path);
  XRUN_CHECK(fs::is_regular_file(status), "{}: is not a regular file", path);
  refuse_other_kinds(path);
  const uint64_t bytes = fs::file_size(path);
  const auto each = [&](uint64_t done) {
    check_interrupt();
    if (progress) progress(path, done, bytes);
  };
  return {path, bytes, hash_file_pieces(path, each)};
}

}  // namespace

std::vector<DataFile> find_data_files(const std::string& path, const HashProgress& progress) {
  XRUN_CHECK(!path.empty(), "a data source has an empty path");
  std::vector<DataFile> files;
  std::error_code code;
  if (path.find_first_of("*?[") == std::string::npos || fs::exists(path, code)) {
    files.push_back(read_data_file(path, progress));
    return files;
  }
  for (const std::string& match : expand_glob(path)) {
    files.push_back(read_data_file(match, progress));
  }
  XRUN_CHECK(!files.empty(), "{}: no file matches (the current folder is {})", path,
             fs::current_path().string());
  return files;
}

Json data_files_json(const std::vector<DataFile>& files) {
  Json list = Json::array();
  for (const DataFile& file : files) {
    Json entry = Json::object();
    entry.set("name", file.name);
    entry.set("bytes", file.bytes);
    entry.set("xxh3", file.digest);
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace xrun
