"""What compilers get of a user's kernel: its text, and before it what it may use without including it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ..runtime.errors import ConfigError, HinterlandError
from ..runtime.jit import KernelSource
from .arguments import STORED
from .signature import Signature

# Not between quotes, by which a folder of that name beside the user would be found first.
_PRELUDE = """#define HINTERLAND_ARRAY_KINDS {kinds}
#include <hinterland/kernels/on_cpu.hpp>
#include <hinterland/kernels/array.hpp>
using hinterland::kernels::array;
using hinterland::kernels::array_ref;
using hinterland::kernels::warp_ref;
namespace bam = hinterland::kernels;
#if defined(__CUDACC_RTC__)
using hinterland::int16_t;
using hinterland::int32_t;
using hinterland::int64_t;
using hinterland::int8_t;
using hinterland::uint16_t;
using hinterland::uint32_t;
using hinterland::uint64_t;
using hinterland::uint8_t;
#endif
"""
# Names of CUDA's, if the text does not have them from CUDA.
_HALVES = """#include <hinterland/kernels/halves.hpp>
using hinterland::kernels::__half;
using hinterland::kernels::__nv_bfloat16;
using hinterland::kernels::bfloat16;
using hinterland::kernels::half;
"""
_CUDA_HALVES = re.compile(r"#\s*include\s*[<\"]cuda_(fp|bf)16\.h")


@dataclass(frozen=True, eq=False, kw_only=True)
class Text(KernelSource):
    """A text with a kernel.

    Args:
        signature: of the kernel.
        opening: lines before the text, which include files of ours alone.
        text: the user's.
    """

    signature: Signature
    opening: str
    text: str
    kinds: int

    @property
    def flags(self) -> dict[str, Any]:
        """The compiler's. A kernel over a file is mostly functions that are called where a line is missed: ptxas takes half the
        time where it compiles each by itself. They may spill registers, of which 64 let a block have 1024 threads."""
        if not self.kinds & STORED:
            return super().flags
        return super().flags | {"ptxas_options": ["-v", "--Ofast-compile=min"], "max_register_count": 64}

    @classmethod
    def of(cls, signature: Signature, text: str, kinds: int) -> Text:
        """That of a kernel for these kinds of arrays."""
        halves = _HALVES if signature.has_halves and not _CUDA_HALVES.search(text) else ""
        opening = _PRELUDE.format(kinds=kinds) + halves
        return cls(signature.name, (signature.name,), signature=signature, opening=opening, text=text, kinds=kinds)

    def source(self) -> str:
        """Lines of the text keep their numbers."""
        return f'{self.opening}#line 1 "{self.path}.cu"\n{self.text}\n'

    def refused(self, arch: str, reason: str) -> HinterlandError:
        return ConfigError(f"{self.path} does not compile for {arch}:\n{reason}")
