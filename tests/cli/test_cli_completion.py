"""Shells complete commands, options and files, by scripts that noiseplan prints itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete, ShellComplete
from click.testing import CliRunner

from noiseplan.cli import COMMANDS, main
from noiseplan.cli.completion import NAME, SHELLS, VARIABLE


def completed(*arguments: str, incomplete: str = "") -> dict[str, str]:
    """What is offered after some arguments, with its kind."""
    offers = ShellComplete(main, {}, NAME, VARIABLE).get_completions(list(arguments), incomplete)
    return {offer.value: offer.type for offer in offers}


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_ask_noiseplan_itself(shell: str) -> None:
    done = CliRunner().invoke(main, ["completion", shell])
    assert done.exit_code == 0
    assert f"{VARIABLE}={shell}_complete" in done.stdout
    assert "noiseplan" in done.stdout


def test_other_shells_are_refused_with_those_that_are_known() -> None:
    done = CliRunner().invoke(main, ["completion", "powershell"])
    assert done.exit_code == 2
    assert all(shell in done.stderr for shell in SHELLS)


def test_commands_and_their_parts() -> None:
    assert set(completed()) >= set(COMMANDS)
    assert set(completed(incomplete="re")) == {"release", "report"}
    assert set(completed("completion")) == set(SHELLS)
    assert "--json" in completed("show", incomplete="--")
    assert {"show", "open"} <= set(completed("ledger"))
    for name in ("plan", "show"):  # shells complete folders among files
        assert set(completed(name).values()) == {"file"}


def test_every_command_can_be_completed() -> None:
    for name in COMMANDS:
        assert "--help" in completed(name, incomplete="--h"), name


def test_naming_commands_loads_none() -> None:
    code = (
        "import sys; from noiseplan.cli import main\n"
        "from click.shell_completion import ShellComplete\n"
        "offered = ShellComplete(main, {}, 'noiseplan', 'X').get_completions([], '')\n"
        "loaded = [m for m in sys.modules if m.startswith(('noiseplan.cli.', 'scipy'))]\n"
        "print(len(offered), loaded)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{len(COMMANDS)} []"


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_a_real_bash_completes(tmp_path: Path) -> None:
    """The script in a shell that knows nothing else: `noiseplan rel<tab>`."""
    program = tmp_path / "noiseplan"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m noiseplan "$@"\n')
    program.chmod(0o755)
    script = (
        'eval "$(noiseplan completion bash)"\n'
        "COMP_WORDS=(noiseplan rel) COMP_CWORD=1\n"
        f"{BashComplete(main, {}, NAME, VARIABLE).func_name} noiseplan rel noiseplan\n"
        'echo "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["release"]


def test_the_name_and_the_variable_are_clicks_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """`noiseplan` looks at this variable; a script with another would complete nothing."""
    monkeypatch.setenv(VARIABLE, "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "noiseplan led")
    monkeypatch.setenv("COMP_CWORD", "1")
    done = CliRunner().invoke(main, [], prog_name=NAME)
    assert "plain,ledger" in done.stdout
