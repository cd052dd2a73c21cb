"""Level 4's format on two problems of our own: a model's name and a small, randomly initialised config of the package transformers."""

from __future__ import annotations

import pytest

from autokernel.compat.single import CompatOptions, evaluate_compat
from autokernel.evaluate import evaluate
from autokernel.executor.broker import Executor
from autokernel.executor.compat_host import CompatHost
from autokernel.records import Candidate
from autokernel.rules import QUICK
from kernelbench_bridge import Problem, requirements

transformers = pytest.importorskip("transformers", reason="transformers is not installed: level 4 needs it")

SOURCE = """import torch
from transformers import AutoModelForCausalLM, {config}

class Model(torch.nn.Module):
    def __init__(self, model_name, config):
        super().__init__()
        self.model_name = model_name
        self.model = AutoModelForCausalLM.from_config(config)
    def forward(self, x):
        return self.model(x).logits

model_name = "small, of our own"
config = {config}({sizes})

def get_inputs():
    return [torch.randint(0, 96, (2, 24))]

def get_init_inputs():
    return [model_name, config]
"""
PROBLEMS = {
    "GPT2Config": "n_layer=2, n_embd=32, n_head=2, n_positions=32, vocab_size=96, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0",
    "OPTConfig": "num_hidden_layers=2, hidden_size=32, num_attention_heads=2, ffn_dim=64, max_position_embeddings=32, vocab_size=96, "
                 "word_embed_proj_dim=32, dropout=0.0, attention_dropout=0.0",
}


@pytest.mark.parametrize("config", PROBLEMS)
def test_a_language_model_is_judged_and_kernelbenchs_cast_breaks_it(config, store):
    source = SOURCE.format(config=config, sizes=PROBLEMS[config])
    problem = Problem(4, 1, config, source, "file")
    answer = Candidate(source.replace("Model(torch", "ModelNew(torch"), "python")
    assert requirements(problem) == ()
    with Executor("cpu", store) as executor:
        ours = evaluate(problem, answer, rules=QUICK, executor=executor, against=())
    assert ours.accepted, ours.reason
    with CompatHost("cpu", store) as host:
        theirs = evaluate_compat(host, source, answer, CompatOptions(measure=False, correct_trials=1)).result
    assert (theirs.compiled, theirs.correctness) == (True, False)  # token ids are cast to floats before the embedding
    assert theirs.metadata["runtime_error_name"] == "builtins.RuntimeError"
    assert "runtime_error_traceback" not in theirs.metadata
