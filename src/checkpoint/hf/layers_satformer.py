"""Layers of decoders that reach back to early representations: value paths, sublayers and residual routings.

Shapes: B batch, T time, S keys, C width, H key/value heads, D head size, n streams.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


def rms(x, eps):
    x = x.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


class RMSNorm(nn.Module):
    """In fp32; the result has the type of `dtype_of`, or of x."""

    def __init__(self, size, eps, start=1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size))
        self.eps, self.start = eps, start

    def forward(self, x, dtype_of=None):
        return (rms(x, self.eps) * self.weight.float()).to((x if dtype_of is None else dtype_of).dtype)


class LayerNorm(nn.LayerNorm):
    """In fp32; the result has the type of `dtype_of`, or of x."""

    def forward(self, x, dtype_of=None):
        y = F.layer_norm(x.float(), self.normalized_shape, self.weight.float(), self.bias.float(), self.eps)
        return y.to((x if dtype_of is None else dtype_of).dtype)


def make_norm(config):
    kind = LayerNorm if config.norm_type == "layer" else RMSNorm
    return kind(config.hidden_size, config.norm_eps)


def rotate(x_BTHD, cos, sin):
    a, b = x_BTHD.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


def over_groups(values_BTHD, heads):
    return values_BTHD.repeat_interleave(heads // values_BTHD.shape[2], dim=2)


# --------------------------------------------------------------------------------------------------------- values


def gate_function(name, logits):
    heads = logits.shape[-1]
    if name == "relu":
        return F.relu(logits)
    if name == "sigmoid":
        return torch.sigmoid(logits)
    if name == "tanh":
        return torch.tanh(logits)
    if name == "identity":
        return logits
    if name == "softmax":
        return F.softmax(logits, -1) * heads
    if name == "softmax_sigmoid":
        return F.softmax(logits, -1) * torch.sigmoid(logits) * heads
    raise ValueError(f"unknown value_residual_gate {name!r}")


class SATFormerGates(nn.Module):
    """Gates of one layer: V' = V + sum over sources s of alpha_s V_s. One or three maps, linear or with one hidden
    layer, from the layer's input to gates before their function."""

    # name prefix, a gate per head, over the running mean of the tokens so far
    MAPS = {
        "static": [],
        "token_head": [("", True, False)],
        "token": [("", False, False)],
        "head": [("", True, True)],
        "layer": [("", False, True)],
        "factorised": [("layer_", False, True), ("head_", True, True), ("token_", False, False)],
    }

    def __init__(self, config):
        super().__init__()
        self.function, self.maps = config.value_residual_gate, self.MAPS[config.value_gate_granularity]
        self.sources, self.kv_heads = len(config.value_sources), config.kv_heads
        self.std, self.bias_start = config.gate_init_std, config.value_gate_bias_init
        width, hidden = config.hidden_size, config.value_gate_ffn
        if not self.maps:
            self.alpha = nn.Parameter(torch.empty(self.sources))
        for name, per_head, _ in self.maps:
            outputs = self.sources * (self.kv_heads if per_head else 1)
            if hidden > 0:
                self.add_module(name + "alpha_hidden", nn.Linear(width, hidden, bias=False))
            linear = nn.Linear(hidden or width, outputs, bias=config.value_residual_proj_bias)
            self.add_module(name + "alpha_proj", linear)

    def first(self, x_BTC):
        """Of each map its first product, which commutes with the mean over tokens."""
        results = []
        for name, _, running in self.maps:
            linear = getattr(self, name + "alpha_hidden", None)
            if linear is None:
                linear = getattr(self, name + "alpha_proj")
            bias = None if running else linear.bias
            results.append(F.linear(x_BTC, linear.weight, bias))
        return results

    def running_numbers(self, first):
        running = [y for (_, _, is_running), y in zip(self.maps, first) if is_running]
        return torch.cat(running, -1) if running else None

    def alphas(self, x_BTC, first, means):
        """Per source [B, T, H]; `means`: the running means of running_numbers()."""
        shape = (*x_BTC.shape[:2], self.kv_heads)
        if not self.maps:
            return [gate_function(self.function, self.alpha[s].expand(shape)) for s in range(self.sources)]
        outputs, begin = [], 0
        for (name, _, running), y in zip(self.maps, first):
            if running:
                width = y.shape[-1]
                y, begin = means[..., begin : begin + width], begin + width
            projection = getattr(self, name + "alpha_proj")
            if hasattr(self, name + "alpha_hidden"):
                y = projection(F.silu(y.to(x_BTC.dtype)))
            elif running and projection.bias is not None:
                y = y + projection.bias
            outputs.append(y)
        alphas = []
        for s in range(self.sources):
            alpha = None
            for (_, per_head, _), y in zip(self.maps, outputs):
                width = self.kv_heads if per_head else 1
                part = gate_function(self.function, y[..., s * width : (s + 1) * width].expand(shape))
                alpha = part if alpha is None else alpha * part
            alphas.append(alpha)
        return alphas


class ResFormerMix(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.lambda2 = nn.Parameter(torch.empty(()))
        self.start = config.value_residual_lambda2_init


class LambdaManager(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.lambda_scale = nn.Parameter(torch.empty(()))
        self.lambda_logits = nn.Parameter(torch.empty(config.num_hidden_layers - 1))
        self.start = float(config.num_hidden_layers)

    def forward(self, layer):
        return self.lambda_scale * F.softmax(self.lambda_logits, 0)[layer - 1]


class LimeMix(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        self.router = nn.Parameter(torch.empty(config.kv_heads, (layer + 1) * config.kv_heads))

    def forward(self, pool):
        mixed = F.linear(torch.cat(pool, 2).transpose(2, 3), self.router.to(pool[0].dtype))
        return mixed.transpose(2, 3)


# ------------------------------------------------------------------------------------------------------ sublayers


class Attention(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        self.config, self.layer = config, layer
        width, kv = config.hidden_size, config.kv_heads * config.head_dim
        heads = config.num_heads * config.head_dim
        self.q_proj = nn.Linear(width, heads, bias=config.qkv_bias)
        self.k_proj = nn.Linear(width, kv, bias=config.qkv_bias)
        if config.projects_values(layer):
            self.v_proj = nn.Linear(width, kv, bias=config.qkv_bias)
        self.o_proj = nn.Linear(heads, width, bias=config.linear_bias)
        if config.qk_norm:
            self.q_norm = RMSNorm(config.head_dim, config.qk_norm_eps)
            self.k_norm = RMSNorm(config.head_dim, config.qk_norm_eps)
        self.active = config.value_path_active(layer)
        self.path = config.effective_value_path
        if self.active and self.path == "satformer":
            self.value_residual_mixing = SATFormerGates(config)
        elif self.active and self.path == "resformer":
            self.value_residual_mixing = ResFormerMix(config)
        elif self.active and self.path == "lime":
            self.value_residual_mixing = LimeMix(config, layer)

    def offers(self):
        return self.path == "lime" or (self.path != "own" and self.layer in self.config.source_layers)

    def mix(self, v, k, pool, lambda1):
        """Values and keys to use; without the additions of gates at attention's output."""
        if not self.active or self.path == "satformer":
            return v, k
        if self.path == "resformer":
            return (lambda1 * pool[0] + self.value_residual_mixing.lambda2 * v).to(v.dtype), k
        if self.path == "fixed" or (self.path == "neutreno" and self.config.neutreno_values == "fixed"):
            return (pool[0] + v) * 0.5, k
        if self.path == "svformer":
            return pool[0], k
        if self.path == "lime":
            step = 2 if self.config.lime_keys else 1
            keys = self.value_residual_mixing((*pool[1::2], k)) if self.config.lime_keys else k
            return self.value_residual_mixing((*pool[::step], v)), keys
        return v, k

    def forward(self, inputs, pool, lambda1, rope, mask, tokens, cache):
        """`inputs`: of queries, keys, values; `pool`: what earlier layers offer; `mask`: [B, 1, T, S] or None;
        `tokens`: (valid [B, S] or None, number of tokens up to each query [B, T, 1]). Returns the output and what
        this layer offers to later ones."""
        config = self.config
        q_in, k_in, v_in = inputs
        B, T = q_in.shape[:2]
        H, D = config.kv_heads, config.head_dim
        q = self.q_proj(q_in).view(B, T, config.num_heads, D)
        k = self.k_proj(k_in).view(B, T, H, D)
        v = self.v_proj(v_in).view(B, T, H, D) if hasattr(self, "v_proj") else None
        offered = () if not self.offers() else (v, k) if self.path == "lime" and config.lime_keys else (v,)
        v, k = self.mix(v, k, pool, lambda1)
        gates = self.value_residual_mixing if self.active and self.path == "satformer" else None
        first, numbers, added = [], None, None
        if gates is not None:
            first = gates.first(v_in)
            numbers = gates.running_numbers(first)
        valid, counts = tokens
        valid_T = None if valid is None else valid[:, -T:, None]
        if gates is not None and numbers is None:
            v, added = self.add_gated(gates.alphas(v_in, first, None), v, pool)
        if config.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        if rope is not None:
            cos, sin = (t.to(q.dtype) for t in rope)
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        q, k = q.transpose(1, 2), k.transpose(1, 2)
        if numbers is not None:
            # Gates over a running mean need few numbers of every earlier token. They are kept in the cache as layers of
            # their own, so that whatever reorders or cuts the cache does the same to them.
            if valid_T is not None:
                numbers = numbers.masked_fill(~valid_T, 0)
            history = numbers
            if cache is not None:
                place = self.cache_place()
                history = cache.update(numbers[:, None], numbers[:, None, :, :0], place)[0][:, 0]
            sums = history.float().cumsum(1)[:, -T:]
            v, added = self.add_gated(gates.alphas(v_in, first, sums / counts), v, pool)
        mixed = v
        v = v.transpose(1, 2)
        if cache is not None:
            k, v = cache.update(k, v, self.layer)
        groups = config.num_heads // H
        if groups > 1:
            k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None and T > 1)
        out = out.transpose(1, 2)
        if added is not None:
            out = out + over_groups(added, config.num_heads)
        if self.active and self.path == "neutreno":
            out = out + over_groups((pool[0] - mixed) * config.neutreno_lambda, config.num_heads)
        if valid_T is not None:
            out = out.masked_fill(~valid_T[..., None], 0)
        return self.o_proj(out.reshape(B, T, -1)), offered

    def add_gated(self, alphas, v, pool):
        """Values with the gated sources, and what is added to attention's output instead (or None)."""
        added = None
        for alpha, source in zip(alphas, pool):
            gated = alpha.to(source.dtype).unsqueeze(-1) * source
            if self.config.value_place == "output":
                added = gated if added is None else added + gated
            else:
                v = v + gated
        return v, added

    def cache_place(self):
        """Index of this layer's running numbers in the cache, behind the layers' own."""
        config = self.config
        active = [i for i in range(config.num_hidden_layers) if config.value_path_active(i)]
        return config.num_hidden_layers + active.index(self.layer)


class MLP(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        size, self.plain = config.ffn_size(layer), config.mlp_type == "plain"
        bias = self.plain and config.linear_bias
        self.activation = config.hidden_act
        if not self.plain:
            self.gate_proj = nn.Linear(config.hidden_size, size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, size, bias=bias)
        self.down_proj = nn.Linear(size, config.hidden_size, bias=bias)

    def forward(self, x):
        if self.plain:
            x = self.up_proj(x)
            if self.activation == "relu":
                return self.down_proj(F.relu(x))
            return self.down_proj(F.gelu(x, approximate="tanh" if self.activation == "gelu_new" else "none"))
        gate, up = self.gate_proj(x), self.up_proj(x)
        return self.down_proj((F.silu(gate.float()) * up.float()).to(x.dtype))


# ------------------------------------------------------------------------------------------------------- routings


class DepthModule(nn.Module):
    """MUDDFormer: streams from all states, with weights that depend on the token."""

    def __init__(self, config, layer):
        super().__init__()
        self.states, self.ways = layer + 2, 1 if layer == config.num_hidden_layers - 1 else 4
        width, mixes = config.hidden_size, self.states * self.ways
        self.w1 = nn.Linear(width, mixes, bias=False)
        self.w2 = nn.Linear(mixes, mixes, bias=False)
        self.static_weight = nn.Parameter(torch.empty(self.ways, self.states))
        self.eps, self.residual_only = config.norm_eps, config.mudd_post_norm == "residual"
        self.normed, self.w1_std = config.use_pre_post_da_norm, 1 / width
        if config.mudd_w1_init == "1/sqrt(d)":
            self.w1_std = width**-0.5
        if self.normed:
            if config.mudd_pre_norm == "module":
                self.pre_da_norms = nn.ModuleList([RMSNorm(width, config.norm_eps) for _ in range(self.states)])
            first = self.ways - 1 if self.residual_only else 0
            norms = {str(way): RMSNorm(width, config.norm_eps, 1e-3) for way in range(first, self.ways)}
            self.post_da_norms = nn.ModuleDict(norms)

    def forward(self, states, shared_norms):
        last = states[-1]
        B, T, _ = last.shape
        hidden = F.gelu(self.w1(rms(last, self.eps).to(last.dtype)))
        mix = self.w2(hidden).view(B, T, self.ways, self.states) + self.static_weight
        if self.normed:
            norms = self.pre_da_norms if shared_norms is None else shared_norms[: self.states]
            states = [norm(x) for norm, x in zip(norms, states)]
        streams = []
        for way in range(self.ways):
            total = mix[:, :, way, 0, None] * states[0]
            for j in range(1, self.states):
                total = total + mix[:, :, way, j, None] * states[j]
            if self.normed:
                if str(way) in self.post_da_norms:
                    total = self.post_da_norms[str(way)](total)
                total = total + last
            streams.append(total.to(last.dtype))
        return tuple(streams)


class HyperNorm(nn.Module):
    def __init__(self, kind, size):
        super().__init__()
        self.kind, self.size = kind, size
        if kind in ("rms", "layer"):
            self.weight = nn.Parameter(torch.empty(size))
        if kind == "layer":
            self.bias = nn.Parameter(torch.empty(size))
        if kind == "l2":
            self.gamma = nn.Parameter(torch.empty(size))

    def forward(self, x):
        if self.kind == "rms":
            return rms(x, torch.finfo(torch.float32).eps) * self.weight
        if self.kind == "l2":
            return F.normalize(x, dim=-1) * math.sqrt(self.size) * (self.gamma + 1)
        return F.layer_norm(x, (self.size,), getattr(self, "weight", None), getattr(self, "bias", None), 1e-5)


class HyperConnection(nn.Module):
    """n streams H [B, T, n, C]: what the sublayer reads, and how its output and the streams are mixed."""

    def __init__(self, config, index):
        super().__init__()
        n, width = config.expansion_rate, config.hidden_size
        self.index, self.manifold, self.use_tanh = index, config.hc_weights == "manifold", config.use_tanh
        self.static_beta = nn.Parameter(torch.empty(n))
        self.static_alpha = nn.Parameter(torch.empty(n, n + 1))
        self.dynamic = config.use_dynamic_hc
        if self.dynamic:
            self.norm = HyperNorm(config.hc_norm_type, width)
            self.dynamic_beta_proj = nn.Parameter(torch.empty(width))
            self.dynamic_alpha_proj = nn.Parameter(torch.empty(width, n + 1))
            self.dynamic_beta_scale = nn.Parameter(torch.empty(1))
            self.dynamic_alpha_scale = nn.Parameter(torch.empty(1))

    def read(self, streams):
        x, alpha, beta = streams.float(), self.static_alpha.float(), self.static_beta.float()
        if self.dynamic:
            normed = self.norm(x)
            a, b = normed @ self.dynamic_alpha_proj.float(), normed @ self.dynamic_beta_proj.float()
            if self.use_tanh:
                a, b = torch.tanh(a), torch.tanh(b)
            alpha = a * self.dynamic_alpha_scale + alpha
            beta = b * self.dynamic_beta_scale + beta
        if self.manifold:
            mix = alpha[..., 1:]
            for _ in range(20):  # Sinkhorn's iterations
                mix = mix - torch.logsumexp(mix, -1, keepdim=True)
                mix = mix - torch.logsumexp(mix, -2, keepdim=True)
            alpha = torch.cat((torch.sigmoid(alpha[..., :1]), mix.exp()), -1)
            beta = torch.sigmoid(beta) * 2
        read = (alpha[..., 0, None] * x).sum(-2).to(streams.dtype)
        return read, (alpha[..., 1:].transpose(-1, -2), beta)

    @staticmethod
    def write(streams, weights, output):
        mix, beta = weights
        total = beta[..., None] * output[:, :, None].float() + mix @ streams.float()
        return total.to(streams.dtype)


class Block(nn.Module):
    """One layer: what it carries is a tuple of streams whose meaning is the routing's."""

    def __init__(self, config, layer):
        super().__init__()
        self.routing, width, eps = config.residual_routing, config.hidden_size, config.norm_eps
        if self.routing == "mudd":
            self.attn_norm_q = RMSNorm(width, eps)
            self.attn_norm_k = RMSNorm(width, eps)
            if config.projects_values(layer):
                self.attn_norm_v = RMSNorm(width, eps)
        else:
            self.attn_norm = make_norm(config)
        self.attn = Attention(config, layer)
        self.mlp_norm = make_norm(config)
        self.mlp = MLP(config, layer)
        if self.routing == "mudd":
            self.da = DepthModule(config, layer)
        if self.routing == "hyper":
            self.attn_hc = HyperConnection(config, 2 * layer)
            self.mlp_hc = HyperConnection(config, 2 * layer + 1)

    def forward(self, streams, history, pool, lambda1, shared_norms, *context):
        """Returns (streams, state of this layer for the history or None, what is offered to later layers)."""
        if self.routing == "hyper":
            H = streams[0]
            x, weights = self.attn_hc.read(H)
            x = self.attn_norm(x)
            out, offered = self.attn((x, x, x), pool, lambda1, *context)
            H = self.attn_hc.write(H, weights, out)
            x, weights = self.mlp_hc.read(H)
            return (self.mlp_hc.write(H, weights, self.mlp(self.mlp_norm(x))),), None, offered
        if self.routing == "mudd":
            q, k, v, residual = streams
            v = self.attn_norm_v(v) if hasattr(self, "attn_norm_v") else None
            inputs = (self.attn_norm_q(q), self.attn_norm_k(k), v)
        else:
            residual = streams[0]
            x = self.attn_norm(residual)
            inputs = (x, x, x)
        out, offered = self.attn(inputs, pool, lambda1, *context)
        total = residual.float() + out.float()
        state = total.to(residual.dtype)
        state = state + self.mlp(self.mlp_norm(total, residual))
        if self.routing == "mudd":
            return self.da((*history, state), shared_norms), state, offered
        return (state,), state if self.routing == "dense" else None, offered


class DepthAverage(nn.Module):
    """DenseFormer: after block i a learned average of the states of its dilation group."""

    def __init__(self, config):
        super().__init__()
        k = config.dwa_dilation
        self.dilation = k
        self.alphas = nn.ModuleDict(
            {
                str(i): nn.Linear((i + 1 + k) // k, 1, bias=False)
                for i in range(config.num_hidden_layers)
                if (i + 1) % config.dwa_period == 0
            }
        )

    def forward(self, layer, history):
        if str(layer) not in self.alphas:
            return history[-1]
        weights = self.alphas[str(layer)].weight.flatten()
        group = history[(layer + 1) % self.dilation : layer + 2 : self.dilation]
        return sum(w * x.float() for w, x in zip(weights, group)).to(group[0].dtype)
