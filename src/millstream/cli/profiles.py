"""Named clusters, kept in ``~/.config/millstream/profiles.yaml``:

staging:
  bootstrap: broker-1:9092,broker-2:9092
"""

import os

from millstream.cli.failure import CommandFailed

FOLDER_VARIABLE = "XDG_CONFIG_HOME"


def profiles_path() -> str:
    """Where the profiles are kept, under the user's configuration folder."""
    folder = os.environ.get(FOLDER_VARIABLE) or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(folder, "millstream", "profiles.yaml")


def profile_bootstrap(name: str) -> str:
    """The bootstrap of the profile ``name``; CommandFailed when there is no such profile."""
    import yaml

    path = profiles_path()
    try:
        with open(path, encoding="utf-8") as file:
            profiles = yaml.safe_load(file) or {}
    except FileNotFoundError:
        raise CommandFailed(f"there is no profile {name!r}: {path} is missing", exit_code=2) from None
    except yaml.YAMLError as error:
        raise CommandFailed(f"{path} is not YAML: {error}", exit_code=2) from None
    profile = profiles.get(name) if isinstance(profiles, dict) else None
    if not isinstance(profile, dict) or not profile.get("bootstrap"):
        raise CommandFailed(f"{path} has no profile {name!r} with a `bootstrap`", exit_code=2)
    return str(profile["bootstrap"])
