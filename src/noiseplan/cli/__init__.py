"""The command line: one group of commands, each in a module of its own, loaded when it is called.

To add a command, write `noiseplan/cli/NAME.py` with a click command called `command`, and one line
in `COMMANDS`. Errors of noiseplan become one message and an exit code; nothing needs to catch them.

==  ==============================================================
0   done
1   an error: the message says what was found and what to do
2   the command was not called as it should be
3   refused, and nothing was spent: the budget does not admit it, or it was released before
4   a ledger or a saved release is damaged, or not the one expected
5   others held the ledger too long; try again
130 interrupted: nothing was written but what was paid for; what was recorded counts
==  ==============================================================
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from typing import Any, Final, cast

try:
    import click
    from click.shell_completion import CompletionItem
except ModuleNotFoundError:  # the small install of a device, which has the script all the same
    raise SystemExit(
        "Error: the commands need the whole install, and there is no click here: pip install . in "
        "the clone. A device with NumPy alone reports in Python: nz.local.load_randomizer(file)"
    ) from None

from noiseplan import __version__
from noiseplan.console import plain_complaints, say
from noiseplan.errors import NoiseplanError, StorageError
from noiseplan.texts import suggestion

# Name → what it does, in the order of a first visit. Help does not load the modules.
COMMANDS: Final = {
    "demo": "A tour in one command: tables of 61,395 workers.",
    "init": "Write a first study file, from what is public.",
    "studio": "Design a study in the browser, on this machine only. Reads no data.",
    "plan": "Print and draw the errors that a study will have. Reads no data.",
    "compare": "Compare planners, on public data where errors depend on them.",
    "check": "See whether a release would go through. Spends nothing.",
    "release": "Count, add noise, and write the tables. Spends the budget once.",
    "show": "Print the certificate and the tables of a release.",
    "answer": "Ask a release anything it can answer, at no further cost.",
    "valid": "Make the tables of a release non-negative and consistent.",
    "report": "Write a page with pictures, to read or to hand on.",
    "local": "Count users who randomize their own reports, and trust nobody.",
    "ledger": "Keep the privacy budgets of datasets, and what was spent.",
    "completion": "Print a script with which a shell completes these commands.",
}
FAILED, REFUSED, DAMAGED, BUSY = 1, 3, 4, 5  # 2 is click's own
INTERRUPTED = 130


class Suggesting(click.Group):
    """A group that says which command was probably meant, and takes no option twice."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known and args[0][:1].isalnum():
            ctx.fail(f"No such command {args[0]!r}{suggestion(args[0], known) or '.'}")
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and (twice := _given_twice(command, list(rest), ctx)):
            ctx.fail(f"{twice} is given twice, and only one can be meant.")
        return name, command, rest


def _given_twice(command: click.Command, args: list[str], ctx: click.Context) -> str:
    """An option that has one value and is given several, of which click would take the last."""
    with suppress(click.UsageError):  # which is told when the command itself reads them
        own = click.Context(command, parent=ctx)
        _, _, order = command.make_parser(own).parse_args(args)
        for option in order:
            once = isinstance(option, click.Option) and not (option.multiple or option.is_flag)
            if once and order.count(option) > 1:
                return option.opts[-1]
    return ""


class Commands(Suggesting):
    """A group that loads a command's module when it is called, and explains errors."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        if cmd_name == "demo":  # a module of its own, which Python runs too
            return cast(click.Command, import_module("noiseplan.demo").main)
        return cast(click.Command, import_module(f"noiseplan.cli.{cmd_name}").command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands by name, without loading any; then the group's own options."""
        found = [
            CompletionItem(name, help=text)
            for name, text in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with plain_complaints():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with plain_complaints():
                return super().invoke(ctx)
        except BrokenPipeError:  # the reader has seen enough, which click knows to be no error
            raise
        except (NoiseplanError, OSError) as error:
            from noiseplan.words.hints import in_command_line

            say(f"Error: {in_command_line(error)}", err=True)
            ctx.exit(exit_code(error))
        except KeyboardInterrupt:
            say("Interrupted: nothing was written.", err=True)
            ctx.exit(INTERRUPTED)


class DamagedRelease(StorageError):
    """A folder that holds a release, but not as it was written."""


class InOrder(Suggesting):
    """A group whose help lists its commands in the order in which they were written."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def exit_code(error: Exception) -> int:
    """The exit code of an error, as in the table above."""
    from noiseplan.ledger import AlreadyReleased, BudgetExceeded, LedgerBusy, LedgerDamaged

    if isinstance(error, DamagedRelease):
        return DAMAGED
    codes = {
        BudgetExceeded: REFUSED,
        AlreadyReleased: REFUSED,
        LedgerDamaged: DAMAGED,
        LedgerBusy: BUSY,
    }
    return next((code for kind, code in codes.items() if isinstance(error, kind)), FAILED)


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="noiseplan")
def main() -> None:
    """Plan the noise, publish the tables.

    Differentially private answers to linear queries, each with its exact error.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # ρ and ε where the terminal cannot show them
            stream.reconfigure(errors="backslashreplace")
