"""How much memory can be had, from control groups as the kernel writes them."""

import pytest

from hinterland.memory import limits
from hinterland.runtime.errors import ConfigError


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A file system with the given files under / (proc and sys)."""
    monkeypatch.delenv("HINTERLAND_HOST_MEMORY", raising=False)
    monkeypatch.setattr(limits, "Path", lambda name: tmp_path / str(name).lstrip("/"))

    def write(files):
        for name, content in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(content)

    write({"proc/meminfo": "MemTotal: 64 kB\nMemAvailable: 32 kB\n", "proc/self/cgroup": ""})
    return write


def _version2(limit, usage, cache, group=""):
    folder = f"sys/fs/cgroup{group}"
    return {
        f"{folder}/memory.max": f"{limit}\n",
        f"{folder}/memory.current": f"{usage}\n",
        f"{folder}/memory.stat": f"anon 5\ninactive_file {cache}\n",
    }


def test_without_a_group_the_system_decides(system):
    assert limits.host_memory(0) == (31 << 10, "the system's available memory")


def test_a_group_of_version_2(system):
    system({"proc/self/cgroup": "0::/a/b\n", **_version2(6400, 3300, 100, "/a/b"), **_version2("max", 9, 9, "/a")})
    assert limits.host_memory(0) == (3200 - 100, "the control group's memory limit")


def test_the_tightest_group_counts(system):
    system({"proc/self/cgroup": "0::/a/b\n", **_version2(9600, 0, 0, "/a/b"), **_version2(3200, 0, 0, "/a")})
    assert limits.host_memory(0)[0] == 3100


def test_a_group_of_version_1(system):
    system(
        {
            "proc/self/cgroup": "5:cpu:/x\n4:memory:/x\n",
            "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "3200\n",
            "sys/fs/cgroup/memory/x/memory.usage_in_bytes": "1700\n",
            "sys/fs/cgroup/memory/x/memory.stat": "cache 9\ntotal_inactive_file 100\n",
        }
    )
    assert limits.host_memory(0)[0] == 1600 - 50


@pytest.mark.parametrize("limit", ["max", str((1 << 63) - 4096)])
def test_no_limit_is_no_limit(system, limit):
    system({"proc/self/cgroup": "0::/\n", **_version2(limit, 10, 0)})
    assert limits.host_memory(0)[1] == "the system's available memory"


def test_the_setting_decides(system, monkeypatch):
    monkeypatch.setenv("HINTERLAND_HOST_MEMORY", "2KiB")
    assert limits.host_memory(500) == (1548, "HINTERLAND_HOST_MEMORY")
    assert limits.host_memory(5000)[0] == 0
    monkeypatch.setenv("HINTERLAND_HOST_MEMORY", "plenty")
    with pytest.raises(ConfigError, match="plenty"):
        limits.host_memory(0)


def test_this_machine_has_memory(monkeypatch):
    monkeypatch.delenv("HINTERLAND_HOST_MEMORY", raising=False)
    free, source = limits.host_memory(0)
    assert 0 < free < limits._UNLIMITED
    assert source in ("the control group's memory limit", "the system's available memory")
