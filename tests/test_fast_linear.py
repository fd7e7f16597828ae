"""FastLinear is `nn.Linear`, whatever route its products take."""

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from vanilla_transformer import fast_linear
from vanilla_transformer.fast_linear import (
    FastLinear,
    multiply_transposed,
    onednn_is_exact,
    takes_onednn,
)

needs_onednn = pytest.mark.skipif(not onednn_is_exact(), reason="this torch has no exact oneDNN")

# The same values [6, 4, 8] as a program may bring them: each with other strides.
MEMORY_LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "width first": lambda x: x.permute(2, 0, 1).contiguous().permute(1, 2, 0),
    "every other value": lambda x: torch.stack((x, x), dim=-1).flatten(-2)[..., ::2],
    "somewhere in a buffer": lambda x: torch.cat((x.new_ones(3), x.flatten()))[3:].view(x.shape),
    "one word repeated": lambda x: x[:1, :1].expand(x.shape),
    "one number repeated": lambda x: x[:1, :1, :1].expand(x.shape),
}


class Operators(TorchDispatchMode):
    """Notes the name of every operator that torch runs."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))

    @property
    def onednn_products(self):
        return sum(name.startswith("mkldnn.") for name in self.names)


class Wrapped(torch.Tensor):
    """A tensor that is more than its numbers, as a DTensor is."""


def twin_of(linear):
    """The `nn.Linear` with the same weights."""
    has_bias = linear.bias is not None
    twin = nn.Linear(
        linear.in_features, linear.out_features, bias=has_bias, dtype=linear.weight.dtype
    )
    twin.load_state_dict(linear.state_dict())
    for ours, theirs in zip(linear.parameters(), twin.parameters(), strict=True):
        theirs.requires_grad_(ours.requires_grad)
    return twin


def results_of(module, inputs, upstream=None):
    """The output, and the gradient of the input and of every weight: None where none is wanted."""
    module.zero_grad()
    inputs = inputs.detach().requires_grad_(inputs.requires_grad)
    output = module(inputs)
    if output.requires_grad:
        output.backward(torch.ones_like(output) if upstream is None else upstream)
    return [output.detach(), inputs.grad, *(weight.grad for weight in module.parameters())]


def root_mean_square(values):
    return values.double().square().mean().sqrt()


def assert_same(ours, theirs, **tolerance):
    for our, their in zip(ours, theirs, strict=True):
        assert (our is None) == (their is None)
        if our is not None:
            torch.testing.assert_close(our, their, **tolerance)


@given(
    shape=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    widths=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    bias=st.booleans(),
)
def test_output_and_all_gradients_equal_torch(shape, widths, bias):
    linear = FastLinear(*widths, bias=bias)
    inputs = torch.randn(*shape, widths[0], requires_grad=True)
    upstream = torch.randn(*shape, widths[1])

    ours = results_of(linear, inputs, upstream)

    assert_same(ours, results_of(twin_of(linear), inputs, upstream), rtol=1e-4, atol=1e-5)


def test_a_single_vector_needs_no_batch():
    linear, vector = FastLinear(8, 4), torch.randn(8, requires_grad=True)

    assert_same(results_of(linear, vector), results_of(twin_of(linear), vector))


@pytest.mark.parametrize("rearrange", MEMORY_LAYOUTS.values(), ids=MEMORY_LAYOUTS)
def test_inputs_may_lie_anyhow_in_memory(rearrange):
    linear, inputs = FastLinear(8, 5), rearrange(torch.randn(6, 4, 8)).requires_grad_()

    assert_same(results_of(linear, inputs), results_of(twin_of(linear), inputs.contiguous()))


@pytest.mark.parametrize("rearrange", MEMORY_LAYOUTS.values(), ids=MEMORY_LAYOUTS)
def test_incoming_gradients_may_lie_anyhow_in_memory(rearrange):
    linear, inputs = FastLinear(5, 8), torch.randn(6, 4, 5, requires_grad=True)
    upstream = rearrange(torch.randn(6, 4, 8))

    ours = results_of(linear, inputs, upstream)

    assert_same(ours, results_of(twin_of(linear), inputs, upstream.contiguous()))


@pytest.mark.parametrize("frozen_input", [True, False])
@pytest.mark.parametrize("frozen", [(), ("weight",), ("bias",), ("weight", "bias")])
def test_what_is_frozen_gets_no_gradient(frozen, frozen_input):
    linear, inputs = FastLinear(8, 4), torch.randn(3, 8, requires_grad=not frozen_input)
    for name in frozen:
        getattr(linear, name).requires_grad_(False)

    assert_same(results_of(linear, inputs), results_of(twin_of(linear), inputs))


def test_inputs_of_another_width_are_refused_with_both_shapes():
    with pytest.raises(RuntimeError, match="5x7 and 8x4"):
        FastLinear(8, 4)(torch.randn(5, 7))


@needs_onednn
def test_a_training_step_is_three_products_in_onednn():
    linear, inputs = FastLinear(8, 4), torch.randn(3, 8, requires_grad=True)

    with Operators() as seen:
        linear(inputs).sum().backward()

    assert seen.onednn_products == 3


@needs_onednn
@pytest.mark.parametrize("frozen", ["input", "weight"])
def test_no_product_is_spent_on_a_gradient_that_nobody_wants(frozen):
    linear, inputs = FastLinear(8, 4), torch.randn(3, 8, requires_grad=frozen != "input")
    linear.weight.requires_grad_(frozen != "weight")

    with Operators() as seen:
        linear(inputs).sum().backward()

    assert seen.onednn_products == 2


@pytest.fixture(params=["highest", "high", "medium"])
def matmul_precision(request):
    """What a program may have asked of float32 products; on some processors it means bfloat16."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(request.param)
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(
    "sizes", [(2000, 512, 512), (7, 512, 8000), (300, 4096, 64), (1, 64, 64), (777, 33, 129)]
)
def test_float32_is_as_exact_as_torch_makes_it(sizes, matmul_precision):
    rows, width, outputs = sizes
    linear, inputs = FastLinear(width, outputs), torch.randn(rows, width, requires_grad=True)
    upstream = torch.randn(rows, outputs)
    exact = results_of(twin_of(linear).double(), inputs.double(), upstream.double())
    torchs = results_of(twin_of(linear), inputs, upstream)
    ours = results_of(linear, inputs, upstream)

    for our, their, truth in zip(ours, torchs, exact, strict=True):
        error, usual = root_mean_square(our - truth), root_mean_square(their - truth)
        assert error <= 4 * usual + 1e-7 * root_mean_square(truth)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_precisions_are_left_to_torch(dtype):
    linear, inputs = FastLinear(32, 16).to(dtype), torch.randn(5, 32, dtype=dtype)
    inputs.requires_grad_()

    ours = results_of(linear, inputs)

    assert_same(ours, results_of(twin_of(linear), inputs), rtol=0, atol=0)


def test_autocast_is_left_to_torch():
    linear, inputs = FastLinear(32, 16), torch.randn(5, 32, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        ours, theirs = results_of(linear, inputs), results_of(twin_of(linear), inputs)

    assert ours[0].dtype == torch.bfloat16
    assert_same(ours, theirs, rtol=0, atol=0)


def test_a_region_without_autocast_is_true_float32():
    linear, inputs = FastLinear(32, 16), torch.randn(5, 32)
    with torch.autocast("cpu", torch.bfloat16), torch.autocast("cpu", enabled=False):
        output = linear(inputs)

    torch.testing.assert_close(output, twin_of(linear)(inputs))


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_without_gradients_the_output_is_the_same(context):
    linear, inputs = FastLinear(8, 4), torch.randn(3, 8)
    with context():
        output = linear(inputs)

    assert not output.requires_grad
    torch.testing.assert_close(output, linear(inputs).detach())


def test_compiled_whole_it_gives_the_same():
    linear, inputs = FastLinear(8, 4), torch.randn(3, 8, requires_grad=True)
    compiled = torch.compile(linear, fullgraph=True, backend="aot_eager")

    assert_same(results_of(compiled, inputs), results_of(linear, inputs))


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(torch.jit.trace, marks=pytest.mark.filterwarnings("ignore")),
        lambda linear, inputs: torch.export.export(linear, (inputs,)).module(),
    ],
    ids=["traced", "exported"],
)
def test_recorded_it_needs_no_operator_of_onednn(record):
    linear, inputs = FastLinear(8, 4), torch.randn(3, 8)
    recorded = record(linear, inputs)
    with Operators() as seen:
        output = recorded(inputs)

    assert seen.onednn_products == 0
    torch.testing.assert_close(output, linear(inputs))


def test_it_can_be_called_with_the_weights_of_another():
    linear, other, inputs = FastLinear(8, 4), FastLinear(8, 4), torch.randn(3, 8)

    output = torch.func.functional_call(linear, dict(other.named_parameters()), (inputs,))

    torch.testing.assert_close(output, other(inputs))


def sample_gradients(linear, inputs):
    def loss(weights, sample):
        return torch.func.functional_call(linear, weights, (sample,)).square().sum()

    weights = {name: weight.detach() for name, weight in linear.named_parameters()}
    return torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, inputs)["weight"]


@pytest.mark.parametrize(
    "transform",
    [
        lambda linear, inputs: torch.func.vmap(linear)(inputs),
        lambda linear, inputs: torch.func.jvp(linear, (inputs,), (inputs,))[1],
        lambda linear, inputs: torch.func.jacrev(linear)(inputs),
        lambda linear, inputs: torch.func.jacfwd(linear)(inputs),
        sample_gradients,
    ],
    ids=["vmap", "jvp", "jacrev", "jacfwd", "gradients of each sample"],
)
def test_function_transforms_see_a_plain_linear_layer(transform):
    linear, inputs = FastLinear(8, 4), torch.randn(3, 2, 8)

    torch.testing.assert_close(transform(linear, inputs), transform(twin_of(linear), inputs))


def test_a_second_derivative_is_refused_rather_than_wrong():
    linear, inputs = FastLinear(8, 4), torch.randn(3, 8, requires_grad=True)
    (gradient,) = torch.autograd.grad(linear(inputs).square().sum(), inputs, create_graph=True)

    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.square().sum().backward()


def test_a_copy_is_equal_and_independent():
    linear, inputs = FastLinear(8, 4), torch.randn(3, 8)
    twin = copy.deepcopy(linear)
    same = torch.equal(twin(inputs), linear(inputs))
    with torch.no_grad():
        twin.weight.zero_()

    assert same
    assert not torch.equal(twin(inputs), linear(inputs))


def test_parametrized_weights_train():
    linear, inputs = FastLinear(8, 4), torch.randn(3, 8, requires_grad=True)
    twin = twin_of(linear)
    for module in (linear, twin):
        nn.utils.parametrizations.weight_norm(module)

    assert_same(results_of(linear, inputs), results_of(twin, inputs))


@pytest.mark.parametrize("what", ["weight", "inputs"])
def test_tensors_that_are_more_than_numbers_are_left_to_torch(what):
    linear, inputs = FastLinear(8, 4), torch.randn(3, 8)
    expected = linear(inputs).detach()
    if what == "weight":
        linear.weight = nn.Parameter(linear.weight.detach().as_subclass(Wrapped))
    else:
        inputs = inputs.as_subclass(Wrapped)
    with Operators() as seen:
        output = linear(inputs)

    assert seen.onednn_products == 0
    assert isinstance(output, Wrapped)
    torch.testing.assert_close(output.detach().as_subclass(torch.Tensor), expected)


@pytest.mark.filterwarnings("ignore:TF32 acceleration")  # it warns of Intel GPUs, which nobody has
def test_switching_onednn_off_changes_no_result():
    linear, inputs = FastLinear(8, 4), torch.randn(3, 8, requires_grad=True)
    with torch.backends.mkldnn.flags(enabled=False):
        ours, theirs = results_of(linear, inputs), results_of(twin_of(linear), inputs)

    assert_same(ours, theirs)


def test_it_saves_and_loads_as_a_linear_layer_of_torch():
    linear, twin = FastLinear(8, 4), nn.Linear(8, 4)
    twin.load_state_dict(linear.state_dict())
    linear.load_state_dict(twin.state_dict())

    assert isinstance(linear, nn.Linear)
    assert torch.equal(linear.weight, twin.weight)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_a_product_with_a_transposed_matrix_equals_matmul(dtype, transposed):
    left, right = torch.randn(9, 16, dtype=dtype), torch.randn(5, 16, dtype=dtype)
    if transposed[0]:
        left = left.t().contiguous().t()
    if transposed[1]:
        right = right.t().contiguous().t()

    torch.testing.assert_close(multiply_transposed(left, right), left @ right.t())


def missing(*args):
    raise AttributeError("'_OpNamespace' 'mkldnn' object has no attribute '_linear_pointwise'")


def unfit(*args):
    raise RuntimeError("mkldnn_linear: weight and bias should be mkldnn layout")


def imprecise(inputs, weight, bias, *args):
    product = functional.linear(inputs.bfloat16(), weight.bfloat16())
    return product.float() if bias is None else product.float() + bias


@pytest.fixture(params=[missing, unfit, imprecise, "torch without oneDNN"])
def bad_onednn(request, monkeypatch):
    """A torch whose oneDNN is absent or no good, and a probe that has not looked yet."""
    if callable(request.param):
        monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", request.param)
    else:
        monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    onednn_is_exact.cache_clear()
    yield
    onednn_is_exact.cache_clear()


def test_the_probe_notices_a_bad_onednn(bad_onednn):
    assert not onednn_is_exact()


def test_with_a_bad_onednn_all_products_are_left_to_torch(bad_onednn):
    linear, inputs = FastLinear(32, 16), torch.randn(5, 32, requires_grad=True)
    upstream = torch.randn(5, 16)

    ours = results_of(linear, inputs, upstream)

    assert not takes_onednn(inputs, linear.weight)
    assert_same(ours, results_of(twin_of(linear), inputs, upstream), rtol=0, atol=0)
    assert torch.equal(multiply_transposed(upstream.t(), inputs.t()), upstream.t() @ inputs)


def test_the_probe_looks_once(monkeypatch):
    onednn_is_exact.cache_clear()
    first = onednn_is_exact()
    monkeypatch.setattr(fast_linear.torch.ops.mkldnn, "_linear_pointwise", missing)

    assert onednn_is_exact() == first


def test_a_product_takes_its_layer_s_place_in_one_thread_only():
    layer, rows = FastLinear(4, 3), torch.randn(2, 5, 4)
    expected = layer(rows)

    with fast_linear.laid_out_linears({layer: lambda flat: flat.new_ones(len(flat), 3)}):
        inside = layer(rows)
        with ThreadPoolExecutor() as pool:
            elsewhere = pool.submit(layer, rows).result()

    assert inside.equal(torch.ones(2, 5, 3))
    assert elsewhere.equal(expected)
    assert layer(rows).equal(expected)
