#pragma once
// Findings of `xrun doctor` about the machine and its installed software. Nothing is changed.

#include <filesystem>
#include <string>
#include <vector>

#include "core/console/terminal/finding.h"

namespace xrun {

// Processor, memory, and LibTorch with a product of known result.
std::vector<Finding> machine_findings();

// GPU with its driver, our plug-in, and NCCL. `needed`: the user asked to train on one.
std::vector<Finding> gpu_findings(bool needed);

// The sentencepiece plug-in, Python with pip for `xrun models get`, and the demonstration's model.
std::vector<Finding> program_findings();

}  // namespace xrun
