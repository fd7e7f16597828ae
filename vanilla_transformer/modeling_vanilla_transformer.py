"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017), to be read beside it.

From the bottom up: attention, the layers, the two stacks, the model, and the model with its
projection to words. Section numbers in the comments are the paper's.
"""

import math
from collections.abc import Callable
from typing import Any, Unpack

import torch
from torch import Tensor, nn
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
    Seq2SeqLMOutput,
    Seq2SeqModelOutput,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.utils import TransformersKwargs, can_return_tuple
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .attention_masks import decoder_mask
from .attention_plan import AttentionPlan, may_pack, plan_decoder, plan_encoder, records_layers
from .attention_scores import SCORES
from .configuration_vanilla_transformer import VanillaTransformerConfig
from .fast_dropout import FastDropout
from .fast_linear import FastLinear
from .generation_vanilla_transformer import VanillaTransformerGenerationMixin, paper_decoding
from .packed_attention import packed_attention_forward
from .position_encodings import POSITION_ENCODINGS
from .saved_folder import SavedFolderModel
from .smoothed_loss import (
    LossWithLazyLogits,
    can_project,
    logits_later,
    projected_loss,
    smoothed_cross_entropy,
)
from .token_layout import PackedLayout, TokenLayout, last_positions
from .word_ids import refuse_other_lengths, refuse_unknown_ids, shift_right, up_to_last_label

COLUMN_THEN_ROW = {
    "layers.*.self_attn.q_proj": "colwise",
    "layers.*.self_attn.k_proj": "colwise",
    "layers.*.self_attn.v_proj": "colwise",
    "layers.*.self_attn.out_proj": "rowwise",
    "layers.*.fc1": "colwise",
    "layers.*.fc2": "rowwise",
}


def eager_attention_forward(
    module: "Attention",
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    """Attention(Q, K, V) = softmax(score(Q, K)) V (3.2.1), in plain matrix products."""
    scores = module.score.compare(query, key)
    if attention_mask is not None:
        scores = scores + attention_mask
    elif module.is_causal and query.shape[-2] > 1:  # without a mask, as in the library's kernels
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)
    exact = torch.promote_types(scores.dtype, torch.float32)
    weights = torch.softmax(scores, dim=-1, dtype=exact).to(value.dtype)
    attended = torch.matmul(nn.functional.dropout(weights, dropout), value)
    return attended.transpose(1, 2), weights


class Attention(nn.Module):
    """Multi-head attention (3.2.2), of a sequence over itself or over the source."""

    def __init__(
        self,
        config: VanillaTransformerConfig,
        num_heads: int,
        *,
        is_causal: bool = False,
        layer_idx: int | None = None,
    ) -> None:
        super().__init__()
        self.config, self.is_causal, self.layer_idx = config, is_causal, layer_idx
        self.dropout = config.attention_dropout
        self.key_width, self.value_width = config.head_widths(num_heads)
        self.q_proj = FastLinear(config.d_model, num_heads * self.key_width)
        self.k_proj = FastLinear(config.d_model, num_heads * self.key_width)
        self.v_proj = FastLinear(config.d_model, num_heads * self.value_width)
        self.out_proj = FastLinear(num_heads * self.value_width, config.d_model)
        self.score = SCORES[config.attention_score](config, self.key_width)
        self.scaling = self.score.scaling

    def forward(
        self,
        hidden_states: Tensor,
        plan: AttentionPlan,
        source: Tensor | None = None,
        past_key_values: Cache | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from hidden states to themselves, or to `source`; return also the weights."""
        layout = key_layout = plan.layout
        query = layout.split_heads(self.q_proj(hidden_states), self.key_width)
        if source is None:
            mask = plan.mask
            key, value = self._keys_and_values(hidden_states, layout)
            if past_key_values is not None:
                cache = getattr(past_key_values, "self_attention_cache", past_key_values)
                key, value = cache.update(key, value, self.layer_idx)
        else:
            mask, key_layout = plan.source_mask, plan.source_layout
            key, value = self._source_keys_and_values(source, key_layout, past_key_values)

        attend: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        if isinstance(layout, PackedLayout):
            attend, kwargs = packed_attention_forward, {"layout": layout, "key_layout": key_layout}
        elif plan.explicit:
            attend = eager_attention_forward
        if plan.band and source is None:
            attend = plan.band.attending(attend)
        attended, weights = attend(
            self,
            self.score.prepare_query(query),
            key,
            value,
            mask,
            dropout=self.dropout if self.training else 0.0,
            scaling=self.scaling,
            **kwargs,
        )
        return self.out_proj(layout.merge_heads(attended)), weights

    def _keys_and_values(self, states: Tensor, layout: TokenLayout) -> tuple[Tensor, Tensor]:
        key = layout.split_heads(self.k_proj(states), self.key_width)
        value = layout.split_heads(self.v_proj(states), self.value_width)
        return self.score.prepare_key(key), value

    def _source_keys_and_values(
        self, source: Tensor, layout: TokenLayout, past_key_values: Cache | None
    ) -> tuple[Tensor, Tensor]:
        """The source does not change while a target is written: project it once."""
        if not isinstance(past_key_values, EncoderDecoderCache):
            return self._keys_and_values(source, layout)
        cache = past_key_values.cross_attention_cache
        if past_key_values.is_updated.get(self.layer_idx):
            return cache.layers[self.layer_idx].keys, cache.layers[self.layer_idx].values
        past_key_values.is_updated[self.layer_idx] = True
        return cache.update(*self._keys_and_values(source, layout), self.layer_idx)


class EncoderLayer(GradientCheckpointingLayer):
    """Self-attention, then a feed-forward network (3.1, Figure 1 left)."""

    def __init__(self, config: VanillaTransformerConfig) -> None:
        super().__init__()
        self.dropout = FastDropout(config.dropout)
        self.self_attn = Attention(config, config.encoder_attention_heads)
        self.self_attn_layer_norm = nn.LayerNorm(config.d_model)
        self.fc1 = FastLinear(config.d_model, config.encoder_ffn_dim)
        self.activation = ACT2FN[config.activation_function]
        self.activation_dropout = FastDropout(config.activation_dropout)
        self.fc2 = FastLinear(config.encoder_ffn_dim, config.d_model)
        self.final_layer_norm = nn.LayerNorm(config.d_model)

    def forward(self, hidden_states: Tensor, plan: AttentionPlan, **kwargs: Any) -> Tensor:
        attended, _ = self.self_attn(hidden_states, plan, **kwargs)
        # LayerNorm(x + Dropout(Sublayer(x))): 3.1 and 5.4
        hidden_states = self.self_attn_layer_norm(hidden_states + self.dropout(attended))

        inner = self.activation_dropout(self.activation(self.fc1(hidden_states)))  # 3.3
        return self.final_layer_norm(hidden_states + self.dropout(self.fc2(inner)))


class DecoderLayer(GradientCheckpointingLayer):
    """Causal self-attention, attention over the source, feed-forward (3.1, Figure 1 right)."""

    def __init__(self, config: VanillaTransformerConfig, layer_idx: int) -> None:
        super().__init__()
        heads = config.decoder_attention_heads
        self.dropout = FastDropout(config.dropout)
        self.self_attn = Attention(config, heads, is_causal=True, layer_idx=layer_idx)
        self.self_attn_layer_norm = nn.LayerNorm(config.d_model)
        self.encoder_attn = Attention(config, heads, layer_idx=layer_idx)
        self.encoder_attn_layer_norm = nn.LayerNorm(config.d_model)
        self.fc1 = FastLinear(config.d_model, config.decoder_ffn_dim)
        self.activation = ACT2FN[config.activation_function]
        self.activation_dropout = FastDropout(config.activation_dropout)
        self.fc2 = FastLinear(config.decoder_ffn_dim, config.d_model)
        self.final_layer_norm = nn.LayerNorm(config.d_model)

    def forward(
        self,
        hidden_states: Tensor,
        source: Tensor | None,  # positional, as reentrant checkpointing needs it
        plan: AttentionPlan,
        **kwargs: Any,
    ) -> Tensor:
        attended, _ = self.self_attn(hidden_states, plan, **kwargs)
        hidden_states = self.self_attn_layer_norm(hidden_states + self.dropout(attended))

        if source is not None:
            attended, _ = self.encoder_attn(hidden_states, plan, source, **kwargs)
            hidden_states = self.encoder_attn_layer_norm(hidden_states + self.dropout(attended))

        inner = self.activation_dropout(self.activation(self.fc1(hidden_states)))
        return self.final_layer_norm(hidden_states + self.dropout(self.fc2(inner)))


class VanillaTransformerPreTrainedModel(SavedFolderModel):
    """What the model classes share: what the library may do with them, and how weights begin."""

    config_class = VanillaTransformerConfig
    config: VanillaTransformerConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _can_compile_fullgraph = True
    _no_split_modules = ["EncoderLayer", "DecoderLayer"]

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Half of Glorot's projections; embeddings that have unit variance after sqrt(d_model)."""
        super()._init_weights(module)
        if isinstance(module, nn.Linear):
            # The paper is silent. Post-norm stacks that begin small learn sooner (DeepNet, 2022).
            init.xavier_uniform_(module.weight, gain=0.5)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight, mean=0.0, std=self.config.d_model**-0.5)

    def get_correct_attn_implementation(
        self, requested_attention: str | None, is_init_check: bool = False
    ) -> str:
        """Scores that are not dot products have no fused kernel: eager is their only way."""
        score = self.config.attention_score
        if not SCORES[score].is_dot_product:
            if requested_attention not in (None, "eager"):
                raise ValueError(
                    f"attention_score={score!r} needs attn_implementation='eager', "
                    f"got {requested_attention!r}."
                )
            requested_attention = "eager"
        if self.config.attention_window and "flash" in (requested_attention or ""):
            raise ValueError(
                "attention_window needs attn_implementation='eager', 'sdpa' or 'flex_attention', "
                f"got {requested_attention!r}: flash kernels see no window."
            )
        return super().get_correct_attn_implementation(requested_attention, is_init_check)

    @property
    def dummy_inputs(self) -> dict[str, Tensor]:
        """Two short sentences, the second padded."""
        ids = torch.tensor([[5, 6, 7, 8], [5, 6, 7, 0]], device=self.device)
        return {"input_ids": ids, "attention_mask": ids.ne(0), "decoder_input_ids": ids}


class Stack(VanillaTransformerPreTrainedModel):
    """What encoder and decoder share: words in, vectors with positions out (3.4, 3.5)."""

    _tp_plan = COLUMN_THEN_ROW
    prefix = ""  # of this stack's inputs among the model's

    def __init__(self, config: VanillaTransformerConfig, vocab_size: int) -> None:
        super().__init__(config)
        self.embed_scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0
        self.embed_tokens = nn.Embedding(vocab_size, config.d_model)
        self.embed_positions = POSITION_ENCODINGS[config.position_encoding](config)
        self.dropout = FastDropout(config.dropout)
        self.gradient_checkpointing = False

    def embed(self, words: Tensor, layout: TokenLayout, past_length: int | Tensor = 0) -> Tensor:
        """Dropout(embedding * sqrt(d_model) + position), of ids or of embeddings."""
        positions = torch.arange(words.shape[1], device=words.device) + past_length
        words = layout.pack(words)
        embeddings = words if words.is_floating_point() else self.embed_tokens(words)
        encodings = layout.spread(self.embed_positions(positions)).to(embeddings)
        return self.dropout(embeddings * self.embed_scale + encodings)

    def template_of(self, words: Tensor) -> Tensor:
        """A tensor with shape and dtype of the embeddings, which may be offloaded; no values."""
        if words.is_floating_point():
            return words
        return self.embed_tokens.weight.new_empty((*words.shape, 0), device=words.device)

    def words_of(self, input_ids: Tensor | None, inputs_embeds: Tensor | None) -> Tensor:
        """The one of both that was given, checked."""
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError(
                f"The model needs either {self.prefix}input_ids or {self.prefix}inputs_embeds, got "
                f"{'neither' if input_ids is None else 'both'}."
            )
        if inputs_embeds is not None:
            return inputs_embeds
        assert input_ids is not None
        refuse_unknown_ids(input_ids, len(self.embed_tokens.weight), f"{self.prefix}input_ids")
        return input_ids


class Encoder(Stack):
    """A stack of encoder layers: source words to vectors that know their context."""

    _can_record_outputs = {"hidden_states": EncoderLayer, "attentions": Attention}

    def __init__(self, config: VanillaTransformerConfig) -> None:
        super().__init__(config, config.vocab_size)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        **kwargs: Any,
    ) -> BaseModelOutput:
        words = self.words_of(input_ids, inputs_embeds)
        template, packable = self.template_of(words), may_pack(words, self)
        plan = plan_encoder(self.config, template, attention_mask, kwargs, packable)
        hidden_states = self.embed(words, plan.layout)
        for layer in self.layers:
            hidden_states = layer(hidden_states, plan, **kwargs)
        return BaseModelOutput(last_hidden_state=plan.layout.unpack(hidden_states))


class Decoder(Stack):
    """A stack of decoder layers: the words written so far, and the source, to the next word."""

    prefix = "decoder_"
    _can_record_outputs = {
        "hidden_states": DecoderLayer,
        "attentions": OutputRecorder(Attention, index=1, layer_name="self_attn"),
        "cross_attentions": OutputRecorder(Attention, index=1, layer_name="encoder_attn"),
    }

    def __init__(self, config: VanillaTransformerConfig) -> None:
        super().__init__(config, config.target_vocab_size)
        self.layers = nn.ModuleList(DecoderLayer(config, i) for i in range(config.decoder_layers))
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        words = self.words_of(input_ids, inputs_embeds)
        if use_cache and past_key_values is None:
            past_key_values = EncoderDecoderCache(
                DynamicCache(config=self.config), DynamicCache(config=self.config)
            )
        past_length = 0 if past_key_values is None else past_key_values.get_seq_length()
        plan = plan_decoder(
            self.config,
            self.template_of(words),
            attention_mask,
            encoder_hidden_states,
            encoder_attention_mask,
            past_key_values,
            kwargs,
            past_key_values is None and may_pack(words, self),
        )
        source = encoder_hidden_states
        if source is not None:
            source = plan.source_layout.pack(source)
        hidden_states = self.embed(words, plan.layout, past_length)
        for layer in self.layers:
            hidden_states = layer(
                hidden_states, source, plan, past_key_values=past_key_values, **kwargs
            )
        return BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=plan.layout.unpack(hidden_states), past_key_values=past_key_values
        )


class VanillaTransformerModel(VanillaTransformerPreTrainedModel):
    """Encoder and decoder, with embeddings shared between them (3.4) or one table for each."""

    _auto_class = "AutoModel"
    _keys_to_ignore_on_load_unexpected = [r"^lm_head\."]  # of a model that was saved with its head

    def __init__(self, config: VanillaTransformerConfig) -> None:
        super().__init__(config)
        if config.share_encoder_decoder_embeddings:
            self.shared = nn.Embedding(config.vocab_size, config.d_model)
            self._tied_weights_keys = {
                "encoder.embed_tokens.weight": "shared.weight",
                "decoder.embed_tokens.weight": "shared.weight",
            }
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.post_init()
        if config.share_encoder_decoder_embeddings:
            self._tp_plan["shared"] = "embedding_rowwise"  # as the library does for embed_tokens

    def get_expanded_tied_weights_keys(self, all_submodels: bool = False) -> dict[str, str]:
        """The stacks share their table whether or not the projection is tied to it."""
        if all_submodels:
            return super().get_expanded_tied_weights_keys(all_submodels=True)
        return dict(self._tied_weights_keys or {})

    def get_input_embeddings(self) -> nn.Module:
        """The shared table, or the source's where each side has its own."""
        return self.encoder.embed_tokens

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.encoder.embed_tokens = value
        if self.config.share_encoder_decoder_embeddings:
            self.shared = self.decoder.embed_tokens = value

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,  # a BaseModelOutput, or its values as a tuple
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Unpack[TransformersKwargs],  # type: ignore[misc]  # transformers is untyped to mypy
    ) -> Seq2SeqModelOutput:
        """Encode the source, unless `encoder_outputs` brings it encoded; then decode the target."""
        if encoder_outputs is None:
            encoder_outputs = self.encoder(
                input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, **kwargs
            )
        if not isinstance(encoder_outputs, BaseModelOutput):
            encoder_outputs = BaseModelOutput(*encoder_outputs)

        decoder_outputs = self.decoder(
            decoder_input_ids,
            attention_mask=decoder_attention_mask,
            encoder_hidden_states=encoder_outputs[0],
            encoder_attention_mask=attention_mask,
            past_key_values=past_key_values,
            inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        return Seq2SeqModelOutput(
            last_hidden_state=decoder_outputs.last_hidden_state,
            past_key_values=decoder_outputs.past_key_values,
            decoder_hidden_states=decoder_outputs.hidden_states,
            decoder_attentions=decoder_outputs.attentions,
            cross_attentions=decoder_outputs.cross_attentions,
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
            encoder_hidden_states=encoder_outputs.hidden_states,
            encoder_attentions=encoder_outputs.attentions,
        )


class VanillaTransformerForConditionalGeneration(
    VanillaTransformerPreTrainedModel, VanillaTransformerGenerationMixin
):
    """The model with its pre-softmax projection (3.4): trains on pairs, generates translations."""

    _auto_class = "AutoModelForSeq2SeqLM"
    _tp_plan = {"lm_head": "colwise_gather_output"}
    _fsdp_plan = {"lm_head": "keep_full_weight"}

    def __init__(self, config: VanillaTransformerConfig) -> None:
        super().__init__(config)
        table = "shared" if config.share_encoder_decoder_embeddings else "decoder.embed_tokens"
        self._tied_weights_keys = {"lm_head.weight": f"model.{table}.weight"}
        self.model = VanillaTransformerModel(config)
        self.lm_head = FastLinear(config.d_model, config.target_vocab_size, bias=False)
        self.loss_function = smoothed_cross_entropy
        paper_decoding(self.generation_config)
        self.post_init()

    def resize_token_embeddings(
        self, new_num_tokens: int | None = None, *args: Any, **kwargs: Any
    ) -> nn.Embedding:
        """The library's method; where each side has its own table, it resizes the source's."""
        if self.config.share_encoder_decoder_embeddings:
            return super().resize_token_embeddings(new_num_tokens, *args, **kwargs)
        self.config.decoder_vocab_size = self.config.target_vocab_size  # no longer implied
        return self.model.resize_token_embeddings(new_num_tokens, *args, **kwargs)

    def resize_decoder_token_embeddings(
        self, new_num_tokens: int, *args: Any, **kwargs: Any
    ) -> nn.Embedding:
        """Resize the target's table and the projection, where each side has its own table."""
        if self.config.share_encoder_decoder_embeddings:
            raise ValueError(
                "resize_decoder_token_embeddings needs share_encoder_decoder_embeddings=False, "
                "got True: the table is shared, use resize_token_embeddings."
            )
        decoder, head = self.model.decoder, self.lm_head
        decoder.embed_tokens = self._get_resized_embeddings(
            decoder.embed_tokens, new_num_tokens, *args, **kwargs
        )
        size = self.config.decoder_vocab_size = decoder.embed_tokens.num_embeddings
        self.lm_head = self._get_resized_lm_head(head, size)
        self.tie_weights()
        return decoder.embed_tokens

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,  # a BaseModelOutput, or its values as a tuple
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: Unpack[TransformersKwargs],  # type: ignore[misc]  # transformers is untyped to mypy
    ) -> Seq2SeqLMOutput:
        """Predict each target word from the words before it.

        With `labels` (-100: no loss) the output has a loss: label-smoothed in training mode, the
        plain negative log-likelihood in evaluation mode, so that exp(loss) is a perplexity.
        """
        lean = False
        if labels is not None:
            use_cache = False
            refuse_unknown_ids(labels, self.lm_head.out_features, "labels")
            if decoder_input_ids is None and decoder_inputs_embeds is None:
                decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
            refuse_other_lengths(labels, decoder_input_ids, decoder_inputs_embeds)
            lean = self.training and self.loss_function is smoothed_cross_entropy
            lean = lean and can_project(labels, self.lm_head)  # then only the loss is made
            whole = past_key_values is None and not records_layers(self.config, kwargs)
            if lean and whole and decoder_attention_mask is None:
                decoder_attention_mask = up_to_last_label(labels)
        elif use_cache is None and self.training:
            use_cache = False

        outputs = self.model(
            input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            encoder_outputs=encoder_outputs,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            decoder_inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        outputs = dict(outputs)
        hidden_states = outputs.pop("last_hidden_state")
        kept = last_positions(hidden_states, logits_to_keep)
        if labels is None:
            return Seq2SeqLMOutput(logits=self.lm_head(kept), **outputs)

        objective: dict[str, Any] = {
            "smoothing": self.config.label_smoothing if self.training else 0.0,
            "num_items_in_batch": num_items_in_batch,
        }
        if lean:
            loss = projected_loss(hidden_states, self.lm_head.weight, labels, **objective)
            return LossWithLazyLogits(loss=loss, logits=logits_later(self.lm_head, kept), **outputs)
        logits = self.lm_head(hidden_states)  # every label counts, whatever logits are kept
        loss = self.loss_function(logits, labels, vocab_size=self.lm_head.out_features, **objective)
        return Seq2SeqLMOutput(loss=loss, logits=last_positions(logits, logits_to_keep), **outputs)

    @staticmethod
    def create_masks_for_generate(
        config: VanillaTransformerConfig,
        inputs_embeds: Tensor,
        attention_mask: Tensor | None,
        past_key_values: Cache | None,
        **kwargs: Any,
    ) -> Tensor | None:
        """What `generate` calls to draw the masks of a static cache ahead."""
        return decoder_mask(config, inputs_embeds, attention_mask, past_key_values)

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """What the library's collators call to give the decoder its input."""
        padding = self.config.pad_token_id or 0  # never looked at, so any word will do
        return shift_right(labels, padding, self.config.decoder_start_token_id)
