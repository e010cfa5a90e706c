"""Sinks into lakes: tables of Parquet files, plain, or under the log of Delta or Iceberg.

Workers write the files, partitioned by field or by time; the driver lists them once for each batch. Whatever a table
lists it lists for good, whatever it does not list nobody reads.
"""
