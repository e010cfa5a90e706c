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
_SOURCE = """
package millstream;

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
            if (permission.getStickyBit()) {
                super.setPermission(path, permission);
            } else {
                Files.setPosixFilePermissions(
                    pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString()));
            }
        }
    }
}
"""


def quicken_local_files(spark: SparkSession) -> None:
    """Let the Java of a session that was just made use it; where that cannot be, all is as Spark has it.

    Hadoop keeps one file system for each kind of address, and looks for its class only when it makes one. So no setting
    changes, which executors elsewhere would be given too.
    """
    if os.name == "posix":
        with suppress(Exception):
            _replace(spark)


def _replace(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    own = jvm.org.apache.hadoop.conf.Configuration(settings)
    own.setClassLoader(compiled(spark, _SOURCE))
    own.set("fs.file.impl", NAME)
    address, files = jvm.java.net.URI("file:///"), jvm.org.apache.hadoop.fs.FileSystem
    files.get(address, settings).close()  # It is forgotten with that; whoever has it can go on with it.
    made = files.get(address, own)
    for each in made, made.getRaw():
        each.setConf(settings)
