#pragma once
// Model families as data: what a config.json of each model_type means. A new one is a new file.

#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/model/hf_config.h"

namespace xrun {

// Typed access to config.json; every message names the file and the key. A null counts as absent.
class ConfigReader {
 public:
  ConfigReader(const Json& json, std::string name) : json_(json), name_(std::move(name)) {}

  bool has(const char* key) const;
  int64_t integer(const char* key) const;  // must be there, and at least 1
  int64_t integer(const char* key, int64_t otherwise) const;
  double number(const char* key, double otherwise) const;
  bool flag(const char* key, bool otherwise) const;
  std::string text(const char* key, const std::string& otherwise) const;
  // Throws Error with the file's name in front.
  [[noreturn]] void fail(const std::string& message) const;
  // The member as a reader of its own, or an empty object's.
  ConfigReader object(const char* key) const;
  const Json& json() const { return json_; }
  const std::string& name() const { return name_; }

 private:
  const Json* find(const char* key) const;

  const Json& json_;
  std::string name_;
};

struct Family {
  std::string model_type;    // "llama"
  std::string architecture;  // "LlamaForCausalLM"
  void (*read)(const ConfigReader&, ModelConfig&);
};

// Adds a family before main; returns true so that a namespace-scope constant can call it.
bool register_family(Family family);

// Returns a family. Throws Error that lists the known ones, with `name` in front.
const Family& family_named(const std::string& model_type, const std::string& name);
std::vector<std::string> family_names();

// Fills what all dense decoders spell alike: sizes, norm, rope, activation check.
void read_dense_decoder(const ConfigReader& reader, ModelConfig& config);
// Throws Error if the config asks for a sliding window.
void refuse_sliding_window(const ConfigReader& reader);

// The weights a config asks for, in the checkpoint's names and order of use.
struct WeightSpec {
  std::string name;
  std::vector<int64_t> shape;
};
std::vector<WeightSpec> weight_specs(const ModelConfig& config);

}  // namespace xrun
