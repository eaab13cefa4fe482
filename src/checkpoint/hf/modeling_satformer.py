"""Decoders whose later layers reach back to early representations, for transformers 5.

A decoder is a residual routing (plain, dense, mudd, hyper: what a sublayer reads and how its output is absorbed) and
a value path (own, satformer, resformer, fixed, svformer, neutreno, lime: which values attention uses). The layers
are in layers_satformer.py.
"""

import dataclasses
import math

import torch
from torch import nn
from transformers.cache_utils import DynamicCache
from transformers.generation import GenerationMixin
from transformers.modeling_outputs import (
    BaseModelOutputWithPast,
    CausalLMOutputWithPast,
)
from transformers.modeling_utils import PreTrainedModel

from .configuration_satformer import (
    DenseFormerConfig,
    HyperConnectionsConfig,
    MUDDFormerConfig,
    ResFormerConfig,
    SATFormerConfig,
    TransformerConfig,
)
from .layers_satformer import (
    Block,
    DepthAverage,
    DepthModule,
    HyperConnection,
    HyperNorm,
    LambdaManager,
    LayerNorm,
    LimeMix,
    ResFormerMix,
    RMSNorm,
    SATFormerGates,
    make_norm,
)

# The name of the cache in outputs changed within transformers 5.
CACHE_FIELD = "cache" if "cache" in {f.name for f in dataclasses.fields(CausalLMOutputWithPast)} else "past_key_values"


class ReachBackPreTrainedModel(PreTrainedModel):
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["Block"]
    _supports_sdpa = True

    @torch.no_grad()
    def _init_weights(self, module):
        config = self.config

        def start(parameter, make):
            if parameter is not None and not getattr(parameter, "_is_hf_initialized", False):
                make(parameter)

        def fill(parameter, value):
            start(parameter, lambda p: p.fill_(value))

        def normal(parameter, std):
            start(parameter, lambda p: p.normal_(0, std))

        if isinstance(module, (nn.Linear, nn.Embedding)):
            normal(module.weight, config.initializer_range)
            fill(getattr(module, "bias", None), 0)
        elif isinstance(module, RMSNorm):
            fill(module.weight, module.start)
        elif isinstance(module, LayerNorm):
            fill(module.weight, 1)
            fill(module.bias, 0)
        elif isinstance(module, HyperNorm):
            for name, value in (("weight", 1), ("bias", 0), ("gamma", 0)):
                fill(getattr(module, name, None), value)
        elif isinstance(module, SATFormerGates):
            fill(getattr(module, "alpha", None), module.bias_start)
            for linear in module.children():
                normal(linear.weight, module.std)
                fill(linear.bias, module.bias_start)
        elif isinstance(module, ResFormerMix):
            fill(module.lambda2, module.start)
        elif isinstance(module, LambdaManager):
            fill(module.lambda_scale, module.start)
            fill(module.lambda_logits, 0)
        elif isinstance(module, LimeMix):
            heads, columns = module.router.shape
            eye = torch.eye(heads, columns).roll(columns - heads, 1)
            start(module.router, lambda p: p.copy_(eye))
        elif isinstance(module, DepthAverage):
            for linear in module.alphas.values():
                start(linear.weight, lambda p: p.copy_(torch.eye(p.shape[1])[-1:]))
        elif isinstance(module, DepthModule):
            normal(module.w1.weight, module.w1_std)
            fill(module.w2.weight, 0)
            last = torch.zeros(module.ways, module.states)
            last[:, -1] = 0 if module.normed else 1
            start(module.static_weight, lambda p: p.copy_(last))
        elif isinstance(module, HyperConnection):
            n = module.static_beta.shape[0]
            closed, opened, diagonal = (-4, 4, 0) if module.manifold else (0, 1, 1)
            fill(module.static_beta, 0 if module.manifold else 1)
            alpha = torch.full((n, n + 1), float(closed))
            alpha[module.index % n, 0] = opened
            alpha[:, 1:].fill_diagonal_(diagonal)
            start(module.static_alpha, lambda p: p.copy_(alpha))
            if module.dynamic:
                fill(module.dynamic_beta_proj, 0)
                fill(module.dynamic_alpha_proj, 0)
                fill(module.dynamic_beta_scale, 0.01)
                fill(module.dynamic_alpha_scale, 0.01)
        elif isinstance(module, Block) and module.routing == "hyper":
            for linear in (module.attn.o_proj, module.mlp.down_proj):
                normal(linear.weight, config.initializer_range / config.expansion_rate**0.5)


def scaled(frequencies, config):
    """Rotary frequencies for contexts longer than those of the first training (config.rope_type)."""
    if config.rope_type == "linear":
        return frequencies / config.rope_factor
    if config.rope_type != "llama3":
        return frequencies
    low, high = config.rope_low_freq_factor, config.rope_high_freq_factor
    turns = config.rope_original_positions * frequencies / (2 * math.pi)  # in the original context
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return (1 - kept) * frequencies / config.rope_factor + kept * frequencies


class ReachBackModel(ReachBackPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([Block(config, i) for i in range(config.num_hidden_layers)])
        if config.position_type == "learned":
            self.positions = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.norm = make_norm(config)
        if config.residual_routing == "dense":
            self.dwa_modules = DepthAverage(config)
        if config.residual_routing == "mudd" and config.use_pre_post_da_norm and config.mudd_pre_norm == "shared":
            count = config.num_hidden_layers + 1
            self.da_pre_norms = nn.ModuleList([RMSNorm(config.hidden_size, config.norm_eps) for _ in range(count)])
        if config.effective_value_path == "resformer":
            self.lambda_manager = LambdaManager(config)
        self.gradient_checkpointing = False
        self.post_init()

    def get_input_embeddings(self):
        return self.embeddings

    def set_input_embeddings(self, value):
        self.embeddings = value

    def _rope(self, positions_BT, device):
        config = self.config
        exponent = torch.arange(0, config.head_dim, 2, dtype=torch.float32, device=device) / config.head_dim
        angles = positions_BT[..., None].float() * scaled(1.0 / config.rope_theta**exponent, config)
        return angles.cos()[:, :, None], angles.sin()[:, :, None]

    def _mask(self, valid, past, T, device):
        """True where a query may look; None where causality alone decides."""
        window = self.config.window_size
        S = past + T
        if valid is None and (window is None or S <= window) and (past == 0 or T == 1):
            return None
        query = torch.arange(past, S, device=device)[:, None]
        key = torch.arange(S, device=device)[None]
        allowed = key <= query
        if window is not None:
            allowed = allowed & (key > query - window)
        if valid is None:
            return allowed[None, None]
        # A pad may look at itself, so that no row is empty; its output is dropped.
        return (allowed[None, None] & valid[:, None, None]) | (key == query)[None, None]

    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        position_ids=None,
        cache=None,
        past_key_values=None,
        inputs_embeds=None,
        use_cache=None,
        output_hidden_states=None,
        **kwargs,
    ):
        config = self.config
        cache = past_key_values if cache is None else cache
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("exactly one of input_ids and inputs_embeds must be given")
        if attention_mask is not None and attention_mask.dim() != 2:
            raise ValueError("attention_mask must be [batch, time]: masks of other ranks are made inside")
        x = self.embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        training = self.gradient_checkpointing and self.training
        use_cache = (config.use_cache if use_cache is None else use_cache) and not training
        if use_cache and cache is None:
            cache = DynamicCache()
        if not use_cache:
            cache = None
        B, T = x.shape[:2]
        past = cache.get_seq_length() if cache is not None else 0
        if past + T > config.max_position_embeddings:
            raise ValueError(
                f"a context of {past + T} tokens is longer than max_position_embeddings = "
                f"{config.max_position_embeddings}"
            )
        if getattr(cache, "is_compileable", False):
            raise ValueError("static caches are not supported: leave cache_implementation at its default")
        if cache is not None:
            self._extend(cache)
        # A mask may be longer than what is held so far, when a caller allots it ahead.
        valid = None if attention_mask is None else attention_mask[:, : past + T].bool()
        if valid is not None and valid.shape[1] != past + T:
            raise ValueError(f"attention_mask has {valid.shape[1]} columns for {past + T} tokens")
        if valid is not None and bool(valid.all()):
            valid = None
        if valid is None:
            positions = torch.arange(past, past + T, device=x.device)[None].expand(B, T)
            counts = (positions + 1)[..., None]
        else:
            seen = valid.long().cumsum(1)[:, -T:]
            positions = (seen - 1).clamp(min=0)
            counts = seen.clamp(min=1)[..., None]
        if position_ids is not None:
            positions = position_ids.expand(B, T)
        if config.position_type == "learned":
            x = x + self.positions(positions)
        rope = self._rope(positions, x.device) if config.position_type == "rotary" else None
        mask = self._mask(valid, past, T, x.device)
        context = (rope, mask, (valid, counts), cache)

        if config.residual_routing == "hyper":
            streams = (x[:, :, None].expand(-1, -1, config.expansion_rate, -1).contiguous(),)
        else:
            streams = (x,) * (4 if config.residual_routing == "mudd" else 1)
        history = (x,) if config.residual_routing in ("dense", "mudd") else ()
        shared_norms = getattr(self, "da_pre_norms", None)
        pool, hidden = (), []
        for i, block in enumerate(self.layers):
            if output_hidden_states:
                hidden.append(history[-1] if config.residual_routing == "mudd" else self._main(streams))
            lambda1 = None
            if config.effective_value_path == "resformer" and i > 0:
                lambda1 = self.lambda_manager(i)
            seen_states = history if config.residual_routing == "mudd" else ()
            if training:
                streams, state, offered = self._checkpointed(
                    block, streams, seen_states, pool, lambda1, shared_norms, context
                )
            else:
                streams, state, offered = block(streams, seen_states, pool, lambda1, shared_norms, *context)
            pool = pool + offered
            if state is not None:
                history = history + (state,)
            if config.residual_routing == "dense":
                streams = (self.dwa_modules(i, history),)
        last = self.norm(self._main(streams))
        if output_hidden_states:
            hidden.append(last)
        return BaseModelOutputWithPast(
            last_hidden_state=last,
            hidden_states=tuple(hidden) if output_hidden_states else None,
            **{CACHE_FIELD: cache},
        )

    def _main(self, streams):
        if self.config.residual_routing == "hyper":
            return streams[0].sum(2)
        return streams[-1]

    def _checkpointed(self, block, streams, history, pool, lambda1, shared_norms, context):
        """Tensors as positional arguments and a flat tuple back: fits reentrant checkpoints too."""
        sizes = (len(streams), len(history), len(pool))
        layout = []

        def run(lambda_value, *flat):
            a, b = sizes[0], sizes[0] + sizes[1]
            s, state, offered = block(flat[:a], flat[a:b], flat[b:], lambda_value, shared_norms, *context)
            layout[:] = [len(s), state is not None, len(offered)]
            # The state of a plain stream is the stream itself: hand it out once.
            tail = (state,) if state is not None and state is not s[0] else ()
            return (*s, *offered, *tail)

        flat = self._gradient_checkpointing_func(run, lambda1, *streams, *history, *pool)
        count, has_state, offers = layout
        new_streams, offered = flat[:count], flat[count : count + offers]
        state = None
        if has_state:
            state = flat[count + offers] if len(flat) > count + offers else new_streams[0]
        return new_streams, state, offered

    def _extend(self, cache):
        """Room for running means behind the layers that a cache made from a config has."""
        layers = getattr(cache, "layers", None)
        config = self.config
        running = config.effective_value_path == "satformer" and config.value_gate_granularity in (
            "head",
            "layer",
            "factorised",
        )
        if not running or not layers:
            return
        active = sum(config.value_path_active(i) for i in range(config.num_hidden_layers))
        while len(layers) < config.num_hidden_layers + active:
            layers.append(type(layers[0])())


class ReachBackForCausalLM(ReachBackPreTrainedModel, GenerationMixin):
    _tied_weights_keys = {"lm_head.weight": "model.embeddings.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.model = ReachBackModel(config)
        self.vocab_size = config.vocab_size
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.model.embeddings

    def set_input_embeddings(self, value):
        self.model.embeddings = value

    def get_output_embeddings(self):
        return self.lm_head

    def set_output_embeddings(self, value):
        self.lm_head = value

    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        position_ids=None,
        cache=None,
        past_key_values=None,
        inputs_embeds=None,
        labels=None,
        use_cache=None,
        output_hidden_states=None,
        return_dict=None,
        logits_to_keep=0,
        **kwargs,
    ):
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            cache=past_key_values if cache is None else cache,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            output_hidden_states=output_hidden_states,
        )
        states = outputs.last_hidden_state
        if isinstance(logits_to_keep, int):
            states = states[:, -logits_to_keep:] if logits_to_keep else states
        else:
            states = states[:, logits_to_keep]
        logits = self.lm_head(states)
        loss = None
        if labels is not None:
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs)
            if self.config.use_l2warp and loss.requires_grad:
                # Gradients alone: the largest logit of each token is pulled towards zero.
                penalty = logits.float().amax(-1).square().mean() * 0.5e-4
                loss = loss + (penalty - penalty.detach())
        result = CausalLMOutputWithPast(
            loss=loss,
            logits=logits,
            hidden_states=outputs.hidden_states,
            **{CACHE_FIELD: getattr(outputs, CACHE_FIELD)},
        )
        return result.to_tuple() if return_dict is False else result


class TransformerForCausalLM(ReachBackForCausalLM):
    config_class = TransformerConfig


class ResFormerForCausalLM(ReachBackForCausalLM):
    config_class = ResFormerConfig


class SATFormerForCausalLM(ReachBackForCausalLM):
    config_class = SATFormerConfig


class DenseFormerForCausalLM(ReachBackForCausalLM):
    config_class = DenseFormerConfig


class MUDDFormerForCausalLM(ReachBackForCausalLM):
    config_class = MUDDFormerConfig


class HyperConnectionsForCausalLM(ReachBackForCausalLM):
    config_class = HyperConnectionsConfig
