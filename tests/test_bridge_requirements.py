"""What a problem needs and this machine lacks, from its text alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelbench_bridge import Problem, requirements


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    return tmp_path


def needs(source: str) -> tuple[str, ...]:
    return requirements(Problem(4, 1, "1_x", source, "file"))


def test_missing_packages_are_named_once_by_their_top_level_name():
    source = ("import math, no_such_b.inner\nfrom no_such_a.deep import thing\nfrom no_such_a import other\nfrom . import near\n"
              "def f():\n    import no_such_c\n")
    assert needs(source) == ("no_such_a", "no_such_b", "no_such_c")
    assert needs("import math\nimport collections.abc\nimport __main__\n") == ()


def test_an_import_whose_failure_is_handled_is_not_required():
    guarded = "try:\n    import no_such_a\nexcept ImportError:\n    import no_such_b\nelse:\n    import no_such_c\n"
    assert needs(guarded) == ("no_such_c",)
    assert needs("try:\n    import no_such_a\nexcept (KeyError, ModuleNotFoundError):\n    pass\n") == ()
    assert needs("try:\n    import no_such_a\nexcept KeyError:\n    pass\n") == ("no_such_a",)


def test_models_to_download_are_named(empty_cache):
    source = ("name = 'org/model-1'\nconfig = AutoConfig.from_pretrained(name)\nother = hub.Auto.from_pretrained('gpt2', config=config)\n"
              "class Model:\n    def f(self): return Auto.from_pretrained(self.name)\n")
    assert needs(source) == ("model gpt2", "model org/model-1")
    (Path(empty_cache) / "models--org--model-1" / "snapshots" / "abc").mkdir(parents=True)
    assert needs(source) == ("model gpt2",)


def test_source_that_is_no_python_needs_nothing():
    assert needs("def f(:") == ()
    assert needs("x\x00") == ()
