"""Random models of real architectures, small enough to run in milliseconds."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    BambaConfig,
    BloomConfig,
    FalconH1Config,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    GptOssConfig,
    GraniteMoeHybridConfig,
    JambaConfig,
    Lfm2Config,
    Lfm2MoeConfig,
    LlamaConfig,
    Mamba2Config,
    MambaConfig,
    MistralConfig,
    NemotronHConfig,
    OlmoHybridConfig,
    OPTConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3_5MoeTextConfig,
    Qwen3_5TextConfig,
    Qwen3Config,
    Qwen3MoeConfig,
    Qwen3NextConfig,
)

VOCAB = 97
_COMMON: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
    # Wide enough for argmax to have clear winners.
    "initializer_range": 0.3,
    "tie_word_embeddings": False,
}
_WINDOW: dict[str, Any] = {"sliding_window": 6}
_MOE: dict[str, Any] = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "decoder_sparse_step": 1,
}
_DELTA: dict[str, Any] = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
}
_CONV: dict[str, Any] = {"layer_types": ["conv", "full_attention", "conv"], "block_multiple_of": 16}
_MAMBA2: dict[str, Any] = {"mamba_d_state": 8, "mamba_d_head": 16, "mamba_n_heads": 4}
_LAYERS = ["sliding_attention", "full_attention", "sliding_attention"]

CONFIGS: dict[str, Any] = {
    "llama": lambda: LlamaConfig(**_COMMON),
    "qwen2": lambda: Qwen2Config(**_COMMON),
    "qwen3": lambda: Qwen3Config(**_COMMON),
    "mistral": lambda: MistralConfig(**_COMMON, **_WINDOW),
    "gemma2": lambda: Gemma2Config(**_COMMON, **_WINDOW, layer_types=_LAYERS),
    "gemma3": lambda: Gemma3TextConfig(**_COMMON, **_WINDOW, layer_types=_LAYERS),
    "gpt_oss": lambda: GptOssConfig(
        **_COMMON, **_WINDOW, layer_types=_LAYERS, num_local_experts=4, num_experts_per_tok=2
    ),
    "qwen3_moe": lambda: Qwen3MoeConfig(**_COMMON, **_MOE),
    "gpt2": lambda: GPT2Config(
        vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, n_positions=512, initializer_range=0.3
    ),
    "opt": lambda: OPTConfig(
        **{**_COMMON, "ffn_dim": 48, "word_embed_proj_dim": 32, "init_std": 0.3}
    ),
    "qwen3_next": lambda: Qwen3NextConfig(
        **_COMMON,
        **_MOE,
        **_DELTA,
        shared_expert_intermediate_size=16,
    ),
    "qwen3_5": lambda: Qwen3_5TextConfig(**_COMMON, **_DELTA),
    "qwen3_5_moe": lambda: Qwen3_5MoeTextConfig(
        **_COMMON, **_MOE, **_DELTA, shared_expert_intermediate_size=16
    ),
    "olmo_hybrid": lambda: OlmoHybridConfig(**_COMMON, **_DELTA),
    "lfm2": lambda: Lfm2Config(**_COMMON, **_CONV),
    "lfm2_moe": lambda: Lfm2MoeConfig(**_COMMON, **_MOE, **_CONV, num_dense_layers=1),
    "bamba": lambda: BambaConfig(**_COMMON, **_MAMBA2, attn_layer_indices=[1]),
    "granite_hybrid": lambda: GraniteMoeHybridConfig(
        **_COMMON,
        **_MAMBA2,
        num_local_experts=4,
        num_experts_per_tok=2,
        layer_types=["linear_attention", "full_attention", "linear_attention"],
    ),
    "falcon_h1": lambda: FalconH1Config(**_COMMON, **_MAMBA2, mamba_d_ssm=64),
    "nemotron_h": lambda: NemotronHConfig(
        # Its squared activations make much of rounding, enough to route tokens elsewhere.
        **{**_COMMON, "initializer_range": 0.1},
        ssm_state_size=8,
        mamba_num_heads=4,
        mamba_head_dim=16,
        n_groups=2,
        n_routed_experts=4,
        moe_intermediate_size=16,
        moe_shared_expert_intermediate_size=16,
        layer_types=["linear_attention", "moe", "full_attention"],
    ),
    "mamba2": lambda: Mamba2Config(
        vocab_size=VOCAB,
        hidden_size=32,
        state_size=8,
        num_heads=4,
        head_dim=16,
        n_groups=2,
        num_hidden_layers=2,
        pad_token_id=0,
    ),
    "jamba": lambda: JambaConfig(**_COMMON, attn_layer_period=2, attn_layer_offset=1),
    "bloom": lambda: BloomConfig(
        vocab_size=VOCAB, hidden_size=32, n_layer=2, n_head=4, initializer_range=0.3
    ),
    "mamba": lambda: MambaConfig(
        vocab_size=VOCAB, hidden_size=32, state_size=8, num_hidden_layers=2, pad_token_id=0
    ),
}


def tiny_model(name: str, vocab_size: int = VOCAB) -> PreTrainedModel:
    """The same random model for the same name and vocabulary, in eval mode."""
    torch.set_num_threads(1)
    torch.manual_seed(7)
    config = CONFIGS[name]()
    config.vocab_size = vocab_size
    return AutoModelForCausalLM.from_config(config).eval()


def generate(model: PreTrainedModel, prompt: list[int], max_tokens: int) -> list[int]:
    """What the class's own greedy `generate` answers."""
    ids = torch.tensor([prompt])
    mask = torch.ones_like(ids)
    kwargs: dict[str, Any] = {"do_sample": False, "max_new_tokens": max_tokens}
    output = model.generate(ids, attention_mask=mask, eos_token_id=None, pad_token_id=0, **kwargs)
    answer: list[int] = output[0, len(prompt) :].tolist()
    return answer
