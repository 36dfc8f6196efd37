"""Which engine solves what, and what is said when it cannot; forks, torch.func, torch.compile."""

import ctypes
import os
import subprocess
import sys

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import transom
from transom.equations.attention import default_scale
from transom.equations.masks import Causal, Mask
from transom.kernels import dispatch, native_engine, native_library, torch_engine
from transom.kernels.native_args import to_native_args, why_unsupported
from transom.kernels.native_library import NativeLibrary
from transom.kernels.problem import build_problem

needed = pytest.mark.skipif(
    not isinstance(native_library.library_or_reason(), NativeLibrary), reason="the native engine is not built here"
)
REAL = torch.rand(2, 41, generator=torch.Generator().manual_seed(3)) < 0.7
BIAS = torch.zeros(2, 1, 37, 41)


def tensors():
    random = torch.Generator().manual_seed(5)
    return tuple(torch.randn(2, *size, generator=random) for size in ((6, 37, 19), (3, 41, 19), (3, 41, 23)))


REFUSED = {
    "torch.float64": lambda Q, K, V: build_problem(Q.double(), K.double(), V.double()),
    "axes of size 0": lambda Q, K, V: build_problem(Q, K[:, :, :0], V[:, :, :0]),
    "tensors on meta": lambda Q, K, V: build_problem(Q.to("meta"), K.to("meta"), V.to("meta")),
    "a bias that learns": lambda Q, K, V: build_problem(Q, K, V, bias=BIAS.clone().requires_grad_()),
    "a bias that is the same for all keys": lambda Q, K, V: build_problem(Q, K, V, bias=BIAS[..., :1]),
    "documents of two kinds joined by |": lambda Q, K, V: build_problem(
        Q, K, V, transom.same_document(torch.arange(41)) | transom.same_document(torch.arange(41))
    ),
    "masks joined by | that leave a gap between them": lambda Q, K, V: build_problem(
        Q, K, V, Causal(start=-9) | transom.sliding_window(2)
    ),
    "a mask of kind Checkered": lambda Q, K, V: build_problem(Q, K, V, transom.causal() & Checkered()),
}


class Checkered(Mask):
    def materialize(self, block):
        return ((block.query_positions() + block.key_positions()) % 2 == 0)[None, None]


@needed
@pytest.mark.parametrize("what", REFUSED)
def test_what_it_does_not_do_is_named(what, monkeypatch):
    monkeypatch.setenv("TRANSOM_ENGINE", "native")
    problem = REFUSED[what](*tensors())
    assert why_unsupported(problem) == what
    with pytest.raises(transom.Misfit) as error:
        dispatch.solve(problem)
    assert str(error.value) == (
        f"TRANSOM_ENGINE is native, but the native engine does not do {what};"
        " with auto such attention goes to the torch engine"
    )


@needed
def test_torch_func_is_left_to_torch(monkeypatch):
    monkeypatch.setenv("TRANSOM_ENGINE", "auto")
    Q, K, V = (x.expand(3, 2, *x.shape[1:]) for x in (x[:1] for x in tensors()))
    found = torch.vmap(transom.attend)(Q, K, V)
    assert torch.allclose(found[0], transom.attend(Q[0], K[0], V[0]), atol=1e-5)


LEFT_TO_TORCH = {
    None: torch.zeros(1, 8, 97, 64),
    "fewer than 8 queries": torch.zeros(1, 64, 7, 64),
    "half precision, in which torch is as fast if no gradients are needed": torch.zeros(1, 8, 97, 64).bfloat16(),
    "an attention so small that the call costs most": torch.zeros(1, 1, 97, 64),
    "torch.float64": torch.zeros(1, 8, 97, 64).double(),
}


@needed
@pytest.mark.parametrize("why", LEFT_TO_TORCH, ids=str)
def test_auto_takes_the_native_engine_where_it_is_faster(why, monkeypatch):
    monkeypatch.setenv("TRANSOM_ENGINE", "auto")
    Q = LEFT_TO_TORCH[why]
    problem = build_problem(Q, Q, Q)
    assert dispatch.why_torch(problem) == why
    assert dispatch.choose_engine(problem) is (native_engine.solve if why is None else torch_engine.solve)


@needed
def test_half_precision_that_learns_is_native(monkeypatch):
    """torch's way back in half precision takes several times as long."""
    monkeypatch.setenv("TRANSOM_ENGINE", "auto")
    Q = torch.zeros(1, 8, 97, 64).bfloat16().requires_grad_()
    assert dispatch.choose_engine(build_problem(Q, Q, Q)) is native_engine.solve
    with torch.no_grad():
        assert dispatch.choose_engine(build_problem(Q, Q, Q)) is torch_engine.solve


FORKED = """
import os, torch, transom
torch.set_num_threads(2)
Q, K, V = torch.randn(3, 2, 4, 131, 17)
first = transom.attend(Q, K, V, causal=True)
child = os.fork()
if child == 0:
    os._exit(0 if torch.equal(transom.attend(Q, K, V, causal=True), first) else 3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""

INTERRUPTED = """
import os, signal, threading, torch, transom
from transom.kernels import native_library
native_library.PRODUCTS_AT_ONCE = 2**24
Q, K, V = torch.randn(3, 1, 2, 2048, 32)
first = transom.attend(Q, K, V)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job is born deaf to it
turns, run = [], native_library.chunk_units
native_library.chunk_units = lambda *given: (turns.append(turn) or turn for turn in run(*given))
threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    while True:
        transom.attend(Q, K, V)
except KeyboardInterrupt:
    pass
assert len(turns) > 1
assert torch.equal(transom.attend(Q, K, V), first)
"""

LEAN = """
import sys, torch, transom
Q, K, V = (torch.randn(2, 3, 37, 19, requires_grad=True) for _ in range(3))
transom.attend(Q, K, V, causal=True).sum().backward()
assert "torch._dynamo" not in sys.modules
"""

COMPILED = """
import torch, transom
Q, K, V = (torch.randn(2, 3, 37, 19, requires_grad=True) for _ in range(3))
attend = lambda *qkv: transom.attend(*qkv, causal=True)
compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
assert torch.equal(compiled(Q, K, V), attend(Q, K, V))
of = [torch.autograd.grad(x.square().sum(), (Q, K, V)) for x in (compiled(Q, K, V), attend(Q, K, V))]
assert all(torch.equal(mine, its) for mine, its in zip(*of))
"""

COMPILED_ONCE = """
import torch, transom
graphs = []
def counted(graph, inputs):
    graphs.append(graph)
    return graph.forward
def attend(Q, K, V, real, ids):
    return transom.attend(Q, K, V, transom.padding(real) & transom.same_document(ids), causal=True)
compiled = torch.compile(attend, fullgraph=True, dynamic=True, backend=counted)
for batch, tokens in ((2, 37), (3, 61), (5, 97)):
    Q, K, V = torch.randn(3, batch, 4, tokens, 19)
    given = (Q, K, V, torch.rand(batch, tokens) < 0.9, torch.arange(tokens) // 11)
    assert torch.equal(compiled(*given), attend(*given))
assert len(graphs) == 1
"""

EXPORTED = """
import io, torch, transom
class Looks(torch.nn.Module):
    def forward(self, Q, K, V, real):
        return transom.attend(Q, K, V, transom.padding(real), causal=True, softcap=20.0)
def inputs(batch, tokens):
    return (*torch.randn(3, batch, 4, tokens, 19), torch.rand(batch, tokens) < 0.9)
batch, tokens = torch.export.Dim("batch", max=64), torch.export.Dim("tokens", max=4096)
shapes = ({0: batch, 2: tokens},) * 3 + ({0: batch, 1: tokens},)
program = torch.export.export(Looks(), inputs(2, 37), dynamic_shapes=shapes)
assert [str(node.target) for node in program.graph.nodes].count("transom.attention.default") == 1
file = io.BytesIO()
torch.export.save(program, file)
file.seek(0)
loaded = torch.export.load(file).module()
for sizes in ((2, 37), (3, 61), (5, 7)):
    given = inputs(*sizes)
    assert torch.equal(loaded(*given), Looks()(*given))
"""


@needed
@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [FORKED, INTERRUPTED, LEAN, COMPILED, COMPILED_ONCE, EXPORTED],
    ids=[
        "a forked process goes on alone",
        "an interrupt is answered",
        "uncompiled, it does not load the compiler",
        "compiled, it is one graph",
        "compiled for any sizes, it is one graph",
        "exported, saved and loaded, it is one operator",
    ],
)
def test_in_a_process_of_its_own(code):
    """Where neither the threads of the tests nor their shape checks are in the way."""
    environment = {**os.environ, "TRANSOM_ENGINE": "native"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_engine_or_instruction_set_is_named(monkeypatch):
    monkeypatch.setenv("TRANSOM_ENGINE", "fast")
    with pytest.raises(transom.Misfit) as error:
        transom.attend(*tensors())
    assert str(error.value) == (
        "TRANSOM_ENGINE must be one of torch, native, auto, but it is 'fast'; leave it unset for auto"
    )
    monkeypatch.setenv("TRANSOM_ISA", "sse9")
    assert native_library.find_library() == "TRANSOM_ISA must be one of avx512, avx2, generic, and it is 'sse9'"


@needed
@pytest.mark.parametrize("name", ["ForwardResult", "Operation"])
def test_a_library_built_from_other_sources_is_not_called(name, monkeypatch):
    monkeypatch.delenv("TRANSOM_ISA", raising=False)
    assert isinstance(native_library.find_library(), NativeLibrary)
    fields = (*getattr(native_library, name)._fields_, ("more", ctypes.c_int64))
    monkeypatch.setattr(native_library, name, type("Larger", (ctypes.Structure,), {"_fields_": fields}))
    assert native_library.find_library() == "it was built from other sources than these; pip install builds it anew"
    assert not native_library.layout_matches(ctypes.CDLL(None))


def test_a_library_without_our_functions_is_not_called(monkeypatch, tmp_path):
    """As one is that was left over from before its functions were renamed."""
    monkeypatch.delenv("TRANSOM_ISA", raising=False)
    monkeypatch.setattr(native_library, "FOLDER", tmp_path)
    (tmp_path / "generic.so").symlink_to(torch._C.__file__)
    assert native_library.find_library() == "it was built from other sources than these; pip install builds it anew"


def test_without_a_library_native_says_so_and_auto_goes_on(monkeypatch, tmp_path):
    monkeypatch.setattr(native_library, "FOLDER", tmp_path)
    monkeypatch.delenv("TRANSOM_ISA", raising=False)
    missing = native_library.find_library()
    monkeypatch.setattr(native_library, "library_or_reason", lambda: missing)
    monkeypatch.setenv("TRANSOM_ENGINE", "auto")
    assert transom.attend(*tensors()).shape == (2, 6, 37, 23)
    monkeypatch.setenv("TRANSOM_ENGINE", "native")
    with pytest.raises(transom.Misfit) as error:
        transom.attend(*tensors())
    assert str(error.value) == (
        "the native engine was asked for, but it is not built here; pip install builds it where there is a C++"
        " compiler; TRANSOM_ENGINE=torch works everywhere"
    )


@needed
def test_tensors_that_are_made_up_go_through_the_operators(monkeypatch):
    monkeypatch.setenv("TRANSOM_ENGINE", "native")
    with FakeTensorMode():
        Q, K, V = torch.empty(2, 6, 37, 19), torch.empty(2, 3, 41, 19), torch.empty(2, 3, 41, 23)
        found = transom.attend(Q.bfloat16(), K.bfloat16(), V.bfloat16(), causal=True)
    assert (type(found).__name__, found.shape, found.dtype) == ("FakeTensor", (2, 6, 37, 23), torch.bfloat16)


@needed
def test_the_operators_take_the_native_arguments_one_by_one():
    """The schema is on file in exported programs: names, types and order stay."""
    Q, K, V = tensors()
    args = to_native_args(build_problem(Q, K, V, transom.sliding_window(3), softcap=3.0))
    assert args.tensors == (None,) * 8
    assert args.numbers == (4 + 3, 4 - 2, default_scale(19), 3.0, 0.0, 0)
    assert str(torch.ops.transom.attention.default._schema) == (
        "transom::attention(Tensor Q, Tensor K, Tensor V, Tensor? real, Tensor? documents, Tensor? given, Tensor? bias,"
        " Tensor? by_distance, Tensor? either_real, Tensor? either_documents, Tensor? reaches, SymInt ahead,"
        " SymInt behind, float scale, float softcap, float dropout, SymInt seed) -> (Tensor, Tensor)"
    )
    assert str(torch.ops.transom.attention_backward.default._schema) == (
        "transom::attention_backward(Tensor Q, Tensor K, Tensor V, Tensor output, Tensor lse, Tensor of_output,"
        " Tensor? real, Tensor? documents, Tensor? given, Tensor? bias, Tensor? by_distance, Tensor? either_real,"
        " Tensor? either_documents, Tensor? reaches, SymInt ahead, SymInt behind, float scale, float softcap,"
        " float dropout, SymInt seed) -> (Tensor, Tensor, Tensor)"
    )


@needed
@pytest.mark.slow
def test_the_operators_keep_torchs_rules(monkeypatch):
    monkeypatch.setenv("TRANSOM_ENGINE", "native")
    Q, K, V = (x[:1, :, :7].detach().requires_grad_() for x in tensors())
    problem = build_problem(Q, K, V, causal=True)
    rest = to_native_args(problem)
    torch.library.opcheck(torch.ops.transom.attention.default, (Q, K, V, *rest))
    with torch.no_grad():
        output, lse = torch.ops.transom.attention(Q, K, V, *rest)
        given = (Q, K, V, output, lse, torch.ones_like(output), *rest)
        checks = ("test_schema", "test_faketensor")
        torch.library.opcheck(torch.ops.transom.attention_backward.default, given, test_utils=checks)


@needed
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Input #. requires gradient and is not a double precision")
def test_the_operators_gradients_are_finite_differences(monkeypatch):
    """In float32, which is all it takes: steps large enough to be seen, and so a coarse comparison."""
    monkeypatch.setenv("TRANSOM_ENGINE", "native")
    Q, K, V = (x[:1, :, :7, :5].detach().requires_grad_() for x in tensors())
    problem = build_problem(Q, K, V, transom.sliding_window(3) | transom.padding(torch.arange(7) < 2), softcap=3.0)
    rest = to_native_args(problem)

    def output(*qkv):
        return torch.ops.transom.attention(*qkv, *rest)[0]

    assert torch.autograd.gradcheck(output, (Q, K, V), eps=1e-2, atol=2e-3, rtol=1e-2)
