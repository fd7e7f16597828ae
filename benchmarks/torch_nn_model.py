"""The paper's model out of `torch.nn` layers, as a PyTorch user without transformers writes it."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.modeling_outputs import Seq2SeqLMOutput

LONGEST_INPUT = 1024


def sinusoids(length: int, d_model: int) -> Tensor:
    """Interleave sines and cosines (paper, 3.5) `[length, d_model]`."""
    frequencies = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    angles = torch.arange(length).unsqueeze(1) * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def _keep_the_papers_dropout(stack: nn.Module) -> None:
    """Leave dropout on sub-layer outputs only (paper, 5.4), where the other contestants have it."""
    for module in stack.modules():
        if isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
            module.dropout = nn.Dropout(0.0)  # between the linear maps of the feed-forward network
        elif isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0


class TorchTransformer(nn.Module):
    """Embeddings times sqrt(d_model), `nn.Transformer`, tied projection, smoothed loss."""

    positions: Tensor

    def __init__(
        self, vocab_size: int, d_model: int, ffn_dim: int, layers: int, heads: int, dropout: float
    ) -> None:
        super().__init__()
        self.d_model = d_model
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        self.register_buffer("positions", sinusoids(LONGEST_INPUT, d_model), persistent=False)
        self.dropout = nn.Dropout(dropout)
        self.transformer = nn.Transformer(
            d_model, heads, layers, layers, ffn_dim, dropout, batch_first=True
        )
        # The paper's sub-layers end in a layer norm already: there is none after the last layer.
        self.transformer.encoder.norm = self.transformer.decoder.norm = None
        self.transformer.encoder.use_nested_tensor = False
        _keep_the_papers_dropout(self.transformer)
        self.loss = nn.CrossEntropyLoss(label_smoothing=0.1, ignore_index=-100)

    def embed(self, token_ids: Tensor) -> Tensor:
        """Embeddings and positions `[batch, length, d_model]`."""
        embedded = self.embedding(token_ids) * math.sqrt(self.d_model)
        return self.dropout(embedded + self.positions[: token_ids.shape[1]])

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> Seq2SeqLMOutput:
        start = torch.ones_like(labels[:, :1])
        decoder_input_ids = torch.cat([start, labels[:, :-1].clamp(min=0)], dim=1)
        padding = attention_mask == 0  # here True means: may not be looked at
        causal = torch.ones(2 * [labels.shape[1]], dtype=torch.bool, device=labels.device).triu(1)
        hidden_states = self.transformer(
            self.embed(input_ids),
            self.embed(decoder_input_ids),
            tgt_mask=causal,  # hides padding on the right as well
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        logits = functional.linear(hidden_states, self.embedding.weight)
        loss = self.loss(logits.flatten(0, 1), labels.flatten())
        return Seq2SeqLMOutput(loss=loss, logits=logits)
