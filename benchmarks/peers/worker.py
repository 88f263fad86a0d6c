"""What a peer is to compare.py: a process that reads one JSON request a line and answers each with one JSON line.

Its first line says {"version": .., "load_ms": ..}. A request is

    {"ids": [..], "rows": 1, "new_tokens": 17, "cache": "f16", "cold": true}

Greedy text of `new_tokens` tokens behind `ids`, the same in each of `rows` sequences, eos ignored. Cold: nothing of
them is known. Otherwise all ids but the last are in a cache that the worker made, untimed, when it was first asked, and
keeps, one of each kind, until it is asked about other ids. The answer is

    {"ids": [..], "prefill_ms": until the first new token, "step_ms": for each one after it, "peak_mb": ..}

or {"unsupported": "why"}. A peer is a class with the methods that Peer names; `serve` does the rest.
"""
import json
import os
import resource
import sys
import time


class Unsupported(Exception):
    """A request that a peer cannot do, with the reason."""


class Peer:
    """One library with one model."""

    version = ""

    def read(self, ids, rows, cache, n_new):
        """A state in which `ids` were read, with room for n_new more; with no ids, an empty one."""
        raise NotImplementedError

    def fork(self, state):
        """What `write` may change while `state` stays as it was read."""
        return state

    def write(self, state, ids, n_new):
        """Reads `ids` too and writes n_new tokens. Returns those of the first row, and when each was known, by
        time.perf_counter()."""
        raise NotImplementedError


def answer(peer, kept, request):
    """`kept` holds states by cache, and under None what they were made for."""
    ids, rows, cache, n_new = request["ids"], request["rows"], request["cache"], request["new_tokens"]
    if kept.get(None) != (ids, rows, n_new):
        kept.clear()
        kept[None] = ids, rows, n_new
    if request["cold"]:
        state, rest = peer.read([], rows, cache, len(ids) + n_new), ids
    else:
        if cache not in kept:
            kept[cache] = peer.read(ids[:-1], rows, cache, 1 + n_new)
        state, rest = peer.fork(kept[cache]), ids[-1:]
    start = time.perf_counter()
    new_ids, times = peer.write(state, rest, n_new)
    steps = n_new - 1
    return {
        "ids": new_ids,
        "prefill_ms": (times[0] - start) * 1e3,
        "step_ms": (times[-1] - times[0]) * 1e3 / steps if steps else 0,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def serve(make_peer):
    """The main of a worker: make_peer(model, dtype, threads) gives the Peer."""
    if len(sys.argv) != 4:
        sys.exit(f"usage: {sys.argv[0]} <model> <dtype> <threads>")
    answers = os.fdopen(os.dup(1), "w")  # what libraries print to stdout goes to stderr
    os.dup2(2, 1)
    start = time.perf_counter()
    peer = make_peer(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    kept = {}
    print(json.dumps({"version": peer.version, "load_ms": (time.perf_counter() - start) * 1e3}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            said = answer(peer, kept, json.loads(line))
        except Unsupported as reason:
            said = {"unsupported": str(reason)}
        print(json.dumps(said), file=answers, flush=True)
