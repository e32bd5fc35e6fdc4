"""The planner's other import name; both are the same package, with the same objects.

In a checkout the package is the folder `planner`, and this file is the other name. In
an installed wheel the package is the folder `vllm_memory_planner`, and this file is
`planner.py`: a package `planner` of somebody else, such as llm-d-planner's, is a folder
beside it. Neither overwrites the other, and Python imports the folder of the two.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from os.path import basename, dirname, join  # `pathlib` takes longer than all of this

TYPE_CHECKING = False

if TYPE_CHECKING:
    from types import ModuleType

NAME = basename(__file__).partition(".")[0]  # noqa: PTH119 - as above
PACKAGE = "planner" if NAME == "vllm_memory_planner" else "vllm_memory_planner"


class _SameModules:
    """Finds `NAME.part`, which is the module `PACKAGE.part`, once for both."""

    def find_spec(self, name: str, *_given: object) -> ModuleSpec | None:
        """Return how to import a module of this name; None for any other."""
        if not name.startswith(f"{NAME}."):
            return None
        real = import_module(PACKAGE + name.removeprefix(NAME))
        return ModuleSpec(
            name,
            self,  # type: ignore[arg-type] # importlib.abc is slow to import
            loader_state=(real, real.__spec__),
        )

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module, imported under the package's own name."""
        module: ModuleType = spec.loader_state[0]
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is: it has been executed."""
        assert module.__spec__ is not None  # importlib has just put this class's there
        module.__spec__ = module.__spec__.loader_state[1]


package = import_module(PACKAGE)
place = join(dirname(__file__), PACKAGE, "__init__.py")  # noqa: PTH118, PTH120 - as above
if package.__file__ != place:
    raise ImportError(
        f"{package.__file__} is another package of the same name as the planner's. "
        "Install the planner's wheel, or use an environment without the other."
    )
if __name__ == "__main__":
    sys.exit(import_module(f"{PACKAGE}.app.cli").main())
sys.meta_path.insert(0, _SameModules())
sys.modules[__name__] = package
