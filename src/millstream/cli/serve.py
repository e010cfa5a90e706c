"""Run a broker until it is told to stop (Ctrl-C or SIGTERM).

One line, `ready HOST:PORT`, is printed once it serves; `metrics HOST:PORT`
before it where those are asked for. Settings have Kafka's names; --set wins
over the environment (MILLSTREAM_LOG_SEGMENT_BYTES for log.segment.bytes),
which wins over the file.
"""

import argparse

from millstream.cli.options import add_setting_option, port

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9092
DEFAULT_DATA = "millstream-data"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", help=f"listen here (default: {DEFAULT_HOST}, or what `listeners` says)")
    parser.add_argument("--port", type=port, help=f"listen here, 0 for any free one (default: {DEFAULT_PORT})")
    parser.add_argument("--metrics-port", type=port, metavar="N", help="show /metrics and /health over HTTP here")
    parser.add_argument("--data", metavar="DIR", help=f"keep everything here (default: `log.dirs`, or {DEFAULT_DATA})")
    parser.add_argument("--config", metavar="FILE", help="a properties file, as Apache Kafka's server.properties")
    add_setting_option(parser, "a setting, such as log.segment.bytes=1048576; may be repeated", ["--set"])
    parser.add_argument(
        "--registry",
        metavar="WHERE",
        help="where the cluster's state is kept: `embedded` in the broker, which is then alone (the default), or "
        "zk://HOST:PORT,HOST:PORT/ROOT for a ZooKeeper ensemble; zk://USER:PASSWORD@... where it asks who we are",
    )


def run(args: argparse.Namespace) -> int:
    from millstream.broker.server import ServeOptions, run

    settings = dict(args.settings)
    if args.metrics_port is not None:
        host = args.host or DEFAULT_HOST
        settings["metrics.listener"] = f"{f'[{host}]' if ':' in host else host}:{args.metrics_port}"
    return run(
        ServeOptions(
            host=args.host,
            port=args.port,
            data=args.data,
            config_file=args.config,
            settings=settings,
            registry=args.registry,
        )
    )
