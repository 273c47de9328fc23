#!/usr/bin/env bash
# docs/parity.md claims what the tests hold: rows, peers, bounds and commands; figures may differ by machine.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
"$root/tools/oracle/parity.py" --check --build "${XRUN_BUILD:-$root/build}"
