"""Captured steps train as eager ones do; what a replay would not see is seen; what cannot be captured is said, and trained.

Without a GPU something stands for graphs, so that all but CUDA is tried here.
"""

from __future__ import annotations

import copy
import random
import warnings
import weakref

import numpy as np
import pytest
import torch
from torch import nn

from hinterland.runtime.errors import ConfigError
from hinterland.sampling import NeighborSampler
from hinterland.sampling.envelope import Envelope, ends_of
from hinterland.training import Batch, capture
from hinterland.training.capture import _without_padding, sees_padding, unfit
from hinterland.training.capture_key import Held, difference, key_of, modes
from hinterland.training.graphed_optimizer import GraphedOptimizer
from tests.padding import padded

from .captured_steps import OPTIMIZERS, adam, both, eager, loss_of, made, replayed, sgd, stand_in

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def place(device, monkeypatch):
    """A processor where steps are replayed, and nothing falls back."""
    if device.type == "cpu":
        stand_in(monkeypatch)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*(are not captured|without CUDA graphs)")
        yield device


class TestOnACPU:
    def test_it_is_a_plain_loop(self, dataset):
        def clip(net):
            nn.utils.clip_grad_norm_(net.parameters(), 0.1)

        ended = []
        for run in (eager, replayed):
            net, loader = made(dataset, torch.device("cpu"), "auto", dropout=0.3)
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
            ({"ranks": 2}, "ranks is a int, but must be a Ranks"),
            ({"optimizer": torch.optim.LBFGS([nn.Parameter(torch.zeros(1))])}, "optimizer is an LBFGS, .* use another"),
        ],
    )
    def test_arguments(self, wrong, said):
        net = nn.Linear(1, 1)
        given = {"model": net, "loss": loss_of, "optimizer": adam(net.parameters()), "loader": [], **wrong}
        with pytest.raises(ConfigError, match=said):
            capture(**given)

    @pytest.mark.parametrize(
        "gives, said",
        [
            (lambda loss: (loss, 1), "loss gave \\(tensor.*; give a tensor of one number"),
            (lambda loss: None, "loss gave None"),
            (lambda loss: loss.detach(), "loss gave a .*, which has no gradients; .* a parameter that requires_grad"),
            (lambda loss: loss.expand(3), "loss gave a torch.float32 tensor of shape \\(3,\\); give"),
        ],
    )
    def test_what_is_no_loss(self, dataset, gives, said):
        net, loader = made(dataset, torch.device("cpu"), "auto")
        steps = capture(net, lambda model, batch: gives(loss_of(model, batch)), adam(net.parameters()), loader)
        with pytest.raises(ConfigError, match=said):
            list(steps)

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
    "inplace of Dropout": lambda net, optimizer: setattr(net[1], "inplace", True),
    "hooks of Linear": lambda net, optimizer: net[0].register_forward_hook(lambda *_: None),
    "activation of Linear": lambda net, optimizer: setattr(net[2], "activation", torch.relu),
    "p of Dropout": lambda net, optimizer: setattr(net[1], "p", 0.2),
    "hooks of Sequential": lambda net, optimizer: net.register_full_backward_pre_hook(lambda *_: None),
    "hooks of SGD": lambda net, optimizer: optimizer.register_step_post_hook(lambda *_: None),
    "weight of Linear": lambda net, optimizer: net[0].weight.requires_grad_(False),
    "bias of Linear": lambda net, optimizer: setattr(net[2].bias, "data", torch.zeros(2)),
    "the modules of the model or the groups of the optimizer": lambda net, optimizer: net.append(nn.ReLU()),
    "matmul precision of torch": lambda net, optimizer: torch.set_float32_matmul_precision("high"),
}


def whole_key(net, optimizer):
    return [*key_of(net, optimizer), ("torch", modes())]


class TestWhatAGraphIsOf:
    @pytest.fixture
    def pair(self):
        net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))
        optimizer = torch.optim.SGD([{"params": net[0].parameters()}, {"params": net[2].parameters()}], lr=0.1, momentum=0.5)
        return net, optimizer

    @pytest.mark.parametrize("what", CHANGES)
    def test_it_names_what_changed(self, pair, what):
        precision = torch.get_float32_matmul_precision()
        before, held = whole_key(*pair), Held(*pair)
        assert whole_key(*pair) == before and held.same()
        try:
            CHANGES[what](*pair)
            after = whole_key(*pair)
        finally:
            torch.set_float32_matmul_precision(precision)
        assert after != before and difference(before, after) == what
        assert held.same() == (what == "matmul precision of torch")  # no object's

    @pytest.mark.parametrize("register", ["register_hook", "register_post_accumulate_grad_hook"])
    def test_a_hook_of_a_parameter(self, pair, register):
        before = key_of(*pair)
        getattr(pair[0][2].weight, register)(lambda _: None)
        assert difference(before, key_of(*pair)) == "weight of Linear"

    def test_one_more_backward_hook(self, pair):
        pair[0].register_full_backward_hook(lambda *_: None)
        before = key_of(*pair)
        pair[0].register_full_backward_hook(lambda *_: None)
        assert difference(before, key_of(*pair)) == "hooks of Sequential"

    def test_a_group_more(self, pair):
        before, held = key_of(*pair), Held(*pair)
        pair[1].add_param_group({"params": [nn.Parameter(torch.zeros(2))]})
        assert key_of(*pair) != before and not held.same()

    def test_state_that_was_loaded(self, pair):
        net, optimizer = pair
        net(torch.ones(2, 3)).sum().backward()
        optimizer.step()
        before, held = key_of(*pair), Held(*pair)
        assert held.same()
        state = copy.deepcopy(optimizer.state_dict())
        state["state"][0]["momentum_buffer"] += 1
        optimizer.load_state_dict(state)
        assert key_of(*pair) != before and not held.same()

    @pytest.mark.parametrize(
        "change",
        [
            lambda net, optimizer: net.register_buffer("mean", torch.zeros(2)),
            lambda net, optimizer: net[0].register_parameter("scale", nn.Parameter(torch.ones(1))),
            lambda net, optimizer: net[2].load_state_dict({"weight": torch.ones(2, 4), "bias": torch.ones(2)}, assign=True),
            lambda net, optimizer: optimizer.state[net[0].weight].update(momentum_buffer=torch.zeros(4, 3)),
            lambda net, optimizer: setattr(optimizer.state[net[0].weight]["momentum_buffer"], "data", torch.zeros(4, 3)),
            lambda net, optimizer: optimizer.param_groups[0]["params"].pop(),
        ],
    )
    def test_what_lies_elsewhere_is_not_held(self, pair, change):
        net, optimizer = pair
        net(torch.ones(2, 3)).sum().backward()
        optimizer.step()
        held = Held(net, optimizer)
        assert held.same()
        change(net, optimizer)
        assert not held.same()

    def test_what_changes_in_place_is_not_held(self, pair):
        """A count of steps on the CPU, a list, parameters that are not there yet."""
        net, _ = pair
        counted = torch.optim.Adam(net.parameters())
        net(torch.ones(2, 3)).sum().backward()
        assert Held(net, counted).same()
        counted.step()
        assert not Held(net, counted).same()
        listed = torch.optim.SGD(net.parameters())
        listed.param_groups[0]["names"] = ["weight"]
        assert not Held(net, listed).same()
        lazy = nn.LazyLinear(3)
        assert not Held(lazy, torch.optim.SGD(lazy.parameters())).same()

    def test_a_learning_rate_is_not_part_of_it(self, pair):
        before, held = key_of(*pair), Held(*pair)
        pair[1].param_groups[0]["lr"] = 0.7
        assert key_of(*pair) == before and held.same()

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

    def test_counts_of_steps_go_back_to_the_cpu(self):
        class OnGPU(torch.Tensor):
            def cpu(self):
                return self.as_subclass(torch.Tensor)

        first, second = (nn.Parameter(torch.zeros(2)) for _ in range(2))
        optimizer = torch.optim.Adam([{"params": [first]}, {"params": [second], "capturable": True}])
        for parameter in (first, second):
            optimizer.state[parameter]["step"] = torch.tensor(3.0).as_subclass(OnGPU)
        GraphedOptimizer(optimizer, torch.device("cpu")).undo()
        assert type(optimizer.state[first]["step"]) is torch.Tensor and optimizer.state[first]["step"] == 3
        assert type(optimizer.state[second]["step"]) is OnGPU  # as its user wants it

    def test_replicas(self):
        said = unfit(nn.Sequential(nn.DataParallel(nn.Linear(3, 4))))
        assert "DataParallel, whose replicas wait for each other" in said and "ranks= to average gradients" in said
        assert unfit(nn.Linear(3, 4)) is None

    @pytest.mark.parametrize("kind, sees", [(nn.BatchNorm1d, True), (nn.InstanceNorm1d, True), (nn.LayerNorm, False)])
    def test_statistics_over_rows(self, kind, sees):
        net = nn.Sequential(nn.Linear(3, 4), kind(4))
        assert (sees_padding(net) is not None) == sees
        if kind is nn.BatchNorm1d:
            assert "BatchNorm1d takes statistics over all rows" in sees_padding(net)
            assert sees_padding(net.eval()) is None

    @pytest.mark.parametrize(
        "kind, sees", [("GraphNorm", True), ("PairNorm", True), ("LayerNorm", True), ("MessageNorm", False)]
    )
    def test_statistics_of_pyg(self, kind, sees):
        layers = pytest.importorskip("torch_geometric.nn")
        net = nn.Sequential(getattr(layers, kind)() if kind in ("PairNorm", "MessageNorm") else getattr(layers, kind)(4))
        assert (sees_padding(net) is not None) == sees
        if kind == "LayerNorm":
            assert sees_padding(layers.LayerNorm(4, mode="node")) is None


class TestSteps:
    @pytest.mark.parametrize("optimizer", ["SGD", "momentum"])
    def test_they_are_those_of_a_plain_loop(self, dataset, place, optimizer):
        both(dataset, place, optimizer=OPTIMIZERS[optimizer])

    def test_a_scheduler_of_torch_at_each_step(self, dataset, place):
        losses = []
        for captures in (True, False):
            net, loader = made(dataset, place, captures)
            optimizer = (sgd if place.type == "cpu" else adam)(net.parameters())
            scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
            run, found = capture(net, loss_of, optimizer, loader), []
            for _ in range(4):
                for _, loss in run:
                    scheduler.step()
                    found.append(loss)
            losses.append(torch.stack(found).cpu())
            assert optimizer.param_groups[0]["lr"] == pytest.approx((0.05 if place.type == "cpu" else 0.01) * 0.9**32)
            assert (run.replayed > 0) == captures
        torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-5)

    def test_frozen_parameters(self, dataset, place):
        def freeze(epoch, net, optimizer):
            net.first.requires_grad_(epoch < 3 or epoch > 5)

        both(dataset, place, epochs=8, least=40, between=freeze)

    @pytest.mark.parametrize("nesterov", [False, True])
    def test_parameters_that_learn_later(self, dataset, place, monkeypatch, nesterov):
        """Fused SGD of torch fails where they have no momentum yet and others do."""
        if place.type == "cpu":
            monkeypatch.setattr(GraphedOptimizer, "_fuses", lambda self, group: True)

        def thaw(epoch, net, optimizer):
            net.first.requires_grad_(epoch > 2)

        def momentum(parameters):
            return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, nesterov=nesterov)

        both(dataset, place, epochs=5, between=thaw, optimizer=momentum)

    def test_clipping(self, dataset, place):
        def clip(net):
            nn.utils.clip_grad_norm_(net.parameters(), 0.01)

        net = both(dataset, place, before_step=clip)
        norm = float(torch.cat([p.grad.flatten() for p in net.parameters()]).norm())  # approx() takes no tensor of a GPU
        assert norm == pytest.approx(0.01, rel=1e-3)

    def test_other_settings_of_the_optimizer(self, dataset, place):
        def decay(epoch, net, optimizer):
            optimizer.param_groups[0].update(weight_decay=0.3 * (epoch > 2), momentum=0.9 if epoch > 3 else 0.5)

        both(dataset, place, epochs=6, between=decay)

    def test_a_group_that_a_step_adds(self, dataset, place):
        net, loader = made(dataset, place, True)
        optimizer = torch.optim.SGD(net.first.parameters(), lr=0.1)
        late = list(net.second.parameters())

        def thaws(model):
            if late:
                optimizer.add_param_group({"params": [late.pop()], "lr": 0.05})

        steps = capture(net, loss_of, optimizer, loader, before_step=thaws)
        for _ in range(4):
            list(steps)
        assert steps.replayed > 15 and [group["lr"] for group in optimizer.param_groups] == [0.1, 0.05, 0.05]

    def test_evaluation_in_between(self, dataset, place):
        def evaluate(epoch, net, optimizer):
            net.eval()
            with torch.no_grad():
                net(torch.ones(5, 64, device=place), torch.zeros(2, 3, dtype=torch.int64, device=place))
            net.train()

        both(dataset, place, between=evaluate)

    def test_an_optimizer_that_counts_in_python(self, dataset, place):
        class Slower(torch.optim.SGD):
            def step(self, closure=None):
                for group in self.param_groups:
                    for p in group["params"]:
                        self.state[p]["calls"] = self.state[p].get("calls", 0) + 1
                return super().step(closure)

        net, loader = made(dataset, place, True)
        with pytest.warns(UserWarning, match="calls of Slower changes at each step"):
            _, steps = replayed(net, loader, Slower(net.parameters(), lr=0.1), 5)
        assert steps.replayed == 0


def hooked(makes):
    """What the model gives goes through ``makes``."""
    return lambda net: net.register_forward_hook(lambda net, given, out: makes(out))


ON_CPU = "draws random numbers on the CPU"
REFUSED = {  # what is done to a model, and what is said of it
    "a look at a value": (
        hooked(lambda out: out * float((torch.rand(3, device=out.device).sum() + out.detach().sum()) * 0 + 1)),
        "run as usual: [A-Za-z]*Error: ",
    ),
    "numbers of the CPU": (hooked(lambda out: out + 0 * torch.rand(1).item()), ON_CPU),
    "numbers of Python": (hooked(lambda out: out + 0 * random.random()), ON_CPU),
    "numbers of NumPy": (hooked(lambda out: out + 0 * np.random.rand()), ON_CPU),
    "statistics": (
        lambda net: setattr(net, "between", nn.BatchNorm1d(32).to(net.first.weight.device)),
        "BatchNorm1d takes statistics over all rows",
    ),
    "sparse gradients": (
        lambda net: setattr(net, "vectors", nn.Embedding(3, 2, sparse=True, device=net.first.weight.device)),
        "gradients of an Embedding with sparse=True",
    ),
    "a count in Python": (
        lambda net: net.register_forward_pre_hook(lambda net, given: setattr(net, "calls", getattr(net, "calls", 0) + 1)),
        "calls of Net changes at each step",
    ),
    "no memory": (
        hooked(lambda out: torch.empty(1 << 45, device="cuda") if torch.cuda.is_current_stream_capturing() else None),
        "OutOfMemoryError",
    ),
}


@pytest.mark.parametrize("what", [what for what in REFUSED if what not in ("a look at a value", "no memory")])
def test_what_cannot_be_captured_is_said_and_trained(dataset, place, what):
    said_and_trained(dataset, place, *REFUSED[what])


def said_and_trained(dataset, place, changes, says):
    ended = []
    for captures in (True, False):
        net, loader = made(dataset, place, captures)
        changes(net)
        optimizer = sgd(net.parameters())
        if not captures:
            ended.append((eager(net, loader, optimizer, 5), net))
            continue
        with pytest.warns(UserWarning, match=says) as said:
            losses, steps = replayed(net, loader, optimizer, 5)
        assert len([one for one in said if "are not captured, and run as usual" in str(one.message)]) == 1
        assert steps.replayed == 0 and steps.why_not is not None and not loader.capture
        ended.append((losses, net))
    (losses, net), (expected, other) = ended
    torch.testing.assert_close(losses, expected, rtol=1e-4, atol=1e-5)
    for one, true in zip(net.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(one, true, rtol=1e-3, atol=1e-3)
    torch.rand(4, device=place)  # the generator draws outside of graphs again
    assert place.type == "cpu" or torch.cuda.current_stream() == torch.cuda.default_stream()


@pytest.mark.gpu
class TestOnAGPU:
    @pytest.fixture
    def device(self):
        return torch.device("cuda:0")

    @pytest.mark.parametrize("optimizer", OPTIMIZERS)
    def test_steps_are_those_of_a_plain_loop(self, dataset, place, optimizer):
        both(dataset, place, optimizer=OPTIMIZERS[optimizer])

    def test_an_optimizer_that_was_loaded(self, dataset, place):
        def load(epoch, net, optimizer):
            if epoch == 3:
                state = copy.deepcopy(optimizer.state_dict())
                for held in state["state"].values():
                    held["momentum_buffer"] *= 3
                optimizer.load_state_dict(state)

        both(dataset, place, between=load)

    def test_autocast_around_the_loop(self, dataset, place):
        """Casts of parameters that the surrounding autocast keeps would be those of an earlier step."""
        net, loader = made(dataset, place, True)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.2)
        steps = capture(net, loss_of, optimizer, loader)
        with torch.autocast("cuda", torch.bfloat16):
            losses = [float(loss) for _ in range(8) for _, loss in steps]
        assert steps.replayed >= 40 and sum(losses[-8:]) < 0.8 * sum(losses[:8])

    def test_dropout_draws_anew(self, dataset, place):
        net, loader = made(dataset, place, True, dropout=0.5)
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

    def test_what_was_captured_is_let_go(self, dataset, place):
        def run():
            net, loader = made(dataset, place, True)
            steps = capture(net, loss_of, adam(net.parameters()), loader)
            for _ in range(3):
                list(steps)
            assert steps.replayed
            next(iter(steps))  # an epoch that is left early
            return weakref.ref(net), weakref.ref(steps)

        run()  # what stays from a first time
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        run()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        # What samplers find wrong in replays is kept for ever, some KiB of each graph; a pool that is held is many MiB.
        assert torch.cuda.memory_allocated() - allocated < 256 << 10
        assert torch.cuda.memory_reserved() - reserved <= 4 << 20
        assert [one() for one in run()] == [None, None]

    @pytest.mark.parametrize("what", ["a look at a value", "no memory"])
    def test_a_capture_that_fails_is_said_and_training_goes_on(self, dataset, place, what):
        said_and_trained(dataset, place, *REFUSED[what])

    def test_counts_of_steps_where_steps_are_not_captured(self, dataset, place):
        net, loader = made(dataset, place, True)
        changes, says = REFUSED["no memory"]
        changes(net)
        optimizer = adam(net.parameters())
        with pytest.warns(UserWarning, match=says):
            replayed(net, loader, optimizer, 2)
        assert all(state["step"].is_cpu for state in optimizer.state.values())

    def test_an_interruption(self, dataset, place):
        """Ctrl-C in the middle of a capture leaves a model that trains."""
        net, loader = made(dataset, place, True)
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

    def test_gradients_are_those_of_the_step(self, dataset, place):
        net, loader = made(dataset, place, True)
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
