#pragma once
// The types and digests of a model's master weights, and the files that they come from.

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "core/model/model.h"

namespace xrun {

// Returns true if any base weights are trained; under an adapter none are.
bool trains_base(const LoadOptions& options);

// Returns the type of the base weights' masters. Frozen ones have the storage type, trained ones
// fp32, or fp64 in a model of that type. Without a name: the type of the trained ones, or of all if
// none are trained.
at::ScalarType master_type(const LoadOptions& options);
at::ScalarType master_type(const LoadOptions& options, const std::string& name);

// Returns the XXH3-128 over name, type, shape and bytes of a weight.
std::string weight_digest(const std::string& name, const at::Tensor& weight);
// Returns the digest of a model from those of its weights, in order; several processes may share
// the work of computing those.
std::string model_digest(const std::vector<std::string>& weights);

// Returns the digests of the base weights [first, last) of a folder, in the order of
// weight_specs(). One weight at a time is in memory. Throws Error as Model::load does, but does not
// check the available memory.
std::vector<WeightDigest> digest_weights(const std::filesystem::path& dir,
                                         const LoadOptions& options, size_t first, size_t last);

// Returns the files of a folder that decide a model's values, sorted by path.
std::vector<std::filesystem::path> weight_files(const std::filesystem::path& dir);
// Returns the names, sizes and modification times of these files as one string. While it is the
// same, so are the weights.
std::string weight_files_state(const std::filesystem::path& dir);

}  // namespace xrun
