"""The exceptions that users meet. Each message names the thing, the value and the remedy.

The native module raises these classes by name, so a C++ error reads the same as a Python one.
"""


class HinterlandError(Exception):
    """Base of every exception that this library raises on purpose."""

    in_all_ranks = False  # whether the other processes of a distributed run raise it, too


class ConfigError(HinterlandError, ValueError):
    """An argument, option or environment variable has a value that cannot be used."""


class NotATensor(ConfigError, TypeError):
    """A table where a function takes tensors alone: names the call that gives one."""


class FormatError(HinterlandError, ValueError):
    """A file's content is not what its format promises: names the file, the line or offset, and the value."""


class GraphError(HinterlandError, ValueError):
    """Arrays that do not form a graph, or a graph that an algorithm cannot take."""


class IndexOutOfRange(HinterlandError, IndexError):
    """A row or vertex number outside its table: names the first bad position and its value."""


class OutOfMemory(HinterlandError, MemoryError):
    """Not enough host or GPU memory: names what was asked for, what is free, and what to try instead."""


class StorageError(HinterlandError, OSError):
    """The operating system refused a read or write: a full disk, a missing file, a failing device."""


class DeviceError(HinterlandError, RuntimeError):
    """The GPU, its driver or its compiler is missing or refused."""


class VerificationError(HinterlandError, AssertionError):
    """A result that does not have the properties that its definition demands."""


class PipelineStalled(HinterlandError, TimeoutError):
    """A pipeline that gave nothing for too long: names the stage that is stuck."""


class RankLost(HinterlandError, ConnectionError):
    """A process of a distributed run that does not answer any more: it died, or is stuck."""
