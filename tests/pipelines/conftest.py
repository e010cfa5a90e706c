"""One Spark session and one broker for all tests of this folder, and topics that each test names for itself."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from millstream.pipelines.spark.session import spark_session
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess

#: Small and quick: two cores, no web pages, few shuffle partitions, and no more compiled than minutes are worth.
CONF = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = spark_session("tests", "local[2]", **CONF)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="session")
def topics(broker: BrokerProcess) -> Topics:
    return Topics(broker.address)
