"""Questions to tables in files: filters, groups and aggregates over Arrow, Parquet, ORC and CSV (docs/query.md)."""

from .ask import Query, query
from .result import ColumnPlan, QueryResult

__all__ = ["ColumnPlan", "Query", "QueryResult", "query"]
