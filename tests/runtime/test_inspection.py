"""What is said of compiled kernels: their registers and memory, and their text, a file each. NVRTC needs no GPU."""

from __future__ import annotations

import pytest

from hinterland.cli.kernels import register_all
from hinterland.runtime import inspection, jit
from hinterland.runtime.errors import ConfigError, DeviceError

pytest.importorskip("cuda.bindings.nvrtc")

SOURCE = """
namespace hinterland::graph {

template <int kWords>
__global__ void through_shared(int* out) {
  __shared__ int words[kWords];
  words[threadIdx.x] = out[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = words[threadIdx.x ^ 1];
}

__global__ void looked_up(const int* in, int* out) {
  int words[64];
  for (int k = 0; k < 64; ++k) words[k] = in[k];
  for (int k = 0; k < 64; ++k) words[in[k]] += k;
  *out = words[in[64]];
}

__global__ void __launch_bounds__(1024, 2) crowded(volatile float* out) {
  float words[64];
  for (int k = 0; k < 64; ++k) words[k] = out[k];
  for (int k = 0; k < 64; ++k) out[k] = words[63 - k];
}

__noinline__ __device__ int found(const int* in, int at) {
  int words[32];
  for (int k = 0; k < 32; ++k) words[k] = in[k];
  for (int k = 0; k < 32; ++k) words[in[k]] += k;
  return words[at];
}

__global__ void calling(const int* in, int* out) { *out = found(in, in[1]) + found(in + 1, in[2]); }

}
"""
KERNELS = ("through_shared<256>", "through_shared<512>", "looked_up", "crowded", "calling")
needs_nvdisasm = pytest.mark.skipif(inspection.disassembler() is None, reason="no nvdisasm: pip install nvidia-cuda-nvdisasm")


@pytest.fixture(params=[False, True], ids=["one unit", "apart"])
def kernels(request, tmp_path, monkeypatch):
    (tmp_path / "graph").mkdir()
    (tmp_path / "graph" / "few.cu").write_text(SOURCE)
    monkeypatch.setattr(jit, "PACKAGE", tmp_path)
    monkeypatch.setattr(jit, "REGISTRY", {})
    return jit.KernelFile("graph/few.cu", KERNELS, separate_module=request.param)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_resources(kernels, arch, tmp_path):
    entries = [entry for _, _, entry in jit.build_all([arch], tmp_path)]
    takes = {kernel.kernel: kernel for entry in entries for kernel in inspection.resources(entry)}
    assert tuple(takes) == KERNELS
    assert [takes[f"through_shared<{words}>"].shared_bytes for words in (256, 512)] == [1024, 2048]
    assert takes["looked_up"].stack_bytes == 256 and takes["looked_up"].shared_bytes == 0
    assert takes["crowded"].registers <= 32 < takes["looked_up"].registers
    assert takes["crowded"].spill_store_bytes > 0 and takes["crowded"].spill_load_bytes > 0
    assert takes["calling"].stack_bytes >= 128  # its function's
    assert all(takes[kernel].spill_store_bytes == 0 for kernel in KERNELS if kernel != "crowded")
    assert all(8 <= kernel.instructions < 5000 for kernel in takes.values())


def test_an_entry_that_does_not_say(kernels, tmp_path):
    entry = kernels.build("sm_90", tmp_path / "cache", kernels.units()[0])
    jit._store(entry, *jit._load(entry))
    with pytest.raises(DeviceError, match=r"cubin does not say what its kernels take; delete it"):
        inspection.resources(entry)


def test_a_dump_has_a_file_for_each_kernel(kernels, tmp_path, monkeypatch):
    monkeypatch.setattr(inspection, "disassembler", lambda: None)
    written = list(inspection.dump(["sm_90", "sm_80"], tmp_path / "text"))
    names = ["through_shared-256", "through_shared-512", "looked_up", "crowded", "calling"]
    assert written == [tmp_path / "text" / arch / "graph/few" / f"{name}.ptx" for arch in ("sm_90", "sm_80") for name in names]
    for path in written:
        text = path.read_text()
        assert text.count(".entry ") == 1 and path.stem.partition("-")[0] in text.partition(".entry ")[2].splitlines()[0]
        assert f".target {path.parts[-4]}" in text and text.count("{") == text.count("}")
        assert path.stem != "calling" or ".func" in text


@needs_nvdisasm
def test_a_dump_has_each_kernels_instructions(kernels, tmp_path):
    written = list(inspection.dump(["sm_90"], tmp_path / "text"))
    assert len(written) == 2 * len(KERNELS)
    for path in written[1::2]:
        text = path.read_text()
        assert path.suffix == ".sass" and "EXIT" in text and text.count("\t.section\t.text.") == 1
        assert path.stem.partition("-")[0] in text.partition(".section\t.text.")[2].splitlines()[0]


def test_a_disassembler_that_refuses_is_quoted(kernels, tmp_path, monkeypatch):
    tool = tmp_path / "nvdisasm"
    tool.write_text("#!/bin/sh\necho 'unknown architecture' >&2\nexit 1\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert inspection.disassembler() == str(tool)
    with pytest.raises(DeviceError, match="nvdisasm could not disassemble a kernel; a newer one may: unknown architecture"):
        list(inspection.dump(["sm_90"], tmp_path / "text"))


def test_files_can_be_chosen(kernels):
    other = jit.KernelFile("graph/other.cu", ("other",))
    assert jit.chosen(["sm_80", "sm_90"]) == [(file, arch) for arch in ("sm_80", "sm_90") for file in (kernels, other)]
    assert jit.chosen(["sm_90"], ["graph/other"]) == jit.chosen(["sm_90"], ["graph/other.cu"]) == [(other, "sm_90")]
    with pytest.raises(ConfigError, match=r"no kernel file graph/othre\.cu; there are graph/few\.cu, graph/other\.cu"):
        jit.chosen(["sm_90"], ["graph/othre"])


def test_names_of_kernels_are_short_and_differ():
    register_all()
    assert inspection.short_name("hinterland::graph::go<hinterland::Csr<hinterland::int32_t>, hinterland::Pass::kRows>") == (
        "go<Csr<int32_t>, Pass::kRows>"
    )
    for file in jit.REGISTRY.values():
        assert len({inspection.short_name(instance) for instance in file.instances}) == len(file.instances)
