"""Who competes, at which sizes, and how much arithmetic the task itself asks for.

Everybody trains the same model: shared and tied embeddings, sinusoidal positions, post-norm layers,
ReLU, dropout 0.1 on sub-layer outputs and embeddings, none elsewhere. One thing differs: MarianMT's
own loss is the plain negative log-likelihood, the others smooth their labels by 0.1, which is more
work.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torch import nn
from transformers import MarianConfig, MarianMTModel

from benchmarks.batches import Pair
from benchmarks.torch_nn_model import TorchTransformer
from vanilla_transformer import VanillaTransformerConfig, VanillaTransformerForConditionalGeneration

DROPOUT = 0.1
LABEL_SMOOTHING = 0.1


@dataclass(frozen=True)
class Size:
    """One model size; source, target and projection share the vocabulary."""

    d_model: int
    ffn_dim: int
    layers: int
    heads: int
    vocab_size: int

    def config_fields(self) -> dict[str, Any]:
        """Give the fields that our configuration and MarianMT's share, names and all."""
        return {
            "vocab_size": self.vocab_size,
            "d_model": self.d_model,
            "encoder_layers": self.layers,
            "decoder_layers": self.layers,
            "encoder_attention_heads": self.heads,
            "decoder_attention_heads": self.heads,
            "encoder_ffn_dim": self.ffn_dim,
            "decoder_ffn_dim": self.ffn_dim,
            "dropout": DROPOUT,
            "attention_dropout": 0.0,
            "activation_dropout": 0.0,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 1,
        }

    def training_flops(self, pairs: Iterable[Pair]) -> float:
        """Count what one training step must compute for these sentences, padding left out.

        A weight costs 2 FLOPs a token forward and 4 backward. Encoder layers, and the keys and
        values of cross-attention, see source tokens, all else target tokens. Two positions
        that look at each other cost 4 d_model forward (score and weighted sum) and 8 backward;
        in the decoder's self-attention only the causal half of them do.
        """
        square, feed_forward = self.d_model**2, 2 * self.d_model * self.ffn_dim
        source_weights = self.layers * (4 * square + feed_forward + 2 * square)
        target_weights = self.layers * (4 * square + feed_forward + 2 * square)
        target_weights += self.d_model * self.vocab_size
        flops = 0
        for source, target in pairs:
            looks = source * source + target * (target + 1) // 2 + source * target
            flops += 6 * (source_weights * source + target_weights * target)
            flops += 12 * self.d_model * self.layers * looks
        return flops

    def decoding_flops(self, pairs: Iterable[Pair], beams: int) -> float:
        """Count what translating these sentences must compute, padding left out.

        A weight costs 2 FLOPs a token: the encoder's, and those of cross-attention's keys and
        values, once a source token, all others once a beam of a target token. Two positions that
        look at each other cost 4 d_model a layer.
        """
        square, feed_forward = self.d_model**2, 2 * self.d_model * self.ffn_dim
        source_weights = self.layers * (4 * square + feed_forward + 2 * square)
        target_weights = self.layers * (4 * square + feed_forward + 2 * square)
        target_weights += self.d_model * self.vocab_size
        flops = 0
        for source, target in pairs:
            looks = source * source + beams * (target * (target + 1) // 2 + source * target)
            flops += 2 * (source_weights * source + target_weights * target * beams)
            flops += 4 * self.d_model * self.layers * looks
        return flops


# 10,000 words suit Multi30k, the corpus for tiny models; 32,000 are usual on WMT.
SIZES = {
    "tiny": Size(d_model=128, ffn_dim=256, layers=4, heads=4, vocab_size=10_000),
    "small": Size(d_model=256, ffn_dim=1024, layers=3, heads=4, vocab_size=32_000),
    "base": Size(d_model=512, ffn_dim=2048, layers=6, heads=8, vocab_size=32_000),
}


def build_ours(size: Size, **changes: Any) -> VanillaTransformerForConditionalGeneration:
    """Build this package's model, with changes to what is timed."""
    fields = {**size.config_fields(), "label_smoothing": LABEL_SMOOTHING, **changes}
    return VanillaTransformerForConditionalGeneration(VanillaTransformerConfig(**fields))


def _build_marian(size: Size, attn_implementation: str) -> nn.Module:
    config = MarianConfig(
        **size.config_fields(),
        decoder_vocab_size=size.vocab_size,
        activation_function="relu",
        scale_embedding=True,
        forced_eos_token_id=None,
        attn_implementation=attn_implementation,
    )
    return MarianMTModel(config)


def build_marian(size: Size) -> nn.Module:
    """Build MarianMT as it comes, with sdpa attention."""
    return _build_marian(size, "sdpa")


def build_marian_eager(size: Size) -> nn.Module:
    """Build MarianMT with explicit attention scores."""
    return _build_marian(size, "eager")


def build_torch_nn(size: Size) -> nn.Module:
    """Build the model of `torch.nn` layers."""
    return TorchTransformer(
        vocab_size=size.vocab_size,
        d_model=size.d_model,
        ffn_dim=size.ffn_dim,
        layers=size.layers,
        heads=size.heads,
        dropout=DROPOUT,
    )


OURS, REFERENCE = "ours", "MarianMT"

CONTESTANTS: dict[str, Callable[[Size], nn.Module]] = {
    OURS: build_ours,
    REFERENCE: build_marian,
    "MarianMT-eager": build_marian_eager,
    "torch.nn": build_torch_nn,
}
