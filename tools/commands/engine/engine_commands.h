#pragma once
// The commands that compute. Each takes its own arguments, argv[0] is its name, and returns the
// exit status; Error and UsageError go to main.

namespace xrun {

int command_score(int argc, char** argv);
int command_sample(int argc, char** argv);
int command_init_model(int argc, char** argv);
int command_models(int argc, char** argv);
int command_import(int argc, char** argv);
int command_projection(int argc, char** argv);
int command_recipe(int argc, char** argv);  // argv[1] is the recipe
int command_cache_recipe(int argc, char** argv);
int command_repl(int argc, char** argv);
int command_inspect(int argc, char** argv);
int command_explain(int argc, char** argv);
int command_types(int argc, char** argv);
int command_init(int argc, char** argv);
int command_check(int argc, char** argv);
int command_plan(int argc, char** argv);
int command_doctor(int argc, char** argv);
int command_bundle(int argc, char** argv);
int command_verify(int argc, char** argv);
int command_verify_resume(int argc, char** argv);

}  // namespace xrun
