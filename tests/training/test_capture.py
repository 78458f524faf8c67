"""Captured steps train as eager ones do; what a replay would not see is seen; what cannot be captured is said, and trained."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from hinterland import datasets
from hinterland.runtime.errors import ConfigError
from hinterland.sampling import NeighborSampler
from hinterland.sampling.envelope import Envelope, ends_of, padded
from hinterland.training import Batch, Loader, capture, train
from hinterland.training.capture import _without_padding, sees_padding
from hinterland.training.capture_key import difference, key_of
from hinterland.training.graphed_optimizer import GraphedOptimizer

SHAPE = datasets.Shape({"node": 600}, {"node": 64}, {("node", "to", "node"): 6000}, (240, 120, 240), 4, undirected=True)
SMALL = {"fanouts": (4, 3), "hidden": 32, "batch_size": 32, "lr": 0.02, "dropout": 0.3, "seed": 3}

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def dataset():
    return datasets.generate(SHAPE, seed=1, device="cpu")


class Net(nn.Module):
    """Means over neighbours, twice, by torch alone."""

    def __init__(self, between=None, dropout=0.0):
        super().__init__()
        self.first, self.second = nn.Linear(128, 32), nn.Linear(64, 4)
        self.between, self.dropout = between or nn.Identity(), dropout

    def forward(self, x, edge_index):
        row, col = edge_index
        for layer in (self.first, self.second):
            drawn = x.new_zeros(len(x), 1).index_add(0, col, x.new_ones(len(col), 1))
            mean = torch.zeros_like(x).index_add(0, col, x[row]) / drawn.clamp(min=1)
            x = layer(torch.cat([x, mean], 1))
            x = self.between(F.dropout(x, self.dropout, self.training).relu()) if layer is self.first else x
        return x


def loss_of(model, batch):
    return F.cross_entropy(model(batch.x, batch.edge_index)[: batch.batch_size], batch.y)


def made(dataset, device, capture, **model):
    """A model with parameters that are always the same, and a loader of 8 batches, the last of them short."""
    torch.manual_seed(7)
    net = Net(**model).to(device)
    sampler = NeighborSampler(dataset.graph, [4, 3], seed=1, device=device)
    options = {"features": dataset.features, "labels": dataset.labels, "shuffle": True, "seed": 2}
    return net, Loader(sampler, dataset.splits["train"], 32, device=device, capture=capture, **options)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.01)


OPTIMIZERS = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.05),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-3),
    "Adam": adam,
    "fused Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01, fused=True),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.1),
    "AdamW, one by one": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, foreach=False, fused=False),
    "RMSprop": lambda parameters: torch.optim.RMSprop(parameters, lr=0.01),
}


def eager(net, loader, optimizer, epochs, before_step=None, between=lambda epoch, net, optimizer: None):
    """What a user writes without capture."""
    losses = []
    for epoch in range(epochs):
        between(epoch, net, optimizer)
        for batch in loader:
            optimizer.zero_grad()
            loss = loss_of(net, batch)
            loss.backward()
            if before_step is not None:
                before_step(net)
            optimizer.step()
            losses.append(loss.detach())
    return torch.stack(losses).cpu()


def replayed(net, loader, optimizer, epochs, before_step=None, between=lambda epoch, net, optimizer: None):
    """The same, captured; and the steps."""
    steps, losses = capture(net, loss_of, optimizer, loader, before_step=before_step), []
    for epoch in range(epochs):
        between(epoch, net, optimizer)
        losses += [loss for _, loss in steps]
    return torch.stack(losses).cpu(), steps


def both(dataset, device, epochs=5, optimizer=adam, before_step=None, between=lambda epoch, net, optimizer: None, **model):
    """Trains captured and eagerly: losses and parameters are the same to rounding. Gives the steps and the captured model."""
    ended = []
    for captures in (True, False):
        net, loader = made(dataset, device, captures, **model)
        how = optimizer(net.parameters())
        run = replayed if captures else eager
        ended.append((run(net, loader, how, epochs, before_step, between), net))
    ((losses, steps), net), (expected, other) = ended
    torch.testing.assert_close(losses, expected, rtol=1e-4, atol=1e-5)
    for one, true in zip(net.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one, true, rtol=1e-2, atol=1e-3)
    assert steps.steps == 8 * epochs
    return steps, net


class TestOnACPU:
    def test_it_is_a_plain_loop(self, dataset):
        def clip(net):
            nn.utils.clip_grad_norm_(net.parameters(), 0.1)

        ended = []
        for run in (eager, replayed):
            net, loader = made(dataset, "cpu", "auto", dropout=0.3)
            found = run(net, loader, adam(net.parameters()), 2, clip)
            ended.append((found if run is eager else found[0], net.state_dict()))
        (one, state), (other, same) = ended
        assert torch.equal(one, other) and all(torch.equal(state[name], same[name]) for name in state)

    @pytest.mark.parametrize(
        "wrong, said",
        [
            ({"model": "sage"}, "model is a str, but must be a Module"),
            ({"loss": 3}, "loss=3 is no function"),
            ({"loss": None}, "loss=None is no function"),
            ({"optimizer": 0.01}, "optimizer is a float, but must be a Optimizer"),
            ({"loader": 8}, "loader is a int, but must be a Iterable"),
            ({"before_step": 1}, "before_step=1 is no function"),
        ],
    )
    def test_arguments(self, wrong, said):
        net = nn.Linear(1, 1)
        given = {"model": net, "loss": loss_of, "optimizer": adam(net.parameters()), "loader": [], **wrong}
        with pytest.raises(ConfigError, match=said):
            capture(**given)

    def test_a_batch_without_its_padding_is_the_batch(self, dataset):
        sampler = NeighborSampler(dataset.graph, [4, 3], seed=1)
        seeds = dataset.splits["train"][:20]
        sample = sampler.sample(seeds)
        (_, *vertices), (_, *edges) = ends_of(sample).tolist()
        fixed = padded(sample, Envelope((20, *(n + 5 for n in vertices)), tuple(n + 3 for n in edges)))
        x, y = dataset.features.gather(fixed.node), dataset.labels[seeds]
        cut = _without_padding(Batch(fixed, x, y, seeds, buffer=1))
        for name in ("node", "row", "col", "edge"):
            assert torch.equal(getattr(cut.sample, name), getattr(sample, name))
        assert cut.sample.num_sampled_nodes == sample.num_sampled_nodes
        assert cut.sample.num_sampled_edges == sample.num_sampled_edges
        assert cut.buffer is None and torch.equal(cut.x, dataset.features.gather(sample.node)) and torch.equal(cut.y, y)


CHANGES = {
    "momentum of SGD": lambda net, optimizer: optimizer.param_groups[1].update(momentum=0.9),
    "weight_decay of SGD": lambda net, optimizer: optimizer.param_groups[0].update(weight_decay=0.1),
    "training of Sequential": lambda net, optimizer: net.eval(),
    "p of Dropout": lambda net, optimizer: setattr(net[1], "p", 0.2),
    "weight of Linear": lambda net, optimizer: net[0].weight.requires_grad_(False),
    "bias of Linear": lambda net, optimizer: setattr(net[2].bias, "data", torch.zeros(2)),
    "the modules of the model or the groups of the optimizer": lambda net, optimizer: net.append(nn.ReLU()),
    "matmul precision of torch": lambda net, optimizer: torch.set_float32_matmul_precision("high"),
}


class TestWhatAGraphIsOf:
    @pytest.fixture
    def pair(self):
        net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))
        optimizer = torch.optim.SGD([{"params": net[0].parameters()}, {"params": net[2].parameters()}], lr=0.1, momentum=0.5)
        return net, optimizer

    @pytest.mark.parametrize("what", CHANGES)
    def test_it_names_what_changed(self, pair, what):
        precision = torch.get_float32_matmul_precision()
        before = key_of(*pair)
        assert key_of(*pair) == before
        try:
            CHANGES[what](*pair)
            after = key_of(*pair)
        finally:
            torch.set_float32_matmul_precision(precision)
        assert after != before and difference(before, after) == what

    def test_a_group_more(self, pair):
        before = key_of(*pair)
        pair[1].add_param_group({"params": [nn.Parameter(torch.zeros(2))]})
        assert key_of(*pair) != before

    def test_state_that_was_loaded(self, pair):
        net, optimizer = pair
        net(torch.ones(2, 3)).sum().backward()
        optimizer.step()
        before = key_of(*pair)
        state = copy.deepcopy(optimizer.state_dict())
        state["state"][0]["momentum_buffer"] += 1
        optimizer.load_state_dict(state)
        assert key_of(*pair) != before

    def test_a_learning_rate_is_not_part_of_it(self, pair):
        before = key_of(*pair)
        pair[1].param_groups[0]["lr"] = 0.7
        assert key_of(*pair) == before

    def test_groups_are_the_users_after_a_step(self, pair):
        optimizer = torch.optim.Adam(pair[0].parameters(), lr=0.1)
        before = [dict(group) for group in optimizer.param_groups]
        graphed = GraphedOptimizer(optimizer, torch.device("cpu"))
        with graphed.settings():
            (group,) = optimizer.param_groups
            assert (
                group["capturable"] is True
                and isinstance(group["lr"], torch.Tensor)
                and float(group["lr"]) == pytest.approx(0.1)
            )
        assert [dict(group) for group in optimizer.param_groups] == before
        optimizer.param_groups[0]["lr"] = 0.5
        with graphed.settings():
            assert float(optimizer.param_groups[0]["lr"]) == 0.5

    @pytest.mark.parametrize("kind, sees", [(nn.BatchNorm1d, True), (nn.InstanceNorm1d, True), (nn.LayerNorm, False)])
    def test_statistics_over_rows(self, kind, sees):
        net = nn.Sequential(nn.Linear(3, 4), kind(4))
        assert (sees_padding(net) is not None) == sees
        if kind is nn.BatchNorm1d:
            assert "BatchNorm1d takes statistics over all rows" in sees_padding(net)
            assert sees_padding(net.eval()) is None


class TestTrain:
    def test_on_a_cpu_it_trains_eagerly(self, dataset):
        plain, found = (train(dataset, **SMALL, epochs=2, device="cpu", capture=chosen) for chosen in (False, "auto"))
        for name, value in plain.model.state_dict().items():
            assert torch.equal(value, found.model.state_dict()[name])
        for epoch in found.history:
            assert (epoch["batches"], epoch["replayed"], epoch["overflowed"], epoch["padding"]) == (8, 0, 0, 0.0)

    @pytest.mark.parametrize(
        "options, said",
        [
            ({"capture": "yes"}, "capture 'yes' is not one of auto"),
            ({"capture": 2}, "capture 2 is neither True nor False"),
            ({"capture": True, "device": "cpu"}, "CUDA graphs are captured on a GPU"),
            ({"capture": True, "devices": ["cpu", "cpu"]}, "capture=True replays the steps of one device, and 2 train"),
        ],
    )
    def test_what_cannot_be(self, dataset, options, said):
        with pytest.raises(ConfigError, match=said):
            train(dataset, **SMALL, epochs=1, **options)

    def test_an_older_checkpoint_goes_on(self, dataset, tmp_path):
        """One of a run that counted nothing of captured steps."""
        from hinterland.training import checkpoint as checkpoints

        path, options = tmp_path / "c.pt", {**SMALL, "device": "cpu"}
        train(dataset, **options, epochs=1, checkpoint=path)
        state = checkpoints.load(path)
        for name in ("replayed", "overflowed", "rows", "real_rows"):
            del state["totals"]["summed"][name]
        checkpoints.save(path, {name: value for name, value in state.items() if name != "version"})
        assert len(train(dataset, **options, epochs=2, checkpoint=path, resume=True).history) == 2


REFUSED = {
    "a look at a value": lambda net: net.register_forward_hook(lambda net, given, out: out * float(out.sum() * 0 + 1)),
    "numbers of the CPU": lambda net: net.register_forward_hook(lambda net, given, out: out + 0 * torch.rand(1).item()),
    "statistics": lambda net: setattr(net, "between", nn.BatchNorm1d(32).cuda()),
    "a count in Python": lambda net: net.register_forward_pre_hook(
        lambda net, given: setattr(net, "calls", getattr(net, "calls", 0) + 1)
    ),
    "no memory": lambda net: net.register_forward_hook(
        lambda net, given, out: torch.empty(1 << 45, device="cuda") if torch.cuda.is_current_stream_capturing() else None
    ),
}
SAID = {
    "a look at a value": "(?i)captur",
    "numbers of the CPU": "draws random numbers on the CPU",
    "statistics": "BatchNorm1d takes statistics over all rows",
    "a count in Python": "calls of Net changes at each step",
    "no memory": "OutOfMemoryError",
}


@pytest.mark.gpu
class TestOnAGPU:
    @pytest.fixture
    def device(self):
        return torch.device("cuda:0")

    @pytest.fixture(autouse=True)
    def no_warning(self, request):
        """Nothing falls back unsaid; tests of fall-backs catch the warning themselves."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield

    @pytest.mark.parametrize("optimizer", OPTIMIZERS)
    def test_steps_are_those_of_a_plain_loop(self, dataset, device, optimizer):
        steps, _ = both(dataset, device, optimizer=OPTIMIZERS[optimizer])
        assert steps.replayed >= 25 and steps.why_not is None

    def test_a_scheduler(self, dataset, device):
        def warm(epoch, net, optimizer):
            optimizer.param_groups[0]["lr"] = 0.02 / (epoch + 1)

        steps, _ = both(dataset, device, between=warm, optimizer=OPTIMIZERS["momentum"])
        assert steps.replayed >= 25

    def test_a_scheduler_of_torch_at_each_step(self, dataset, device):
        losses = []
        for captures in (True, False):
            net, loader = made(dataset, device, captures)
            optimizer = adam(net.parameters())
            scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
            run, found = capture(net, loss_of, optimizer, loader), []
            for _ in range(4):
                for _, loss in run:
                    scheduler.step()
                    found.append(loss)
            losses.append(torch.stack(found).cpu())
            assert optimizer.param_groups[0]["lr"] == pytest.approx(0.01 * 0.9**32)
            assert (run.replayed > 0) == captures
        torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-5)

    def test_frozen_parameters(self, dataset, device):
        def freeze(epoch, net, optimizer):
            net.first.requires_grad_(epoch < 3 or epoch > 5)

        steps, _ = both(dataset, device, epochs=8, between=freeze, optimizer=OPTIMIZERS["SGD"])
        assert steps.replayed >= 40

    def test_frozen_parameters_stay(self, dataset, device):
        net, loader = made(dataset, device, True)
        steps = capture(net, loss_of, torch.optim.SGD(net.parameters(), lr=0.1), loader)
        for _ in range(3):
            list(steps)
        before, kept = steps.replayed, net.first.weight.detach().clone()
        net.first.requires_grad_(False)
        list(steps), list(steps)
        assert torch.equal(net.first.weight, kept) and steps.replayed > before

    def test_clipping(self, dataset, device):
        def clip(net):
            nn.utils.clip_grad_norm_(net.parameters(), 0.01)

        steps, net = both(dataset, device, before_step=clip, optimizer=OPTIMIZERS["SGD"])
        assert steps.replayed >= 25
        assert torch.cat([p.grad.flatten() for p in net.parameters()]).norm() == pytest.approx(0.01, rel=1e-3)

    def test_other_settings_of_the_optimizer(self, dataset, device):
        def decay(epoch, net, optimizer):
            optimizer.param_groups[0].update(weight_decay=0.3 * (epoch > 2), momentum=0.9 if epoch > 3 else 0.5)

        steps, _ = both(dataset, device, epochs=6, between=decay, optimizer=OPTIMIZERS["momentum"])
        assert steps.replayed >= 25

    def test_evaluation_in_between(self, dataset, device):
        def evaluate(epoch, net, optimizer):
            net.eval()
            with torch.no_grad():
                net(torch.ones(5, 64, device=device), torch.zeros(2, 3, dtype=torch.int64, device=device))
            net.train()

        steps, _ = both(dataset, device, between=evaluate)
        assert steps.replayed >= 25

    def test_gradients_are_those_of_the_step(self, dataset, device):
        net, loader = made(dataset, device, True)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
        steps = capture(net, loss_of, optimizer, loader)
        for _ in range(3):
            for batch, _ in steps:
                found = [p.grad.clone() for p in net.parameters()]
                with torch.no_grad():
                    for p in net.parameters():
                        p += 0.05 * p.grad  # back before the step
                other = copy.deepcopy(net)
                other.zero_grad()
                loss_of(other, batch).backward()
                for one, p in zip(found, other.parameters(), strict=True):
                    torch.testing.assert_close(one, p.grad, rtol=1e-3, atol=1e-5)
                with torch.no_grad():
                    for p, gradient in zip(net.parameters(), found, strict=True):
                        p -= 0.05 * gradient
        assert steps.replayed > 8

    def test_an_optimizer_that_was_loaded(self, dataset, device):
        def load(epoch, net, optimizer):
            if epoch == 3:
                state = copy.deepcopy(optimizer.state_dict())
                for held in state["state"].values():
                    held["exp_avg"] *= 3
                optimizer.load_state_dict(state)

        steps, _ = both(dataset, device, between=load)
        assert steps.replayed >= 25

    def test_autocast_around_the_loop(self, dataset, device):
        """Casts of parameters that the surrounding autocast keeps would be those of an earlier step."""
        net, loader = made(dataset, device, True)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.2)
        steps = capture(net, loss_of, optimizer, loader)
        with torch.autocast("cuda", torch.bfloat16):
            losses = [float(loss) for _ in range(8) for _, loss in steps]
        assert steps.replayed >= 40 and sum(losses[-8:]) < 0.8 * sum(losses[:8])

    def test_dropout_draws_anew(self, dataset, device):
        net, loader = made(dataset, device, True, dropout=0.5)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
        steps, at = capture(net, loss_of, optimizer, loader), {}
        for _ in range(3):
            list(steps)
        position = loader.state_dict()
        for seed in (1, 2, 1):
            loader.load_state_dict(position)
            torch.manual_seed(seed)
            at.setdefault(seed, []).append([float(loss) for _, loss in steps])
        assert at[1][0] == pytest.approx(at[1][1], rel=1e-5) and at[1][0] != pytest.approx(at[2][0], rel=1e-3)
        assert steps.replayed >= 24

    @pytest.mark.parametrize("what", REFUSED)
    def test_what_cannot_be_captured_is_said_and_trained(self, dataset, device, what):
        ended = []
        for captures in (True, False):
            net, loader = made(dataset, device, captures)
            REFUSED[what](net)
            optimizer = adam(net.parameters())
            if not captures:
                ended.append((eager(net, loader, optimizer, 5), net))
                continue
            with pytest.warns(UserWarning, match=SAID[what]) as said:
                losses, steps = replayed(net, loader, optimizer, 5)
            assert len([one for one in said if "are not captured, and run as usual" in str(one.message)]) == 1
            assert steps.replayed == 0 and steps.why_not is not None and not loader.capture
            ended.append((losses, net))
        (losses, net), (expected, other) = ended
        torch.testing.assert_close(losses, expected, rtol=1e-4, atol=1e-5)
        for one, true in zip(net.buffers(), other.buffers(), strict=True):
            torch.testing.assert_close(one, true, rtol=1e-3, atol=1e-3)
        torch.rand(4, device=device)  # the generator draws outside of graphs again
        with torch.cuda.stream(torch.cuda.Stream()):
            assert torch.ones(1 << 20, device=device).sum() == 1 << 20

    def test_an_optimizer_that_counts_in_python(self, dataset, device):
        class Slower(torch.optim.SGD):
            def step(self, closure=None):
                for group in self.param_groups:
                    for p in group["params"]:
                        self.state[p]["calls"] = self.state[p].get("calls", 0) + 1
                return super().step(closure)

        net, loader = made(dataset, device, True)
        with pytest.warns(UserWarning, match="calls of Slower changes at each step"):
            _, steps = replayed(net, loader, Slower(net.parameters(), lr=0.1), 5)
        assert steps.replayed == 0

    def test_what_was_captured_is_let_go(self, dataset, device):
        def run():
            net, loader = made(dataset, device, True)
            steps = capture(net, loss_of, adam(net.parameters()), loader)
            for _ in range(3):
                list(steps)
            assert steps.replayed
            next(iter(steps))  # an epoch that is left early

        run()  # what stays from a first time
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        run()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        assert torch.cuda.memory_allocated() == allocated and torch.cuda.memory_reserved() <= reserved

    def test_an_interruption(self, dataset, device):
        """Ctrl-C in the middle of a capture leaves a model that trains."""
        net, loader = made(dataset, device, True)
        stops = [True]

        def stopped(model, batch):
            if stops and torch.cuda.is_current_stream_capturing():
                stops.clear()
                raise KeyboardInterrupt
            return loss_of(model, batch)

        steps = capture(net, stopped, adam(net.parameters()), loader)
        with pytest.raises(KeyboardInterrupt):
            for _ in range(3):
                list(steps)
        list(steps), list(steps)
        assert steps.replayed > 5 and steps.why_not is None

    def test_a_model_of_pyg(self, dataset, device):
        nn_of_pyg = pytest.importorskip("torch_geometric.nn")

        class Stack(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = nn_of_pyg.SAGEConv(64, 32), nn_of_pyg.SAGEConv(32, 4)

            def forward(self, x, edge_index):
                return self.second(self.first(x, edge_index).relu(), edge_index)

        ended = []
        for captures in (True, False):
            _, loader = made(dataset, device, captures)
            torch.manual_seed(5)
            net = Stack().to(device)
            run = replayed if captures else eager
            ended.append(run(net, loader, adam(net.parameters()), 5))
        (losses, steps), expected = ended
        torch.testing.assert_close(losses, expected, rtol=1e-4, atol=1e-5)
        assert steps.replayed >= 25

    @pytest.mark.parametrize("model", ["sage", "gcn", "gat"])
    def test_train(self, dataset, device, model):
        options = {**SMALL, "dropout": 0.0, "epochs": 5, "device": device}
        found, plain = (train(dataset, model, **options, capture=chosen) for chosen in (True, False))
        for one, other in zip(found.history, plain.history, strict=True):
            assert one["loss"] == pytest.approx(other["loss"], rel=1e-3)
            for name in ("seeds", "vertices", "edges", "bytes", "batches"):
                assert one[name] == other[name]
        assert found.history[-1]["replayed"] >= 7 and 0 < found.history[-1]["padding"] < 0.3
        assert plain.history[-1]["replayed"] == 0 and plain.history[-1]["padding"] == 0
        assert found.test["accuracy"] == pytest.approx(plain.test["accuracy"], abs=0.02)

    def test_by_default(self, dataset, device):
        assert train(dataset, **SMALL, epochs=4, device=device).history[-1]["replayed"] >= 7
        assert train(dataset, "pinsage", **SMALL, epochs=2, device=device).history[-1]["replayed"] == 0

    @pytest.mark.parametrize("stop", [9, 18, 30])
    def test_a_resumed_run_is_the_run(self, dataset, device, tmp_path, monkeypatch, stop):
        """To the bit, on one GPU: the steps of a run are replayed or not, and make the same sums either way."""
        options = {**SMALL, "epochs": 5, "device": device, "checkpoint_every": 3, "capture": True}
        whole = train(dataset, **options, checkpoint=tmp_path / "whole.pt")
        again = train(dataset, **options, checkpoint=tmp_path / "again.pt")
        for name, value in whole.model.state_dict().items():
            assert torch.equal(again.model.state_dict()[name], value)

        class Stopped(Exception):
            pass

        taken, seed_of = [], Loader.seed_of

        def counted(self, *position):
            if len(taken) == stop:
                raise Stopped
            taken.append(position)
            return seed_of(self, *position)

        with monkeypatch.context() as patched:
            patched.setattr(Loader, "seed_of", counted)
            with pytest.raises(Stopped):
                train(dataset, **options, checkpoint=tmp_path / "parts.pt")
        resumed = train(dataset, **options, checkpoint=tmp_path / "parts.pt", resume=True)
        for name, value in whole.model.state_dict().items():
            assert torch.equal(resumed.model.state_dict()[name], value), name
        assert [epoch["loss"] for epoch in resumed.history] == [epoch["loss"] for epoch in whole.history]
        assert resumed.history[-1]["replayed"]

    def test_accuracy(self, device, real_data):
        """On Cora it is that without capture, over five seeds."""
        path = real_data / "cora.npz"
        if not path.exists():
            pytest.skip("no Cora here")
        cora = datasets.largest_component(datasets.open(path))
        cora.splits = datasets.random_splits(cora, 0)
        options = {"fanouts": (10, 10), "hidden": 64, "batch_size": 35, "lr": 0.01, "weight_decay": 5e-3, "epochs": 30}
        found = {
            chosen: [train(cora, **options, seed=seed, device=device, capture=chosen).test["accuracy"] for seed in range(5)]
            for chosen in (True, False)
        }
        mean = {chosen: sum(scores) / len(scores) for chosen, scores in found.items()}
        assert mean[True] == pytest.approx(mean[False], abs=0.015) and mean[True] > 0.7
