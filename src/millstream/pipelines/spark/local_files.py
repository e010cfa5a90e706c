"""Spark's files on this machine's disk, made without a process for each of them.

Hadoop has no native library here, and starts ``chmod`` for every file that it makes: of a micro-batch of 60 ms the two
files of its checkpoint take 20 ms, and each file of a state store another 10. Java can set permissions by itself. So
Spark's own Java compiler, which it has for its queries, makes a file system that does.
"""

import os
from contextlib import suppress
from typing import Any

from pyspark.sql import SparkSession

from millstream.pipelines.spark.java import compiled

NAME = "millstream.LocalFiles"
#: What it stands in for: Hadoop's own, and the one that Hive's libraries name, where Spark has them. Any other somebody
#: chose, and it goes first.
_USUAL = frozenset({"org.apache.hadoop.fs.LocalFileSystem", "org.apache.hadoop.hive.ql.io.ProxyLocalFileSystem"})
_SOURCE = """
package millstream;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new Raw());
    }

    public static class Raw extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) throws IOException {
            File file = pathToFile(path);
            // A directory may have a bit that what is made in it goes to its group: Java would take that away.
            if (permission.getStickyBit() || file.isDirectory()) {
                super.setPermission(path, permission);
            } else {
                Files.setPosixFilePermissions(
                    file.toPath(), PosixFilePermissions.fromString(permission.toString()));
            }
        }
    }
}
"""


def quicken_local_files(spark: SparkSession) -> None:
    """Let the Java of a session that was just made use it, unless its settings name another; where that cannot be, all
    is as Spark has it.

    Hadoop keeps one file system for each kind of address, and looks for its class only when it makes one. So no setting
    changes, which executors elsewhere would be given too.
    """
    if os.name == "posix":
        with suppress(Exception):
            _replace(spark)


def _replace(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    address, files = jvm.java.net.URI("file:///"), jvm.org.apache.hadoop.fs.FileSystem
    is_usual = files.getFileSystemClass("file", settings).getName() in _USUAL
    before = files.get(address, settings)
    name = before.getClass().getName()
    if name == NAME or (is_usual and name in _USUAL):  # The first is left of a session that was here before.
        before.close()  # It is forgotten with that; whoever has it can go on with it.
        if is_usual:
            _make(spark, settings)


def _make(spark: SparkSession, settings: Any) -> None:
    jvm: Any = spark._jvm
    own = jvm.org.apache.hadoop.conf.Configuration(settings)
    own.setClassLoader(compiled(spark.sparkContext, _SOURCE))
    own.set("fs.file.impl", NAME)
    made = jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI("file:///"), own)
    for each in made, made.getRaw():
        each.setConf(settings)
