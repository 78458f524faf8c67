#!/usr/bin/env bash
# Builds the native modules with sanitizers, in build/sanitized-SANITIZERS with hyphens for commas: these would end a path in
# ASAN_OPTIONS.
#
#   tools/sanitized_build.sh address,undefined
#   tools/sanitized_build.sh thread
set -euo pipefail
cd "$(dirname "$0")/.."
build=$PWD/build/sanitized-${1//,/-}
stand_ins=
[ "$1" != thread ] || stand_ins=$PWD/tests/cached # graphs can be read through a software cache
.venv/bin/cmake -S . -B "$build" -G Ninja -DPython_EXECUTABLE="$PWD/.venv/bin/python" -DHINTERLAND_SANITIZE="$1" \
  -DHINTERLAND_HEADERS_FIRST="$stand_ins" -DHINTERLAND_PAPERS=ON > /dev/null
.venv/bin/cmake --build "$build" --parallel "$(nproc)"
