"""What each of several processes does for test_shared.py; LOCAL_WORLD_SIZE says how many of them count as one machine."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path

import torch

from hinterland import UnifiedTensor, cli, datasets
from hinterland.runtime.errors import ConfigError, IndexOutOfRange, RankLost, StorageError
from hinterland.table import TieredShards
from hinterland.training import Ranks, ShardedTensor, Shards, joined, open_shared, train

FOLDER, DEVICE = Path(sys.argv[1]), sys.argv[2]
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
OPTIONS = {"fanouts": (4, 3), "hidden": 32, "batch_size": 16, "lr": 0.02, "device": DEVICE, "seed": 3, "timeout": 60.0}


def say(text: str) -> None:
    print(text, flush=True)


def shard(table: torch.Tensor, ranks: Ranks) -> ShardedTensor:
    """This node's rows of a table that every process has."""
    owner, number = Shards(len(table), ranks.nodes).find(torch.arange(len(table)))
    mine = table[owner == ranks.node]
    assert torch.equal(number[owner == ranks.node], torch.arange(len(mine)))
    return ShardedTensor(UnifiedTensor.from_tensor(mine), len(table), ranks)


def gathers(ranks: Ranks) -> None:
    random = torch.Generator().manual_seed(ranks.rank)  # every rank asks for something else
    torch.manual_seed(0)  # and has the same tables
    tables = [
        torch.randn(1000, 7).half(),
        torch.arange(3001 * 2).view(3001, 1, 2),
        torch.randn(5) > 0,
        torch.empty(9, 0),
        torch.arange(1.0),
    ]
    for table in tables:
        sharded = shard(table, ranks)
        assert sharded.shape == table.shape and sharded.dtype == table.dtype and len(sharded) == len(table)
        for count in (0, 1, 257 * ranks.rank, 500):
            index = torch.randint(-len(table), len(table), (count,), generator=random)
            for asked in (index.to(DEVICE), index.int(), index.view(1, -1)):
                rows = sharded.gather(asked)
                assert rows.device == asked.device and torch.equal(rows.cpu(), table[asked.cpu().long()])
    say("gathers: as from the whole table")

    sharded = shard(tables[0], ranks)
    for bad in ([0, 1000, 5], [-1001]):
        asked = bad if ranks.node == 1 else [1, 2]
        try:
            sharded.gather(torch.tensor(asked, device=DEVICE))
        except IndexOutOfRange as error:
            say(f"outside: {error}")
    assert torch.equal(sharded.gather([3, -1]), tables[0][[3, -1]])  # and it goes on


def keeps(ranks: Ranks) -> None:
    """Rows kept in front of other machines: every rank keeps others, one of them none, and asks for others."""
    random = torch.Generator().manual_seed(ranks.rank)
    torch.manual_seed(0)
    for table in (
        torch.randn(1000, 7).half(),
        torch.arange(3001 * 2).view(3001, 1, 2),
        torch.randn(500) > 0,
        torch.empty(9, 0),
    ):
        sharded, rows = shard(table, ranks), len(table)
        scores = torch.rand(rows, generator=random)
        for local in (rows * 4 + 2000 * (ranks.rank + 1) if ranks.rank != 1 else 0, 1 << 20):  # some with an id map, and all
            tiered = TieredShards(sharded, local, scores)
            kept = tiered.plan.resident
            assert sum(tiered.held.values()) <= local and (kept == rows or local < 1 << 20 or not table[0].numel())
            hottest = set(scores.argsort(descending=True, stable=True)[:kept].tolist())
            for count in (0, 1, 257 * ranks.rank, 500):
                index = torch.randint(-rows, rows, (count,), generator=random)
                for asked in (index.to(DEVICE), index.int(), index.view(1, -1)):
                    assert torch.equal(tiered.gather(asked).cpu(), table[asked.cpu().long()])
                counted, stats = tiered.count(index.to(DEVICE)), {}
                found, requests = counted.rows, counted.requests
                assert sum(requests.values()) == counted.tiers["host"]["requests"]
                assert torch.equal(tiered.gather(index.to(DEVICE), stats=stats).cpu(), table[index])
                assert stats["network"] == {"rows": found["remote"], "bytes": found["remote"] * sharded.row_bytes}
                assert stats["tiers"]["local"] == counted.tiers["local"]
                assert stats["rows"] == stats["tiers"]["local"]["hits"] + stats["tiers"]["host"]["hits"]
                everybody = ranks.sum([stats["tiers"]["host"]["hits"]]) == ranks.sum([found["host"] + found["remote"]])
                assert everybody, "each row that is not kept is read once, by whom it is asked of"
                outer = [row for row in (index % rows).tolist() if row not in hottest]
                owner, _ = Shards(rows, ranks.nodes).find(torch.tensor(outer, dtype=torch.int64))
                assert found["local"] == count - len(outer) and found["remote"] == int((owner != ranks.node).sum())
                assert sum(found.values()) == count
        try:
            tiered.gather(torch.tensor([1, rows, 5] if ranks.node == 1 else [1, 2], device=DEVICE))
        except IndexOutOfRange as error:
            say(f"outside tiers: {error}")
        assert torch.equal(tiered.gather([3, -1]), table[[3, -1]])  # and it goes on
        tiered.close()
        assert tiered.held == {} and torch.equal(tiered.gather([3, -1]), table[[3, -1]])
    try:
        TieredShards(sharded, "lots" if ranks.is_first else 0, torch.rand(rows))
    except ConfigError as error:
        say(f"refused tiers: {error}")
    say("keeps: as from the whole table")


def refusals(ranks: Ranks) -> None:
    last = ranks.rank == ranks.world_size - 1
    for name, part, rows in (
        ("dtype", torch.zeros(5, 2, dtype=torch.int64 if last else torch.int32), 10),
        ("width", torch.zeros(5, 3 if last else 2), 10),
        ("rows", torch.zeros(5, 2), 11 if last else 10),
        ("part", torch.zeros(4 if last else 5, 2), 10),
    ):
        try:
            ShardedTensor(UnifiedTensor.from_tensor(part), rows, ranks)
        except ConfigError as error:
            say(f"refused {name}: {error}")
    own = os.environ["LOCAL_RANK"]
    for name, local, number in (("counts", 1 if last else 2, own), ("order", ranks.local_world_size, "9" if last else own)):
        os.environ["LOCAL_RANK"] = number
        try:
            dataclasses.replace(ranks, local_world_size=local).check_nodes()
        except ConfigError as error:
            say(f"refused {name}: {error}")
    os.environ["LOCAL_RANK"] = own


def shares(ranks: Ranks, path: Path) -> None:
    """What one process of a machine writes the others read, and nobody else does."""
    whole, together = datasets.open(path).features.cpu(), open_shared(path, ranks).features
    rows = torch.arange(len(whole))
    assert torch.equal(together.gather(rows), whole)
    part = together.part if isinstance(together, ShardedTensor) else together
    torch.distributed.barrier()
    if ranks.local_rank == 0:
        part.cpu()[:] = ranks.node + 1
    torch.distributed.barrier()
    assert bool((part.cpu() == ranks.node + 1).all())
    say(f"shares: {type(together).__name__}, {len(part)} rows, {part.placement}")

    def unreadable() -> None:
        if ranks.node == ranks.nodes - 1:
            raise StorageError("the disk of the last machine is broken")

    try:
        ranks.from_node(unreadable)
    except StorageError as error:
        say(f"unreadable: {error}")


def trains(ranks: Ranks, path: Path, model: str = "sage", kind: str = "") -> None:
    """The same losses as with a whole table in every process, whatever the batches of a rank: 130 validate in 16s."""
    together = open_shared(path, ranks)
    runs = {"whole": (datasets.open(path), {}), "together": (together, {})}
    if not kind:
        runs |= {cache: (together, {"cache": cache, "gpu_budget": "90KiB"}) for cache in ("auto", "features", "degree")}
    for name, (dataset, kept) in runs.items():
        found = train(dataset, model, **OPTIONS, epochs=2, **kept)
        made = {"model": found.model.state_dict(), "history": found.history, "test": found.test}
        if kept:
            made["plan"] = (found.cache.policy, found.cache.split.rows, found.cache.predicted.rows)
        torch.save(made, FOLDER / f"{kind}{name}.{RANK}.pt")
    say("trained")


def commands(path: Path) -> None:
    """The first rank prints the result; the same as that of the function."""
    arguments = f"train {path} --fanout 4,3 --hidden 32 --batch-size 16 --lr 0.02 --seed 3 --epochs 2 --json --device {DEVICE}"
    sys.argv = ["hinterland", *arguments.split(), "--gpu-budget", "90KiB"]
    try:
        cli.main()
    except SystemExit as ended:
        assert not ended.code


def dies(ranks: Ranks, path: Path) -> None:
    """The last rank, in a gather, while the others wait for its rows or its gradients."""
    dataset = open_shared(path, ranks)
    table, done = dataset.features, []
    gather = type(table).gather

    def dying(self, *arguments, **options):  # type: ignore[no-untyped-def]
        done.append(1)
        if len(done) == 12 and RANK == SIZE - 1:
            os._exit(0)
        return gather(self, *arguments, **options)

    type(table).gather = dying  # type: ignore[method-assign]
    train(dataset, **OPTIONS, epochs=50)


torch.set_num_threads(1)
try:
    with joined(DEVICE, 60.0) as ranks:
        if ranks.nodes > 1:
            gathers(ranks)
            keeps(ranks)
            refusals(ranks)
        shares(ranks, FOLDER / "set")
        trains(ranks, FOLDER / "set")
        trains(ranks, FOLDER / "types", "gat", "types_")
        commands(FOLDER / "set")
        if DEVICE == "cpu":  # gloo hears of a death at once, NCCL when its time is up
            dies(ranks, FOLDER / "set")
except RankLost as error:
    say(f"lost: RankLost: {error}")
