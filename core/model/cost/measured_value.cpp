// One file per key, replaced atomically: processes that measure at the same time do not disturb
// each other, and a damaged file costs one measurement.

#include "core/model/cost/measured_value.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include <fstream>
#include <sstream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/hash.h"

namespace xrun {

namespace {

constexpr uint64_t kMaxFileBytes = 1 << 16;

// Returns the "model name" and the instruction sets that bf16 products depend on.
std::string processor_text() {
  std::ifstream file("/proc/cpuinfo");
  std::string text, line;
  while (std::getline(file, line) && !line.empty()) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    if (line.starts_with("model name")) text += line.substr(colon + 2);
    if (!line.starts_with("flags")) continue;
    std::istringstream flags(line.substr(colon + 2));
    for (std::string flag; flags >> flag;) {
      // A virtual machine may hide instructions that a processor of the same name has.
      if (flag.ends_with("bf16")) text += " " + flag;
    }
  }
  return text;
}

}  // namespace

// The key contains everything that changes a measurement: each machine, build and thread count
// measures for itself.
MeasuredValue::MeasuredValue(const std::string& kind, std::string name, const Json& settings)
    : name_(std::move(name)),
      key_(Json::Object{{"processor", processor_text()},
                        {"capability", at::get_cpu_capability()},
                        {"threads", static_cast<int64_t>(at::get_num_threads())},
                        {"torch", TORCH_VERSION}}) {
  for (const auto& [setting, value] : settings.as_object()) key_.set(setting, value);
  file_ = cache_root() / "measured" / kind / (hash_hex(dump_json(key_)) + ".json");
}

std::optional<Json> MeasuredValue::read() const {
  if (!path_exists(file_)) return std::nullopt;
  const Json json = parse_json(read_file(file_, kMaxFileBytes), file_.string());
  // The file's name is a hash, which two keys may share.
  XRUN_CHECK(json.is_object() && json.at("key") == key_, "{}: belongs to another machine or model",
             file_.string());
  return json.at(name_);
}

void MeasuredValue::write(const Json& value) const {
  try {
    make_dirs(file_.parent_path());
    write_file_atomic(
        file_, dump_json(Json(Json::Object{{"key", key_}, {name_, value}}), kIndentedJson) + "\n");
  } catch (const Error&) {
    // The next process measures again.
  }
}

}  // namespace xrun
