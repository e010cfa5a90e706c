"""Naming whose settings are meant: ``topic NAME``, ``broker ID``, or ``broker default`` for all brokers."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millstream.client.admin import Resource

ALL_BROKERS = "default"


def add_resource_arguments(parser: argparse.ArgumentParser) -> None:
    """Let the command say whose settings are meant."""
    parser.add_argument("kind", choices=("topic", "broker"), help="whose settings")
    parser.add_argument("name", metavar="NAME", help="the topic, the broker's id, or `default` for all brokers")


def resource_of(args: argparse.Namespace) -> tuple[Resource, str]:
    """The resource as the protocol names it; all brokers are the broker without a name."""
    from millstream.client.admin import Resource

    if args.kind == "topic":
        return Resource.TOPIC, args.name
    return Resource.BROKER, "" if args.name == ALL_BROKERS else args.name
