"""A connector's process that cannot even begin: told in a line, without Spark and soon."""

import signal
import socket
from pathlib import Path

import pytest

from millstream.pipelines.connect.reports import Failed
from millstream.pipelines.running.lock import held
from tests.pipelines.connect.connectors import Connector


def _nobody() -> str:
    """An address at which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{held.getsockname()[1]}"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "connector.class is missing"),
        ({"connector.class": "nowhere.Nothing"}, "Failed to find the class nowhere.Nothing"),
        ({"connector.class": "FileSource", "topic": "t"}, "Missing required configuration 'file'"),
        ({"connector.class": "FileSource", "topic": "t", "file": "f", "tasks.max": "0"}, "tasks.max"),
    ],
)
def test_a_config_that_cannot_work_is_final(tmp_path: Path, config: dict[str, str], words: str) -> None:
    with Connector(_nobody(), tmp_path, {"name": "wrong", **config}) as wrong:
        failed = wrong.fail()
    assert words in failed.message
    assert failed.is_final
    assert "\n" not in failed.message


def test_what_a_variable_stands_for_is_known_to_the_process_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKS", "hunter22")
    providers = {"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider"}
    config = {"name": "wrong", "connector.class": "FileSource", "topic": "t", "file": "f", "tasks.max": "${env:TASKS}"}
    wrong = Connector(_nobody(), tmp_path, config)
    wrong.start(providers=providers)
    failed = wrong.fail()
    assert failed.message.startswith("tasks.max=[hidden]: must be") and failed.is_final
    assert "hunter22" not in failed.trace
    monkeypatch.delenv("TASKS")
    wrong.start()
    failed = wrong.fail()
    assert failed.message == "tasks.max: ${env:TASKS}: there is no such key" and failed.is_final


def test_a_connector_has_one_process_whatever_their_generations(tmp_path: Path) -> None:
    second = Connector(_nobody(), tmp_path, {"name": "one", "connector.class": "GeneratorSource", "topic": "t"})
    with held(second.job.home):  # By one that outlived its worker, in an earlier generation.
        second.start(generation=5)
        failed = second.fail()
    assert failed.message.startswith("another process of connector one is about to end") and not failed.is_final


def test_a_process_whose_worker_is_silent_is_no_more(tmp_path: Path) -> None:
    """Though it waits for brokers that do not answer, and its input is open."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        alone = Connector(address, tmp_path, {"name": "alone", "connector.class": "GeneratorSource", "topic": "t"})
        alone.start(lease_s=2.0)
        assert alone._process is not None
        assert alone._process.wait(30) == -signal.SIGKILL
        alone.kill()
    [failed] = alone.told(Failed)
    assert failed.message == "its worker was not heard of for 2 s; another may have its place" and not failed.is_final


def test_brokers_that_do_not_answer_are_worth_another_try(tmp_path: Path) -> None:
    config = {"name": "alone", "connector.class": "GeneratorSource", "topic": "t"}
    with Connector(_nobody(), tmp_path, config) as alone:
        failed = alone.fail()
    assert not failed.is_final
    assert "127.0.0.1" in failed.message
