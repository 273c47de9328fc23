# Assertions of the shell tests; sourced.

fail() { echo "FAILED: $*"; exit 1; }
is() { [ "$1" = "$2" ] || fail "got $1, wanted $2"; }
# STATUS PATTERN COMMAND...: checks the exit status and standard error.
refuses() {
  local status=0
  "${@:3}" >out 2>err </dev/null || status=$?
  [ $status = "$1" ] || fail "${*:3}: exit $status, wanted $1"
  grep -q -- "$2" err || fail "${*:3}: got $(cat err), wanted $2"
}
