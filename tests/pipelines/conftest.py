"""One Spark session and one broker for all tests of this folder, and topics that each test names for itself."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from millstream.pipelines.spark.session import spark_session
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess

#: What every Spark starts with, also in the processes that tests start.
os.environ["SPARK_CONF_DIR"] = str(Path(__file__).with_name("spark_conf"))

#: Small and quick: two cores, few shuffle partitions.
CONF = {
    "spark.driver.memory": "1g",
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
