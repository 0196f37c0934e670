"""Language models of transformers, from their configurations: random weights, nothing fetched."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from dally.profiling.builtin import Task


def _loss(model: Any, batch: Any) -> Any:
    return model(**batch).loss


def _bert(batch: int, tokens: int, **sizes: int) -> Task:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(**sizes)
    parts = torch.randint(config.vocab_size, (batch, tokens))
    return Task(BertForMaskedLM(config), {"input_ids": parts, "labels": parts.clone()}, _loss)


def _gpt2(batch: int, **sizes: int) -> Task:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(use_cache=False, **sizes)
    parts = torch.randint(config.vocab_size, (batch, 1024))
    return Task(GPT2LMHeadModel(config), {"input_ids": parts, "labels": parts.clone()}, _loss)


# Each builds the model for a batch size.
bert_base = partial(_bert, tokens=384)
bert_large = partial(
    _bert, tokens=512, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096
)
gpt2 = _gpt2  # of 124 M parameters
gpt2_medium = partial(_gpt2, n_embd=1024, n_layer=24, n_head=16)  # of 355 M
gpt2_xl = partial(_gpt2, n_embd=1600, n_layer=48, n_head=25)  # of 1.5 B


def t5_base(batch: int) -> Task:
    """T5-base on pairs of 512 and 114 tokens."""
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        d_model=768, d_kv=64, d_ff=3072, num_layers=12, num_heads=12, use_cache=False, decoder_start_token_id=0
    )
    parts = torch.randint(config.vocab_size, (batch, 512))
    answers = torch.randint(config.vocab_size, (batch, 114))
    return Task(T5ForConditionalGeneration(config), {"input_ids": parts, "labels": answers}, _loss)
