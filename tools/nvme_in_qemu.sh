#!/usr/bin/env bash
# Tries the driver of bare NVMe devices on QEMU's, in a virtual machine (tests/storage/qemu): gets QEMU and a kernel as Debian packages,
# of which the kernel is unpacked and not installed. Where they cannot be had, a sentence says so.
set -euo pipefail
cd "$(dirname "$0")/.."
kernel=$PWD/build/guest_kernel
skip() { echo "$1: bare NVMe devices are not tried"; exit 0; }

[ "$(uname -m)" = x86_64 ] || skip "the virtual machine is an x86-64's, and this is none"
command -v apt-get > /dev/null || skip "no apt-get"
command -v qemu-system-x86_64 > /dev/null || { apt-get update -q && apt-get install -q -y --no-install-recommends qemu-system-x86; } \
  > /dev/null 2>&1 || skip "no QEMU to be had"
if ! ls "$kernel"/lib/modules/*/kernel/net/9p > /dev/null 2>&1; then
  rm -rf "$kernel" && mkdir -p "$kernel"
  package=$(apt-cache depends linux-image-amd64 2> /dev/null | sed -n 's/^ *Depends: //p' | head -1)
  (cd "$kernel" && apt-get download -q "${package:-linux-image-amd64}" && dpkg-deb --fsys-tarfile ./*.deb |
    tar -x --wildcards './boot/vmlinuz-*' './lib/modules/*/kernel/'{drivers/vfio,drivers/virtio,virt/lib,net/9p,fs} &&
    rm ./*.deb) > /dev/null 2>&1 || skip "no kernel to be had"
fi
HINTERLAND_GUEST_KERNEL=$kernel .venv/bin/python -m pytest -q --timeout=600 "$@" tests/storage/qemu
