"""Data on storage: arrays in files, and the cache that keeps their pages in memory."""

from .array import StorageArray
from .cache import StorageCache, StorageStats

__all__ = ["StorageArray", "StorageCache", "StorageStats"]
