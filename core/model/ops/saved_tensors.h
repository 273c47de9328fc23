#pragma once
// The tensors that a forward saves for its backward, in bytes a token. Each operator declares its
// own beside save_for_backward, and the memory plan adds them up.

#include <map>
#include <string>

namespace xrun {

class SavedTensors {
 public:
  // `element_size` is that of activations, in bytes.
  explicit SavedTensors(double element_size) : element_size_(element_size) {}

  // Counts a tensor of `width` elements a token once, however many operators save it.
  void add(const std::string& name, double width) { add_bytes(name, width * element_size_); }
  void add_bytes(const std::string& name, double bytes) { bytes_[name] = bytes; }

  double bytes() const {
    double sum = 0;
    for (const auto& [name, bytes] : bytes_) sum += bytes;
    return sum;
  }

 private:
  double element_size_;
  std::map<std::string, double> bytes_;
};

}  // namespace xrun
