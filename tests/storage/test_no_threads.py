"""Where the system grants no threads, who asks for pages reads them."""

from __future__ import annotations

import os

import numpy as np
import pytest

from .. import forked

NO_THREADS = """
import os, resource, sys, threading
import torch
import hinterland as hl

torch.set_num_threads(1)
with hl.StorageArray.open(sys.argv[1], cache=hl.StorageCache("64KiB", 4096, engine="threads")) as array:
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    os.setuid(65534)  # for whom the limit holds
    try:
        threading.Thread(target=print).start()
    except RuntimeError:
        at = torch.randint(0, 300_000, (5000,))
        assert torch.equal(array.gather(at), at.float())
        print("read")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a limit of threads holds for users that are not root")
def test_pages_are_read_without_a_thread(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(300_000, dtype=np.float32))
    assert forked.run("-c", NO_THREADS, tmp_path / "a.npy", check=True).stdout == "read\n"
