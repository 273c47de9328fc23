#pragma once
// The memory that operators take, declared beside the code that allocates it: tensors that a
// forward saves for its backward, and temporaries. The memory plan adds up these declarations.

#include <map>
#include <string>

namespace xrun {

// The largest number of elements that exist at one time besides an operator's inputs, its output
// included: in a forward without a graph, and in a backward without gradients of weights.
struct Temporaries {
  double forward = 0, backward = 0;  // per token
};

// The tensors that a forward saves for its backward, in bytes per token. Each operator adds its
// own.
class SavedTensors {
 public:
  // `element_size` is that of activations, in bytes.
  explicit SavedTensors(double element_size) : element_size_(element_size) {}

  // Adds a tensor of `width` elements per token. One name counts once, however many operators save
  // the tensor.
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
