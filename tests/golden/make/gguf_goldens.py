#!/usr/bin/env python3
"""Writes tests/golden/tiny.gguf and gguf.json: a tiny llama in all six formats that xrun reads,
and the results of independent readers.

Values come from the `gguf` package's dequantisation with transformers' own reordering of q and k
(load_gguf_checkpoint); logits from transformers' LlamaForCausalLM on them; token ids from
`tokenizers`, built here from the same vocabulary.

Made with gguf 0.19, transformers 5.23, tokenizers 0.23, torch 2.11:
    python tests/golden/make/gguf_goldens.py
"""

import json
import pathlib

import gguf
import numpy as np
import torch
from gguf.quants import quantize
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from tokenizers.pre_tokenizers import ByteLevel
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

GOLDEN = pathlib.Path(__file__).resolve().parent.parent
LAYERS, D, HEADS, KV, FFN, CONTEXT, THETA, EPS = 2, 64, 4, 2, 96, 512, 5000.0, 1e-5
K = D // HEADS
Q = gguf.GGMLQuantizationType
MERGES = ["t h", "th e", "i n", "a n", "Ġ the", "an d", "Ġ and", "1 2", "e r", "in g", "Ċ Ċ"]
TEXTS = ["the thing and the other", "a12 and 3412", "x\n\n1 2", " the  end", "naïve – ok", ""]
TEMPLATE = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + "
            "'<|im_end|>' + '\n' }}{% endfor %}")


def vocabulary():
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokens = special + sorted(ByteLevel.alphabet()) + [m.replace(" ", "") for m in MERGES]
    tokens += ["<tool>"]
    types = [3] * 3 + [1] * (len(tokens) - 4) + [4]
    return tokens, types


def tensors(vocab):
    rng = np.random.default_rng(7)
    draw = lambda *shape: (rng.standard_normal(shape) * 0.1).astype(np.float32)
    yield "token_embd.weight", draw(vocab, D), Q.Q8_0
    yield "output_norm.weight", 1 + draw(D), Q.F32
    for i in range(LAYERS):
        blk = f"blk.{i}."
        yield blk + "attn_norm.weight", 1 + draw(D), Q.F32
        yield blk + "ffn_norm.weight", 1 + draw(D), Q.F32
        yield blk + "attn_q.weight", draw(HEADS * K, D), Q.Q4_1
        yield blk + "attn_k.weight", draw(KV * K, D), Q.Q4_0
        yield blk + "attn_v.weight", draw(KV * K, D), Q.BF16
        yield blk + "attn_output.weight", draw(D, HEADS * K), Q.F16
        yield blk + "ffn_gate.weight", draw(FFN, D), Q.Q4_1
        yield blk + "ffn_up.weight", draw(FFN, D), Q.Q4_0
        yield blk + "ffn_down.weight", draw(D, FFN), Q.Q8_0


def write_gguf(path, tokens, types):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(D)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV)
    writer.add_rope_freq_base(THETA)
    writer.add_layer_norm_rms_eps(EPS)
    writer.add_rope_dimension_count(K)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    for name, values, kind in tensors(len(tokens)):
        if kind in (Q.F32,):
            writer.add_tensor(name, values)
        elif kind == Q.F16:
            writer.add_tensor(name, values.astype(np.float16))
        else:
            writer.add_tensor(name, quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def fingerprint(values):
    """Returns enough numbers of a tensor to detect any reordering or misreading."""
    flat = values.double().flatten()
    pattern = (torch.arange(flat.numel()) * 37 % 101).double() / 101
    return {"shape": list(values.shape), "sum": flat.sum().item(),
            "dot": (flat * pattern).sum().item(), "first": flat[:6].tolist(),
            "last": flat[-3:].tolist()}


def oracle_tokenizer(tokens, types):
    merges = [tuple(m.split(" ")) for m in MERGES]
    tok = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(True), ByteLevel(add_prefix_space=False, use_regex=True)])
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False)
                            for t, kind in zip(tokens, types) if kind == 3])
    tok.add_tokens([AddedToken(t, normalized=False) for t, kind in zip(tokens, types) if kind == 4])
    return tok


def main():
    tokens, types = vocabulary()
    path = GOLDEN / "tiny.gguf"
    write_gguf(path, tokens, types)
    state = load_gguf_checkpoint(str(path), return_tensors=True,
                                 model_to_load=LlamaForCausalLM(LlamaConfig(
                                     vocab_size=len(tokens), hidden_size=D, intermediate_size=FFN,
                                     num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                                     num_key_value_heads=KV)))["tensors"]
    state = {name: torch.tensor(np.asarray(values)).float() for name, values in state.items()}
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=len(tokens), hidden_size=D, intermediate_size=FFN, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=KV, rms_norm_eps=EPS, rope_theta=THETA,
        max_position_embeddings=CONTEXT, tie_word_embeddings=True)).eval()
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert set(missing) <= {"lm_head.weight"} and not unexpected, (missing, unexpected)
    model.tie_weights()
    ids = [5, 100, 17, 260, 33, 2]
    with torch.no_grad():
        logprobs = model(torch.tensor([ids])).logits[0].log_softmax(-1)
    tok = oracle_tokenizer(tokens, types)
    golden = {
        "versions": {"gguf": "0.19", "transformers": "5.23", "tokenizers": "0.23"},
        "vocab": len(tokens),
        "tensors": {name: fingerprint(values) for name, values in sorted(state.items())},
        "ids": ids,
        "logprobs": [logprobs[i, ids[i + 1]].item() for i in range(len(ids) - 1)],
        "texts": [{"text": t, "ids": tok.encode(t + "<tool>").ids} for t in TEXTS],
    }
    (GOLDEN / "gguf.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
