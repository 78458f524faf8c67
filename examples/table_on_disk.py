"""A table in a file, of which pages that are asked for pass through 16 MiB of memory: written, and read by row number."""

import os
import tempfile

import torch

import hinterland as hl

folder = tempfile.TemporaryDirectory()  # goes with its files when the program ends
path = os.path.join(folder.name, "rows.npy")
with hl.StorageArray.create(path, (200_000, 64), host_budget="16MiB") as made:  # 51 MB, a sparse file of zeros at first
    for first in range(0, len(made), 50_000):
        made[first : first + 50_000] = torch.arange(first, first + 50_000, dtype=torch.float32)[:, None].expand(-1, 64)
    made.flush()  # on the disk when it returns

device = "cuda" if torch.cuda.is_available() else "cpu"
table = hl.StorageArray.open(path, host_budget="16MiB")
rows = table[torch.tensor([3, 141_592, 199_999, 3], device=device)]  # where the index is; of the file three pages were read
print(rows[:, 0].tolist(), table.stats().misses)  # [3.0, 141592.0, 199999.0, 3.0] 3
