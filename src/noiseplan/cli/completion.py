"""`noiseplan completion`: what a shell must know to complete commands, options and files."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from noiseplan.cli._common import CONTEXT
from noiseplan.console import say

NAME, VARIABLE = "noiseplan", "_NOISEPLAN_COMPLETE"  # click looks for the second by the first
SHELLS = ("bash", "zsh", "fish")


@click.command(context_settings=CONTEXT)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print a script with which SHELL completes commands, options and files.

    bash: noiseplan completion bash > ~/.local/share/bash-completion/completions/noiseplan

    zsh: noiseplan completion zsh > FOLDER/_noiseplan, for a FOLDER of $fpath

    fish: noiseplan completion fish > ~/.config/fish/completions/noiseplan.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None  # click's own three
    # Not its source(), which starts a shell to ask for its version.
    script = kind(click.Command(NAME), {}, NAME, VARIABLE)
    say(script.source_template % script.source_vars())
