#!/usr/bin/env python3
"""OpenVINO GenAI. Its pipeline keeps no past between calls, so a request that is not cold reads all ids again; the time
of a step does not show it. Caches are what KV_CACHE_PRECISION takes: "u8" (its default), "u4", "f16", "f32"."""
import time

import numpy
import openvino
import openvino_genai as genai

from worker import Peer, serve


class Clock(genai.StreamerBase):
    """Notes when each token was known."""

    def __init__(self):
        super().__init__()
        self.times = []

    def write(self, tokens):
        self.times += [time.perf_counter()] * (len(tokens) if isinstance(tokens, list) else 1)
        return genai.StreamingStatus.RUNNING

    def end(self):
        pass


class OpenVino(Peer):
    version = genai.__version__

    def __init__(self, model, dtype, threads):
        if dtype != "auto":
            raise SystemExit(f"this worker computes with the weights of the file; {dtype} is not to be had")
        self.model, self.threads, self.pipelines = model, threads, {}

    def read(self, ids, rows, cache, n_new):
        if cache not in self.pipelines:
            scheduler = genai.SchedulerConfig()
            scheduler.enable_prefix_caching = False  # or each round would read what the one before has read
            properties = {"INFERENCE_NUM_THREADS": self.threads, "KV_CACHE_PRECISION": cache}
            self.pipelines[cache] = genai.LLMPipeline(self.model, "CPU", scheduler_config=scheduler, **properties)
        return self.pipelines[cache], ids, rows

    def write(self, state, ids, n_new):
        pipeline, past, rows = state
        inputs = numpy.array([past + ids] * rows, dtype=numpy.int64)
        config = genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample = n_new, True, False
        clock = Clock() if rows == 1 else None
        start = time.perf_counter()
        result = pipeline.generate(
            genai.TokenizedInputs(openvino.Tensor(inputs), openvino.Tensor(numpy.ones_like(inputs))), config, clock
        )
        if clock:
            return result.tokens[0], clock.times
        first, step = result.perf_metrics.get_ttft().mean / 1e3, result.perf_metrics.get_tpot().mean / 1e3
        return result.tokens[0], [start + first + step * i for i in range(n_new)]


if __name__ == "__main__":
    serve(OpenVino)
