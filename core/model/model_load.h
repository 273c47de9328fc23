#pragma once
// Types and digests of the master weights, as set by loading.

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "core/model/model.h"

namespace xrun {

// Returns true if the base weights are trained, all or some of them; false under an adapter.
bool trains_base(const LoadOptions& options);

// The type of base weights that are trained, and of one base weight by its name: fp32 if it is
// trained, else the storage type. A model in fp64 has no other type.
at::ScalarType master_type(const LoadOptions& options);
at::ScalarType master_type(const LoadOptions& options, const std::string& name);

// Returns the XXH3-128 over name, type, shape and bytes of a weight.
std::string weight_digest(const std::string& name, const at::Tensor& weight);
// Returns the digest of a model from those of its weights, in order. Its parts can be computed by
// different processes.
std::string model_digest(const std::vector<std::string>& weights);

// Returns the digests of the base weights [first, last) of a folder, in the order of
// weight_specs(). One weight at a time is in memory. Throws Error as Model::load does, except for
// the memory.
std::vector<WeightDigest> digest_weights(const std::filesystem::path& dir,
                                         const LoadOptions& options, size_t first, size_t last);

// Returns the files of a folder that decide a model's values, sorted.
std::vector<std::filesystem::path> weight_files(const std::filesystem::path& dir);
// Returns their names, sizes and times of change. While it is the same the weights are, too.
std::string weight_files_state(const std::filesystem::path& dir);

}  // namespace xrun
