"""Sales with their payments, summed by item in windows of five minutes: `millstream pipeline run demo/revenue.py`."""

from typing import Any

from pyspark.sql import functions as F

from millstream.pipelines.streams import Cluster, Topic, tumbling

#: Small micro-batches, so that there are many to be killed in.
CLUSTER = Cluster(source={"maxOffsetsPerTrigger": "6000"})
WINDOW = "struct<start: timestamp, end: timestamp>"

sales = Topic(
    "sales",
    "item string, cents long, at timestamp",
    key="sale string",
    time="at",
    lateness="5 minutes",
    cluster=CLUSTER,
)
payments = Topic(
    "payments", "paid long, paid_at timestamp", key="sale string", time="paid_at", lateness="5 minutes", cluster=CLUSTER
)
revenue = Topic("revenue", f"window {WINDOW}, sales long, cents long", key="item string", cluster=CLUSTER)


def pipeline() -> Any:
    """Each window's sums, once, when it is closed."""
    paid = sales.stream().join(payments.stream(), within="1 minute")
    sums = paid.group_by("item").window(tumbling("5 minutes")).agg(sales=F.count("paid"), cents=F.sum("paid"))
    return sums.suppress().to(revenue, name="revenue")
