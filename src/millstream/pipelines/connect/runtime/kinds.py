"""What a config's connector is, source or sink and of which version, found without loading what need not be."""

import asyncio
import logging
from collections.abc import Mapping
from typing import NamedTuple

from millstream import __version__
from millstream.pipelines.connect import plugins
from millstream.pipelines.connect.base import Source
from millstream.pipelines.connect.errors import ConnectError

logger = logging.getLogger(__name__)

CLASS = "connector.class"
SOURCE = "source"
SINK = "sink"
UNKNOWN = "unknown"


class Kind(NamedTuple):
    """What a connector is, in Connect's words."""

    type: str = UNKNOWN
    version: str = ""


async def kind_of(config: Mapping[str, str]) -> Kind:
    """The kind; a class of somebody else's is loaded beside the loop, for it may take its time."""
    name = config.get(CLASS, "")
    own = _own(name)
    return Kind(own.kind.value, __version__) if own is not None else await asyncio.to_thread(_loaded, name)


def class_of(config: Mapping[str, str]) -> str:
    """The class by the one name that it is listed under, whatever other name a config has for it."""
    name = config.get(CLASS, "")
    own = _own(name)
    return own.name if own is not None else name


def _own(name: str) -> plugins.Plugin | None:
    own = (plugin for plugin in plugins.PLUGINS if plugin.kind in (SOURCE, SINK))
    return next((plugin for plugin in own if name in (plugin.name, *plugin.aliases)), None)


def _loaded(name: str) -> Kind:
    try:
        found = plugins.connector(name)
    except ConnectError:
        return Kind()
    except Exception:
        logger.warning("%s cannot be loaded", name, exc_info=True)
        return Kind()
    return Kind(SOURCE if issubclass(found, Source) else SINK, found.version)
