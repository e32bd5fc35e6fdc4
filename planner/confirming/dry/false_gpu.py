"""The GPU that is not there: stand-ins for CUDA's libraries, and what they report.

They are built with the system's C compiler from the sources in `driver/`, once for each
vLLM environment, with the names that the environment's own libraries have.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from planner.confirming.installation import NOT_FROM_HERE, Installation
from planner.engine.gpu import GPU
from planner.engine.l2_cache import l2_cache_bytes
from planner.errors import PlannerError
from planner.surroundings import cache_folder
from planner.units import MIB
from planner.values import frozen

DRIVER = Path(__file__).parent / "driver"
"""The sources in C."""
LOADED_FIRST = "load-order"
"""Lists the libraries in the order in which a process loads them."""

_COMPILERS = ("cc", "gcc", "clang")
_SECONDS = 300
_CORE = "libplannergpu.so"
_WRITTEN = re.compile(r"\b(?:EXPORT\([^,()]+(?:\([^()]*\))?,|NEW\()\s*(\w+)")
"""A function that a source writes out."""

# Facts that the catalogue does not hold, by compute capability: shared memory that a
# block may use, threads per SM. Source: CUDA programming guide, compute capabilities.
_LIMITS = {
    (7, 0): (98304, 2048),
    (7, 5): (65536, 1024),
    (8, 0): (166912, 2048),
    (8, 6): (101376, 1536),
    (8, 7): (166912, 1536),
    (8, 9): (101376, 1536),
    (9, 0): (232448, 2048),
    (10, 0): (232448, 2048),
    (10, 3): (232448, 2048),
    (11, 0): (232448, 1536),
    (12, 0): (101376, 1536),
    (12, 1): (101376, 1536),
}
_NEWEST_LIMITS = (232448, 2048)
_OTHER_L2_BYTES = 6 * MIB


@frozen
class _Library:
    """One library of CUDA that is replaced."""

    soname: str
    source: str
    """File in `driver/`."""
    names: frozenset[str]
    """Every function that programs may look for."""
    version: str = ""
    """Version of its symbols; empty: they have none."""


def built_for(found: Installation) -> Path:
    """Return the folder with the stand-ins for an environment; builds them if needed.

    Args:
        found: a vLLM for NVIDIA GPUs.

    Raises:
        PlannerError: without Linux, without a C compiler, or where the environment
            holds no libraries of CUDA.
    """
    _check_platform()
    packages = site_packages(found)
    real = _real_libraries(found, packages)
    folder = cache_folder("dry-run") / f"gpu-{_key(real)}"
    if not (folder / LOADED_FIRST).is_file():
        _build(folder, packages, real)
    return folder


def site_packages(found: Installation) -> Path:
    """Return the folder that holds the environment's packages: PyTorch is in it.

    A virtual environment may use the packages of the Python that it was made from.
    """
    query = NOT_FROM_HERE + (
        "import importlib.util as u, sysconfig as s; found = u.find_spec('torch'); "
        "print(found.submodule_search_locations[0] if found else s.get_path('purelib')"
        " + '/torch')"
    )
    answer = subprocess.run(
        [found.python, "-c", query],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return Path(answer.stdout.strip().splitlines()[-1]).parent


def variables(gpu: GPU, *, devices: int, outside_bytes: int = 0) -> dict[str, str]:
    """Return the environment variables that make the libraries stand for this GPU.

    Args:
        gpu: the GPU.
        devices: how many of it a process sees.
        outside_bytes: what vLLM's own process takes before its first snapshot.
    """
    shared, threads = _LIMITS.get(gpu.compute_capability, _NEWEST_LIMITS)
    free = gpu.free_memory_bytes
    used = 0 if free is None else gpu.total_memory_bytes - free
    major, minor = gpu.compute_capability
    facts = {
        "DEVICES": devices,
        "MAJOR": major,
        "MINOR": minor,
        "SMS": gpu.num_sms or 132,
        "SHARED_BYTES": shared,
        "THREADS_PER_SM": threads,
        "L2_BYTES": l2_cache_bytes(gpu) or _OTHER_L2_BYTES,
        "INTEGRATED": int(gpu.is_integrated),
        "TOTAL_BYTES": gpu.total_memory_bytes,
        "USED_BYTES": used + outside_bytes,
        "NAME": gpu.device_name or gpu.name,
    }
    return {f"PLANNER_GPU_{name}": str(value) for name, value in facts.items()}


def _check_platform() -> None:
    if platform.system() != "Linux":
        raise PlannerError(
            f"A dry run needs Linux, and this is {platform.system()}: use its "
            "subsystem for Linux or a container. No GPU is needed."
        )


def _compiler() -> str:
    named = os.environ.get("CC")
    for name in filter(None, (named, *_COMPILERS)):
        if path := shutil.which(name):
            return path
    raise PlannerError(
        "A dry run builds small libraries with a C compiler, and none was found "
        "(cc, gcc, clang). Install one, for example: apt-get install gcc libc6-dev, or "
        "name one by the variable CC."
    )


def _real_libraries(found: Installation, packages: Path) -> Mapping[str, Path]:
    major = _cuda_major(packages)
    patterns = {
        "runtime": f"libcudart.so.{major}",
        "blas": f"libcublas.so.{major}",
        "blas_lt": f"libcublasLt.so.{major}",
        "collectives": "libnccl.so.*",
    }
    paths = {
        source: next(iter(sorted(packages.glob(f"nvidia/*/lib/{pattern}"))), None)
        for source, pattern in patterns.items()
    }
    missing = [source for source, path in paths.items() if path is None]
    if missing or found.is_cpu_build:
        build = "the CPU build" if found.is_cpu_build else "without CUDA's libraries"
        raise PlannerError(
            f"The vLLM of {found.python} is {build}. A dry run starts the build for "
            f"NVIDIA GPUs, which needs no GPU for it: pip install "
            f"vllm=={found.version} in an environment of its own (10 GB), and name "
            "its Python (vllm_python=...)."
        )
    return {source: path for source, path in paths.items() if path is not None}


def _cuda_major(packages: Path) -> str:
    """Return the major version of CUDA that PyTorch was built for; "*": not stated.

    From CUDA 13 on all libraries are in `nvidia/cu13/lib`; before, each package has a
    folder of its own (`nvidia/cublas/lib`), and an environment may hold both.
    """
    version = packages / "torch" / "version.py"
    text = version.read_text(encoding="utf-8") if version.is_file() else ""
    stated = re.search(r"""^cuda\b[^=]*=\s*['"](\d+)""", text, re.MULTILINE)
    return stated[1] if stated else "*"


def _key(real: Mapping[str, Path]) -> str:
    """Return what the build depends on, as a short text."""
    digest = hashlib.sha256(platform.machine().encode())
    for path in sorted(DRIVER.rglob("*.[ch]")):
        digest.update(path.read_bytes())
    digest.update(Path(__file__).read_bytes())
    for path in sorted(real.values()):
        digest.update(f"{path}:{path.stat().st_size}".encode())
    return digest.hexdigest()[:16]


def _build(folder: Path, packages: Path, real: Mapping[str, Path]) -> None:
    """Build into a folder beside and rename it: a half-built one is never used."""
    compiler = _compiler()
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix="gpu-", dir=folder.parent))
    try:
        major = real["runtime"].name.rpartition(".")[2]
        words = [
            *(compiler, "-O1", "-fPIC", "-shared", "-w"),
            *(f"-DCUDA_MAJOR={major}", f"-I{DRIVER}", "-Wl,-rpath,$ORIGIN"),
        ]
        core = beside / _CORE
        _compile(
            [*words, f"-Wl,-soname,{_CORE}", "-o", str(core)], [DRIVER / "device.c"]
        )
        names = [_CORE]
        includes = [f"-I{path}" for path in sorted(packages.glob("nvidia/*/include"))]
        for library in _libraries(packages, real):
            _build_library(beside, [*words, *includes], library)
            names.append(library.soname)
        # Triton links against it by its name without a version.
        (beside / "libcuda.so").symlink_to("libcuda.so.1")
        (beside / LOADED_FIRST).write_text("\n".join(names), encoding="utf-8")
        _take_place(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _take_place(beside: Path, folder: Path) -> None:
    try:
        beside.rename(folder)
    except OSError:
        if not (folder / LOADED_FIRST).is_file():  # not another run's, finished first
            shutil.rmtree(folder, ignore_errors=True)
            beside.rename(folder)


def _build_library(folder: Path, words: list[str], library: _Library) -> None:
    source = DRIVER / library.source
    written = set(_WRITTEN.findall(source.read_text(encoding="utf-8")))
    plain = folder / f"others_{library.source}"
    plain.write_text("\n".join(_does_nothing(library.names - written)))
    last = [str(folder / _CORE), "-ldl", "-lpthread"]
    if library.version:
        script = folder / f"{library.source}.map"
        script.write_text(f"{library.version} {{ global: *; }};\n", encoding="utf-8")
        last.append(f"-Wl,--version-script={script}")
    named = ["-o", str(folder / library.soname), f"-Wl,-soname,{library.soname}"]
    _compile([*words, *named], [source, plain], last)


def _does_nothing(names: Iterable[str]) -> Iterator[str]:
    """Yield functions in C that report success."""
    yield "int succeed(const char *);"
    for name in sorted(names):
        yield f'int {name}(void) {{ return succeed("{name}"); }}'


def _libraries(packages: Path, real: Mapping[str, Path]) -> Iterator[_Library]:
    yield _Library(
        soname="libcuda.so.1", source="driver.c", names=_driver_names(packages)
    )
    for source, path in real.items():
        names, version = _exported(path)
        yield _Library(
            soname=path.name, source=f"{source}.c", names=names, version=version
        )
    yield _Library(
        soname="libnvidia-ml.so.1",
        source="management.c",
        names=_management_names(packages),
    )


def _exported(path: Path) -> tuple[frozenset[str], str]:
    """Return the functions of a library, and the version of its symbols."""
    listing = _run(["nm", "-D", "--defined-only", str(path)]).splitlines()
    names, version = set(), ""
    for line in listing:
        _address, kind, symbol = [*line.split(), "", "", ""][:3]
        if kind in ("T", "W", "i"):
            name, _, found = symbol.partition("@@")
            names.add(name)
            version = version or found
    return frozenset(names), version


def _driver_names(packages: Path) -> frozenset[str]:
    """Return the functions that cuda.h declares, each form of each."""
    headers = sorted(packages.glob("nvidia/*/include/cuda.h"))
    text = headers[0].read_text(encoding="utf-8", errors="replace") if headers else ""
    patterns = (
        r"\b(cu[A-Z]\w+)\s*\(",
        r"#\s*define\s+cu\w+\s+(cu[A-Z]\w+)\b",
    )
    names = {name for pattern in patterns for name in re.findall(pattern, text)}
    per_thread = r"#\s*define\s+(cu[A-Z]\w+)\s+__CUDA_API_PT[SD][SZ]\(\1(\w*)\)"
    return frozenset(names | {a + b for a, b in re.findall(per_thread, text)})


def _management_names(packages: Path) -> frozenset[str]:
    """Return the functions of NVML that vLLM's binding and PyTorch look for.

    PyTorch looks for all of its own at once, the first time that one is needed, such as
    when no memory is left.
    """
    places = ("pynvml.py", "vllm/third_party/pynvml.py", "torch/lib/libc10_cuda.so")
    contents = [
        (packages / place).read_bytes()
        for place in places
        if (packages / place).is_file()
    ]
    found = re.findall(rb"(?<=[\"'\0])(nvml[A-Z]\w+)(?=[\"'\0])", b"\n".join(contents))
    return frozenset(name.decode() for name in found)


def _compile(words: list[str], sources: list[Path], last: Iterable[str] = ()) -> None:
    _run([*words, *map(str, sources), *last])


def _run(words: list[str]) -> str:
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except OSError as error:
        raise PlannerError(
            f"A dry run needs {words[0]} to build its libraries ({error}). Install the "
            "compiler's package with its tools: apt-get install gcc binutils libc6-dev."
        ) from error
    if done.returncode:
        raise PlannerError(
            f"{words[0]} could not build the false GPU's libraries: "
            f"{done.stderr.strip()[-2000:]}"
        )
    return done.stdout
