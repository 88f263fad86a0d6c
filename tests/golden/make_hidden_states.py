#!/usr/bin/env python3
"""What the Python reference says of hidden states, for the small models beside this script.

    pip install torch==2.13.0 transformers==5.23.0
    python make_hidden_states.py

Writes hidden_states.json: {"ids": [..], "models": {name: [[E numbers] for each layer and the end]}}, the states of the
last of `ids` in float32, token vectors first, rounded to six digits. Encoder-decoders are left out.
"""
import json
import pathlib

import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
IDS = [(37 * i + 11) % 500 for i in range(21)]


def states_of(folder):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    with torch.inference_mode():
        states = model.eval()(torch.tensor([IDS]), output_hidden_states=True).hidden_states
    return [[float(f"{number:.6g}") for number in layer[0, -1].tolist()] for layer in states]


def main():
    models = {}
    for folder in sorted((HERE / "models").iterdir()):
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if config.get("is_encoder_decoder"):
            continue
        models[folder.name] = states_of(folder)
        print(folder.name, len(models[folder.name]), flush=True)
    with open(HERE / "hidden_states.json", "w", encoding="utf-8") as file:
        json.dump({"ids": IDS, "models": models}, file)
        file.write("\n")


if __name__ == "__main__":
    main()
