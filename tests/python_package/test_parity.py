"""A session, driven from Python, beside transformers in the same process: rows, tokens and caches, step by step."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
import torch
import transformers

import refreshlab as rl
from conftest import PROMPT

sys.path.append(str(Path(__file__).resolve().parents[1] / "app"))
from session_reference import Reader  # noqa: E402: a model of transformers, and the columns it has


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(ours.double(), theirs.double(), atol=1e-4, rtol=1e-4)


def test_refreshes_are_those_of_transformers(pair):
    teacher, student = Reader(pair.teacher["path"], torch.float32), Reader(pair.student["path"], torch.float32)
    with pair.session(PROMPT, policy="entropy", max_tokens=48,
                      settings={"entropy.threshold": 3, "entropy.every": 1, "entropy.cooldown": 4}) as session:
        prompt = session.recording.prompt_ids
        tokens = [int(teacher.extend(prompt)[-1].argmax())]
        student.copy_columns(teacher, 0, len(prompt))
        assert session.recording.token_ids == tokens
        refreshed = len(prompt)
        for step in session:
            if not step.fed:
                break
            row = student.extend(tokens[-1:])[0]
            close(session.logits(), row)
            tokens.append(int(row.argmax()))
            if step.refresh:  # of what the student has written since the last one; the chosen token stays
                teacher.extend(tokens[refreshed - len(prompt):-1])
                student.copy_columns(teacher, refreshed, student.len)
                refreshed = student.len
            assert session.recording.token_ids == tokens
            for layer, columns in enumerate(student.cache.layers):
                close(session.keys(layer), columns.keys[0])
                close(session.values(layer), columns.values[0])
    assert len(session.recording.refreshes) >= 2 and len(tokens) == 48


@pytest.mark.parametrize("config", [
    transformers.Qwen3Config(num_hidden_layers=2, hidden_size=48, intermediate_size=80, num_attention_heads=6, num_key_value_heads=2, head_dim=16,
                             vocab_size=4096, initializer_range=0.2, tie_word_embeddings=False),
    transformers.Gemma2Config(num_hidden_layers=2, hidden_size=40, intermediate_size=72, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                              vocab_size=4096, sliding_window=16, query_pre_attn_scalar=16, initializer_range=0.2, tie_word_embeddings=False),
], ids=lambda config: config.model_type)
def test_a_model_of_transformers_is_read_and_writes_the_same(pair, tmp_path, config):
    torch.manual_seed(5)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(Path(pair.teacher["path"]) / file, tmp_path)
    model = Reader(str(tmp_path), torch.float32)
    with rl.Pair.open(tmp_path, mode="teacher").session(PROMPT, mode="teacher", max_tokens=32) as session:
        tokens = [int(model.extend(session.recording.prompt_ids)[-1].argmax())]
        for step in session:
            if step.fed:
                tokens.append(int(model.extend(tokens[-1:])[0].argmax()))
            assert session.recording.token_ids == tokens
        for layer, columns in enumerate(model.cache.layers):
            close(session.keys(layer, teacher=True), columns.keys[0])
            close(session.values(layer, teacher=True), columns.values[0])
    assert len(set(tokens)) > 3
