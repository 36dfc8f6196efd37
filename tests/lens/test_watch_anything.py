"""Watching breaks nothing that runs unwatched: nested tensors, threads, compilers, exceptions, generators."""

import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from watched import Plain, Stack, run_twice

import transom

torch.manual_seed(47)
X = torch.randn(3, 5, 14)


def split(x):
    return x.unflatten(-1, (2, 7)).transpose(-3, -2)


def merge(x):
    return x.transpose(1, 2).flatten(2)


class Nested(nn.Module):
    """Sequences of 5, 3 and 5 tokens in a nested tensor."""

    def __init__(self, layout):
        super().__init__()
        self.layout = layout

    def forward(self, x):
        rows = [x[0], x[1][:3], x[2]]
        if self.layout == torch.jagged:
            heads = torch.nested.nested_tensor([row.unflatten(-1, (2, 7)) for row in rows], layout=torch.jagged)
            heads = heads.transpose(1, 2)
        else:
            heads = torch.nested.nested_tensor([split(row) for row in rows])
        output = F.scaled_dot_product_attention(heads, heads, heads)
        return torch.cat([row.transpose(0, 1).flatten(1) for row in output.unbind()])


@pytest.mark.filterwarnings("ignore:.*nested tensors is in prototype")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_run_as_unwatched_and_are_seen(layout):
    plain, watched, trace = run_twice(Nested(layout), X)
    assert torch.equal(plain, watched)
    assert trace[0].shape == (3, 2, 5, 5)
    assert trace[0].receipt().holds
    assert (trace[0].weights(batch=1, rows=[3, 4]) == 0).all(), "padding"
    scores = split(X) @ split(X).mT / 7**0.5
    scores[1, :, :, 3:] = -torch.inf
    expected = scores.softmax(-1)
    expected[1, :, 3:] = 0
    assert torch.allclose(trace[0].weights(), expected, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*nested tensors is in prototype")
def test_nested_tensors_cannot_be_cut_and_say_so(own_errors):
    model = Nested(torch.strided)
    with pytest.raises(transom.Misfit) as caught, transom.knock_out(model, key=0):
        model(X)
    assert str(caught.value) == (
        "edges of '(model)' were to be knocked out, but its attention is computed in a form that cannot be cut; knock"
        ' out other layers with layer=…, or load the model with attn_implementation="sdpa"'
    )


class Threaded(nn.Module):
    """Each of its layers runs in another thread."""

    def __init__(self, start):
        super().__init__()
        self.start, self.layers = start, nn.ModuleList(Plain() for _ in range(3))

    def forward(self, x):
        return sum(self.start([lambda layer=layer: layer(x) for layer in self.layers]))


def in_threads(tasks):
    results = [None] * len(tasks)
    threads = [
        threading.Thread(target=lambda index=index: results.__setitem__(index, tasks[index]()))
        for index in range(len(tasks))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def in_new_pool(tasks):
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda task: task(), tasks))


def in_another_pool(tasks):
    with ThreadPool(2) as pool:
        return pool.map(lambda task: task(), tasks)


@pytest.mark.parametrize("start", [in_threads, in_new_pool, in_another_pool])
def test_attention_in_threads_that_the_model_starts_is_seen(start):
    model = Threaded(start)
    with torch.no_grad():
        plain, watched, trace = run_twice(model, X)
    assert torch.equal(plain, watched)
    assert sorted(trace.names) == ["layers.0", "layers.1", "layers.2"]
    assert all(sight.receipt().holds for sight in trace)


def test_a_pool_that_outlives_the_block_is_nobodys():
    with ThreadPoolExecutor(1) as pool:
        model = Threaded(lambda tasks: [pool.submit(task).result() for task in tasks])
        with transom.watch(model) as trace:
            model(X)
            pool.submit(model.layers[0], X).result()
        model(X)
    assert len(trace) == 3, "what others hand to the pool is not the model's"
    assert threading.Thread.start.__module__ == ThreadPoolExecutor.submit.__module__.replace(
        "concurrent.futures.thread", "threading"
    )


def test_two_threads_watch_one_model_each_its_own_runs():
    model, both = Stack(Plain(), Plain()), threading.Barrier(2)

    def run(count):
        with transom.watch(model) as trace:
            both.wait()
            for _ in range(count):
                model(X)
            both.wait()
        return len(trace)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(run, [3, 7])) == [6, 14]


class Written(nn.Module):
    """Attention by hand."""

    def forward(self, x):
        weights = (split(x) @ split(x).mT).exp()
        return merge(weights / weights.sum(-1, keepdim=True) @ split(x))


def compile_it(model):
    torch._dynamo.reset()
    return torch.compile(model, backend="eager")


WAYS = {
    "jit.trace": lambda model: torch.jit.trace(model, X),
    "export": lambda model: torch.export.export(model, (X,)).module(),
    "compile": compile_it,
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("layer", [Plain, Written])
def test_models_are_traced_exported_and_compiled_inside_the_block_and_run_as_before(way, layer):
    model = Stack(Plain(), layer()).eval()
    with torch.no_grad():
        plain = model(X)
        with transom.watch(model):
            model(X)
            changed = WAYS[way](model)
            assert torch.allclose(changed(X), plain, atol=1e-6)
        assert torch.allclose(changed(X), plain, atol=1e-6), "and after it"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("layer", [Plain, Written])
def test_a_model_that_was_traced_by_jit_is_watched(layer):
    model = torch.jit.trace(Stack(Plain(), layer()).eval(), X)
    with torch.no_grad():
        plain = model(X)
        with transom.watch(model) as trace:
            assert torch.equal(model(X), plain)
    assert trace.names
    assert not trace.unseen


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("layer", [Plain, Written])
def test_checkpointing_keeps_gradients_and_names(layer, reentrant):
    model, gradients = Stack(layer(), layer()), []
    for watched in (False, True):
        x = X.clone().requires_grad_()
        if watched:
            with transom.watch(model) as trace:
                checkpoint(model, x, use_reentrant=reentrant).sum().backward()
        else:
            checkpoint(model, x, use_reentrant=reentrant).sum().backward()
        gradients.append(x.grad)
    assert torch.equal(*gradients)
    assert trace.names == ["layers.0", "layers.1"]
    assert all(sight.receipt().holds for sight in trace)


class Broken(nn.Module):
    """Fails between its softmax and its values."""

    def forward(self, x):
        self.weights = (split(x) @ split(x).mT).softmax(-1)
        raise KeyError("broken")


def test_an_exception_inside_attention_by_hand_leaves_the_next_run_alone():
    model = Stack(Written(), Broken())
    with transom.watch(model, unseen="allow") as trace:
        with pytest.raises(KeyError):
            model(X)
        model.layers[0](X)
    assert [len(trace.all(name)) for name in ("layers.0", "layers.1")] == [2, 1]
    assert trace["layers.1"].receipt().unproved, "its softmax ran, and its values never came"


def test_a_generator_that_is_driven_from_outside_is_seen():
    class Stepping(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([Plain(), Written()])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
                yield x

    model = Stepping()
    plain = list(model(X))
    with transom.watch(model) as trace:
        watched = list(model(X))
    assert all(torch.equal(x, y) for x, y in zip(plain, watched, strict=True))
    assert trace.names == ["layers.0", "layers.1"]


def test_several_watchers_of_one_run_each_get_all_of_it():
    model = Stack(Plain(), Written())
    with (
        transom.watch(model) as outer,
        transom.watch(model.layers[1]) as inner,
        transom.watch(model, layers=0) as first,
    ):
        model(X)
    assert (outer.names, inner.names, first.names) == (["layers.0", "layers.1"], ["(model)"], ["layers.0"])
    assert torch.equal(outer[1].weights(), inner[0].weights())
