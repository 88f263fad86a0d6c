#!/usr/bin/env python3
"""transformers, by its own forward pass and caches; a loop of ours, which spares it the work of generate(). In dtype auto a
.gguf file's weights stay packed and it computes in float32; in any other they are made numbers when it loads."""
import copy
import inspect
import os
import time

import torch
import transformers

from worker import Peer, Unsupported, serve

DTYPES = {"auto": torch.float32, "bfloat16": torch.bfloat16, "float32": torch.float32}


class Transformers(Peer):
    version = transformers.__version__

    def __init__(self, model, dtype, threads):
        torch.set_num_threads(threads)
        where = {"pretrained_model_name_or_path": model}
        if model.endswith(".gguf"):
            where = {"pretrained_model_name_or_path": os.path.dirname(model), "gguf_file": os.path.basename(model)}
            where["quantization_config"] = transformers.GgufConfig(dequantize=dtype != "auto")
        self.model = transformers.AutoModelForCausalLM.from_pretrained(**where, dtype=DTYPES[dtype]).eval()
        self.takes = set(inspect.signature(self.model.forward).parameters)  # Mamba knows neither positions nor this cache

    def make_cache(self, name, n_tokens):
        config = self.model.config
        if name == "dynamic":
            return transformers.DynamicCache(config=config)
        if name == "static":
            return transformers.StaticCache(config=config, max_cache_len=n_tokens)
        backend, _, bits = name.partition(" ")
        try:
            return transformers.QuantizedCache(backend, config, nbits=int(bits or 4))
        except (ImportError, ValueError) as error:
            raise Unsupported(str(error)) from error

    @torch.inference_mode()
    def read(self, ids, rows, cache, n_new):
        state = self.make_cache(cache, len(ids) + n_new), rows, len(ids)
        if ids:
            self.forward(state[0], torch.tensor([ids] * rows), 0)
        return state

    def fork(self, state):
        return copy.deepcopy(state)

    def forward(self, cache, ids, n_past):
        arguments = {"past_key_values": cache, "cache_params": cache, "logits_to_keep": 1, "use_cache": True,
                     "position_ids": torch.arange(n_past, n_past + ids.shape[1]).unsqueeze(0)}
        known = {name: value for name, value in arguments.items() if name in self.takes}
        return self.model(ids, **known).logits[:, -1].argmax(-1)

    @torch.inference_mode()
    def write(self, state, ids, n_new):
        cache, rows, n_past = state
        new_ids, times, feed = [], [], torch.tensor([ids] * rows)
        for _ in range(n_new):
            chosen = self.forward(cache, feed, n_past)
            n_past += feed.shape[1]
            feed = chosen.unsqueeze(1)
            new_ids.append(int(chosen[0]))
            times.append(time.perf_counter())
        return new_ids, times


if __name__ == "__main__":
    serve(Transformers)
