"""The broker as a process: options in, a line when it serves, a clean end on SIGTERM and Ctrl-C."""

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from millstream.broker.broker import Broker
from millstream.broker.environment import real_environment
from millstream.broker.promptness import ask_for_short_turns
from millstream.broker.table import ROUTES
from millstream.config.broker import BROKER_ID, LOG_DIR, LOG_DIRS, NODE_ID, BrokerConfig
from millstream.config.network import LISTENERS
from millstream.config.setting import SettingError
from millstream.config.zookeeper import ZOOKEEPER_CONNECT, ZOOKEEPER_DIGEST, parse_registry
from millstream.registry.tree import RegistryFailure, SessionExpired
from millstream.storage.directory import DirectoryError
from millstream.storage.meta import META_PROPERTIES, DamagedMeta, MetaProperties

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9092
DEFAULT_DATA = "millstream-data"
#: The registry of a broker that is alone.
EMBEDDED = "embedded"

#: A worker thread that computes gives way to the loop within this time; Python's own default is 25 times as long.
SWITCH_INTERVAL_S = 0.0002

#: How many new objects the garbage collector waits for.
GARBAGE_THRESHOLD = 50_000

logger = logging.getLogger("millstream")


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What `millstream serve` was told; None leaves it to the settings and their defaults."""

    host: str | None = None
    port: int | None = None
    data: str | None = None
    config_file: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    registry: str | None = None  #: EMBEDDED, or as parse_registry takes it


def load_config(options: ServeOptions, environ: Mapping[str, str]) -> BrokerConfig:
    """The settings in force: options over environment over file over defaults."""
    overrides = {**options.settings, **_registry_settings(options.registry)}
    config = BrokerConfig.load(options.config_file, overrides, environ)
    if options.registry == EMBEDDED and (connect := config.get(ZOOKEEPER_CONNECT)) is not None:
        raise SettingError(f"--registry {EMBEDDED}: zookeeper.connect={connect} names another; leave one of them out")
    given = config.static
    if options.host is not None or options.port is not None or LISTENERS.name not in given:
        host = DEFAULT_HOST if options.host is None else options.host
        port = DEFAULT_PORT if options.port is None else options.port
        overrides[LISTENERS.name] = f"PLAINTEXT://{f'[{host}]' if ':' in host else host}:{port}"
    if options.data is not None or not {LOG_DIR.name, LOG_DIRS.name} & given.keys():
        overrides[LOG_DIRS.name] = options.data or DEFAULT_DATA
    config = BrokerConfig.load(options.config_file, overrides, environ)
    if not {BROKER_ID.name, NODE_ID.name} & config.static.keys():
        known = _known_broker_id(config.log_directories)
        if known is not None:
            config = BrokerConfig.load(options.config_file, {**overrides, NODE_ID.name: str(known)}, environ)
        elif config.get(ZOOKEEPER_CONNECT) is not None:
            raise SettingError(
                "a broker of a cluster needs an id that no other has: give it one with --set broker.id=N"
            )
    return config


def _registry_settings(registry: str | None) -> dict[str, str]:
    if registry is None or registry == EMBEDDED:
        return {}
    try:
        connect, credentials = parse_registry(registry)
    except ValueError as error:
        raise SettingError(f"--registry: {error}") from None
    return {ZOOKEEPER_CONNECT.name: connect} | ({ZOOKEEPER_DIGEST.name: credentials} if credentials else {})


def _known_broker_id(directories: Iterable[str]) -> int | None:
    """Whose the directories are, where that is written down already; a broker that was given no id takes that one."""
    for directory in directories:
        with contextlib.suppress(OSError, DamagedMeta), open(f"{directory}/{META_PROPERTIES}", "rb") as file:
            return MetaProperties.decode(file.read()).broker_id
    return None


def run(options: ServeOptions) -> int:
    """Serve until told to stop; the exit status."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s", force=True
    )
    try:
        config = load_config(options, os.environ)
        for warning in config.warnings:
            logger.warning("%s", warning)
        _allow_open_files()
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        ask_for_short_turns()
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(_serve(config))
    except (SettingError, DirectoryError, RegistryFailure, SessionExpired, OSError) as error:
        message = error.strerror if isinstance(error, OSError) and error.filename is None else None
        print(f"millstream: {message or error}", file=sys.stderr)  # noqa: T201 - the process's own last word
        return 1


async def _serve(config: BrokerConfig) -> int:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    environment = real_environment(config)
    broker = Broker(config, environment, ROUTES)
    starting, told = asyncio.create_task(broker.start()), asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait([starting, told], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():  # It may wait for a controller that never comes.
            starting.cancel()
            await asyncio.wait([starting])
            return 0
        await starting
        _settle_garbage()
        if broker.metrics_at is not None:
            print(f"metrics {broker.metrics_at.host}:{broker.metrics_at.port}", flush=True)  # noqa: T201 - likewise
        for listener in broker.listening:
            print(f"ready {listener.host}:{listener.port}", flush=True)  # noqa: T201 - what whoever started us waits for
        await told
    finally:
        told.cancel()
        await broker.stop()
    return 0


def _settle_garbage() -> None:
    """What lives as long as the broker is never looked at again, and what requests leave is looked at seldom.

    Requests make no cycles, so the collector finds nothing in them; looking through all partitions costs milliseconds.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD)


def _loop_factory() -> "type[asyncio.AbstractEventLoop] | None":
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.new_event_loop  # type: ignore[return-value]
    return None


def _allow_open_files() -> None:
    """Every partition keeps a file open: ask for as many as the system grants."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
