"""Variables of configs, and what Kafka's config providers find for them."""

from pathlib import Path

import pytest

from millstream.config.setting import SettingError
from millstream.pipelines.connect.providers import Providers, settings_of, without

KAFKA = "org.apache.kafka.common.config.provider."
SETTINGS = {
    "config.providers": "file, env,dir",
    "config.providers.file.class": f"{KAFKA}FileConfigProvider",
    "config.providers.env.class": "EnvVarConfigProvider",
    "config.providers.env.param.allowlist.pattern": "DB_.*",
    "config.providers.dir.class": f"{KAFKA}DirectoryConfigProvider",
}
ENVIRON = {"DB_USER": "anna", "HOME": "/nowhere"}


def resolved(text: str, **settings: str) -> str:
    found = Providers.of({**SETTINGS, **settings}, ENVIRON).resolved({"a": text})
    assert not found.errors
    return found.config["a"]


def error(text: str, **settings: str) -> str:
    found = Providers.of({**SETTINGS, **settings}, ENVIRON).resolved({"a": text, "b": "kept"})
    assert found.config == {"a": text, "b": "kept"} and list(found.errors) == ["a"]
    return found.errors["a"]


def test_variables_stand_for_what_lies_in_files_folders_and_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "db.properties"
    file.write_text("# secrets\npassword = p\\u00e4ss:w=rd \\\n  two\nempty=\n")
    (tmp_path / "token").write_text("abc\n")
    assert resolved(f"${{file:{file}:password}}") == "päss:w=rd two"
    assert resolved(f"x-${{file:{file}:empty}}-${{env:DB_USER}}!") == "x--anna!"
    assert resolved(f"${{dir:{tmp_path}:token}}") == "abc\n"
    found = Providers.of(SETTINGS, ENVIRON).resolved({"a": "${env:DB_USER}", "b": "plain"})
    assert found.secrets == {"anna"}


@pytest.mark.parametrize("text", ["${topic}", "${other:x}", "${nobody:/path:key}", "$env:DB_USER", "${}", "a\\1${:}"])
def test_what_is_no_variable_of_a_provider_is_text(text: str) -> None:
    assert resolved(text) == text
    assert Providers().resolved({"a": "${env:DB_USER}"}).config == {"a": "${env:DB_USER}"}


def test_what_is_not_there_is_told_at_its_option(tmp_path: Path) -> None:
    (tmp_path / "db").write_text("x=1")
    assert error("${env:DB_PASSWORD}") == "${env:DB_PASSWORD}: there is no such key"
    assert error("${env:HOME}") == "${env:HOME}: there is no such key", "it is not among those allowed"
    assert "no path" in error("${env:/x:DB_USER}")
    assert error(f"${{file:{tmp_path}/db:y}}").endswith("there is no such key")
    assert error("${file:/nowhere/db:y}").endswith("cannot be read: No such file or directory")
    assert error(f"${{dir:{tmp_path}:../x}}").endswith("there is no such key")
    assert error(f"${{dir:{tmp_path}:none}}").endswith("there is no such key")


@pytest.mark.parametrize("kind", ["file", "dir"])
def test_nobody_looks_beside_the_paths_that_are_allowed(tmp_path: Path, kind: str) -> None:
    inside, outside = tmp_path / "in", tmp_path / "inner"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "db").write_text("x=1")
    allowed = {f"config.providers.{kind}.param.allowed.paths": f"{inside},/dev/null"}

    def variable(folder: Path) -> str:
        return f"${{file:{folder}/db:x}}" if kind == "file" else f"${{dir:{folder}:db}}"

    assert resolved(variable(inside), **allowed) in ("1", "x=1")
    for beside in (outside, inside / ".." / "inner"):
        assert "allowed.paths does not have the path" in error(variable(beside), **allowed)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"config.providers": "vault"}, "config.providers.vault.class=: must be one of FileConfigProvider, "),
        ({"config.providers.env.class": "x.Y"}, "config.providers.env.class=x.Y: must be one of "),
        ({"config.providers.env.param.allowlist.pattern": "("}, "config.providers.env.param.allowlist.pattern=(: must"),
        ({"config.providers.file.param.allowed.paths": "here"}, "config.providers.file.param.allowed.paths=here: here"),
        ({"config.providers.dir.param.allowed.paths": "/no/where"}, "/no/where must be absolute, and there"),
    ],
)
def test_a_provider_that_cannot_be_is_refused(changes: dict[str, str], words: str) -> None:
    with pytest.raises(SettingError) as refused:
        Providers.of({**SETTINGS, **changes}, ENVIRON)
    assert words in str(refused.value)


def test_settings_of_providers_are_known_among_others() -> None:
    assert settings_of({**SETTINGS, "config.providerss": "x", "value.converter": "y"}) == SETTINGS


def test_secrets_are_left_out_of_words_the_longer_ones_first() -> None:
    assert without({"pass", "password1", "abc"}, "password1, pass and abc") == "[hidden], [hidden] and abc"
