"""What names an image, a label and a device: the release, the GPU, how many.

Source: vLLM 0.33.0 `docker/Dockerfile` and its tags; labels of GKE and of Ray; the
releases in Dynamo's images by AIConfigurator 0.12 `config/backend_version_matrix.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from planner.engine.gpu import GPU, catalogue, find_gpu
from planner.engine.gpu_text import is_description
from planner.errors import PlannerError
from planner.reading.passage import Edit
from planner.reading.scripts.shell import Word
from planner.reading.sign_table import signs
from planner.reading.sites import Site
from planner.reading.starts.command import env_site

_OTHER_BUILD = re.compile(r"rocm|\b(?:tpu|xpu|hpu|gaudi|ascend|neuron)\b")
"""In the names of images for other accelerators."""
_VERSION_TAG = re.compile(
    r"(?:^|[-_])v?(?P<version>\d+\.\d+\.\d+(?:\.?(?:post|rc|dev)\d+)?)"
)
_NOT_VLLMS_RELEASE = re.compile(
    r"llm-d|lmcache|rhaiis|(?:^|/)ray|worker-\w*-?vllm|djl-inference|vllm-dlc"
    r"|vllm-runtime",
    re.IGNORECASE,
)
"""Images with vLLM inside whose tags count releases of something else."""
_OF_DYNAMO = "/ai-dynamo/vllm-runtime"
_IN_DYNAMO: Mapping[str, str] = signs("releases of vLLM in the images of Dynamo")
SLICE = "a slice of a GPU"
_SLICE = re.compile(r"(?:\A|/)mig-(?P<profile>\d+g\.\d+gb)")
"""In the name of a resource that a pod asks for."""
_LABELS: Mapping[str, str] = {
    "nvidia-tesla-a100": "A100-40GB",
    "nvidia-h100-mega-80gb": "H100",
    "A100-40G": "A100-40GB",
    "A100-80G": "A100-80GB",
}
"""Labels of GKE and of Ray that are no product's name."""


NAMED_GPU = (
    r"(?:RTX[\s-]*(?:PRO[\s-]*)?A?\d{4}|RTX[\s-]?6k[\s-]?PRO|GTX[\s-]*\d{4}"
    r"|Titan RTX|A\d{4}|[AHBLTVP]\d{1,3}[A-Z]?|GB\d{2,3}|GH200|DGX Spark|Thor|Orin)"
)
"""How people write the names of GPUs, without what follows; some are none."""
GPU_FORM = r"(?:Ti|SUPER|Ada|NVL|PCIe|SXM\d?|PRO|Blackwell)"
"""What follows such a name."""


def visible(assigned: Mapping[str, Word]) -> int | None:
    """Return how many GPUs CUDA_VISIBLE_DEVICES leaves; None: not set or open."""
    word = assigned.get("CUDA_VISIBLE_DEVICES")
    if word is None or word.variables or not word.value.strip():
        return None
    return len(word.value.split(","))


def version_of(image: Word) -> Site | None:
    """Return the release in an image's tag; None for `latest` and the like."""
    name, colon, tag = image.value.partition("@")[0].rpartition(":")
    is_told = bool(colon) or tag.endswith(".sif")  # a file of Apptainer
    match = _VERSION_TAG.search(tag) if is_told else None
    if match is not None and name.endswith(_OF_DYNAMO):
        return _inside(image, _IN_DYNAMO.get(match["version"].partition(".post")[0]))
    if match is None or _NOT_VLLMS_RELEASE.search(image.value):
        return None
    start = len(image.value.partition("@")[0]) - len(tag) + match.start("version")
    return _release_in(image, start, start + len(match["version"]))


def _inside(image: Word, release: str | None) -> Site | None:
    """Return the release in an image whose tag counts something else's releases."""
    if release is None:
        return None

    def by_hand(new: object = None) -> list[Edit]:
        raise PlannerError(
            f"The tag of {image.value[:120]} counts Dynamo's releases: choose the "
            f"image that has vLLM {new} by hand."
        )

    site = env_site("vllm_version", image)
    return replace(site, value=release, replace=by_hand, remove=by_hand)


def _release_in(image: Word, start: int, end: int) -> Site:
    """Return the release in an image's name, without a digest when it is changed.

    Where a variable stands for the tag, all that it stands for is written.
    """
    places, value = image.passage.places, image.value
    first, last = start, end if "@" not in value else len(value)
    while first and places[first - 1] == places[start]:
        first -= 1
    while last < len(value) and places[last] == places[start]:
        last += 1
    before, after = value[first:start], value[end:last].partition("@")[0]
    site = env_site("vllm_version", image.part(start, end))
    word = image.part(first, last)
    return replace(
        site,
        replace=lambda new: [
            Edit(start=word.start, end=word.end, text=f"{before}{new}{after}")
        ],
    )


def image_notes(image: Word | None, version: Site | None) -> list[str]:
    """Return what an image leaves open: another build, no release."""
    if image is not None and _OTHER_BUILD.search(image.value):
        return [
            f"The image {image.value[:120]} is not vLLM's build for NVIDIA GPUs, "
            "which a plan is for."
        ]
    if image is None or version is not None:
        return []
    return [
        f"The image {image.value[:120]} does not tell its release: planned as the "
        "newest unless vllm_version is given."
    ]


def gpu_named_in(text: str) -> str | GPU | None:
    """Return the GPU that a label or a product's name stands for; None: not known."""
    words = re.sub(r"[-_]+", " ", text).strip()
    if text in _LABELS:
        return GPU.named(_LABELS[text])
    if is_description(text):
        with suppress(PlannerError):
            return GPU.named(text)
    names = (text, words, re.sub(r"(?i)^nvidia\s+", "", words))
    return next((gpu for name in names if (gpu := find_gpu(name))), None)


def one_gpu(names: Iterable[str]) -> tuple[str | GPU | None, tuple[str, ...]]:
    """Return the GPU that names of one stand for, or what is open about it."""
    several = list(dict.fromkeys(names))
    if len(several) > 1:
        return None, (f"The text allows several GPUs: {', '.join(several[:6])}.",)
    gpu = gpu_named_in(several[0]) if several else None
    if several and gpu is None:
        return None, (f"The GPU {several[0][:80]} is not in the catalogue.",)
    return gpu, ()


def slice_of(
    resources: Iterable[str], gpu: str | GPU | None
) -> tuple[str | GPU | None, tuple[str, ...]]:
    """Return the GPU, or the slice of it that a pod asks for, and what is open."""
    named = (match["profile"] for one in resources if (match := _SLICE.search(one)))
    profile = next(named, "")
    if not profile:
        return gpu, ()
    whole = gpu.name if isinstance(gpu, GPU) else gpu
    slices = [one.name for one in catalogue() if one.mig_profile == profile]
    of_it = [one for one in slices if one == f"{whole}-MIG-{profile}"]
    found = of_it if whole else slices
    if len(found) == 1:
        return found[0], ()
    shown = f", such as gpu={slices[0]!r}" if slices else ""
    return None, (f"The text asks for {profile}, {SLICE}: name it{shown}.",)
