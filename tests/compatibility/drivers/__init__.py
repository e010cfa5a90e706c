"""One driver for each client; see ``base`` for what they promise."""

from tests.compatibility.drivers.aio import AioDriver
from tests.compatibility.drivers.base import Driver
from tests.compatibility.drivers.confluent import ConfluentDriver
from tests.compatibility.drivers.java import JavaDriver
from tests.compatibility.drivers.kafka_python import KafkaPythonDriver
from tests.compatibility.drivers.kafkajs import KafkaJsDriver
from tests.compatibility.drivers.kcat import KcatDriver

DRIVERS: dict[str, type[Driver]] = {
    driver.name: driver
    for driver in (KcatDriver, ConfluentDriver, KafkaPythonDriver, AioDriver, KafkaJsDriver, JavaDriver)
}

__all__ = ["DRIVERS", "Driver"]
