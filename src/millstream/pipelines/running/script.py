"""A pipeline that a Python file writes: its function `pipeline` builds it, and says what to run."""

import importlib.util
import inspect
import os
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from millstream.pipelines.running.failures import PipelineError

FUNCTION = "pipeline"


def start(file: str, spark: SparkSession) -> list[Any]:
    """Run the file and its `pipeline`; the queries that it returned, or all that are active where it returned none."""
    module = _load(file)
    function = getattr(module, FUNCTION, None)
    if not callable(function):
        raise PipelineError(f"{file}: no function `{FUNCTION}`; write: def {FUNCTION}(spark): … return query")
    result = function(spark) if inspect.signature(function).parameters else function()
    queries = [_started(each, file) for each in _each(result)] or list(spark.streams.active)
    names = [query.name for query in queries]
    if None in names:
        raise PipelineError(
            f"{file}: a query without a name would not find its checkpoint again; give it one: .queryName('totals')"
        )
    return queries


def _load(file: str) -> ModuleType:
    folder = os.path.dirname(os.path.abspath(file))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = os.path.splitext(os.path.basename(file))[0]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # Workers have no such module: its functions travel as they are.
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    spec.loader.exec_module(module)
    return module


def _each(result: Any) -> list[Any]:
    """What a pipeline returned, one by one."""
    if result is None:
        return []
    if isinstance(result, dict):
        return list(result.values())
    return list(result) if isinstance(result, Iterable) else [result]


def _started(each: Any, file: str) -> Any:
    """A query that runs: this one, or the one that a writer starts."""
    if hasattr(each, "awaitTermination"):
        return each
    if hasattr(each, "start") and hasattr(each, "foreachBatch"):
        return each.start()
    raise PipelineError(
        f"{file}: `{FUNCTION}` returned {type(each).__name__}, where queries are wanted: what `to(…)`, "
        "`writeStream…` or `….start()` gives, one or several"
    )
