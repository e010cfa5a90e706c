"""Run a pipeline on Spark until it is done or told to stop (Ctrl-C or SIGTERM).

FILE.py has a function `pipeline(spark)` that returns its streaming queries;
FILE.yaml declares source, sql and sink. The pipeline is started again when it
falls, later each time, and goes on where its checkpoint ends; errors that no
further try would mend end it. docs/pipelines.md has the rest.
"""

import argparse

from millstream.cli.failure import CommandFailed
from millstream.cli.options import (
    add_bootstrap_options,
    add_setting_option,
    bootstrap_of,
    not_negative,
    port,
    positive_seconds,
)

LOG_LEVELS = ("fatal", "error", "warn", "info", "debug")
DEFAULT_EVERY_S = 10.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE.py|FILE.yaml")
    parser.add_argument(
        "--master", default="local[*]", metavar="URL", help="local[N], spark://…, sc://…, yarn, k8s://… (%(default)s)"
    )
    parser.add_argument("--checkpoint", metavar="DIR", help="keep the progress here (millstream-checkpoints/NAME)")
    add_setting_option(parser, "a setting of Spark, such as spark.driver.memory=4g; may be repeated")
    parser.add_argument(
        "--restarts", type=not_negative, metavar="N", help="give up when it falls more than N times in a row"
    )
    add_watching_options(parser)
    add_bootstrap_options(parser)


def add_watching_options(parser: argparse.ArgumentParser) -> None:
    """How a person, or a dashboard, sees how it goes."""
    group = parser.add_argument_group("watching")
    group.add_argument("-q", "--quiet", action="store_true", help="say nothing but what goes wrong")
    group.add_argument(
        "--every",
        dest="every_s",
        type=positive_seconds,
        default=DEFAULT_EVERY_S,
        metavar="SECONDS",
        help="how often progress is printed where there is no terminal (default: %(default).0f)",
    )
    group.add_argument("--metrics-port", type=port, metavar="N", help="show /metrics and /health over HTTP here")
    group.add_argument(
        "--log-level", choices=LOG_LEVELS, default="fatal", help="what Spark logs (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    import importlib.util
    import random

    from millstream.cli.pipeline.display import Terminal
    from millstream.cli.pipeline.keeping import keep
    from millstream.model.clock import SystemClock
    from millstream.pipelines.running.failures import PipelineError
    from millstream.pipelines.running.job import make_job
    from millstream.pipelines.running.restarts import Restarts
    from millstream.pipelines.running.supervisor import Supervisor

    if importlib.util.find_spec("pyspark") is None:
        raise CommandFailed("pipelines run on PySpark, which is not installed; pip install 'millstream[spark]'")
    try:
        is_named = bool(args.bootstrap or args.profile)
        job = make_job(
            args.file,
            master=args.master,
            bootstrap=bootstrap_of(args) if is_named else None,
            default_bootstrap=bootstrap_of(args),
            checkpoint=args.checkpoint,
            conf=dict(args.settings),
        )
        display = Terminal(job.name, every_s=args.every_s, quiet=args.quiet)
        clock = SystemClock()
        restarts = Restarts(falls_max=args.restarts)
        supervisor = Supervisor(job, display, restarts, clock, random.random, args.log_level)
        keep(supervisor, display, clock, job.checkpoint, args.metrics_port)
    except PipelineError as error:
        raise CommandFailed(str(error)) from None
    return 0
