"""Draws a problem's inputs on the CPU and keeps them as files, for evaluations under KernelBench's rules.

Run as `python -m autokernel.executor.compat_drawer FD cpu`. Trusted like the judge: it runs the problem's code and no candidate's.
Answers one order at a time on the socket FD; the broker owns the deadlines.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
from typing import Any

import torch

from autokernel.executor import control, wire
from autokernel.executor.compat_worker import trial_seeds

PR_SET_PDEATHSIG = 1


def draw(reference: str, paths: dict[str, str]) -> dict[str, Any]:
    """Keep the inputs of each seed (its text, as JSON has keys) as drawn, with the generator's state after; stops at the first that
    cannot be kept."""
    namespace: dict[str, Any] = {}
    try:
        exec(compile(reference, "<string>", "exec"), namespace)
        for seed, path in paths.items():
            torch.manual_seed(int(seed))
            kept = {"inputs": list(namespace["get_inputs"]()), "state": torch.get_rng_state()}
            part = f"{path}.part"
            torch.save(kept, part)
            torch.load(part, mmap=True, weights_only=True)  # other objects than tensors and plain values cannot be kept
            os.replace(part, path)
    except Exception as error:  # the evaluation meets it too, and says so
        return {"error": f"{type(error).__name__}: {error}"}
    return {"error": ""}


def main() -> None:
    """Serve the broker on the inherited socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    torch.serialization.set_crc32_options(False)  # nobody reads the sums, and they take as long as the writing
    sock = socket.socket(fileno=int(sys.argv[1]))
    try:
        while True:
            message, _ = control.receive(sock)
            if "reference" in message:
                control.send(sock, draw(message["reference"], message["paths"]))
            else:
                control.send(sock, {"torch": torch.__version__, "seeds": trial_seeds(message["seed"], message["trials"])})
    except wire.WireClosed:
        return


if __name__ == "__main__":
    main()
