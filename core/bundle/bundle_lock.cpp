// The order of the fields is fixed, and the lock holds nothing that may differ between two bundles
// of one recipe: no dates, no paths of the machine.

#include "core/bundle/bundle_lock.h"

#include <algorithm>
#include <initializer_list>
#include <set>

#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/base/strings.h"
#include "core/base/utf8.h"

namespace xrun {

namespace {

// Common file systems take names of 255 bytes; the rest leaves room for suffixes such as .tmp123.
constexpr size_t kMostNameBytes = 1024, kMostPartBytes = 200, kMostParts = 32;
constexpr const char* kInputKinds[] = {"data", "model", "template", "projection"};

// The folders that members may be in.
bool has_member_folder(std::string_view name) {
  const std::string_view folder = name.substr(0, name.find('/'));
  return folder.size() < name.size() &&
         (folder == "recipe" || std::find(std::begin(kInputKinds), std::end(kInputKinds), folder) !=
                                    std::end(kInputKinds));
}

Json file_json(const LockedFile& file) {
  Json out(Json::Object{{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  if (!file.xxh3.empty()) out.set("xxh3", file.xxh3);
  if (!file.member.empty()) out.set("member", file.member);
  return out;
}

Json files_json(const std::vector<LockedFile>& files) {
  Json out = Json::array();
  for (const LockedFile& file : files) out.push_back(file_json(file));
  return out;
}

Json run_json(const LockedRun& run) {
  return Json(Json::Object{{"machine", run.machine},
                           {"environment", run.environment},
                           {"date", run.date},
                           {"measured", run.measured},
                           {"steps", Json(run.steps)}});
}

// Reads the fields of one object; errors name them by their path in the lock. A lock may come from
// anywhere, so every field is checked before it is used.
class LockReader {
 public:
  LockReader(const Json& object, std::string path, const std::string& where)
      : object_(object), path_(std::move(path)), where_(where) {
    check(object.is_object(), path_, "is not an object");
  }

  // Rejects every other field.
  void only(std::initializer_list<const char*> known) const {
    for (const auto& [name, value] : object_.as_object()) {
      const bool found =
          std::find(known.begin(), known.end(), std::string_view(name)) != known.end();
      check(found, full(name.c_str()),
            "is a field that this xrun does not know: a newer one made the bundle, or the lock is "
            "damaged");
    }
  }

  const Json& field(const char* name) const {
    const Json* value = object_.find(name);
    check(value != nullptr, full(name), "is missing");
    return *value;
  }
  std::string text(const char* name) const {
    const Json& value = field(name);
    check(value.is_string(), full(name), "is not a string");
    return value.as_string();
  }
  // Returns "" if the field is absent; a value that is not a string is an error.
  std::string text_or(const char* name) const {
    return object_.find(name) == nullptr ? "" : text(name);
  }
  const Json& table(const char* name) const {
    const Json& value = field(name);
    check(value.is_object(), full(name), "is not an object");
    return value;
  }
  const Json::Array& list(const char* name) const {
    const Json& value = field(name);
    check(value.is_array(), full(name), "is not a list");
    return value.as_array();
  }
  std::string full(const char* name) const { return path_.empty() ? name : path_ + "." + name; }
  void check(bool holds, const std::string& path, const char* what) const {
    XRUN_CHECK(holds, "{}: its lock cannot be used: {} {}", where_, path, what);
  }
  LockReader inside(const Json& object, std::string path) const {
    return {object, std::move(path), where_};
  }

 private:
  const Json& object_;
  std::string path_;
  const std::string& where_;
};

LockedFile read_locked_file(const LockReader& reader) {
  reader.only({"name", "bytes", "sha256", "xxh3", "member"});
  LockedFile file{.name = reader.text("name"), .sha256 = reader.text("sha256")};
  // Checked for files outside the bundle too: the name becomes a path when the file is looked up.
  const std::string wrong = bad_member_name(file.name);
  reader.check(wrong.empty(), reader.full("name"), wrong.c_str());
  const Json& bytes = reader.field("bytes");
  reader.check(bytes.is_int() && bytes.as_int() >= 0, reader.full("bytes"),
               "is not a whole number of bytes, 0 or more");
  file.bytes = static_cast<uint64_t>(bytes.as_int());
  reader.check(is_sha256(file.sha256), reader.full("sha256"), "is not a SHA-256 digest");
  file.xxh3 = reader.text_or("xxh3");
  file.member = reader.text_or("member");
  return file;
}

std::vector<LockedFile> read_locked_files(const LockReader& reader, const char* name) {
  std::vector<LockedFile> files;
  for (const Json& entry : reader.list(name)) {
    const std::string path = fmt::format("{}.{}", reader.full(name), files.size() + 1);
    files.push_back(read_locked_file(reader.inside(entry, path)));
    // A strictly ascending order has no name twice.
    reader.check(files.size() < 2 || files[files.size() - 2].name < files.back().name,
                 path + ".name", "is out of order, or occurs twice");
  }
  return files;
}

LockedInput read_locked_input(const LockReader& reader) {
  reader.only({"kind", "name", "files"});
  LockedInput input;
  const std::string kind = reader.text("kind");
  const auto known = std::find(std::begin(kInputKinds), std::end(kInputKinds), kind);
  reader.check(known != std::end(kInputKinds), reader.full("kind"),
               "is not a known kind of input; wanted data, model, template or projection");
  // kInputKinds is in the order of the enum.
  input.kind = static_cast<InputKind>(known - std::begin(kInputKinds));
  input.name = reader.text("name");
  reader.check(!input.name.empty() && is_valid_utf8(input.name) &&
                   input.name.find('\0') == std::string::npos,
               reader.full("name"), "is not a name: wanted UTF-8 text without zero bytes");
  input.files = read_locked_files(reader, "files");
  reader.check(!input.files.empty(), reader.full("files"), "is empty");
  return input;
}

LockedRun read_locked_run(const LockReader& reader) {
  reader.only({"machine", "environment", "date", "measured", "steps"});
  LockedRun run{.machine = reader.table("machine"),
                .environment = reader.table("environment"),
                .date = reader.text("date"),
                .measured = reader.field("measured"),
                .steps = reader.list("steps")};
  // Steps ascend, so that one walk finds the first step of a resumed run.
  int64_t before = -1;
  for (const Json& step : run.steps) {
    const Json* number = step.find("step");
    const bool rises = number != nullptr && number->is_int() && number->as_int() > before;
    reader.check(rises, reader.full("steps"),
                 "has an object without a step number, or a step out of order");
    before = number->as_int();
    for (const auto& [name, value] : step.as_object()) {
      reader.check(value.is_number() || value.is_null(), reader.full("steps"),
                   "has a metric that is not a number");
    }
  }
  return run;
}

// Checks that the members named by the recipe and the inputs exist and have the same digests.
void check_members(const BundleLock& lock, const LockReader& reader) {
  const auto find = [&](const std::string& name) -> const LockedFile* {
    // read_locked_files has checked the order.
    const auto at = std::lower_bound(
        lock.members.begin(), lock.members.end(), name,
        [](const LockedFile& member, const std::string& wanted) { return member.name < wanted; });
    return at != lock.members.end() && at->name == name ? &*at : nullptr;
  };
  reader.check(find(lock.recipe) != nullptr, "recipe", "is not a member of the bundle");
  std::set<std::pair<InputKind, std::string>> names;
  for (const LockedInput& input : lock.inputs) {
    reader.check(names.emplace(input.kind, input.name).second, "inputs", "names an input twice");
    for (const LockedFile& file : input.files) {
      if (file.member.empty()) continue;
      const LockedFile* member = find(file.member);
      // If they differed, the run would read data that the lock does not describe.
      reader.check(
          member != nullptr && member->sha256 == file.sha256 && member->bytes == file.bytes,
          fmt::format("inputs: {} {}", input.name, file.name), "is not the member that it names");
    }
  }
}

}  // namespace

const char* input_kind_name(InputKind kind) { return kInputKinds[static_cast<size_t>(kind)]; }

uint64_t LockedInput::bytes() const {
  uint64_t all = 0;
  for (const LockedFile& file : files) all += file.bytes;
  return all;
}

bool LockedInput::bundled() const {
  return std::none_of(files.begin(), files.end(),
                      [](const LockedFile& file) { return file.member.empty(); });
}

std::string bad_member_name(std::string_view name) {
  if (name.empty() || name.size() > kMostNameBytes) return "is empty or too long";
  if (!is_valid_utf8(name)) return "is not UTF-8";
  size_t parts = 0;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('/', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    if (part.empty()) return "is absolute, or has an empty part";
    // A member's name becomes a path below the folder of the bundle.
    if (part == "." || part == "..") return "leaves its folder";
    if (part.size() > kMostPartBytes || ++parts > kMostParts) return "is too long or too deep";
    for (const char c : part) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\') {
        return "has a control character or a backslash";
      }
    }
    at = end + 1;
  }
  return "";
}

std::string lock_text(const BundleLock& lock) {
  Json sets = Json::array(), inputs = Json::array();
  for (const std::string& set : lock.sets) sets.push_back(set);
  for (const LockedInput& input : lock.inputs) {
    inputs.push_back(Json(Json::Object{{"kind", input_kind_name(input.kind)},
                                       {"name", input.name},
                                       {"files", files_json(input.files)}}));
  }
  const Json out(Json::Object{{"format", kBundleFormat},
                              {"recipe", lock.recipe},
                              {"sets", std::move(sets)},
                              {"config", lock.config},
                              {"origins", lock.origins},
                              {"seeds", lock.seeds},
                              {"members", files_json(lock.members)},
                              {"inputs", std::move(inputs)},
                              {"binary", lock.binary},
                              {"operators", lock.operators},
                              {"run", lock.run ? run_json(*lock.run) : Json()}});
  JsonStyle style;
  // One field per line: two locks are compared by diff.
  style.indent = 1;
  return dump_json(out, style) + "\n";
}

BundleLock parse_lock(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where + ": " + kBundleLock);
  const LockReader reader(json, "", where);
  const Json& format = reader.field("format");
  reader.check(format.is_int() && format.as_int() > 0, "format", "is not a whole number above 0");
  // Before the fields: those of a newer format would be reported as unknown.
  if (format.as_int() > kBundleFormat) {
    throw UsageError(
        fmt::format("{}: is a bundle of format {}, this xrun reads formats up to {}; a newer xrun "
                    "runs it",
                    where, format.as_int(), kBundleFormat));
  }
  reader.only({"format", "recipe", "sets", "config", "origins", "seeds", "members", "inputs",
               "binary", "operators", "run"});
  BundleLock lock;
  lock.recipe = reader.text("recipe");
  for (const Json& set : reader.list("sets")) {
    reader.check(set.is_string(), "sets", "has an element that is not a string");
    lock.sets.push_back(set.as_string());
  }
  lock.config = reader.table("config");
  lock.origins = reader.table("origins");
  lock.seeds = reader.table("seeds");
  lock.members = read_locked_files(reader, "members");
  for (const LockedFile& member : lock.members) {
    reader.check(has_member_folder(member.name), "members",
                 fmt::format("has {}, wanted names in recipe/, data/, model/, template/ and "
                             "projection/",
                             member.name)
                     .c_str());
  }
  for (const Json& input : reader.list("inputs")) {
    const std::string path = fmt::format("inputs.{}", lock.inputs.size() + 1);
    lock.inputs.push_back(read_locked_input(reader.inside(input, path)));
  }
  lock.binary = reader.table("binary");
  // Only this table has fixed fields: config, operators and environment have the run's own.
  reader.inside(lock.binary, "binary").only({"source", "torch", "compiler", "engine", "core"});
  lock.operators = reader.table("operators");
  if (const Json& run = reader.field("run"); !run.is_null()) {
    lock.run = read_locked_run(reader.inside(run, "run"));
  }
  check_members(lock, reader);
  return lock;
}

}  // namespace xrun
