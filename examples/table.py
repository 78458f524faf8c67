"""A table in host memory, read by row number: by the GPU where there is one, else by the CPU, with the same answer."""

import torch

import hinterland as hl

device = "cuda" if torch.cuda.is_available() else "cpu"
table = hl.UnifiedTensor.from_tensor(torch.arange(1_000_000 * 4, dtype=torch.float32).view(-1, 4))
index = torch.tensor([3, 141_592, 999_999, 3], device=device)
rows = table[index]  # a torch tensor on the index's device; only these rows crossed the link
print(rows.sum(dim=1).tolist())  # [54.0, 2265478.0, 15999990.0, 54.0]
