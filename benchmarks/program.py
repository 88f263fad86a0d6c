"""Runs `mneme generate` for the scripts that measure it."""
import json
import subprocess
import sys


def generate(options, arguments):
    """Its JSON. `options` has the program (mneme) and maybe a model; ends the script where the program fails."""
    command = [options.mneme, "generate", "--ignore-eos", "--json", *arguments]
    if options.model:
        command += ["--model", options.model]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{options.mneme} ended with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)
