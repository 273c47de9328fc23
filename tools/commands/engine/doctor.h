#pragma once
// Makes the findings of `xrun doctor`: about the machine, its software, and a short training run.
// Changes nothing.

#include <string>
#include <vector>

#include "core/console/terminal/finding.h"

namespace xrun {

// Reports on the processor, memory, and LibTorch with a product of known result.
std::vector<Finding> machine_findings();

// Reports on the GPU with its driver, our plug-in, and NCCL. `needed`: the user asked to train on a
// GPU.
std::vector<Finding> gpu_findings(bool needed);

// Reports on the sentencepiece plug-in, Python with pip for `xrun models get`, and the demo model.
std::vector<Finding> program_findings();

// Trains a random model of 0.2M parameters with recipes/dpo.lua and its data for 16 steps, in a
// child process and a temporary folder, without network. threads 0: the default of a run. The
// finding is wrong unless the run ends well, begins at ln 2, ends lower and exports a model. Throws
// Interrupted.
Finding smoke_train(const std::string& device, int threads);

// Returns bytes that a file system cannot compress, so that its speed is that of the disk.
std::vector<char> noise_block(size_t size);

}  // namespace xrun
