"""The names that ``millstream`` itself gives, and that they cost nothing until asked for."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import millstream


def test_every_public_name_can_be_had() -> None:
    for name in millstream._HOME_OF:  # type: ignore[attr-defined]
        assert getattr(millstream, name).__name__ == name or name in ("Serializer", "Deserializer")
        assert name in dir(millstream)


def test_type_checkers_are_told_of_the_same_names() -> None:
    stub = ast.parse(Path(millstream.__file__).with_suffix(".pyi").read_text())
    told = {
        (f"{node.module}", alias.name)
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name == alias.asname
    }
    homes = millstream._HOME_OF  # type: ignore[attr-defined]
    assert told == {(f"millstream.{home}", name) for name, home in homes.items()}


def test_a_name_there_is_not_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Prodcer'"):
        millstream.Prodcer  # type: ignore[attr-defined]  # noqa: B018


def test_the_package_alone_loads_no_client() -> None:
    code = "import millstream, sys; sys.exit('confluent_kafka' in sys.modules or 'asyncio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_confluent_kafka_one_is_told_how_to_install_it() -> None:
    code = "import sys; sys.modules['confluent_kafka'] = None; import millstream; millstream.Producer"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert "pip install 'millstream[client]'" in done.stderr
