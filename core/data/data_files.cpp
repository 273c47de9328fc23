#include "core/data/data_files.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/interrupt.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

// What users bring and what turns it into lines of JSON. {0} is the path, {1} that of the result,
// both quoted for a shell; no command writes over a file that is there.
struct Conversion {
  const char* ending;
  const char* command;
};
constexpr const char* kFromArray =
    "python3 -c \"import json, sys; rows = json.load(open(sys.argv[1])); "
    "out = open(sys.argv[2], 'x'); [print(json.dumps(row), file=out) for row in rows]\" {0} {1}";
constexpr const char* kFromLines = "mv -n -- {0} {1}";
constexpr Conversion kConversions[] = {
    {".parquet",
     "python3 -c \"import pandas, sys; pandas.read_parquet(sys.argv[1])"
     ".to_json(open(sys.argv[2], 'x'), orient='records', lines=True)\" {0} {1}"},
    {".csv",
     "python3 -c \"import pandas, sys; pandas.read_csv(sys.argv[1])"
     ".to_json(open(sys.argv[2], 'x'), orient='records', lines=True)\" {0} {1}"},
    {".gz", "gunzip -k -- {0}"},
    {".zst", "unzstd -- {0}"},
};

std::string shell_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// What the file holds decides where its name does not: an array is converted, lines are renamed.
const char* conversion_of(const std::string& path) {
  for (const Conversion& kind : kConversions) {
    if (path.ends_with(kind.ending)) return kind.command;
  }
  std::string beginning(4096, '\0');
  std::ifstream(path).read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  const size_t first = beginning.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return nullptr;
  return beginning[first] == '[' ? kFromArray : beginning[first] == '{' ? kFromLines : nullptr;
}

void refuse_other_kinds(const std::string& path) {
  if (path.ends_with(".jsonl")) return;
  const char* command = conversion_of(path);
  XRUN_CHECK(command != nullptr,
             "{}: rows are read from .jsonl files, one JSON object a line; this is no such file",
             path);
  const std::string target = fs::path(path).replace_extension(".jsonl").string();
  throw Error(fmt::format(
      "{}: rows are read from .jsonl files, one JSON object a line; make it one with\n"
      "  {}",
      path, fmt::format(fmt::runtime(command), shell_quoted(path), shell_quoted(target))));
}

std::string current_folder() {
  std::error_code code;
  const fs::path path = fs::current_path(code);
  return code ? "gone" : path.string();
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
  XRUN_CHECK(path_exists(path), "{}: there is no such data file (the current folder is {})", path,
             current_folder());
  std::error_code code;
  XRUN_CHECK(!fs::is_directory(path, code), "{0}: is a folder; name its files, say {0}/*.jsonl",
             path);
  XRUN_CHECK(fs::is_regular_file(path, code), "{}: is not a regular file", path);
  refuse_other_kinds(path);
  const uint64_t bytes = fs::file_size(path, code);
  XRUN_CHECK(!code, "{}: cannot be looked at: {}", path, code.message());
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
             current_folder());
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
