#!/usr/bin/env python3
"""Make models/mamba_options: a small Mamba in which every option differs from the defaults, and what transformers
answers on it (make_goldens.py says what golden.json holds).

    pip install torch==2.13.0 transformers==5.23.0 safetensors
    python make_mamba_options.py OUT_DIR [--seed N]
"""
import make_goldens as goldens, transformers as T

OPTIONS = T.MambaConfig.from_dict(dict(
    vocab_size=goldens.V, hidden_size=40, intermediate_size=60, num_hidden_layers=3, state_size=5, conv_kernel=3,
    time_step_rank=7, use_bias=True, use_conv_bias=False, residual_in_fp32=False, layer_norm_epsilon=1e-3,
    tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, pad_token_id=0))

goldens.configs = lambda: [("mamba_options", OPTIONS)]
goldens.NO_PADDING.add("mamba_options")
goldens.main()
