"""The weights that everybody decodes with: random, but they copy the source, its end included.

Random weights repeat one word until the limit, or stop anywhere. Training would cost minutes, so a
few weights are set by hand: the first head of the decoder's first cross-attention looks at its own
position in the source, copies what it can of the word there, and with a pair of features tells
whether it is the end. So a target is as long as its source, and never ends if that has no end.
Words and sub-layers leave alone the features for this: they hold what the positions put there.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from benchmarks.batches import EOS, FIRST_WORD
from benchmarks.contestants import Size, build_ours

# The slowest sines are nought at every position: two tell of the end, by their difference, and one
# shows what layer norm has taken from all features.
ENDS_HERE, GOES_ON_HERE, NOUGHT = -2, -4, -6

# The end token's embedding, what is written where the source goes on and where it
# ends, and the weight of the last norm: the end token is all but impossible or certain, while
# nothing else drowns, in int8 neither.
FLAG, GOES_ON, ENDS, LOUDER = 0.2, -6.0, 40.0, 16.0
COPY = 20.0  # how much louder than the word before is the source's word
SHARPNESS = 160.0  # the score of the head's own position; that of its neighbours is 0.8 of it
CALMER = 0.2  # sub-layers, so that positions do not fade from norm to norm
CONFIDENT = 2.0  # logits, so that the search is as sure of itself as a trained model's
PROBES, PROBE_LENGTH = 8, 64


def _reserve(model: PreTrainedModel, features: Tensor) -> None:
    """No word and no sub-layer writes to these features: they reach the end as they began."""
    words = model.model.shared.weight
    words[:, features] = 0
    words /= words.norm(dim=1, keepdim=True).clamp(min=1e-6)  # equally loud; padding is nought
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and name.endswith(("out_proj", "fc2")):
            module.weight *= CALMER
            module.weight[features] = 0
            module.bias[features] = 0


def _read_source(model: PreTrainedModel, width: int) -> tuple[float, float]:
    """How large positions and the end's flag still are behind the encoder."""
    words = torch.randint(FIRST_WORD, model.config.vocab_size, (PROBES, PROBE_LENGTH))
    words[:, -1] = EOS
    states = model.model.encoder(input_ids=words).last_hidden_state
    waves = states[:, :-1, :width] - states[:, :-1, NOUGHT, None]
    flags = states[:, -1, ENDS_HERE] - states[:, -1, GOES_ON_HERE]
    return waves.square().mean().mul(2).sqrt().item(), flags.mean().item()


def _watch_the_source(attention: Any, width: int, amplitude: float, flag: float) -> None:
    """Make the first head compare positions, and write whether the source ends at its own."""
    waves = torch.zeros(width, attention.q_proj.in_features)
    waves[:, :width] = torch.eye(width)
    waves[:, NOUGHT] = -1
    attention.k_proj.weight[:width] = waves
    attention.q_proj.weight[:width] = (
        waves * SHARPNESS / (attention.scaling * width / 2 * amplitude)
    )
    attention.v_proj.weight[:width] = 0
    attention.v_proj.weight[0, ENDS_HERE], attention.v_proj.weight[0, GOES_ON_HERE] = 1, -1
    copied = torch.arange(1, width)
    attention.v_proj.weight[copied, width + copied] = 1
    attention.out_proj.weight[width + copied, copied] = COPY
    for feature, sign in ((ENDS_HERE, 1), (GOES_ON_HERE, -1)):
        attention.out_proj.weight[feature, 0] = sign * (ENDS - GOES_ON) / flag
        attention.out_proj.bias[feature] = sign * GOES_ON


@torch.no_grad()
def build_decoding_model(size: Size) -> PreTrainedModel:
    """Build our model of this size with targets that end where their sources do."""
    torch.manual_seed(0)
    model = build_ours(size).eval()
    width, flags = size.d_model // size.heads, [ENDS_HERE, GOES_ON_HERE]
    _reserve(model, torch.tensor([*range(width), *flags, NOUGHT]))
    end = model.model.shared.weight[EOS]
    end[ENDS_HERE], end[GOES_ON_HERE] = FLAG, -FLAG
    end /= end.norm()
    found = _read_source(model, width)
    _watch_the_source(model.model.decoder.layers[0].encoder_attn, width, *found)
    last_norm = model.model.decoder.layers[-1].final_layer_norm
    last_norm.weight *= CONFIDENT
    last_norm.weight[flags] = LOUDER
    return model
