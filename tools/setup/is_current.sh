# Sourced by ./xrun and build.sh, which set $root and $build.

# True if $build holds the program (or the tests) of this LibTorch and no source is newer (a removed
# file makes its folder newer).
is_current() ( # run|test
  mark="$build/built-$1" watched=(core kernels lua tools CMakeLists.txt)
  [ -e "$mark" ] && [ -x "$build/bin/xrun" ] || exit 1
  read -r setting <"$build/torch-setting" && [ "$setting" = "${XRUN_TORCH:-}" ] || exit 1
  [ "$1" = run ] || watched+=(tests)
  cd "$root" || exit 1
  newer=$(find "${watched[@]}" -newer "$mark" ! -name '*.md' -print -quit) || exit 1
  [ -z "$newer" ]
)
