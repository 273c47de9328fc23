#include "core/data/packs/loop_note.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/config/lua_lexer.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kNoteVersion = 2;
constexpr uint64_t kMostNoteBytes = 64 << 20;  // of a note, and of each file that it names
constexpr int64_t kMostSteps = int64_t{1} << 53;
constexpr int64_t kMostTokens = int64_t{1} << 31;  // of a micro-batch
constexpr int64_t kFewUnits = 4096;  // a small set may be drawn several times in a step

// Names through which Lua, or a field of xrun, reaches beyond the recipe's own text.
constexpr std::array kOutside = {"io",     "os",  "debug",    "package", "load", "loadstring",
                                 "dofile", "ffi", "loadfile", "getfenv", "_G"};
constexpr std::array kReaders = {"tokenizer", "template"};

fs::path path_of(const fs::path& root, const std::string& key) {
  return root / kLoopNotesFolder / (key + ".json");
}

// A note's first line is the hash of what follows: what was not written here is no note.
std::string sealed(const std::string& note) { return hash_hex(note) + "\n" + note; }

std::string unsealed(const std::string& text) {
  std::string note = text.substr(std::min(text.size(), text.find('\n') + 1));
  XRUN_CHECK(text == sealed(note), "a note that was changed");
  return note;
}

Json note_json(const LoopNote& note) {
  Json files = Json::array(), absent = Json::array(), sources = Json::array(),
       notices = Json::array();
  for (const auto& [path, hash] : note.files) files.push_back(Json::Array{path, hash});
  for (const LoopNote::Source& source : note.sources) {
    sources.push_back(Json::Object{{"name", source.name},
                                   {"set", to_json(source.set)},
                                   {"plan", to_json(source.plan)},
                                   {"fingerprint", source.fingerprint}});
  }
  for (const std::string& path : note.absent) absent.push_back(path);
  for (const std::string& notice : note.notices) notices.push_back(notice);
  return Json(Json::Object{{"version", kNoteVersion},
                           {"files", std::move(files)},
                           {"absent", std::move(absent)},
                           {"model", note.model},
                           {"tokenizer", note.tokenizer},
                           {"steps", note.steps},
                           {"max_tokens", note.max_tokens},
                           {"sources", std::move(sources)},
                           {"notices", std::move(notices)}});
}

// Of a regular file, and not without end.
std::string read_bounded(const fs::path& path) {
  XRUN_CHECK(fs::is_regular_file(path), "{} is no file", path.string());
  return read_file(path, kMostNoteBytes);
}

LoopNote read_note(const Json& value) {
  XRUN_CHECK(value.at("version").as_int() == kNoteVersion, "a note of another version");
  LoopNote note;
  for (const Json& file : value.at("files").as_array()) {
    note.files.emplace_back(file.as_array().at(0).as_string(), file.as_array().at(1).as_string());
  }
  for (const Json& path : value.at("absent").as_array()) note.absent.push_back(path.as_string());
  note.model = value.at("model").as_string();
  note.tokenizer = value.at("tokenizer").as_string();
  note.steps = value.at("steps").as_int();
  note.max_tokens = value.at("max_tokens").as_int();
  XRUN_CHECK(note.steps > 0 && note.steps <= kMostSteps, "a note of {} steps", note.steps);
  XRUN_CHECK(note.max_tokens > 0 && note.max_tokens <= kMostTokens,
             "a note of micro-batches of {} tokens", note.max_tokens);
  for (const Json& source : value.at("sources").as_array()) {
    note.sources.push_back({source.at("name").as_string(), read_set_note(source.at("set")),
                            read_step_plan(source.at("plan")),
                            source.at("fingerprint").as_string()});
  }
  for (const Json& notice : value.at("notices").as_array()) {
    note.notices.push_back(notice.as_string());
  }
  return note;
}

void remove_oldest(const fs::path& folder) {
  std::vector<std::pair<fs::file_time_type, fs::path>> notes;
  for (const auto& entry : fs::directory_iterator(folder)) {
    notes.emplace_back(entry.last_write_time(), entry.path());
  }
  if (notes.size() <= kMostLoopNotes) return;
  std::sort(notes.begin(), notes.end());
  notes.resize(notes.size() - kMostLoopNotes);
  for (const auto& [time, path] : notes) fs::remove(path);
}

}  // namespace

void keep_loop_note(const fs::path& root, const std::string& key, const LoopNote& note) noexcept {
  try {
    const fs::path path = path_of(root, key);
    const std::string text = sealed(dump_json(note_json(note)));
    if (fs::exists(path) && read_file(path) == text) return;
    make_dirs(path.parent_path());
    write_file_atomic(path, text);
    remove_oldest(path.parent_path());
  } catch (const std::exception&) {
    return;
  }
}

std::optional<LoopNote> find_loop_note(const fs::path& root, const std::string& key) noexcept {
  try {
    const fs::path path = path_of(root, key);
    if (!fs::exists(path)) return std::nullopt;
    LoopNote note = read_note(parse_json(unsealed(read_bounded(path)), path.string()));
    for (const auto& [file, hash] : note.files) {
      if (hash_hex(read_bounded(file)) != hash) return std::nullopt;
    }
    for (const std::string& file : note.absent) {
      if (fs::exists(file)) return std::nullopt;
    }
    return note;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

bool fits(const LoopNote::Source& source, const DataSet& set) {
  return set.fingerprint() == source.fingerprint &&
         source.plan.units <= std::max(set.size(), kFewUnits);
}

bool forget_loop_notes(const fs::path& root) { return fs::remove_all(root / kLoopNotesFolder) > 0; }

bool depends_on_itself(const std::string& lua) {
  const std::vector<LuaToken> tokens = lex_lua(lua);
  const auto is_one_of = [](const auto& names, const std::string& text) {
    return std::find(names.begin(), names.end(), text) != names.end();
  };
  for (size_t i = 0; i < tokens.size(); ++i) {
    const LuaToken& token = tokens[i];
    const bool is_field = i > 0 && (tokens[i - 1].text == "." || tokens[i - 1].text == ":");
    const bool of_config = is_field && i > 1 && tokens[i - 2].text == "cfg";
    if (token.kind == LuaToken::Kind::kName) {
      if (!is_field && is_one_of(kOutside, token.text)) return false;
      if (is_field && !of_config && is_one_of(kReaders, token.text)) return false;
    }
    // A name may be spelled as a text: _ENV["io"], xrun["tokenizer"].
    const bool spelled = is_one_of(kOutside, token.text) || is_one_of(kReaders, token.text);
    if (token.kind == LuaToken::Kind::kString && spelled) return false;
  }
  return true;
}

}  // namespace xrun
