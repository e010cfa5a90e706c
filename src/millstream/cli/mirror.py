"""Mirror topics between clusters, as a file with MirrorMaker 2's names says.

The file names clusters and flows: clusters = A, B; A.bootstrap.servers;
A->B.enabled = true. Each flow runs in a process of its own on Spark, exactly
once, and is started again when it falls. Ctrl-C ends all behind the micro-batch
under way, pressed again at once; a kill and a hang-up of the terminal end them
too. docs/mirror.md has the rest.
"""

import argparse

from millstream.cli.failure import CommandFailed
from millstream.cli.options import add_setting_option, not_negative
from millstream.cli.pipeline.run import add_watching_options

DEFAULT_CHECKPOINT = "millstream-checkpoints/mirror"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--master", default="local[*]", metavar="URL", help="Spark's master (%(default)s)")
    parser.add_argument(
        "--checkpoint", metavar="DIR", default=DEFAULT_CHECKPOINT, help="keep the progress here (%(default)s)"
    )
    add_setting_option(parser, "a setting of Spark, such as spark.driver.memory=1g; may be repeated")
    parser.add_argument(
        "--restarts", type=not_negative, metavar="N", help="give up when a flow falls more than N times in a row"
    )
    add_watching_options(parser)


def run(args: argparse.Namespace) -> int:
    import importlib.util
    import random

    from millstream.cli.pipeline.display import Terminal
    from millstream.cli.pipeline.keeping import keep
    from millstream.model.clock import SystemClock
    from millstream.pipelines.mirror.definition import read_mirror
    from millstream.pipelines.mirror.supervising import Flows, jobs_of
    from millstream.pipelines.running.failures import PipelineError
    from millstream.pipelines.running.restarts import Restarts

    try:
        if args.master.startswith("sc://"):
            raise CommandFailed(f"--master {args.master}: a flow has a driver of its own, which Spark Connect has not")
        mirror = read_mirror(args.file)
        if importlib.util.find_spec("pyspark") is None:
            raise CommandFailed("mirrors run on PySpark, which is not installed; pip install 'millstream[spark]'")
        display = Terminal("mirror", every_s=args.every_s, quiet=args.quiet)
        for warning in mirror.warnings:
            display.error(warning)
        jobs = jobs_of(mirror, args.file, args.checkpoint, args.master, dict(args.settings))
        clock = SystemClock()
        flows = Flows(jobs, display, lambda: Restarts(falls_max=args.restarts), clock, random.random, args.log_level)
        keep(flows, display, clock, args.checkpoint, args.metrics_port)
    except PipelineError as error:
        # Each fault of the file has a line, and each line says whose it is.
        raise CommandFailed(str(error).replace("\n", "\nmillstream: ")) from None
    return 0
