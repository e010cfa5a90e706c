"""Topics as DataFrames: ``format("millstream")``, with the options of Spark's own Kafka source."""
