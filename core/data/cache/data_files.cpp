// The name of a file says what it is; if it does not, the content does: rows under another name
// only need to be renamed. Binary files are refused before a row is read.

#include "core/data/cache/data_files.h"

#include <glob.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/file_access.h"
#include "core/base/folder.h"
#include "core/base/hash.h"
#include "core/base/interrupt.h"
#include "core/base/strings.h"
#include "core/data/rows/byte_stream.h"
#include "core/data/rows/data_fault.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

// Commands that turn other kinds of files into lines of JSON. {0} is the path, {1} that of the
// result, both quoted for a shell; no command overwrites a file.
struct Conversion {
  const char* ending;
  const char* command;
};
constexpr Conversion kConversions[] = {
    {".parquet",
     "python3 -c \"import pandas, sys; pandas.read_parquet(sys.argv[1])"
     ".to_json(open(sys.argv[2], 'x'), orient='records', lines=True)\" {0} {1}"},
    {".csv",
     "python3 -c \"import pandas, sys; pandas.read_csv(sys.argv[1])"
     ".to_json(open(sys.argv[2], 'x'), orient='records', lines=True)\" {0} {1}"},
};
// -n never overwrites a file.
constexpr const char* kRename = "mv -n -- {0} {1}";

// Returns raw bytes, enough to recognise a compressed file without decompressing it.
std::string beginning_of(const std::string& path) {
  std::string beginning(4096, '\0');
  std::ifstream file(path);
  file.read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  beginning.resize(static_cast<size_t>(file.gcount()));
  return beginning;
}

// Returns the command that makes rows of a file, by its name or else by its content; "" if neither
// tells.
std::string conversion_of(const std::string& path) {
  const auto command = [&](const char* pattern, const char* ending) {
    const std::string target = fs::path(path).replace_extension(ending).string();
    return fmt::format(fmt::runtime(pattern), shell_word(path), shell_word(target));
  };
  for (const Conversion& kind : kConversions) {
    if (path.ends_with(kind.ending)) return command(kind.command, ".jsonl");
  }
  const std::string beginning = beginning_of(path);
  const size_t first = beginning.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return "";
  // The first character tells an array from objects.
  return beginning[first] == '['   ? command(kRename, ".json")
         : beginning[first] == '{' ? command(kRename, ".jsonl")
                                   : "";
}

// Binary files that are often given instead of rows, by their first bytes.
struct BinaryKind {
  std::string_view magic;
  const char* name;
  const char* fix;
};
constexpr BinaryKind kBinaryKinds[] = {
    {"PK\3\4", "a zip archive", "unpack it and name the file inside"},
    {"PAR1", "a Parquet file",
     "rename it to .parquet: the next run prints the command that converts it"},
    {"ARROW1", "an Arrow file",
     "convert it in Python: datasets.Dataset.from_file(FILE).to_json(\"rows.jsonl\")"},
    {"SQLite format 3", "an SQLite database", "export its rows as JSON Lines"},
};

// Pickles run code when they are opened, so none is ever read.
bool is_pickle(std::string_view bytes) {
  return bytes.size() > 1 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;
}

void refuse_binary(const std::string& bytes, const std::string& path) {
  XRUN_CHECK(!is_pickle(bytes),
             "{}: is a Python pickle, not rows of text; xrun opens no pickle, since one can run "
             "code: write the rows in Python with json.dumps, one per line",
             path);
  for (const BinaryKind& kind : kBinaryKinds) {
    // Text might begin like the magic, but it has no zero bytes.
    const bool is_this = bytes.starts_with(kind.magic) && bytes.find('\0') != std::string::npos;
    XRUN_CHECK(!is_this, "{}: is {}, not rows of text; {}", path, kind.name, kind.fix);
  }
}

void refuse_other_kinds(const std::string& path) {
  const std::string content = content_name(path);
  for (const char* ending : {".jsonl", ".json", ".txt"}) {
    if (content.ends_with(ending)) return;
  }
  constexpr const char* kWanted =
      "rows are read from .jsonl (one JSON object per line), .json (an array) and .txt files (rows "
      "separated by blank lines), each also .gz or .zst";
  const std::string command = conversion_of(path);
  XRUN_CHECK(!command.empty(), "{}: {}; this file is none of them", path, kWanted);
  throw Error(fmt::format("{}: {}; convert it with\n  {}", path, kWanted, command));
}

// For messages; "gone" if the folder was removed under the process.
std::string current_folder() {
  std::error_code code;
  const fs::path path = fs::current_path(code);
  return code ? "gone" : path.string();
}

std::vector<std::string> expand_glob(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  // Sorted below by bytes: glob's own order follows the locale, and the order enters the key.
  if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Returns true for ORG/NAME without the ending of a file of rows.
bool can_be_hub_name(const std::string& path) {
  const bool plain = std::all_of(path.begin(), path.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.' || c == '/';
  });
  const std::string content = content_name(path);
  return plain && std::count(path.begin(), path.end(), '/') == 1 && path.front() != '/' &&
         path.front() != '.' && path.back() != '/' && !content.ends_with(".jsonl") &&
         !content.ends_with(".json") && !content.ends_with(".txt");
}

// Returns "; ... is downloaded with" and the command if the path may name a data set of the Hugging
// Face hub, a sentence for any other address, "" for a path that can only be a file.
std::string download_hint(std::string path) {
  const bool address = path.find("://") != std::string::npos;
  for (const std::string_view beginning : {"https://huggingface.co/datasets/", "hf://datasets/"}) {
    if (path.starts_with(beginning)) path.erase(0, beginning.size());
  }
  if (can_be_hub_name(path)) {
    return fmt::format(
        "; xrun reads files: {} data set of the Hugging Face hub is downloaded with\n  python3 -c "
        "\"from datasets import load_dataset; "
        "load_dataset('{}', split='train').to_json('{}.jsonl')\"",
        address ? "this" : "a", path, fs::path(path).filename().string());
  }
  return address ? "; xrun reads files: download it first" : "";
}

// Returns "; did you mean pairs.jsonl?" with the nearest name in the folder of a missing file; else
// a hint for the data of the shipped recipes, which they name from the root of a checkout, or for a
// path that may not be meant as a file.
std::string missing_file_hint(const fs::path& path) {
  std::vector<std::string> names;
  std::error_code code;
  const fs::path folder = path.parent_path();
  for (fs::directory_iterator at(folder.empty() ? "." : folder, code), end; !code && at != end;
       at.increment(code)) {
    names.push_back(at->path().filename().string());
  }
  const std::string near = nearest_name(path.filename().string(), names);
  if (!near.empty()) return "; did you mean " + (folder / near).string() + "?";
  if (path.string().starts_with("recipes/data/")) {
    return "; xrun init DIR --recipe NAME makes a folder with a recipe and its data";
  }
  const std::string fix = tilde_fix(path.string());
  return fix.empty() ? download_hint(path.string()) : "; " + fix;
}

// The cheapest check comes first.
void check_data_file(const std::string& path) {
  check_read(path);
  const bool exists = path_exists(path);
  std::error_code code;
  if (!exists && fs::is_symlink(path, code)) {
    throw Error(fmt::format("{}: is a link to a file that does not exist, {}", path,
                            fs::read_symlink(path, code).string()));
  }
  // A relative path is the usual cause, so the message has the folder it is relative to.
  XRUN_CHECK(exists, "{}: no such data file (the current folder is {}){}", path, current_folder(),
             missing_file_hint(path));
  XRUN_CHECK(!fs::is_directory(path, code), "{0}: is a folder; name its files, say {0}/*.jsonl",
             path);
  XRUN_CHECK(fs::is_regular_file(path, code), "{}: is not a regular file", path);
  const std::string beginning = beginning_of(path);
  refuse_lfs_pointer(beginning, path);
  // Files of these names get a conversion below.
  const bool named_otherwise = path.ends_with(".parquet") || path.ends_with(".csv");
  if (!named_otherwise) refuse_binary(beginning, path);
  refuse_other_kinds(path);
}

DataFile read_data_file(const std::string& path, const HashProgress& progress,
                        const FileDigests& digests) {
  std::error_code code;
  const uint64_t bytes = fs::file_size(path, code);
  XRUN_CHECK(!code, "{}: cannot be examined: {}", path, code.message());
  const auto each = [&](uint64_t done) {
    check_interrupt();
    if (progress) progress(path, done, bytes);
  };
  return {path, bytes, digests.digest(path, each)};
}

// Returns the files of a path or glob, at least one, each checked.
std::vector<std::string> matching_files(const std::string& path) {
  XRUN_CHECK(!path.empty(), "a data source has an empty path");
  std::error_code code;
  // A file whose name contains a bracket is meant literally.
  const bool literal = path.find_first_of("*?[") == std::string::npos || fs::exists(path, code);
  const std::vector<std::string> files = literal ? std::vector{path} : expand_glob(path);
  const std::string fix = tilde_fix(path);
  XRUN_CHECK(!files.empty(), "{}: no file matches (the current folder is {}){}", path,
             current_folder(), fix.empty() ? "" : "; " + fix);
  for (const std::string& file : files) check_data_file(file);
  return files;
}

}  // namespace

std::vector<DataFile> find_data_files(const std::string& path, const HashProgress& progress,
                                      const FileDigests& digests) {
  return as_data_errors([&] {
    std::vector<DataFile> files;
    // Hashing reads all bytes, so every file is checked first.
    for (const std::string& file : matching_files(path)) {
      files.push_back(read_data_file(file, progress, digests));
    }
    return files;
  });
}

void check_data_files(const std::string& path) {
  as_data_errors([&] { matching_files(path); });
}

bool is_data_name(const std::string& path) {
  const std::string content = content_name(path);
  for (const char* ending : {".jsonl", ".json", ".csv", ".parquet"}) {
    if (content.ends_with(ending)) return true;
  }
  return false;
}

std::string data_as_recipe_text(const std::string& path) {
  return fmt::format(
      "{}: is data, not a recipe; name a recipe and give it the file: RECIPE.lua --set {}", path,
      shell_word("data.1.path=" + path));
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
