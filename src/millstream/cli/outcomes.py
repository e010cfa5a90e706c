"""Telling how it went for each of several topics or groups."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from millstream.cli.failure import refusal
from millstream.cli.output import show_document

if TYPE_CHECKING:
    from millstream.client.admin import Outcome


def report(
    outcomes: Sequence["Outcome"],
    done: str,
    output: str,
    forgiven: frozenset[str] = frozenset(),
    *,
    noun: str = "topic",
) -> int:
    """Say what was done on standard output and what was refused on standard error; 1 if anything was refused.

    A detail stands for ``done`` where there was nothing to do. ``forgiven`` names refusals that count as done: a topic
    that was to be made and is already there. ``noun`` is what they are outcomes for.
    """
    failed = [outcome for outcome in outcomes if outcome.code and outcome.code.name not in forgiven]
    if output != "table":
        rows = [{noun: name, "error": code.name if code else None, "detail": detail} for name, code, detail in outcomes]
        show_document(rows, output)
        return 1 if failed else 0
    for outcome in outcomes:
        if not outcome.code:
            print(f"{outcome.name}: {outcome.detail}" if outcome.detail else f"{done} {outcome.name}")
        elif outcome.code.name in forgiven:
            print(f"unchanged {outcome.name} ({outcome.code.name})")
        else:
            refused = refusal(outcome.code.name, outcome.detail, {noun: outcome.name})
            print(f"millstream: {outcome.name}: {refused}", file=sys.stderr)
    return 1 if failed else 0
