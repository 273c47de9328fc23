#pragma once
// Types and digest of the master weights, as set by loading.

#include <c10/core/ScalarType.h>

#include <string>

#include "core/model/model.h"

namespace xrun {

class Hasher;

// True if the base weights are trained, all or some of them; false under an adapter.
bool trains_base(const LoadOptions& options);

// The type of base weights that are trained, and of one base weight by its name: fp32 if it is
// trained, else the storage type. A model in fp64 has no other type.
at::ScalarType master_type(const LoadOptions& options);
at::ScalarType master_type(const LoadOptions& options, const std::string& name);

// Adds name, type, shape and bytes of a weight.
void add_to_digest(Hasher& hasher, const std::string& name, const at::Tensor& weight);

}  // namespace xrun
