"""Run connectors, with Kafka Connect's REST API, until told to stop.

Ctrl-C or SIGTERM ends them behind the batches under way. One line, `ready
http://HOST:PORT`, is printed once every connector is looked after. Each runs on
Spark in a process of its own, is started again when it falls, and goes on where
it was. Connectors, their offsets and their states are kept in the topics
GROUP-configs, GROUP-offsets and GROUP-status, as Kafka Connect keeps them.
docs/connect.md has the rest.
"""

import argparse

from millstream.cli.failure import CommandFailed
from millstream.cli.options import add_bootstrap_options, add_setting_option, bootstrap_of, port

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8083
DEFAULT_DATA = "millstream-connect"
DEFAULT_GROUP = "connect"
LOG_LEVELS = ("fatal", "error", "warn", "info", "debug")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default=DEFAULT_HOST, help="listen here (default: %(default)s)")
    parser.add_argument(
        "--port", type=port, default=DEFAULT_PORT, help="listen here, 0 for any free one (default: %(default)s)"
    )
    parser.add_argument(
        "--data", default=DEFAULT_DATA, metavar="DIR", help="keep connectors' checkpoints here (default: %(default)s)"
    )
    parser.add_argument(
        "--group", default=DEFAULT_GROUP, metavar="NAME", help="what the topics begin with (default: %(default)s)"
    )
    parser.add_argument(
        "--plugin-path", default="", metavar="DIR[,DIR…]", help="find your own connectors' modules here as well"
    )
    parser.add_argument(
        "--master", default="", metavar="URL", help="the Spark to run on (default: this machine, tasks.max at a time)"
    )
    add_setting_option(
        parser,
        "what a connector's config says unless it says otherwise, such as value.converter=…; a setting of Spark, "
        "such as spark.driver.memory=1g; or config.providers=… and what is below it; may be repeated",
    )
    parser.add_argument(
        "--log-level", choices=LOG_LEVELS, default="fatal", help="what Spark logs (default: %(default)s)"
    )
    add_bootstrap_options(parser)


def run(args: argparse.Namespace) -> int:
    import asyncio
    import importlib.util
    import logging
    import os
    import sys

    from millstream.client.wire import parse_addresses
    from millstream.config.setting import SettingError
    from millstream.pipelines.connect import plugins
    from millstream.pipelines.connect.discovery import discovered
    from millstream.pipelines.connect.providers import Providers, settings_of
    from millstream.pipelines.connect.rest.server import ServeOptions, serve
    from millstream.pipelines.running.child import surroundings
    from millstream.pipelines.running.failures import PipelineError
    from millstream.pipelines.running.lock import held

    if importlib.util.find_spec("pyspark") is None:
        raise CommandFailed("connectors run on PySpark, which is not installed; pip install 'millstream[spark]'")
    bootstrap = bootstrap_of(args)
    try:
        addresses = parse_addresses(bootstrap)
    except ValueError as error:
        raise CommandFailed(str(error), exit_code=2) from None
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    folders = [os.path.abspath(folder) for folder in filter(None, args.plugin_path.split(","))]
    for folder in folders:
        if not os.path.isdir(folder):
            raise CommandFailed(f"--plugin-path: there is no folder {folder}", exit_code=2)
    sys.path[:0] = folders
    settings = dict(args.settings)
    env = surroundings(os.environ, folders, args.log_level)
    providers = settings_of(settings)
    try:
        Providers.of(providers, env)
    except SettingError as error:
        raise CommandFailed(str(error), exit_code=2) from None
    plugins.FOUND[:] = discovered(folders)
    options = ServeOptions(
        bootstrap=bootstrap,
        addresses=addresses,
        data=os.path.abspath(args.data),
        host=args.host,
        port=args.port,
        group=args.group,
        defaults={
            name: value for name, value in settings.items() if not name.startswith("spark.") and name not in providers
        },
        master=args.master,
        conf={name: value for name, value in settings.items() if name.startswith("spark.")},
        providers=providers,
        env=env,
    )
    try:
        with held(options.data, "--data", "these connectors"):
            asyncio.run(serve(options, lambda place: print(f"ready {place}", flush=True), _say))
    except PipelineError as error:
        raise CommandFailed(str(error)) from None
    return 0


def _say(line: str) -> None:
    import sys

    print(line, file=sys.stderr, flush=True)
