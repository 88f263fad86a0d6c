#!/usr/bin/env python3
"""Write what optimum-quanto, hqq and transformers' fp8 layer make of tiles: codecs.json, read by
tests/quant/block_codec_test.cc.

    pip install torch==2.13.0 transformers==5.23.0 optimum-quanto==0.2.7 hqq==0.2.8.post1
    python make_codecs.py codecs.json

A tile is one head's block as a float32 matrix [64, dim]; `tile` says how its numbers are made, so that a test can make
them too, bit for bit. cases[]:

backend, nbits, axis, group, dim   as the package takes them; fp8 has neither bits nor groups
codes     row-major [64, dim], one hexadecimal digit each, two for 8 bits
values    what the package decodes elements 0, 37, 74 .. to
"""
import json
import sys

import numpy
import torch
from hqq.core.quantize import Quantizer
from optimum.quanto import MaxOptimizer, qint2, qint4, quantize_weight
from transformers.cache_utils import Fp8QuantizedLayer

STRIDE = 37


def tile(dim: int) -> torch.Tensor:
    """Sums of four uniform numbers, and every ninth channel eight times as large: exact in float32."""
    state, numbers = dim, []
    for i in range(64 * dim):
        total = 0
        for _ in range(4):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            total += state >> 48
        numbers.append((total - 131070) / 32768 * (8 if i % dim % 9 == 4 else 1))
    return torch.tensor(numbers, dtype=torch.float32).reshape(64, dim)


def quanto(x, nbits, axis, group):
    qtype = {2: qint2, 4: qint4}[nbits]
    batch = x[None]  # as transformers does it: along axis 0 groups may span tokens
    scale, shift = MaxOptimizer()(batch, qtype, axis, group)
    coded = quantize_weight(batch, qtype, axis, scale, shift, group)
    values = coded.dequantize()
    codes = coded._data.unpack()
    if axis == 0:
        return codes.reshape(x.shape), values
    groups = x.shape[0] // group  # [group, dim * groups], as the package lays them
    return codes.reshape(group, x.shape[1], groups).permute(2, 0, 1).reshape(x.shape), values


def hqq(x, nbits, axis, group):
    codes, meta = Quantizer.quantize(x, nbits=nbits, axis=axis, group_size=group, device="cpu", bitpack=False)
    meta["compute_dtype"] = torch.float32
    return codes.to(torch.uint8).reshape(x.shape), Quantizer.dequantize(codes, meta)


def fp8(x, nbits, axis, group):
    layer = Fp8QuantizedLayer()
    codes, scale = layer._quantize(x)
    return codes.view(torch.uint8), codes.float() * scale


def cases():
    for dim in (16, 64, 96):
        for axis in (0, -1):
            for nbits in (2, 4):
                yield quanto, nbits, axis, 64, dim
        for axis in (0, 1):
            for nbits in (1, 2, 3, 4, 8):
                yield hqq, nbits, axis, 64, dim
        yield fp8, 8, 0, 0, dim
    for dim in (64, 128):
        yield quanto, 4, 0, 32, dim
        yield quanto, 4, -1, 32, dim
        yield hqq, 4, 0, 32, dim
        yield hqq, 4, 1, 128, dim
    yield fp8, 8, 0, 0, 128


def main():
    result = []
    for backend, nbits, axis, group, dim in cases():
        codes, values = backend(tile(dim), nbits, axis, group)
        digits = "".join(f"{code:0{2 if nbits == 8 else 1}x}" for code in codes.flatten().tolist())
        sample = [float(v) for v in numpy.float32(values.flatten()[::STRIDE].numpy())]
        result.append(dict(backend=backend.__name__, nbits=nbits, axis=axis, group=group, dim=dim, codes=digits,
                           values=sample))
    with open(sys.argv[1], "w") as out:
        out.write('{"cases": [\n' + ",\n".join(json.dumps(case) for case in result) + "\n]}\n")


if __name__ == "__main__":
    main()
