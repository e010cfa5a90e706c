"""The mirror's command, as far as it goes without Spark."""

from pathlib import Path

import pytest

from millstream.cli.main import FAILED, main


def test_each_fault_of_the_file_is_told_in_a_line_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "m.properties"
    file.write_text("clusters = A, B\nA->B.enabled = true\nA.security.protocol = SSL\n")
    assert main(["mirror", str(file)]) == FAILED
    assert capsys.readouterr().err.splitlines() == [
        f"millstream: {file}:3: A.security.protocol: SSL: only PLAINTEXT is spoken here",
        f"millstream: {file}: no A.bootstrap.servers: where cluster A is reached, as HOST:PORT",
        f"millstream: {file}: no B.bootstrap.servers: where cluster B is reached, as HOST:PORT",
    ]
