"""A kernel of yours over an array in a file: any thread asks for any element, and a cache on the device has the file's pages.

    python examples/kernel_on_disk.py nvme:0000:01:00.0

sums the first 32 MiB of a bare NVMe device instead, which it only reads, and says who writes its doorbells."""

import os
import sys
import tempfile

import numpy as np
import torch

import hinterland as hl

total = hl.kernel(
    """
__global__ void total(array<const int> x, unsigned long long* sum) {
  unsigned long long own = 0;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < x.size(); i += int64_t{gridDim.x} * blockDim.x)
    own += x[i];
  atomicAdd(sum, own);
}
""",
    cache="16MiB",
)

device = "cuda" if torch.cuda.is_available() else "cpu"
found = torch.zeros(1, dtype=torch.int64, device=device)
if len(sys.argv) > 1:
    x = hl.StorageArray.open(sys.argv[1], dtype=torch.int32, shape=(1 << 23,), host_budget="4MiB")
else:
    folder = tempfile.TemporaryDirectory()  # goes with its files when the program ends
    path = os.path.join(folder.name, "x.npy")
    np.save(path, np.arange(5_000_000, dtype=np.int32))
    x = hl.StorageArray.open(path, host_budget="4MiB")
total(x, found, grid=256)
if len(sys.argv) > 1:
    print(total)
print(found.item())  # 12499997500000
