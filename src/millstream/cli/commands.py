"""Every command there is: its words, where it lives, and what it does in a line.

Help is printed from this table alone, so that a command's module, and whatever it imports, is loaded only when that
command is the one asked for.
"""

from typing import NamedTuple


class Command(NamedTuple):
    """One command. Its module has ``configure(parser)`` and ``run(args)``, ``run(cluster, args)`` if it is online."""

    words: str
    module: str
    summary: str
    #: Whether it talks to a cluster: it then takes ``--bootstrap`` and its ``run`` is given a connected ``Cluster``.
    online: bool = True


COMMANDS = (
    Command("serve", "millstream.cli.serve", "Run a broker.", online=False),
    Command("topic create", "millstream.cli.topic.create", "Make topics."),
    Command("topic list", "millstream.cli.topic.list", "List topics."),
    Command("topic describe", "millstream.cli.topic.describe", "Show topics' partitions, offsets and settings."),
    Command("topic alter", "millstream.cli.topic.alter", "Change topics' settings."),
    Command("topic add-partitions", "millstream.cli.topic.add_partitions", "Give topics more partitions."),
    Command("topic delete", "millstream.cli.topic.delete", "Delete topics and all their records."),
    Command("produce", "millstream.cli.produce", "Write records, from standard input or files, to a topic."),
    Command("consume", "millstream.cli.consume", "Print the records of topics."),
    Command("tail", "millstream.cli.tail", "Print a topic's last records, then follow it."),
    Command("query", "millstream.cli.query", "Ask topics in SQL, as they are or as they were.", online=False),
    Command("group list", "millstream.cli.group.list", "List consumer groups."),
    Command("group describe", "millstream.cli.group.describe", "Show groups' members, offsets and lag."),
    Command("group reset-offsets", "millstream.cli.group.reset_offsets", "Let a group read on from elsewhere."),
    Command("group delete", "millstream.cli.group.delete", "Delete groups and their offsets."),
    Command("group delete-offsets", "millstream.cli.group.delete_offsets", "Forget a group's offsets of topics."),
    Command("txn list", "millstream.cli.txn.list", "List transactional ids."),
    Command("txn describe", "millstream.cli.txn.describe", "Show transactions, or a topic's producers."),
    Command("txn abort", "millstream.cli.txn.abort", "Abort transactions and fence their producers."),
    Command("config describe", "millstream.cli.config.describe", "Show the settings of a topic or broker."),
    Command("config set", "millstream.cli.config.set", "Set settings of a topic or broker."),
    Command("config unset", "millstream.cli.config.unset", "Take settings back to their defaults."),
    Command("cluster up", "millstream.cli.cluster.up", "Run a cluster on this machine.", online=False),
    Command("cluster info", "millstream.cli.cluster.info", "Show the cluster's id, controller and brokers."),
    Command("cluster health", "millstream.cli.cluster.health", "Show what is wrong with the cluster."),
    Command("cluster elect", "millstream.cli.cluster.elect", "Elect leaders of partitions."),
    Command("reassign plan", "millstream.cli.reassign.plan", "Plan where partitions should be."),
    Command("reassign execute", "millstream.cli.reassign.execute", "Begin to move partitions as a plan says."),
    Command("reassign verify", "millstream.cli.reassign.verify", "Show how far a plan is."),
    Command("reassign cancel", "millstream.cli.reassign.cancel", "Stop moving partitions."),
    Command("reassign list", "millstream.cli.reassign.list", "List the partitions that are being moved."),
    Command("log dump", "millstream.cli.log.dump", "Print segments, indexes, snapshots, checkpoints.", online=False),
    Command("perf produce", "millstream.cli.perf.produce", "Measure how fast a topic can be written."),
    Command("perf consume", "millstream.cli.perf.consume", "Measure how fast a topic can be read."),
    Command("perf latency", "millstream.cli.perf.latency", "Measure how long records take at a steady rate."),
    Command(
        "pipeline run", "millstream.cli.pipeline.run", "Run a pipeline on Spark, and keep it running.", online=False
    ),
    Command("mirror", "millstream.cli.mirror", "Mirror topics between clusters.", online=False),
    Command("connect", "millstream.cli.connect", "Run connectors, with Kafka Connect's REST API.", online=False),
    Command("version", "millstream.cli.version", "Print the version.", online=False),
)

#: What each group of commands is about.
GROUPS = {
    "topic": "Make, list, inspect, change and delete topics.",
    "group": "Look at consumer groups, and move or delete their offsets.",
    "txn": "Look at transactions, and end those that hang.",
    "config": "Show and change the settings of topics and brokers.",
    "cluster": "Run a cluster, and look at it.",
    "reassign": "Move partitions between brokers.",
    "log": "Look into a broker's files, with the broker running or not.",
    "pipeline": "Run pipelines on Spark.",
    "perf": "Measure a cluster with pre-encoded batches.",
}

BY_WORDS = {command.words: command for command in COMMANDS}
