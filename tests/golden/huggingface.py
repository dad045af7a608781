#!/usr/bin/env python3
"""Records a tiny GPT-2 and two tiny Llamas of Hugging Face's transformers: the files that save_pretrained writes, without their
metadata but the format, and the logits of some ids. Writes weights/huggingface_*.safetensors and huggingface.txt beside this script.

Needs only a Python with torch, numpy, safetensors and transformers. Values are drawn with a larger deviation than a training begins
with, so that a wrong order of heads, of rotary pairs or of parts shows in the logits. Biases and gains are drawn, too."""

import pathlib

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch_text import hex_float

FOLDER = pathlib.Path(__file__).resolve().parent
EXAMPLES, POSITIONS, CLASSES, WIDTH, LAYERS, HEADS = 3, 6, 11, 8, 2, 2


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=CLASSES, n_positions=POSITIONS, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS))


def llama(kv_heads, tied):
    """The inner width is two thirds of four times the width, in whole parts of 256."""
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=CLASSES, hidden_size=WIDTH, intermediate_size=256, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        num_key_value_heads=kv_heads, rms_norm_eps=1e-5, max_position_embeddings=64, tie_word_embeddings=tied))


MODELS = {"gpt2": gpt2(), "llama": llama(1, False), "tied": llama(2, True)}


def draw(model):
    for name, value in model.named_parameters():
        scale = 0.05 if "mlp" in name else 0.4
        value.data.copy_(torch.randn(value.shape) * scale + (1 if "norm" in name or ".ln_" in name else 0))


def save(name, model):
    """The names and tensors are those of transformers; its file has nothing else."""
    folder = FOLDER / "weights"
    model.save_pretrained("/tmp/lockstep-golden", safe_serialization=True)
    save_file(load_file("/tmp/lockstep-golden/model.safetensors"), folder / f"huggingface_{name}.safetensors", metadata={"format": "pt"})


def main():
    torch.manual_seed(1)
    lines = ["# Logits of tiny models of Hugging Face's transformers.",
             f"# Recorded by tests/golden/huggingface.py with transformers {transformers.__version__}, "
             f"torch {torch.__version__.split('+')[0]}, numpy {np.__version__}."]
    ids = torch.arange(EXAMPLES * POSITIONS).reshape(EXAMPLES, POSITIONS) * 7 % CLASSES
    for name, model in MODELS.items():
        draw(model)
        save(name, model)
        logits = model.eval().double()(ids).logits.detach().numpy().astype(np.float32)
        lines.append(" ".join(["tensor", f"{name}/logits", "3", *map(str, logits.shape)]))
        flat = [hex_float(v) for v in logits.reshape(-1)]
        lines += [" ".join(flat[i:i + 8]) for i in range(0, len(flat), 8)]
    (FOLDER / "huggingface.txt").write_text("\n".join(lines) + "\n")


main()
