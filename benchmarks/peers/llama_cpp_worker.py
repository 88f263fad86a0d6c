#!/usr/bin/env python3
"""llama.cpp, by the C functions that llama-cpp-python brings; caches are "f16", "q8_0" or "q4_0", each also with
" flash" behind it. Its quantized values need flash attention."""
import ctypes
import time

import llama_cpp as api

from worker import Peer, Unsupported, serve

TYPES = {"f16": api.GGML_TYPE_F16, "q8_0": api.GGML_TYPE_Q8_0, "q4_0": api.GGML_TYPE_Q4_0}
BATCH = 2048


class Context:
    """One context of llama.cpp: a cache and what it takes to compute with it."""

    def __init__(self, model, threads, cache, n_tokens, rows):
        kind, _, flash = cache.partition(" ")
        params = api.llama_context_default_params()
        params.n_ctx, params.n_seq_max = n_tokens * rows, rows
        params.n_batch, params.n_ubatch = BATCH, 512
        params.n_threads = params.n_threads_batch = threads
        params.type_k = params.type_v = TYPES[kind]
        params.flash_attn_type = api.LLAMA_FLASH_ATTN_TYPE_ENABLED if flash else api.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.no_perf = True
        self.handle = api.llama_init_from_model(model, params)
        if not self.handle:
            raise Unsupported(f"llama.cpp makes no context with a cache in {cache}")
        self.rows, self.n_read = rows, 0
        self.greedy = api.llama_sampler_init_greedy()

    def __del__(self):
        if getattr(self, "handle", None):
            api.llama_free(self.handle)

    def decode(self, texts, n_past):
        """Reads a list of tokens for each row, all of one length, and returns the likeliest next one of each."""
        length = len(texts[0])
        for begin in range(0, length, BATCH // self.rows):
            end = min(length, begin + BATCH // self.rows)
            batch = api.llama_batch_init((end - begin) * self.rows, 0, 1)
            batch.n_tokens = (end - begin) * self.rows
            last = []
            for row, text in enumerate(texts):
                for at in range(begin, end):
                    i = row * (end - begin) + at - begin
                    batch.token[i], batch.pos[i] = text[at], n_past + at
                    batch.n_seq_id[i], batch.seq_id[i][0] = 1, row
                    batch.logits[i] = at == length - 1
                last.append(i)
            status = api.llama_decode(self.handle, batch)
            api.llama_batch_free(batch)
            if status:
                raise Unsupported(f"llama_decode gives {status} for {length} tokens behind {n_past}")
        return [api.llama_sampler_sample(self.greedy, self.handle, i) for i in last]


class LlamaCpp(Peer):
    version = api.__version__

    def __init__(self, model, dtype, threads):
        if dtype != "auto":
            raise SystemExit(f"llama.cpp computes with the weights of the file; {dtype} is not to be had")
        self.quiet = api.llama_log_callback(lambda *_: None)
        api.llama_log_set(self.quiet, ctypes.c_void_p(0))
        api.llama_backend_init()
        self.model, self.threads = api.llama_model_load_from_file(model.encode(), api.llama_model_default_params()), threads
        if not self.model:
            raise SystemExit(f"llama.cpp cannot load {model}")

    def read(self, ids, rows, cache, n_new):
        context = Context(self.model, self.threads, cache, len(ids) + n_new, rows)
        if ids:
            context.decode([ids] * rows, 0)
            context.n_read = len(ids)
        return context

    def fork(self, state):
        memory = api.llama_get_memory(state.handle)
        for row in range(state.rows):
            api.llama_memory_seq_rm(memory, row, state.n_read, -1)
        return state

    def write(self, state, ids, n_new):
        new_ids, times, feed, n_past = [], [], [ids] * state.rows, state.n_read
        for _ in range(n_new):
            chosen = state.decode(feed, n_past)
            n_past += len(feed[0])
            feed = [[token] for token in chosen]
            new_ids.append(chosen[0])
            times.append(time.perf_counter())
        return new_ids, times


if __name__ == "__main__":
    serve(LlamaCpp)
