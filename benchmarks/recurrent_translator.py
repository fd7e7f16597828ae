"""What the Transformer replaced: an LSTM encoder-decoder with additive attention.

The encoder reads from both ends; each step of the decoder first looks at the source, from the state
of the step before (Bahdanau et al. 2015). One table is source, target and output embeddings, as in
ours. It has what training and evaluation ask of a model, and no more.
"""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from vanilla_transformer.smoothed_loss import smoothed_cross_entropy

MOST_EXTRA_WORDS = 50  # of a translation, more than its source has


@dataclass(frozen=True)
class RecurrentConfig:
    """The shape of the model, and the words that are none."""

    vocab_size: int
    d_model: int  # width of embeddings
    width: int  # of the decoder's state, and of both of the encoder's together
    pad_token_id: int
    eos_token_id: int
    decoder_start_token_id: int
    dropout: float
    label_smoothing: float


class AdditiveAttention(nn.Module):
    """Weights of softmax(v . tanh(W q + U k)) over the source."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query_proj = nn.Linear(width, width, bias=False)
        self.key_proj = nn.Linear(width, width, bias=False)
        self.pair_proj = nn.Linear(width, 1, bias=False)

    def forward(self, query: Tensor, keys: Tensor, source: Tensor, is_real: Tensor) -> Tensor:
        """What a query `[batch, width]` reads off the source `[batch, source_len, width]`."""
        pairs = torch.tanh(self.query_proj(query).unsqueeze(1) + keys)
        scores = self.pair_proj(pairs).squeeze(2).masked_fill(~is_real, -torch.inf)
        return torch.bmm(torch.softmax(scores, dim=1).unsqueeze(1), source).squeeze(1)


@dataclass
class Reading:
    """A source that was read, and the decoder's state."""

    source: Tensor  # [batch, source_len, width]
    keys: Tensor
    is_real: Tensor
    state: tuple[Tensor, Tensor]


class RecurrentTranslator(nn.Module):
    """Words in, words out, one after the other."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.d_model)
        nn.init.normal_(self.embed_tokens.weight, std=config.d_model**-0.5)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = nn.LSTM(
            config.d_model, config.width // 2, bidirectional=True, batch_first=True
        )
        self.bridge = nn.Linear(config.width, config.width)  # the decoder's first state
        self.attention = AdditiveAttention(config.width)
        self.decoder = nn.LSTMCell(config.d_model + config.width, config.width)
        self.out_proj = nn.Linear(2 * config.width, config.d_model)

    @property
    def dtype(self) -> torch.dtype:
        return self.embed_tokens.weight.dtype

    @property
    def device(self) -> torch.device:
        return self.embed_tokens.weight.device

    def num_parameters(self) -> int:
        """All that is learned."""
        return sum(one.numel() for one in self.parameters())

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        decoder_input_ids: Tensor,
        labels: Tensor,
        num_items_in_batch: int | None = None,
    ) -> Any:
        """The loss, smoothed while it trains."""
        reading = self.read(input_ids, attention_mask)
        steps = [self.step(reading, words) for words in decoder_input_ids.unbind(1)]
        smoothing = self.config.label_smoothing if self.training else 0.0
        loss = smoothed_cross_entropy(
            torch.stack(steps, dim=1),
            labels,
            smoothing=smoothing,
            num_items_in_batch=num_items_in_batch,
        )
        return SimpleNamespace(loss=loss)

    def read(self, input_ids: Tensor, attention_mask: Tensor) -> Reading:
        """Encode sources, padded at the end; nothing is written yet."""
        lengths = attention_mask.sum(1).cpu()
        packed = pack_padded_sequence(
            self._embed(input_ids), lengths, batch_first=True, enforce_sorted=False
        )
        source, _ = pad_packed_sequence(
            self.encoder(packed)[0], batch_first=True, total_length=input_ids.shape[1]
        )
        is_real = attention_mask.bool()
        mean = source.sum(1) / attention_mask.sum(1, keepdim=True)
        state = torch.tanh(self.bridge(mean))
        keys = self.attention.key_proj(source)
        return Reading(source, keys, is_real, (state, torch.zeros_like(state)))

    def step(self, reading: Reading, words: Tensor) -> Tensor:
        """Write a word, and return what speaks for each next one, `[batch, vocabulary]`."""
        seen = self.attention(reading.state[0], reading.keys, reading.source, reading.is_real)
        inputs = torch.cat([self._embed(words), seen], dim=1)
        reading.state = self.decoder(inputs, reading.state)
        output = torch.tanh(self.out_proj(torch.cat([reading.state[0], seen], dim=1)))
        return self.dropout(output) @ self.embed_tokens.weight.T

    @torch.no_grad()
    def generate(self, input_ids: Tensor, attention_mask: Tensor, **decoding: Any) -> Tensor:
        """The most probable word after each, until all sentences have ended."""
        reading, config = self.read(input_ids, attention_mask), self.config
        words = input_ids.new_full((len(input_ids),), config.decoder_start_token_id)
        written, ended = [words], torch.zeros_like(words, dtype=torch.bool)
        for _ in range(input_ids.shape[1] + MOST_EXTRA_WORDS):
            words = self.step(reading, words).argmax(1).masked_fill(ended, config.pad_token_id)
            written.append(words)
            ended = ended | (words == config.eos_token_id)
            if ended.all():
                break
        return torch.stack(written, dim=1)

    def _embed(self, words: Tensor) -> Tensor:
        return self.dropout(self.embed_tokens(words) * self.config.d_model**0.5)


def width_for(parameters: int, vocab_size: int, d_model: int) -> int:
    """The even width that comes closest to so many parameters."""

    def difference(width: int) -> int:
        own = RecurrentConfig(vocab_size, d_model, width, 0, 0, 0, 0.0, 0.0)
        with torch.device("meta"):
            return abs(RecurrentTranslator(own).num_parameters() - parameters)

    return min(range(2, 8 * d_model, 2), key=difference)
