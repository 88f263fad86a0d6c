"""Runs `mneme generate` for the scripts that measure it."""
import json
import os
import subprocess
import sys
import tempfile
import time


def measured(options, arguments):
    """Its JSON, seconds and peak megabytes. `options` has the program (mneme) and maybe a model; ends the script where
    the program fails."""
    command = [options.mneme, "generate", "--ignore-eos", "--json", *arguments]
    if options.model:
        command += ["--model", options.model]
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
            output = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - start
        if process.returncode:
            errors.seek(0)
            sys.exit(f"{options.mneme} ended with {process.returncode}: {errors.read().strip()}")
    return json.loads(output), seconds, usage.ru_maxrss / 1024


def generate(options, arguments):
    """Its JSON alone."""
    return measured(options, arguments)[0]
