#pragma once
// Model families as data: what a config.json of each model_type means. A new one is a new file.

#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/model/weights/hf_config.h"

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
  std::vector<double> numbers(const char* key) const;  // a list; empty if it is absent
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

// Fills what Llama and its likes spell alike: sizes, norm, rope, activation.
//   head_dim  where the file has none; 0: hidden / heads
void read_dense_decoder(const ConfigReader& reader, ModelConfig& config, int64_t head_dim = 0);

// Rotary positions in the keys of transformers 4 and 5; K = head_dim (rope_config.cpp).
RopeConfig read_rope(const ConfigReader& reader, int64_t max_length, int64_t head_dim);

// The activation that `key` names. Throws Error that lists the known ones.
Activation read_activation(const ConfigReader& reader, const char* key,
                           const std::string& otherwise);

// The epsilon of the norms; must be a positive number.
double read_norm_eps(const ConfigReader& reader, const char* key, double otherwise);

// Notes those of the keys that ask for dropout: the base model is trained without it.
void ignore_dropout(const ConfigReader& reader, const std::vector<const char*>& keys,
                    ModelConfig& config);

// Sliding windows, layer by layer: as layer_types says, else from max_window_layers on. Throws
// Error that names the key of a contradiction.
void read_windows(const ConfigReader& reader, ModelConfig& config);

// Throws Error if a size is out of range, sizes do not fit each other, or the weights are
// quantised. Every family calls it last.
void check_decoder(const ConfigReader& reader, const ModelConfig& config);

}  // namespace xrun
