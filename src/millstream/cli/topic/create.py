"""Make topics.

millstream topic create orders -p 12 -r 3 -c retention.ms=86400000
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from millstream.cli.options import add_output_option, add_setting_option, positive

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="TOPIC")
    parser.add_argument("-p", "--partitions", type=positive, default=-1, metavar="N", help="default: the broker's")
    parser.add_argument("-r", "--replicas", type=positive, default=-1, metavar="N", help="default: the broker's")
    add_setting_option(parser, "a setting of the topic, such as cleanup.policy=compact; may be repeated")
    parser.add_argument("--if-not-exists", action="store_true", help="leave a topic that is already there as it is")
    parser.add_argument("--dry-run", action="store_true", help="only ask whether it could be made")
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.outcomes import report
    from millstream.client.admin import NewTopic, create_topics

    settings = dict(args.settings)
    topics = [NewTopic(name, args.partitions, args.replicas, settings) for name in args.names]
    outcomes = await create_topics(cluster, topics, validate_only=args.dry_run)
    for outcome in outcomes:
        if not outcome.code and not args.dry_run:  # Brokers may learn of it a little later than the controller.
            await cluster.topic(outcome.name, is_new=True)
    forgiven = frozenset({"TOPIC_ALREADY_EXISTS"}) if args.if_not_exists else frozenset[str]()
    return report(outcomes, "could create" if args.dry_run else "created", args.output, forgiven)
