"""Which family a model belongs to, and whether its files can be made."""

from __future__ import annotations

import dry_family_code
import dry_family_gemma
import dry_family_sizes
import dry_family_sounds
import dry_family_tiles
from dry_family import Config, Made, MissingFilesError

FAMILIES = {
    **dry_family_code.FAMILIES,
    **dry_family_gemma.FAMILIES,
    **dry_family_sizes.FAMILIES,
    **dry_family_sounds.FAMILIES,
    **dry_family_tiles.FAMILIES,
}
"""model_type of config.json -> function that makes its files."""

_MISTRALS = {"VoxtralForConditionalGeneration": "voxtral"}
"""Architecture -> model_type, which Mistral's own format does not say."""
_ENCODERS = {
    "vision_config",
    "audio_config",
    "vit_config",
    "thinker_config",
    "sound_config",
}
_REMOTE = frozenset({"phi4mm", "molmo", "kimi_vl", "minicpmo", "ultravox"})


def kind_of(config: Config) -> str:
    """Return the model_type by which a model's family is known."""
    architecture = next(iter(config.get("architectures") or ()), "")
    return str(config.get("model_type") or _MISTRALS.get(architecture))


def made_for(config: Config) -> Made:
    """Return the files of a model's family; a text-only model needs none.

    Raises:
        MissingFilesError: for an unknown family, or one whose processor is code.
    """
    kind = kind_of(config)
    if kind in FAMILIES:
        return FAMILIES[kind](config)
    if kind in _REMOTE:
        raise MissingFilesError(
            f"{kind}: its processor is Python code of the checkpoint "
            "(trust_remote_code), which cannot be made. Copy the checkpoint's files "
            "except the weights into a folder and name it, or set "
            "language_model_only for text alone."
        )
    if listening_or_seeing := sorted(_ENCODERS & config.keys()):
        raise MissingFilesError(
            f"{kind}: config.json has {', '.join(listening_or_seeing)}, and the "
            "family's processor files are not known here. Copy the checkpoint's "
            "files except the weights into a folder and name it, or set "
            "language_model_only for text alone."
        )
    return Made()
