"""read(): what a text is, and what it says of a start of vLLM."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike, fspath
from pathlib import Path

from planner.confirming.log import read_log
from planner.engine.arguments import ARGUMENTS
from planner.errors import PlannerError
from planner.given import named_in_errors
from planner.reading.account import Piece, Use
from planner.reading.documents.blocks import is_toml
from planner.reading.documents.manifest_pages import is_document
from planner.reading.logs.logs import check_start, reading_of_log
from planner.reading.logs.pages import reading_of_page
from planner.reading.logs.running import is_address, reading_of_server
from planner.reading.logs.signs import has_log, is_log, named_in
from planner.reading.passage import Passage
from planner.reading.python.code import starts_in_code, starts_in_lines
from planner.reading.python.notebooks import cells_of, is_notebook
from planner.reading.questions.asking import asked_beside, questions_in
from planner.reading.questions.noted import (
    is_note,
    is_other,
    noted_model,
    other_engine,
    planned_model,
)
from planner.reading.questions.question_words import blanked
from planner.reading.reading import (
    NOT_NAMED,
    FoundStart,
    Kind,
    Reading,
    reading_of,
    with_notes,
    without_gpu,
)
from planner.reading.scripts.blocks import has_here_document
from planner.reading.scripts.dialects import filled_in
from planner.reading.scripts.shell import commands_of
from planner.reading.scripts.unit_file import starts_in_quadlet
from planner.reading.sites import not_too_many
from planner.reading.splitting import (
    Document,
    Language,
    document_of,
    documents_of,
    has_prose_around,
    is_code,
    spans_of_code,
    without_apostrophes,
)
from planner.reading.starts.around import job_variables, told_around, why_not_planned
from planner.reading.starts.container import starts_in
from planner.reading.starts.frameworks import NoStartError, framework_run_by
from planner.reading.starts.image_file import starts_in_image_file
from planner.reading.starts.images import gpu_named_in
from planner.reading.starts.manifests import starts_by_programs, starts_in_manifest
from planner.reading.starts.sharing import beside
from planner.surroundings import may_read
from planner.user_files import read_text, user_path

LONGEST = 64_000
"""Characters of a command, a manifest or code; of a log, any number."""
_LONGEST_NAME, _LONGEST_PATH = 200, 4096
_MOST_WORDS = 6_000
"""Characters of a text in which people ask beside a command."""
_MOST_CONTROLS = 8
"""Control characters that a damaged text may have."""
_MODEL = re.compile(
    r"(?a:(?:[\w.-]+/)?[\w.-]+)\Z|(?:~|\.{1,2})?/[^\s:]+\Z|[A-Za-z]:\\\S+\Z"
)
"""A model of the Hub or the catalogue, or a folder."""
_WITH_WORDS_AROUND = (Kind.COMMAND, Kind.CONTAINER, Kind.PYTHON, Kind.EVALUATION)
"""Texts that name GPU and release in their own ways, beside the command."""
_WITHOUT_DEVICE = (Kind.MODEL, Kind.QUESTION, Kind.SERVER, Kind.GPUS)
_FENCED = re.compile(
    r"^[ \t]*(?P<fence>```|~~~)[^\n]*\n.*?(?:^[ \t]*(?P=fence)[ \t]*$|\Z)"
    r"|^#{1,6} [^\n]*$|^<!--.*?-->",
    re.MULTILINE | re.DOTALL,
)
"""A block of code in Markdown, a heading, and a form's remarks."""
_NOT_IN_BLOCKS = "The fenced blocks start nothing of vLLM, and are left aside."
_NOT_VLLMS = (
    "{} shares out memory in its own way and has flags of its own: the planner says "
    "what vLLM does."
)
_CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f]")
"""Characters that no text has; a terminal's colours begin with an escape."""
_FORMS = (
    "a model's name, a question, a command (`vllm serve ...`, `docker run ...`), a "
    "manifest, a configuration file, Python code, a log of vLLM, an error, what "
    "nvidia-smi prints, or a server's address"
)

Reader = Callable[[Passage, str], Iterator[FoundStart]]
"""Yields the starts in a document, given with the whole text that edits refer to."""


@named_in_errors
def read(text: str | PathLike[str], *, start: int = 1) -> Reading:
    """Return what a text says of a start of vLLM; nothing of it is ever run.

    Args:
        text: a model, a question, a command, a manifest, a configuration, code, a log
            or an error; the path of a file with one of these; or the address of a
            running server.
        start: which of several starts in the text to read, from 1. Of a log, 1 is the
            last with an outcome, and the others follow from the last to the first.

    Raises:
        PlannerError: for a text that is none of these, or cannot be read.
    """
    given = _text_of(text)
    whole = _whole(given, start)
    if whole is not None:
        return _with_device(whole)
    found = _first(given)
    if not found:
        return _with_device(_note(given, start))
    check_start(start, len(found))
    return _with_device(_chosen(found, start, given))


@named_in_errors
def all_in(text: str) -> tuple[Reading, ...]:
    """Return what a text says of each start in it; the text is never a path.

    Raises:
        PlannerError: for a text without a start.
    """
    given = _checked(text)
    found = () if (whole := _whole(given, 1)) else _first(given)
    if found:
        starts = [_chosen(found, at, given) for at in range(1, len(found) + 1)]
    else:
        first, again = (whole, _whole) if whole else (_note(given, 1), _note)
        others = (again(given, at) for at in range(2, first.num_starts + 1))
        starts = [first, *filter(None, others)]
    return tuple(map(_with_device, starts))


def _whole(given: str, start: int) -> Reading | None:
    """Return the reading of a text that describes one start as a whole.

    Raises:
        PlannerError: for a text that is empty, or too long for anything else.
    """
    stripped = given.strip()
    if not stripped:
        raise PlannerError(f"The text is empty. Give {_FORMS}.")
    if is_address(stripped):
        return reading_of_server(stripped)
    if len(stripped) <= _LONGEST_NAME and _MODEL.match(stripped):
        if gpu_named_in(stripped) is not None or why_not_planned(stripped):
            return None
        at = given.index(stripped)
        whole = Piece(start=at, end=at + len(stripped), use=Use.USED, what="model")
        return Reading(kind=Kind.MODEL, given=given, model=stripped, places=(whole,))
    if is_log(given):
        return reading_of_log(given, start)
    size = len(given)
    if size > LONGEST and is_notebook(given):  # what it printed and shows is not read
        size = sum(len(page.text) for page, _ in cells_of(given))
    if size > LONGEST:
        raise PlannerError(
            f"The text holds {size:,} characters; {LONGEST:,} are read of a "
            "command, a manifest or code, and any number of a log of vLLM."
        )
    return None


def _with_device(reading: Reading) -> Reading:
    """Say why no plan is for the device that a text names, where it names no other.

    A long log has words of every device; a question has said it already.
    """
    is_long_log = reading.log is not None and not is_note(reading.given)
    if reading.gpu is not None or is_long_log or reading.kind in _WITHOUT_DEVICE:
        return reading
    return without_gpu(reading, why_not_planned(reading.given))


def _chosen(found: Sequence[FoundStart], start: int, given: str) -> Reading:
    """Return the reading of one of the starts that were found."""
    chosen = found[start - 1]
    around = _FENCED.sub(" ", given).strip() if _FENCED.search(given) else ""
    is_written_by_hand = chosen.kind in _WITH_WORDS_AROUND or has_prose_around(given)
    is_typed = "\n" not in given.strip() and framework_run_by(given) is not None
    is_written_by_hand = is_written_by_hand or bool(around) or is_typed
    starts = [one.start for one in found]
    told = chosen.start
    if is_written_by_hand:
        told = told_around(told, given, starts)
    before = beside(told, starts[: start - 1])
    if before:
        told = replace(told, notes=(*told.notes, _shares(before)))
    reading = _of_name(reading_of(chosen.kind, given, told, len(found), start), around)
    if len(found) == 1 and len(given) <= _MOST_WORDS:
        load, said = asked_beside(given, reading.engine_args.get("max_model_len"))
        reading = with_notes(replace(reading, load=load), *said)
    if len(found) == 1 and is_notebook(given) and has_log(given):
        printed = read_log(given)
        return replace(reading, log=printed) if printed.error else reading
    return reading


def _of_name(reading: Reading, around: str) -> Reading:
    """Return a start whose folder is not here, planned as the model of its name.

    One without a model has that which the words around name, if they name one.
    """
    if reading.model is None:
        named = noted_model(around[:_MOST_WORDS])
        if named is None:
            return reading
        left = tuple(one for one in reading.open if one != NOT_NAMED["model"])
        note = f"Planned as {named}, which the text names."
        return with_notes(replace(reading, model=named, open=left), note)
    if _is_folder(reading.model):
        return reading
    model, notes = planned_model(reading.model, reading.given)
    return with_notes(replace(reading, planned_as=model), *notes) if notes else reading


def _is_folder(model: str) -> bool:
    try:
        path = user_path(model)
        return may_read(path) and path.exists()
    except (OSError, ValueError):
        return False


def _shares(before: Sequence[int]) -> str:
    named = f"Start{'s' * (len(before) > 1)} {', '.join(map(str, before))}"
    return (
        f"{named} of this text run{'s' * (len(before) == 1)} on the same GPU: what is "
        "held there is not free for this one (`planner check` plans them together)."
    )


def _note(given: str, start: int) -> Reading:
    """Return what people noted of a start, or ask about one.

    Raises:
        PlannerError: where nothing of one is in the text.
    """
    told = reading_of_page(given) or _noted(given, start)
    if told is not None and not re.search(r"[?\uff1f]", given):
        check_start(start, told.num_starts)
        return told
    engine = other_engine(given)
    asked = questions_in(given) or _in_prose(given)
    if engine and not re.search(r"(?i)vllm", given):
        raise PlannerError(
            f"This starts {engine}. {_NOT_VLLMS.format(engine)} Give {_FORMS}."
        )
    if asked:
        check_start(start, len(asked))
        own = _NOT_VLLMS.format(engine)
        return with_notes(asked[start - 1], *([own] if engine else []))
    if told is not None:
        return told
    raise PlannerError(
        f"No start of vLLM was found in the text. {named_in(given)}Give {_FORMS}."
    )


def _in_prose(given: str) -> tuple[Reading, ...]:
    """Return what the words of a page of Markdown ask, whose blocks start nothing.

    A block of vLLM's flags alone, such as the command of a service, belongs to them.
    """
    blocks = list(_FENCED.finditer(given))
    if not blocks:
        return ()
    left = [one.span() for one in blocks if not _has_flags(one[0])]
    words = re.sub(r"\\?\n", " ", blanked(given, left))
    notes = [_NOT_IN_BLOCKS] if left else []
    return tuple(
        with_notes(replace(asked, given=given), *notes) for asked in questions_in(words)
    )


def _has_flags(block: str) -> bool:
    names = {one.replace("-", "_") for one in re.findall(r"--([a-z][a-z-]+)", block)}
    return len(names & ARGUMENTS.keys()) > 1


def _noted(given: str, start: int) -> Reading | None:
    """Return a log in another text, or figures of a start that people noted."""
    if not (has_log(given) or (is_note(given) and not is_other(given))):
        return None
    log = read_log(given)
    number = start if start <= log.num_starts else 1
    return reading_of_log(given, number) if log.figures else None


def _first(text: str) -> Sequence[FoundStart]:
    """Return the starts of each document in a text, in the order of the text."""
    documents = list(documents_of(text))
    whole = [] if is_notebook(text) else [document_of(Passage.whole(text))]
    refused: NoStartError | None = None
    for parts in (documents, whole if whole != documents else (), spans_of_code(text)):
        found: list[FoundStart] = []
        for part in parts:
            try:
                found = not_too_many([*found, *_starts_in(part, text)])
            except NoStartError as error:
                refused = error
        if found:
            return found
    if refused is not None:
        raise refused
    return ()


def _starts_in(document: Document, text: str) -> Sequence[FoundStart]:
    """Return the starts in the first of the languages that has any, its own before."""
    if document.language is Language.OUTPUT:
        return ()
    is_table = is_toml(document.page.text)  # whose headers Python reads, too
    own = _READERS.get(Language.DATA if is_table else document.language, ())
    readers = [*own, *(one for one in _ALL_READERS if one not in own)]
    if has_here_document(document.page.text) and not is_code(document.page.text):
        readers.sort(key=(starts_in_code, starts_in_lines).__contains__)
    for reader in readers:
        found = not_too_many(reader(document.page, text))
        is_read = (
            is_code(document.page.text)
            if reader is starts_in_code
            else reader is starts_in_manifest and is_document(document.page)
        )
        if found or is_read:
            return found
    return ()


def _starts_in_shell(page: Passage, text: str) -> Iterator[FoundStart]:
    plain = filled_in(without_apostrophes(page))
    commands = commands_of(plain, job_variables(page.text))
    found = not_too_many(
        starts_in(commands, text, partial(_starts_in_here_document, text=text))
    )
    yield from found or starts_by_programs(commands, text)


def _starts_in_here_document(page: Passage, text: str) -> Sequence[FoundStart]:
    found = (list(reader(page, text)) for reader in _ALL_READERS[:-1])
    return next((one for one in found if one), [])


_READERS: Mapping[str, Sequence[Reader]] = {
    Language.PYTHON: (starts_in_code,),
    Language.SHELL: (_starts_in_shell,),
    Language.DATA: (starts_in_manifest,),
    Language.IMAGE: (starts_in_image_file, _starts_in_shell),
}
_ALL_READERS: Sequence[Reader] = (
    starts_in_code,
    starts_in_manifest,
    starts_in_image_file,
    starts_in_quadlet,
    starts_in_lines,
    _starts_in_shell,
)
"""Of a document that does not say its language, the first that finds a start."""


def _text_of(given: str | PathLike[str]) -> str:
    """Return the text itself, or that of the file which it names."""
    if isinstance(given, str):
        if "\n" in given or len(given) > _LONGEST_PATH or "\0" in given:
            return _checked(given)
        path = user_path(given.strip())
        if not given.strip() or not may_read(path) or not _is_file(path):
            return _checked(given)
    else:
        path = Path(fspath(given))
    return _checked(read_text(path))


def _is_file(path: Path) -> bool:
    """Return whether a path names something to open; a folder is a model."""
    try:
        return path.exists() and not path.is_dir()
    except (OSError, ValueError):
        return False


def _checked(text: str) -> str:
    if "\0" in text or len(_CONTROL.findall(text[:10_000])) > _MOST_CONTROLS:
        raise PlannerError(f"This is binary data, not text. Give {_FORMS}.")
    return text
