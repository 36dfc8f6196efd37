"""Threads that attend, watch and generate at once give the same bits as one after another."""

import threading
import weakref

import pytest
import torch
from models.small import decoder, rows
from watched import Plain, Stack

import transom
from transom.lens.capture import kernel_overrides

ROUNDS = 12


def make_attend(seed, dtype, sizes, **options):
    random = torch.Generator().manual_seed(seed)
    leaves = [torch.randn(size, generator=random).to(dtype).requires_grad_() for size in sizes]

    def run():
        output = transom.attend(*leaves, **options)
        gradients = torch.autograd.grad(output.float().square().sum(), leaves)
        sight = transom.sight(*(x.detach() for x in leaves), at_once=True, **options)
        return [output.detach(), *gradients, sight.entropy(), sight.received(), sight.top(3).weights]

    return run


def make_watch(seed, layers):
    torch.manual_seed(seed)
    model = Stack(*(Plain(d_model=14, heads=2, is_causal=layer % 2 == 0) for layer in range(layers))).eval()
    x = torch.randn(2, 19, 14)

    def run():
        with torch.no_grad(), transom.watch(model) as trace:
            output = model(x)
        assert len(trace) == layers
        return [output, *(x for _, sight in trace.items() for x in (sight.weights(), sight.output, sight.lse))]

    return run


def make_watched_decoder(seed):
    torch.manual_seed(seed)
    model, tokens = decoder(), torch.stack(rows(11, 11))

    def run():
        with torch.no_grad(), transom.watch(model) as trace:
            logits = model(tokens)
        return [logits, *(sight.weights() for _, sight in trace.items())]

    return run


def make_generate(seed):
    torch.manual_seed(seed)
    model, prompts = decoder(), torch.stack(rows(5, 5))

    def run():
        greedy = model.generate(prompts, max_new_tokens=9, do_sample=False)
        return [greedy, model.generate(prompts, max_new_tokens=9, do_sample=True, seed=seed)]

    return run


def tasks():
    """Eight pieces of work that share nothing but the process."""
    small, large = ((1, 2, 3, 5), (1, 2, 7, 5), (1, 2, 7, 5)), ((2, 4, 131, 32), (2, 2, 131, 32), (2, 2, 131, 32))
    return [
        make_attend(1, torch.float32, small, causal=True),
        make_attend(2, torch.float32, large, causal=True),
        make_attend(3, torch.bfloat16, large, allowed=transom.causal() & transom.sliding_window(17)),
        make_watch(4, 3),
        make_watch(5, 5),
        make_watched_decoder(6),
        make_generate(7),
        make_generate(8),
    ]


@pytest.mark.slow
def test_threads_at_once_give_the_bits_of_one_after_another():
    work = tasks()
    alone = [run() for run in work]
    rounds = [[] for _ in work]
    errors = []
    together = threading.Barrier(len(work))

    def keep_running(index):
        try:
            together.wait()
            for _ in range(ROUNDS):
                rounds[index].append(work[index]())
        except Exception as error:
            errors.append((index, error))

    threads = [threading.Thread(target=keep_running, args=(index,)) for index in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=300)
    assert errors == []
    for index, (expected, results) in enumerate(zip(alone, rounds, strict=True)):
        assert len(results) == ROUNDS
        for result in results:
            assert len(result) == len(expected), index
            assert all(torch.equal(x, y) for x, y in zip(result, expected, strict=True)), index


def test_watching_beside_a_thread_keeps_no_more_and_more_wrapped_kernels(monkeypatch):
    """A kernel's wrapper outlives its removal, as another thread may be about to enter it, but not forever."""
    monkeypatch.setattr(kernel_overrides, "KEPT_SECONDS", 0.0)
    made, wrap = [], kernel_overrides.wrap_kernel

    def wrap_and_note(kernel, capture):
        wrapper = wrap(kernel, capture)
        made[-1].append(weakref.ref(wrapper))
        return wrapper

    monkeypatch.setattr(kernel_overrides, "wrap_kernel", wrap_and_note)
    run, done = make_watch(3, 1), threading.Event()
    other = threading.Thread(target=done.wait, daemon=True)
    other.start()
    for _ in range(kernel_overrides.KEPT_REMOVALS + 3):
        made.append([])
        run()
    done.set()
    other.join()
    alive = [all(wrapper() is not None for wrapper in wrappers) for wrappers in made]
    gone = [all(wrapper() is None for wrapper in wrappers) for wrappers in made]
    assert all(made)
    assert gone == [True] * 3 + [False] * kernel_overrides.KEPT_REMOVALS
    assert alive == [not one for one in gone]
