"""A broker: its parts, put together from one environment, and their start and stop in order."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from millstream.broker import adoption, joining
from millstream.broker.admissions import Admissions
from millstream.broker.background import Background
from millstream.broker.channels import BrokerChannels
from millstream.broker.cluster_view import ClusterView
from millstream.broker.connection import ClientConnection
from millstream.broker.coordinators import Coordinators
from millstream.broker.detection import Detection
from millstream.broker.environment import Environment
from millstream.broker.forwarding import TIMEOUT_MS, ask_controller
from millstream.broker.leaving import hand_over
from millstream.broker.lives import Lives
from millstream.broker.markers import Markers
from millstream.broker.monitor import Monitor
from millstream.broker.moves import Moves
from millstream.broker.neighbours import Neighbours
from millstream.broker.orders import Orders, answer_own
from millstream.broker.producer_ids import ProducerIds
from millstream.broker.registration import Registration
from millstream.broker.replication import Replication
from millstream.broker.request_times import RequestTimes
from millstream.broker.routes import Router
from millstream.broker.settings import LiveSettings
from millstream.broker.standing import Standing
from millstream.broker.transactions import Transactions
from millstream.config import broker as settings
from millstream.config import cluster as cluster_settings
from millstream.config import log, network
from millstream.config.broker import BrokerConfig
from millstream.config.listeners import Listener, parse_listener, parse_place
from millstream.config.zookeeper import ZOOKEEPER_CONNECT, ZOOKEEPER_SESSION_TIMEOUT_MS
from millstream.controller.controller import Controller
from millstream.controller.directories import leave_notice
from millstream.controller.interface import ControllerSettings
from millstream.coordination.coordinator import Coordinator
from millstream.metrics.metric import Metrics
from millstream.metrics.table import METRICS
from millstream.metrics.throttle import Throttle
from millstream.model.errors import ProtocolError
from millstream.net.network import Server
from millstream.net.peer import Limits
from millstream.net.vigil import Vigil
from millstream.protocol.messages.alter_partition import AlterPartitionRequest
from millstream.registry.membership import cluster_id, lay_out
from millstream.registry.nodes import BrokerRegistration, Endpoint
from millstream.registry.tree import Registry, RegistryError
from millstream.replication.company import Company
from millstream.replication.fetch_sessions import FetchSessions
from millstream.replication.purgatory import Purgatory
from millstream.replication.replicas import Replicas
from millstream.replication.serving import Serving
from millstream.storage.directory import LogDirectory
from millstream.storage.manager import Logs

logger = logging.getLogger(__name__)

REGISTRY_FILE = "millstream-registry.db"
#: Hosts to listen at that nobody can connect to.
EVERY_INTERFACE = frozenset({"", "0.0.0.0", "::"})
SESSION_EVICTABLE_AFTER_MS = 120_000
#: How many session time-outs a node of our id is waited for to go: a crashed broker's goes after one.
STALE_NODE_PATIENCE = 2
KNOWN_CHECK_MS = 60_000
#: How long a broker that stops tries to tell of directories that failed.
REPORT_S = 2.0
#: How long what the controller has decided may take to be told here.
NEWS_MS = 1_000


class Broker:
    """One broker; a cluster of one unless others share its registry."""

    registry: Registry
    channels: BrokerChannels
    detection: Detection
    lives: Lives
    logs: Logs
    replicas: Replicas
    replication: Replication
    serving: Serving
    settings: LiveSettings
    controller: Controller
    producer_ids: ProducerIds
    coordinators: Coordinators
    transactions: Transactions

    def __init__(self, config: BrokerConfig, environment: Environment, router: Router) -> None:
        self.id = config.broker_id
        self.advertised_versions = router.advertised()
        self.versions_for_brokers = router.advertised(to_brokers=True)
        self.clock = environment.clock
        self.workers, self.writers = environment.workers, environment.writers
        self.patient_workers = environment.patient_workers
        self.random = environment.random
        self.purgatory = Purgatory()
        self.markers = Markers(self)
        self.moves = Moves(self)
        self.orders = Orders(self)
        self.connections: set[ClientConnection] = set()
        self.listening: list[Listener] = []
        self.metrics = Metrics(METRICS)
        self.request_times = RequestTimes(self.metrics)
        self.company = Company(environment.clock.monotonic_s)
        #: Where the metrics are shown, if anywhere.
        self.metrics_at: Listener | None = None
        self._config = config
        #: Whether the registry is one that others use as well, so that what we know of it may be old.
        self._is_shared = config.get(ZOOKEEPER_CONNECT) is not None
        self._environment = environment
        self._router = router
        self._listeners = [parse_listener(text) for text in config.get(network.LISTENERS)]
        self.cluster = ClusterView()
        self.fetch_sessions = FetchSessions(
            config.get(network.MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS),
            SESSION_EVICTABLE_AFTER_MS,
            lambda: environment.random.randrange(1, 2**31),
        )
        self._servers: list[Server] = []
        self._per_address: Counter[str] = Counter()
        self._reports: set[asyncio.Task[None]] = set()
        self._is_serving = False
        #: Whether clients are answered.
        self.is_open = False
        #: What to undo, last first, when the broker stops or fails to start.
        self._undo: list[Callable[[], Awaitable[None]]] = []

    # What handlers ask for at every request.

    @property
    def fetch_bytes_max(self) -> int:
        return self.settings.config.get(network.FETCH_MAX_BYTES)

    @property
    def partitions_per_page_max(self) -> int:
        return self.settings.config.get(network.MAX_REQUEST_PARTITION_SIZE_LIMIT)

    @property
    def auto_creates_topics(self) -> bool:
        return self.settings.config.get(settings.AUTO_CREATE_TOPICS_ENABLE)

    @property
    def groups(self) -> Coordinator:
        """Who coordinates consumer groups here."""
        return self.coordinators.groups

    # Start and stop.

    async def start(self) -> None:
        """Return once the broker serves; whatever was begun is undone when it cannot."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        environment, config = self._environment, self._config
        self._undo.append(self._close_environment)
        if not self._is_shared:
            joining.check_own(environment.files, config.log_directories)
        environment.files.make_folder(config.log_directories[0])
        registry, close_registry = await environment.open_registry(
            f"{config.log_directories[0]}/{REGISTRY_FILE}", environment.workers
        )
        self._undo.append(close_registry)
        self.registry = registry
        await joining.check(registry, self.id, environment.files, config.log_directories, is_shared=self._is_shared)
        is_new = not self._is_shared and await adoption.is_new(registry)
        await lay_out(registry)
        self.lives = Lives(registry, self.id)
        last_life = await self.lives.last()
        self.settings = LiveSettings(config, registry, self._topic_changed, self._broker_changed)
        await self.settings.start()
        self._undo.append(self.settings.close)
        self._open_logs(last_life)  # In the same turn: from now on settings may change, which replicas are told.
        background = Background(self)
        if is_new:
            adopted = await adoption.adopt(registry, self.id, self.logs)
            await self.settings.load_topics(adopted)
        known = next((meta.cluster_id for meta in self.logs.meta()), None)
        self.cluster.cluster_id = await cluster_id(registry, environment.random, known)
        self.logs.identify(self.id, self.cluster.cluster_id, is_shared=self._is_shared)
        self.producer_ids = ProducerIds(registry, self.id)
        self.coordinators = Coordinators(self)
        self._undo.append(self.coordinators.close)
        await self._open_channels(registry)
        admissions = Admissions(self.channels)
        self._undo.append(admissions.close)
        self.transactions = Transactions(self.coordinators.transactions, self.cluster, self.id, admissions)
        self.replication = Replication(self)
        self._undo.append(self.replication.stop)
        self.replication.start()
        self.controller = Controller(
            self.id, registry, self.clock, environment.random, self.channels, self._controller_settings()
        )
        self.logs.on_failure = self._directory_failed
        self._undo.append(self._report_no_more)
        await self._listen()
        await self._register(registry)
        await self.lives.begin(self.logs.life)
        await self.controller.start()
        self._undo += [self.controller.close, self._report_no_more]  # What is to be told is told before.
        await self._until_known()
        if not self.logs.has_kept:
            self.logs.losses_are_known()
        self._let_clients_in()
        self._undo += [self.replication.stop, self.moves.stop]  # The first things to end.
        background.start()
        self._undo.append(background.stop)
        monitor = Monitor(self)
        self._undo.append(monitor.close)
        if (place := config.get(network.METRICS_LISTENER)) is not None:
            self.metrics_at = await monitor.listen(environment.network, parse_place(place))
        self._is_serving = True

    def _open_logs(self, last_life: int | None) -> None:
        environment, config = self._environment, self._config
        self.logs = Logs(
            environment.files,
            environment.clock,
            config.log_directories,
            self.settings.topic_config,
            environment.random,
            config.get(settings.PRODUCER_ID_EXPIRATION_MS),
        )
        self._undo.append(self._close_logs)
        self.logs.open(last_life)
        self.replicas = Replicas(
            self.id,
            self.logs,
            self.purgatory,
            self.settings.topic_config,
            self.logs.read_high_watermarks(),
            self.metrics,
        )
        self.serving = Serving(
            self.replicas,
            lambda: environment.random.randrange(1, 2**31),
            lambda: int(environment.clock.monotonic_s() * 1000),
            Throttle(lambda: self.settings.config.get(cluster_settings.LEADER_REPLICATION_THROTTLED_RATE)),
        )

    async def stop(self, *, hands_over: bool = True) -> None:
        """Hand over, resign, hang up, flush, checkpoint, close: everything that was begun, in turn, last first."""
        if hands_over and self._is_serving:
            await hand_over(self)
        self._is_serving = False
        while self._undo:
            undo = self._undo.pop()
            try:
                await undo()
            except Exception:
                logger.exception("stopping went wrong; going on with the rest")

    async def _close_environment(self) -> None:
        self._environment.close()

    async def _close_logs(self) -> None:
        if hasattr(self, "replicas"):
            self.logs.checkpoint(self.replicas.high_watermarks())
        self.logs.close()

    # Listening.

    async def _listen(self) -> None:
        config = self._config
        limits = Limits(
            config.get(network.SOCKET_REQUEST_MAX_BYTES),
            config.get(network.QUEUED_MAX_REQUEST_BYTES),
            send_buffer_bytes=config.get(network.SOCKET_SEND_BUFFER_BYTES),
            receive_buffer_bytes=config.get(network.SOCKET_RECEIVE_BUFFER_BYTES),
        )
        loop = asyncio.get_running_loop()
        vigil = Vigil(loop, self.clock.monotonic_s)
        self._undo.append(self._hang_up)
        for listener in self._listeners:
            connection = partial(ClientConnection, self, self._router, listener.name, loop, limits, vigil)
            server = await self._environment.network.listen(connection, listener.host, listener.port)
            self._servers.append(server)
            port = server.sockets[0].getsockname()[1]
            self.listening.append(listener._replace(port=port))
        for server in self._servers:
            await server.start_serving()

    def _let_clients_in(self) -> None:
        """Until now only brokers were answered: a client must never see a broker without its partitions."""
        self.is_open = True
        for connection in list(self.connections):
            connection.let_in()

    async def _hang_up(self) -> None:
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            connection.close()

    def admits(self, connection: ClientConnection) -> bool:
        """Whether there is room for one more connection from there; counts it if so."""
        config = self._config if not hasattr(self, "settings") else self.settings.config
        host = connection.host
        if len(self.connections) >= config.get(network.MAX_CONNECTIONS):
            return False
        if self._per_address[host] >= config.connections_max_from(host):
            return False
        self.connections.add(connection)
        self._per_address[host] += 1
        return True

    def dismiss(self, connection: ClientConnection) -> None:
        """A connection that was admitted is gone."""
        if connection in self.connections:
            self.connections.discard(connection)
            self._per_address[connection.host] -= 1
            if not self._per_address[connection.host]:
                del self._per_address[connection.host]

    # Other brokers.

    async def _open_channels(self, registry: Registry) -> None:
        neighbours = Neighbours(registry, self._config.get(cluster_settings.INTER_BROKER_LISTENER_NAME))
        self.channels = BrokerChannels(
            self.id,
            self._environment.network,
            neighbours.find,
            partial(answer_own, self, self._router),
            lambda: self.settings.config.get(cluster_settings.CONTROLLER_SOCKET_TIMEOUT_MS),
        )
        neighbours.on_changed = self.channels.drop
        self.detection = detection = Detection(self, registry)

        def refused(broker_id: int, epoch: int, was_reached: bool) -> None:
            neighbours.doubt(broker_id)
            detection.refused(broker_id, epoch, was_reached)

        self.channels.on_refused = refused
        self.channels.on_lost, self.channels.on_reached = detection.lost, detection.reached
        self._undo += [self.channels.close, neighbours.close, detection.close]
        await neighbours.start()

    async def _register(self, registry: Registry) -> None:
        def registered(epoch: int) -> None:
            self.replicas.broker_epoch = epoch
            self.orders.is_registered.set()

        registration = Registration(
            registry, self.id, self._registration, registered, lambda: self.replicas.controller_epoch > 0
        )
        self._undo.append(registration.close)
        session_s = self._config.get(ZOOKEEPER_SESSION_TIMEOUT_MS) / 1000
        await registration.start(is_clean=self.logs.has_kept, patience_s=STALE_NODE_PATIENCE * session_s)
        self.logs.keep()
        self.standing = Standing(registry, self.id, self.replicas, self.clock, session_s if self._is_shared else None)
        self._undo.append(self.standing.close)
        self.standing.start()

    async def _until_known(self) -> None:
        """Return once a controller has told of the cluster, with this broker in it."""

        def is_known() -> bool:
            return self.id in self.cluster.brokers

        while not is_known():
            await self.purgatory.until(is_known, [self.cluster], KNOWN_CHECK_MS)

    async def until_shown(self, is_shown: Callable[[], bool]) -> None:
        """Wait until the controller's news have made ``is_shown`` true, for as long as news take."""
        await self.purgatory.until(is_shown, [self.cluster], NEWS_MS)

    async def ask_controller(self, request: Any, timeout_ms: int = TIMEOUT_MS) -> Any:
        """What the controller answers, whoever it is; ProtocolError NOT_CONTROLLER or TimeoutError when nobody does."""
        return await ask_controller(self, request, timeout_ms)

    def view_changed(self) -> None:
        """The controller has described the cluster anew."""
        for broker_id in self.cluster.brokers:  # So that whoever dies is missed by all.
            self.channels.keep(broker_id, AlterPartitionRequest)
        self.purgatory.wake(self.cluster)

    # A log directory that fails while the broker runs.

    def _directory_failed(self, directory: LogDirectory) -> None:
        """In the next turn of the loop, for whoever found it out is in the midst of something."""
        report = asyncio.create_task(self._give_up(directory))
        self._reports.add(report)
        report.add_done_callback(self._reports.discard)

    async def _give_up(self, directory: LogDirectory) -> None:
        """End this broker's part in the directory's partitions, and have others lead them, or nobody."""
        partitions = [key for key, log in directory.logs.items() if self.logs.get(key) is log]
        self.replicas.give_up(partitions)
        try:
            if self.controller.is_active:
                await self.controller.replicas_failed(self.id, partitions)
            else:
                await leave_notice(self.registry, self.id)
        except (ProtocolError, RegistryError) as refusal:  # Whoever is controller next tells every role, and hears it.
            logger.warning("the controller could not be told of %d failed replicas: %s", len(partitions), refusal)
        if directory.has_lost:
            await self._disown()

    async def _disown(self) -> None:
        """The directories note a loss themselves, but for one that cannot be written any more."""
        try:
            await self.lives.disown(self.logs.life)
        except RegistryError as refusal:
            logger.error("the registry could not be told that records may be lost here: %s", refusal)

    async def _report_no_more(self) -> None:
        self.logs.on_failure = lambda directory: None
        if self._reports:
            await asyncio.wait(self._reports, timeout=REPORT_S)
        for report in list(self._reports):
            report.cancel()

    # Settings.

    def _topic_changed(self, topic: str) -> None:
        self.replicas.configure(topic, self.settings.topic_config(topic))
        if hasattr(self, "controller"):
            self.controller.topic_changed(topic)

    def _broker_changed(self) -> None:
        # Replicas are given their parts before the news name their topics.
        held = (each.topic_partition.topic for each in self.replicas)
        for topic in dict.fromkeys((*self.cluster.topics, *held)):
            self._topic_changed(topic)

    def _controller_settings(self) -> ControllerSettings:
        config = self._config
        return ControllerSettings(
            num_partitions=config.get(settings.NUM_PARTITIONS),
            default_replication_factor=config.get(settings.DEFAULT_REPLICATION_FACTOR),
            delete_topic_enable=config.get(settings.DELETE_TOPIC_ENABLE),
            inter_broker_listener_name=config.get(cluster_settings.INTER_BROKER_LISTENER_NAME),
            unclean_allowed=lambda topic: self.settings.topic_config(topic).unclean_leader_election_enable,
            min_in_sync=self.settings.min_in_sync,
            min_in_sync_told=self.settings.min_in_sync_told,
            refresh=self.settings.refresh,
            load=self.settings.load_topics,
            balance_interval_ms=(
                config.get(cluster_settings.LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS) * 1000
                if config.get(cluster_settings.AUTO_LEADER_REBALANCE_ENABLE)
                else None
            ),
            imbalance_percentage=config.get(cluster_settings.LEADER_IMBALANCE_PER_BROKER_PERCENTAGE),
        )

    def _registration(self, is_clean: bool) -> BrokerRegistration:
        """What other brokers and clients are told of this one."""
        advertised = self._config.get(network.ADVERTISED_LISTENERS)
        if advertised is None:
            host_name = self._environment.network.host_name
            listeners = [
                each._replace(host=host_name()) if each.host in EVERY_INTERFACE else each for each in self.listening
            ]
        else:
            listeners = [parse_listener(text) for text in advertised]
        return BrokerRegistration(
            endpoints=tuple(Endpoint(each.name, each.host, each.port) for each in listeners),
            rack=self._config.get(settings.BROKER_RACK),
            timestamp_ms=self.clock.now_ms(),
            is_clean=is_clean,
            min_in_sync=self.settings.config.get(log.MIN_INSYNC_REPLICAS),
        )
