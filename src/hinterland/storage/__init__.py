"""Data on storage: where it lies in files, and the cache that keeps their pages in memory."""

from .cache import StorageCache
from .stats import StorageStats

__all__ = ["StorageCache", "StorageStats"]
