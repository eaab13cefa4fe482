"""Configurations of decoders whose later layers reach back to early representations.

The six classes differ in the residual routing and the value path that they imply; any pair can be set explicitly.
"""

from transformers.configuration_utils import PretrainedConfig

# Name and default of every field that a model reads.
FIELDS = {
    "vocab_size": 32000,
    "hidden_size": 2048,
    "num_hidden_layers": 24,
    "num_heads": 32,
    "num_kv_heads": None,
    "head_dim": None,
    "qkv_bias": False,
    "qk_norm": False,
    "qk_norm_eps": 1e-5,
    "window_size": None,
    "rope_theta": 10000.0,
    "position_type": "rotary",
    "rope_type": "default",
    "rope_factor": 1.0,
    "rope_low_freq_factor": 1.0,
    "rope_high_freq_factor": 4.0,
    "rope_original_positions": 8192,
    "max_position_embeddings": 2048,
    "hidden_ratio": 4,
    "intermediate_size": None,
    "initializer_range": 0.02,
    "norm_type": "rms",
    "norm_eps": 1e-6,
    "mlp_type": "gated",
    "linear_bias": False,
    "use_l2warp": False,
    "use_value_residual": True,
    "value_residual_last_k": None,
    "value_layers": [],
    "value_residual_gate": "relu",
    "value_residual_proj_bias": False,
    "value_gate_granularity": "token_head",
    "value_gate_ffn": 0,
    "value_gate_bias_init": 0.0,
    "value_gate_init_std": None,
    "value_sources": [0],
    "value_place": "values",
    "value_residual_lambda2_init": 0.5,
    "neutreno_lambda": 0.2,
    "neutreno_values": "fixed",
    "lime_keys": True,
    "dwa_dilation": 1,
    "dwa_period": 1,
    "num_ways": 4,
    "param_realloc": True,
    "use_pre_post_da_norm": True,
    "mudd_w1_init": "1/d",
    "mudd_post_norm": "all",
    "mudd_pre_norm": "module",
    "expansion_rate": 4,
    "use_dynamic_hc": True,
    "use_tanh": True,
    "hc_norm_type": "rms",
    "hc_weights": "free",
}


class _ReachBackConfig(PretrainedConfig):
    # Subclasses define __init__ too: transformers makes one of its own for a configuration class without.
    keys_to_ignore_at_inference = ["cache", "past_key_values"]
    attribute_map = {"num_attention_heads": "num_heads", "num_key_value_heads": "kv_heads"}
    implied_routing = "plain"
    implied_value_path = "own"

    def __init__(self, **kwargs):
        for key in ("rope_parameters", "rope_scaling"):  # the fields of rope_* say the same
            kwargs.pop(key, None)
        for name, default in FIELDS.items():
            value = kwargs.pop(name, default)
            setattr(self, name, list(value) if isinstance(value, (list, tuple)) else value)
        self.head_dim = self.head_dim or self.hidden_size // self.num_heads
        self.residual_routing = kwargs.pop("residual_routing", self.implied_routing)
        self.value_path = kwargs.pop("value_path", self.implied_value_path)
        self.hidden_act = kwargs.pop("hidden_act", "swish")
        self.use_cache = kwargs.pop("use_cache", True)
        self.pad_token_id = kwargs.pop("pad_token_id", None)
        self.bos_token_id = kwargs.pop("bos_token_id", 1)
        self.eos_token_id = kwargs.pop("eos_token_id", 2)
        self.tie_word_embeddings = kwargs.pop("tie_word_embeddings", False)
        super().__init__(
            pad_token_id=self.pad_token_id,
            bos_token_id=self.bos_token_id,
            eos_token_id=self.eos_token_id,
            tie_word_embeddings=self.tie_word_embeddings,
            **kwargs,
        )

    @property
    def kv_heads(self):
        return self.num_kv_heads or self.num_heads

    @property
    def effective_value_path(self):
        return self.value_path if self.use_value_residual else "own"

    @property
    def source_layers(self):
        return list(self.value_sources) if self.effective_value_path == "satformer" else [0]

    def value_path_active(self, layer):
        if self.effective_value_path == "own" or layer <= self.source_layers[-1]:
            return False
        if self.value_layers:
            return layer in self.value_layers
        return self.value_residual_last_k is None or layer >= self.num_hidden_layers - self.value_residual_last_k

    def projects_values(self, layer):
        return self.effective_value_path != "svformer" or not self.value_path_active(layer)

    def ffn_size(self, layer):
        width = int(self.hidden_size * self.hidden_ratio * 2 / 3)
        if self.residual_routing != "mudd":
            if self.mlp_type == "plain":
                return self.intermediate_size or self.hidden_size * self.hidden_ratio
            return self.intermediate_size or 256 * ((width + 255) // 256)

        def rounded(size):
            return max(256, (size + 127) // 256 * 256)

        base = self.intermediate_size or rounded(width)
        depth = self.num_hidden_layers
        if not self.param_realloc or depth < 2:
            return base
        return rounded(round((0.5 * (depth - layer - 1) + 1.5 * layer) / (depth - 1) * base))

    @property
    def gate_init_std(self):
        if self.value_gate_init_std == "auto":
            return 0.02 * (768 / self.hidden_size) ** 0.5
        return self.initializer_range if self.value_gate_init_std is None else self.value_gate_init_std


class TransformerConfig(_ReachBackConfig):
    model_type = "transformer"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)


class ResFormerConfig(_ReachBackConfig):
    model_type = "resformer"
    implied_value_path = "resformer"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)


class SATFormerConfig(_ReachBackConfig):
    model_type = "satformer"
    implied_value_path = "satformer"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)


class DenseFormerConfig(_ReachBackConfig):
    model_type = "denseformer"
    implied_routing = "dense"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)


class MUDDFormerConfig(_ReachBackConfig):
    model_type = "muddformer"
    implied_routing = "mudd"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)


class HyperConnectionsConfig(_ReachBackConfig):
    model_type = "hyperconnections"
    implied_routing = "hyper"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
