"""Samplers and feature stores of others, which work on the CPU, behind batches on a GPU."""

from __future__ import annotations

import copy
from collections.abc import Container
from typing import Any

import torch
import torch_geometric.data
from torch_geometric.sampler import BaseSampler, SamplerOutput


class ForeignSampler(BaseSampler):  # type: ignore[misc]
    """Another library's sampler, which works on the CPU and with draws of its own."""

    def __init__(self, sampler: BaseSampler, device: torch.device) -> None:
        self.sampler, self.device = sampler, device

    def sample_from_nodes(self, index: Any, number: int | None = None) -> Any:
        return self._in_user_order(self.sampler.sample_from_nodes(index))

    def sample_from_edges(self, index: Any, neg_sampling: Any = None, number: int | None = None) -> Any:
        return self._in_user_order(self.sampler.sample_from_edges(index, neg_sampling=neg_sampling))

    def _in_user_order(self, out: Any) -> Any:
        """The permutation is on the CPU, so it is applied there; ``edge_permutation`` is None afterwards."""
        order = self.sampler.edge_permutation
        if order is None or out.edge is None:
            return out
        out = copy.copy(out)
        if isinstance(out, SamplerOutput):
            out.edge = order[out.edge.long()]
        else:
            out.edge = {t: e if e is None or order.get(t) is None else order[t][e.long()] for t, e in out.edge.items()}
        return out


class ForeignFeatureStore(torch_geometric.data.FeatureStore):  # type: ignore[misc]
    """Another library's feature store, asked on the CPU, its answers moved; without the attributes named ``hidden``."""

    def __init__(self, store: Any, device: torch.device, hidden: Container[str] = ()) -> None:
        super().__init__(store._tensor_attr_cls)
        self.__dict__.update(_store=store, _device=device, _hidden=hidden)

    def _multi_get_tensor(self, attrs: list[Any]) -> list[Any]:
        attrs = [copy.copy(attr) for attr in attrs]
        for attr in attrs:
            attr.index = attr.index.cpu()
        return [torch.as_tensor(tensor).to(self._device) for tensor in self._store.multi_get_tensor(attrs)]

    def _get_tensor(self, attr: Any) -> Any:
        return self._multi_get_tensor([attr])[0]

    def _put_tensor(self, tensor: Any, attr: Any) -> bool:
        return bool(self._store._put_tensor(tensor, attr))

    def _remove_tensor(self, attr: Any) -> bool:
        return bool(self._store._remove_tensor(attr))

    def _get_tensor_size(self, attr: Any) -> Any:
        return self._store._get_tensor_size(attr)

    def get_all_tensor_attrs(self) -> Any:
        return [attr for attr in self._store.get_all_tensor_attrs() if attr.attr_name not in self._hidden]
