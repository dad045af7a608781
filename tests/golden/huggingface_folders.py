#!/usr/bin/env python3
"""Records folders of tiny models as save_pretrained writes them, and the logits of some ids: GPT-2 with a head of its own and in
shards of 16-bit floats, Llamas with another rope_theta, grouped heads of another width and a tied head, Mistral's window, and
Qwen2's biases. Writes folders/ and huggingface_folders.txt beside this script.

With a FOLDER, opens what lockstep convert --to huggingface has written there and compares its logits with those of the model
after it:  huggingface_folders.py FOLDER gpt2_untied

Needs only a Python with torch, numpy and transformers. Values are drawn with a larger deviation than a training begins with."""

import pathlib
import shutil
import sys

import numpy as np
import torch
import transformers
from torch_text import version, write

FOLDER = pathlib.Path(__file__).resolve().parent
EXAMPLES, POSITIONS, CLASSES, WIDTH = 2, 7, 13, 8
LLAMA = {"vocab_size": CLASSES, "hidden_size": WIDTH, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 4,
         "max_position_embeddings": 32}


def theta(value):
    """transformers 5 has it within rope_parameters, and reads and writes that."""
    return {"rope_parameters": {"rope_type": "default", "rope_theta": value}}


def gpt2(**more):
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=CLASSES, n_positions=POSITIONS, n_embd=WIDTH, n_layer=2, n_head=2, **more))


MODELS = {
    "gpt2_untied": (lambda: gpt2(n_inner=20, layer_norm_epsilon=1e-3, tie_word_embeddings=False), torch.float32, "1GB"),
    "gpt2_sharded": (lambda: gpt2(activation_function="gelu", resid_pdrop=0.0, embd_pdrop=0.0), torch.float16, "2KB"),
    "llama_theta": (lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(
        **LLAMA, num_key_value_heads=2, head_dim=6, rms_norm_eps=1e-5, tie_word_embeddings=True, **theta(500000.0))),
        torch.float32, "1GB"),
    "llama_sharded": (lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(
        **LLAMA, num_key_value_heads=1, rms_norm_eps=1e-4, tie_word_embeddings=False)), torch.bfloat16, "2KB"),
    "mistral": (lambda: transformers.MistralForCausalLM(transformers.MistralConfig(
        **LLAMA, num_key_value_heads=2, sliding_window=3)), torch.float32, "1GB"),
    "qwen2": (lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(
        **LLAMA, num_key_value_heads=2, tie_word_embeddings=True, use_sliding_window=False, **theta(1e6))), torch.float32, "1GB"),
}


def opened(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager")


def ids():
    return torch.arange(EXAMPLES * POSITIONS).reshape(EXAMPLES, POSITIONS) * 5 % CLASSES


def logits_of(model):
    return model.eval().double()(ids()).logits.detach().numpy().astype(np.float32)


def draw(model):
    for name, value in model.named_parameters():
        value.data.copy_(torch.randn(value.shape) * 0.4 + (1 if "norm" in name or ".ln_" in name else 0))


def record(name):
    """The logits are those of the folder as transformers opens it, in double precision."""
    make, dtype, shard = MODELS[name]
    model = make()
    draw(model)
    folder = FOLDER / "folders" / name
    shutil.rmtree(folder, ignore_errors=True)
    model.to(dtype).save_pretrained(folder, max_shard_size=shard)
    (folder / "generation_config.json").unlink(missing_ok=True)
    return logits_of(opened(folder))


def main():
    torch.manual_seed(1)
    write(__file__, "Logits of folders of Hugging Face's transformers.",
          f"transformers {transformers.__version__}, torch {version()}, numpy {np.__version__}",
          {f"{name}/logits": record(name) for name in MODELS})


def check(folder, name):
    model, known = opened(folder), opened(FOLDER / "folders" / name)
    print(type(model).__name__, "differs by", float(np.abs(logits_of(model) - logits_of(known)).max()))


if len(sys.argv) == 3:
    check(*sys.argv[1:])
else:
    main()
