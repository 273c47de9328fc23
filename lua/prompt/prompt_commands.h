#pragma once
// The colon commands of every prompt, by what they are about. Each file adds its own.

#include "lua/prompt/prompt.h"

namespace xrun {

void add_word_commands(Prompt& prompt);     // prompt_words.cpp: help, doc, ops, type, src
void add_measure_commands(Prompt& prompt);  // prompt_measures.cpp: time, prof, mem

}  // namespace xrun
