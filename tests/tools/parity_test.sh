#!/usr/bin/env bash
# docs/parity.md has the rows of tools/oracle/parity.py, and their tests and scripts are there.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
"$root/tools/oracle/parity.py" --check --build "${XRUN_BUILD:-$root/build}"
