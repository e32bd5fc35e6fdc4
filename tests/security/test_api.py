"""`/api/plan` of a published app: what it refuses, and whom it keeps waiting."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from planner.app.voila import api, kernels
from tests.app_visits import eventually
from tests.security.client import Answer, ask
from tests.security.server import Served, served

pytestmark = pytest.mark.server

QUESTION = {"model": "Qwen/Qwen3-8B", "gpu": "L4"}
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def app(tmp_path_factory) -> Served:
    """A server of its own, behind a proxy, for each visitor may ask a few times."""
    folder = tmp_path_factory.mktemp("api")
    with served(folder, "--pool=0", "--trusted-proxy=127.0.0.1") as running:
        yield running


def post(
    app: Served, body: bytes, visitor: str = "192.0.2.1", **headers: str
) -> Answer:
    """Send a body as one of many visitors."""
    sent = {**JSON, "X-Real-IP": visitor, **headers}
    return ask(app.address, "/api/plan", method="POST", headers=sent, body=body)


def processes(app: Served) -> list[int]:
    """The ids of what answers questions."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = b"plan_answers" in (folder / "cmdline").read_bytes()
            parent = re.search(r"PPid:\s+(\d+)", (folder / "status").read_text())
        except OSError:
            continue
        if is_ours and parent and int(parent[1]) == app.process.pid:
            found.append(int(folder.name))
    return found


def test_a_question_is_answered_and_kept_nowhere(app) -> None:
    """With the headers of every answer."""
    answer = post(app, json.dumps(QUESTION).encode())

    assert 200 == answer.status
    assert "does not fit" == json.loads(answer.body)["verdict"]
    assert "no-store" == answer.header("Cache-Control")
    assert "nosniff" == answer.header("X-Content-Type-Options")
    assert answer.header("Access-Control-Allow-Origin") is None
    assert "Qwen" not in app.written()


@pytest.mark.parametrize(
    ("body", "statuses"),
    [
        (b"", {400}),
        (b"\xff\xfe", {400}),
        (b"[" * 60_000, {400}),
        (b'{"model": ' * 6_000, {400}),
        (b'{"text": "' + b"x" * 60_000 + b'", "gpu": "L4"}', {422}),
        (b'{"text": "' + b"vllm serve a \\\\n" * 3_500 + b'", "gpu": "L4"}', {422}),
        (b'{"text": "' + b"((((" * 15_000 + b'", "gpu": "L4"}', {422}),
        (b'{"text": "' + b"a: &a [*a]\\n" * 4_000 + b'", "gpu": "L4"}', {422}),
        (b'{"model": "' + b"../" * 10_000 + b'"}', {422}),
        (b'{"model": "http://127.0.0.1:1/"}', {422}),
        (b'{"text": "http://169.254.169.254/latest", "gpu": "L4"}', {422}),
        (
            b'{"model": "Qwen/Qwen3-8B", "engine_args": {"a": 1' + b"0" * 9000 + b"}}",
            {400},
        ),
    ],
    ids=range(12),
)
def test_a_hostile_body_is_refused_in_a_sentence(app, body, statuses) -> None:
    """Before its time is up, and the next question is answered."""
    answer = post(app, body, visitor="192.0.2.2")

    assert answer.status in statuses, answer
    assert json.loads(answer.body)["error"]
    question = json.dumps(QUESTION).encode()
    assert 200 == post(app, question, visitor="192.0.2.3").status


def test_a_body_of_more_than_64_kib_is_not_read(app) -> None:
    """As everywhere in the app: its length is enough to refuse it."""
    sent = {**JSON, "Content-Length": "65537"}

    assert 400 == ask(app.address, "/api/plan", method="POST", headers=sent).status


def test_another_sites_page_can_send_no_question(app) -> None:
    """A form's types are refused, and a browser's question whether it may is too."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = post(app, b"{}", **{"Content-Type": kind})
        assert 415 == answer.status
    evil = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    before = ask(app.address, "/api/plan", method="OPTIONS", headers=evil)

    assert 405 == before.status
    assert before.header("Access-Control-Allow-Origin") is None
    assert 405 == ask(app.address, "/api/plan").status
    assert 404 == ask(app.address, "/api/plans").status


def test_one_address_has_so_many_questions_a_minute(app) -> None:
    """It is told when to come back; others are not kept waiting."""
    # Four together, which one address may: one after another may take a minute.
    with ThreadPoolExecutor(4) as pool:
        asked = [
            pool.submit(post, app, b"{}", "192.0.2.5") for _ in range(2 * api.AT_ONCE)
        ]
    answers = [one.result() for one in asked]
    late = [one for one in answers if one.status == 429]

    assert {422, 429} == {one.status for one in answers}
    assert {"1"} == {one.header("Retry-After") for one in late}
    assert all(json.loads(one.body)["error"] for one in late)
    assert 422 == post(app, b"{}", visitor="192.0.2.6").status
    assert eventually(lambda: post(app, b"{}", visitor="192.0.2.5").status == 422)


def test_a_question_that_takes_long_keeps_no_page_waiting(app) -> None:
    """The server goes on while the process that answers stands still."""
    question = json.dumps(QUESTION).encode()
    post(app, question, visitor="192.0.2.7")
    stopped = processes(app)
    assert 1 <= len(stopped) <= api.PROCESSES
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(2) as pool:
            asked = [
                pool.submit(post, app, question, f"192.0.2.{number}")
                for number in (8, 9)
            ]
            health = ask(app.address, "/healthz").status
            is_early = not any(one.done() for one in asked)
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
            answered = [one.result().status for one in asked]
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)

    assert (200, [200, 200]) == (health, answered)
    assert is_early


def test_long_texts_of_two_addresses_keep_no_third_one_waiting(app) -> None:
    """Blank lines after a word, a log's line and an error: each soon read."""
    lines = ("x", "INFO 04-22 01:47:55 [a.py:4] x", "CUDA out of memory")
    bodies = [
        json.dumps({"text": f"{line}\n{blank * 19_000}z"}).encode()
        for line in lines
        for blank in ("\n", " \n")
    ]
    with ThreadPoolExecutor(len(bodies)) as pool:
        asked = [
            pool.submit(post, app, body, f"192.0.2.{40 + number % 2}")
            for number, body in enumerate(bodies)
        ]
        third = post(app, json.dumps(QUESTION).encode(), "192.0.2.42")
        statuses = {one.result().status for one in asked}

    assert (200, {422}) == (third.status, statuses)


def test_the_question_of_a_program_that_left_is_dropped(app) -> None:
    """Its process is ended: an answer that nobody reads costs nothing more."""
    question = json.dumps(QUESTION).encode()
    post(app, question, visitor="192.0.2.45")
    stopped = processes(app)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        head = (
            "POST /api/plan HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Real-IP: 192.0.2.46\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(question)}\r\n\r\n"
        )
        with socket.create_connection(
            ("127.0.0.1", urlsplit(app.address).port)
        ) as connection:
            connection.sendall(head.encode() + question)
            ask(app.address, "/healthz")  # the question has arrived before
        assert eventually(lambda: not {*stopped} <= {*processes(app)})
    finally:
        for pid in {*stopped} & {*processes(app)}:
            os.kill(pid, signal.SIGCONT)
    assert 200 == ask(app.address, "/healthz").status


def test_the_processes_that_answer_have_the_limits_of_a_kernel(app) -> None:
    """Of memory and processor time; they get none of the server's accounts."""
    post(app, json.dumps(QUESTION).encode(), visitor="192.0.2.10")
    found = processes(app)

    assert found
    for pid in found:
        limits = Path(f"/proc/{pid}/limits").read_text()
        assert re.search(rf"Max data size\s+{kernels.MEMORY_BYTES} ", limits)
        assert re.search(rf"Max cpu time\s+{kernels.CPU_SECONDS} ", limits)


def test_programs_and_people_can_read_what_it_answers(app) -> None:
    """The document and its page, whose policy allows no script."""
    document = ask(app.address, "/api/openapi.json")
    page = ask(app.address, "/api")

    assert "application/json" == document.header("Content-Type")
    assert {"/api/plan"} == set(json.loads(document.body)["paths"])
    assert "default-src 'none'; style-src" in page.header("Content-Security-Policy")
    assert b"POST /api/plan" in page.body
