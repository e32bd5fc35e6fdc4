"""The registry of readers: every family's names, read without importing the family."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

from planner.models import families
from planner.models.families.names import FAMILIES
from planner.models.families.registry import readers
from tests.rows import each_row
from tools.architectures import modules, names_of


@each_row("name", modules())
def test_a_family_is_listed_with_its_names(name: str) -> None:
    """What a module's tables hold is what the registry says of it."""
    table = getattr(import_module(f"{families.__name__}.{name}"), "READERS", {})

    assert names_of(name) == FAMILIES.get(name, ())
    assert all(table[one] is readers()[one] for one in table)


def test_a_name_has_one_reader() -> None:
    """No name is listed twice, so that the order of the tables means nothing."""
    names = list(readers())

    listed = [name for read in FAMILIES.values() for name in read]
    assert sorted(set(names)) == sorted(listed)
    assert len(names) == len(listed) == len(readers())
    assert "Qwen3ForCausalLM" in readers()
    assert "NobodyForCausalLM" not in readers()


def test_asking_for_a_decoder_imports_no_other_family() -> None:
    """A plan of Qwen3 needs neither encoders nor experts."""
    code = (
        "import sys\n"
        "from planner.models.families.registry import readers\n"
        "assert 'Gemma4ForCausalLM' in readers()\n"
        "readers()['Qwen3ForCausalLM']\n"
        "print([one for one in sys.modules if one.endswith(('gemma4', '.mixtures'))])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert "[]" == done.stdout.strip()
