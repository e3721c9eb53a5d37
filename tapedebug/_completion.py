"""Completion of the command line in a shell, by shtab."""

from __future__ import annotations

import argparse

SHELLS = ("bash", "zsh", "tcsh")


class PrintCompletion(argparse.Action):
    """The option `--print-completion SHELL`: print the completion script of a shell and exit."""

    def __call__(self, parser: argparse.ArgumentParser, *rest: object, **more: object) -> None:
        """Print the script; report a usage error if shtab is not installed."""
        try:
            import shtab
        except ImportError:
            parser.error("--print-completion needs shtab, which the extra `completion` installs")
        shell = rest[1]
        _complete_files(parser, shtab.FILE)
        print(shtab.complete(parser, shell))
        parser.exit()


def _complete_files(parser: argparse.ArgumentParser, files: object) -> None:
    """Complete arguments that name files with file names."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _complete_files(command, files)
        elif _names_a_file(action):
            action.complete = files  # type: ignore[attr-defined]


def _names_a_file(action: argparse.Action) -> bool:
    shown = str(action.metavar or "")
    return shown.startswith("FILE") or shown in {"SCRIPT", "ARGS", "BEFORE", "AFTER"}
