"""The training benchmark: real lengths, equal work for every contestant, honest arithmetic."""

import math
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import agreement, comparison, machine, memory, report, training
from benchmarks.batches import (
    BATCH_KINDS,
    EOS,
    TOKENS_PER_BATCH,
    Pair,
    collate,
    count_tokens,
    make_batches,
    make_sentences,
    read_lengths,
    real_share,
    sample_lengths,
)
from benchmarks.comparison import Comparison, Round, Setting, Trainee, enough_after, time_rounds
from benchmarks.contestants import CONTESTANTS, OURS, REFERENCE, SIZES, Size, build_ours
from benchmarks.marian_twin import marian_twin
from benchmarks.torch_nn_model import TorchTransformer

DATA = Path(__file__).parents[2] / "shared/data"
MINIATURE = Size(d_model=16, ffn_dim=32, layers=2, heads=4, vocab_size=100)
PAIRS = [Pair(5, 7), Pair(3, 3), Pair(9, 4), Pair(6, 6)]


@pytest.fixture
def batch() -> dict[str, torch.Tensor]:
    return collate(make_sentences(PAIRS, MINIATURE.vocab_size))


@pytest.fixture
def miniature(monkeypatch):
    """Every size is tiny enough for a test, and every process is this one."""
    threads = torch.get_num_threads()
    for name in SIZES:
        monkeypatch.setitem(SIZES, name, MINIATURE)
    monkeypatch.setattr(machine, "PEAK_SHAPES", [(64, 64, 64)])
    monkeypatch.setattr(training, "run_alone", lambda function, *args: function(*args))
    monkeypatch.setattr(memory, "run_alone", lambda function, name, *args: 1 + len(name))
    yield
    torch.set_num_threads(threads)


def torch_twin(model):
    """The `torch.nn` contestant with the weights of ours."""
    size, weights = MINIATURE, model.state_dict()
    twin = TorchTransformer(
        size.vocab_size, size.d_model, size.ffn_dim, size.layers, size.heads, dropout=0.0
    )
    renamed = {"embedding.weight": weights["model.shared.weight"]}
    modules = {"self_attn": "self_attn", "encoder_attn": "multihead_attn"}
    others = {"fc1": "linear1", "fc2": "linear2", "self_attn_layer_norm": "norm1"}
    for stack, last in (("encoder", "norm2"), ("decoder", "norm3")):
        names = others | {"encoder_attn_layer_norm": "norm2", "final_layer_norm": last}
        for layer in range(size.layers):
            ours, theirs = f"model.{stack}.layers.{layer}", f"transformer.{stack}.layers.{layer}"
            for kind in ("weight", "bias"):
                for name, other in names.items():
                    if f"{ours}.{name}.{kind}" in weights:
                        renamed[f"{theirs}.{other}.{kind}"] = weights[f"{ours}.{name}.{kind}"]
                for name, other in modules.items():
                    if f"{ours}.{name}.q_proj.{kind}" in weights:
                        projected = [weights[f"{ours}.{name}.{p}_proj.{kind}"] for p in "qkv"]
                        renamed[f"{theirs}.{other}.in_proj_{kind}"] = torch.cat(projected)
                        out = weights[f"{ours}.{name}.out_proj.{kind}"]
                        renamed[f"{theirs}.{other}.out_proj.{kind}"] = out
    twin.load_state_dict(renamed)
    return twin


def made_up_comparison(loop: str = "plain") -> Comparison:
    seconds = [(1.0, 4.0, 2.0), (1.0, 2.0, 2.0), (2.0, 6.0, 3.0)]
    rounds = [
        Round(PAIRS, dict(zip([OURS, REFERENCE, "torch.nn"], each, strict=True)))
        for each in seconds
    ]
    return Comparison(Setting("tiny", "fp32", "random", 1, loop), rounds, gemm_peak=1e9)


def cells(table: str) -> list[list[str]]:
    return [line.strip("|").split("|") for line in table.splitlines()]


def test_a_long_word_counts_more_than_a_short_one():
    assert count_tokens("A gardener.") == 4  # two words, a full stop, the end
    assert count_tokens("A landscape-gardener.") == 6
    assert count_tokens("A landschaftsgärtner.") == 5


@pytest.mark.parametrize("kind", BATCH_KINDS)
def test_a_batch_holds_every_pair_at_most_once(kind):
    lengths = sample_lengths()
    used = [pair for pairs in BATCH_KINDS[kind](lengths) for pair in pairs]
    assert all(used.count(pair) <= lengths.count(pair) for pair in set(used))
    assert len(used) > 0.95 * len(lengths)


def test_random_batches_have_32_sentences():
    assert {len(pairs) for pairs in BATCH_KINDS["random"](sample_lengths())} == {32}


def test_bucketed_batches_are_full_but_never_above_their_tokens():
    for pairs in BATCH_KINDS["bucketed"](sample_lengths()):
        positions = len(pairs) * max(map(max, pairs))
        assert TOKENS_PER_BATCH * 0.9 < positions <= TOKENS_PER_BATCH


def test_bucketed_batches_hold_less_padding_than_random_ones():
    lengths = sample_lengths()
    shares = {kind: real_share(make(lengths)) for kind, make in BATCH_KINDS.items()}
    assert shares["random"] < 0.55 < 0.8 < shares["bucketed"]


@pytest.mark.skipif(not DATA.is_dir(), reason="the parallel text is not there")
def test_sampled_lengths_are_like_the_real_ones():
    real, sampled = read_lengths(DATA), sample_lengths()
    for side in range(2):
        means = [sum(pair[side] for pair in pairs) / len(pairs) for pairs in (real, sampled)]
        assert means[0] == pytest.approx(means[1], rel=0.05)
    shares = [real_share(BATCH_KINDS["random"](pairs)) for pairs in (real, sampled)]
    assert shares[0] == pytest.approx(shares[1], abs=0.05)


@pytest.mark.parametrize("kind", BATCH_KINDS)
def test_the_first_batches_speak_for_all(kind):
    def longest(pairs):
        return max(map(max, pairs))

    batches = make_batches(kind, sample_lengths())
    ranked = sorted(map(longest, BATCH_KINDS[kind](sample_lengths())))
    count = len(ranked)
    ranks = [count // 2, count // 4, 3 * count // 4]
    assert [longest(pairs) for pairs in batches[:3]] == [ranked[rank] for rank in ranks]
    assert sorted(map(longest, batches)) == ranked


def test_padding_is_on_the_right_and_outside_mask_and_labels(batch):
    for row, pair in enumerate(PAIRS):
        assert batch["attention_mask"][row].tolist() == [1] * pair.source + [0] * (9 - pair.source)
        assert batch["input_ids"][row, pair.source - 1] == EOS
        assert batch["labels"][row, pair.target - 1] == EOS
        assert (batch["labels"][row, pair.target :] == -100).all()
        assert (batch["labels"][row, : pair.target] > 0).all()


def test_all_contestants_have_equally_many_weights():
    counts = {
        name: sum(
            weight.numel() for weight in build(MINIATURE).parameters() if weight.requires_grad
        )
        for name, build in CONTESTANTS.items()
    }
    assert len(set(counts.values())) == 1, counts


@pytest.mark.parametrize("attn_implementation", ["sdpa", "eager"])
def test_the_marian_twin_has_our_likelihood(batch, attn_implementation):
    ours = build_ours(MINIATURE).eval()
    twin = marian_twin(ours, attn_implementation)
    assert not twin.training
    torch.testing.assert_close(ours(**batch).loss, twin(**batch).loss, rtol=0, atol=1e-5)


def test_the_torch_contestant_has_our_smoothed_loss(batch):
    ours = build_ours(MINIATURE, dropout=0.0).train()
    twin = torch_twin(ours)
    torch.testing.assert_close(ours(**batch).loss, twin(**batch).loss, rtol=0, atol=1e-5)


def test_the_torch_contestant_drops_only_what_the_paper_drops(batch):
    model = CONTESTANTS["torch.nn"](MINIATURE).train()
    for module in model.transformer.modules():
        assert getattr(module, "dropout", 0.0) == 0.0 or module.dropout.p == 0.0
    assert model(**batch).loss != model(**batch).loss


def test_losses_and_gradients_agree_with_the_padded_reference():
    assert agreement.check_agreement(MINIATURE, PAIRS) <= agreement.TOLERANCE


@pytest.mark.parametrize("difference", [1.0, math.nan])
def test_a_different_model_is_not_timed(monkeypatch, difference):
    monkeypatch.setattr(agreement, "largest_difference", lambda *args, **changes: (0.0, difference))
    with pytest.raises(ValueError, match="padded reference"):
        agreement.check_agreement(MINIATURE, PAIRS)


def test_the_arithmetic_counted_is_what_a_batch_without_padding_needs():
    source, target, sentences = 6, 7, 3
    pairs = [Pair(source, target)] * sentences
    marian = CONTESTANTS["MarianMT-eager"](MINIATURE)
    with FlopCounterMode(display=False) as counter:
        marian(**collate(make_sentences(pairs, MINIATURE.vocab_size)))
    # Marian computes the future half of the decoder's scores too, and then hides it.
    hidden_pairs = sentences * (target**2 - target * (target + 1) // 2)
    hidden = 4 * MINIATURE.d_model * MINIATURE.layers * hidden_pairs
    assert MINIATURE.training_flops(pairs) == 3 * (counter.get_total_flops() - hidden)


def test_a_ratio_is_the_median_of_the_rounds():
    compared = made_up_comparison()
    assert compared.ratio(OURS, REFERENCE) == 3.0
    assert compared.ratio(REFERENCE, OURS) == pytest.approx(1 / 3)
    assert compared.tokens_per_second(OURS) == 3 * 20 / 4.0


def test_rounds_stop_early_only_when_time_is_up():
    one = Round(PAIRS, {OURS: 1.0})
    assert enough_after(2, 99.0)([one] * 2)
    assert enough_after(None, 3.0)([one] * comparison.FEWEST_ROUNDS)
    assert not enough_after(None, 99.0)([one] * comparison.FEWEST_ROUNDS)
    assert not enough_after(None, 3.0)([one] * (comparison.FEWEST_ROUNDS + 1))
    assert enough_after(None, 99.0)([one] * comparison.MOST_ROUNDS)


def test_nobody_is_timed_after_the_precision_was_lowered(monkeypatch, miniature):
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "medium")
    trainees = {OURS: Trainee(OURS, "tiny", "fp32")}
    with pytest.raises(RuntimeError, match="'highest', got 'medium'"):
        time_rounds(trainees, [PAIRS], MINIATURE.vocab_size, lambda: 0.0, enough_after(1, 0.0))


@pytest.mark.parametrize("dtype", comparison.DTYPES)
@pytest.mark.parametrize("name", CONTESTANTS)
def test_a_step_changes_every_weight(miniature, batch, name, dtype):
    trainee = Trainee(name, "tiny", dtype)
    weights = {
        key: weight for key, weight in trainee.model.named_parameters() if weight.requires_grad
    }
    before = {key: weight.detach().clone() for key, weight in weights.items()}
    trainee.step(batch)
    trainee.step(batch)
    unchanged = {key for key in weights if torch.equal(before[key], weights[key])}
    # In bf16 a step of 1e-4 is too small for a layer norm's 1.0.
    assert not {key for key in unchanged if "norm" not in key}
    assert all(weight.grad is None for weight in weights.values())


def test_a_fresh_process_counts_weights_gradients_and_moments():
    peak = machine.run_alone(memory.training_peak, REFERENCE, "tiny", "fp32", [PAIRS], 1)
    weights = sum(weight.numel() for weight in CONTESTANTS[REFERENCE](SIZES["tiny"]).parameters())
    assert peak > 4 * 4 * weights


def test_every_table_row_has_a_cell_for_every_column():
    plain, in_trainer = [made_up_comparison()], [made_up_comparison("Trainer")]
    peaks = [memory.MemoryPeaks("base", "fp32", "random", {OURS: 2**20, REFERENCE: 2**21})]
    for table in (
        report.speed_table(plain),
        report.trainer_table(in_trainer, plain),
        report.memory_table(peaks),
    ):
        assert len({len(row) for row in cells(table)}) == 1
    assert " 3.00 " in report.speed_table(plain)
    assert cells(report.trainer_table(in_trainer, plain))[-1][-1].strip() == "1.00"
    assert cells(report.memory_table(peaks))[-1][-1].strip() == "0.50"


@pytest.mark.parametrize("arguments", [["--threads", "0"], ["--rounds", "0"], ["--sizes", "huge"]])
def test_impossible_options_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as refusal:
        training.parse_options(arguments)
    assert refusal.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def test_explicit_options_win_over_quick_ones():
    options = training.parse_options(["--quick", "--sizes", "base"])
    assert (options.sizes, options.rounds, options.memory) == (["base"], 2, False)


def test_one_command_writes_tables_and_chart(miniature, tmp_path, capsys):
    arguments = ["--sizes", "tiny", "--threads", "1", "--rounds", "1", "--trainer"]
    arguments += ["--batches", "random", "--data", str(tmp_path), "--output", str(tmp_path)]
    training.main(arguments)
    printed = capsys.readouterr().out
    assert printed.strip() in (tmp_path / "RESULTS.md").read_text()
    assert printed.count("| tiny | fp32 | 32 random |") == 3  # plain, in Trainer, memory
    assert str(tmp_path) not in printed
    assert (tmp_path / "training.png").stat().st_size > 0
