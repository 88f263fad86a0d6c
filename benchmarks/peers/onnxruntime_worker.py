#!/usr/bin/env python3
"""ONNX Runtime GenAI, with weights in int4 that its own builder makes of the model once. Its only cache is "dynamic"."""
import os
import subprocess
import sys
import time

import numpy
import onnxruntime_genai as genai

from worker import Peer, Unsupported, serve


def converted(model):
    """The folder of the model in its format, beside the other things that set-up fetched."""
    home = os.environ.get("MNEME_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "mneme"
    )
    folder = os.path.join(home, "peers", "onnx", os.path.basename(model))
    if not os.path.exists(os.path.join(folder, "genai_config.json")):
        import transformers  # only here: the worker itself computes without it

        source = model
        if model.endswith(".gguf"):
            source = os.path.join(folder, "float32")
            where = {"pretrained_model_name_or_path": os.path.dirname(model), "gguf_file": os.path.basename(model)}
            numbers = transformers.GgufConfig(dequantize=True)
            transformers.AutoModelForCausalLM.from_pretrained(**where, quantization_config=numbers).save_pretrained(source)
            transformers.AutoTokenizer.from_pretrained(**where).save_pretrained(source)
        builder = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-p", "int4", "-e", "cpu"]
        subprocess.run(builder + ["-i", source, "-o", folder, "-c", os.path.join(folder, "work")], check=True)
    return folder


class OnnxRuntime(Peer):
    version = genai.__version__

    def __init__(self, model, dtype, threads):
        if dtype != "auto":
            raise SystemExit(f"this worker's weights are int4; {dtype} is not to be had")
        config = genai.Config(converted(model))
        config.overlay('{"model": {"decoder": {"session_options": {"intra_op_num_threads": %d}}}}' % threads)
        self.model = genai.Model(config)

    def read(self, ids, rows, cache, n_new):
        if cache != "dynamic":
            raise Unsupported(f"ONNX Runtime GenAI has no cache {cache}")
        params = genai.GeneratorParams(self.model)
        params.set_search_options(
            do_sample=False, max_length=len(ids) + n_new + 1, min_length=len(ids) + n_new + 1, batch_size=rows
        )
        generator = genai.Generator(self.model, params)
        if ids:
            generator.append_tokens(numpy.array([ids] * rows, dtype=numpy.int32))
        return generator, rows, len(ids)

    def fork(self, state):
        generator, _, n_past = state
        if generator.token_count() > n_past:
            generator.rewind_to(n_past)
        return state

    def write(self, state, ids, n_new):
        generator, rows, _ = state
        new_ids, times = [], []
        generator.append_tokens(numpy.array([ids] * rows, dtype=numpy.int32))
        for _ in range(n_new):
            generator.generate_next_token()
            new_ids.append(int(generator.get_next_tokens()[0]))
            times.append(time.perf_counter())
        return new_ids, times


if __name__ == "__main__":
    serve(OnnxRuntime)
