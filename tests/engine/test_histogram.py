"""Histograms, as Prometheus reads them."""

from __future__ import annotations

from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector, CollectorRegistry

from anabranch.region.engine.histogram import Histogram


def test_buckets_count_what_is_below_them() -> None:
    histogram = Histogram(1_000, 100_000)
    assert histogram.bounds_us == [1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000]
    for total_us, times in [(1, 1), (1_000, 1), (1_001, 1), (30_000, 3), (10**9, 1), (-5, 1)]:
        histogram.observe(total_us, times)
    samples = histogram.samples({"kind": "x"})
    buckets = {labels["le"]: value for suffix, labels, value in samples if suffix == "_bucket"}
    assert buckets == {
        "0.001": 3,
        "0.0025": 4,
        "0.005": 4,
        "0.01": 7,
        "0.025": 7,
        "0.05": 7,
        "0.1": 7,
        "+Inf": 8,
    }
    assert samples[-2] == ("_sum", {"kind": "x"}, (1 + 1_000 + 1_001 + 30_000 + 10**9) / 1e6)
    assert samples[-1] == ("_count", {"kind": "x"}, 8)


def test_prometheus_reads_it_as_a_histogram() -> None:
    histogram = Histogram(100, 1_000)
    histogram.observe(300, 2)  # 150 µs each.

    class One(Collector):
        def collect(self) -> list[Metric]:
            family = Metric("t_seconds", "Times.", "histogram")
            for suffix, labels, value in histogram.samples({}):
                family.add_sample("t_seconds" + suffix, labels, value)
            return [family]

    registry = CollectorRegistry()
    registry.register(One())
    (family,) = text_string_to_metric_families(generate_latest(registry).decode())
    assert family.type == "histogram"
    values = {(one.name, one.labels.get("le")): one.value for one in family.samples}
    assert values == {
        ("t_seconds_bucket", "0.0001"): 0,
        ("t_seconds_bucket", "0.00025"): 2,
        ("t_seconds_bucket", "0.0005"): 2,
        ("t_seconds_bucket", "0.001"): 2,
        ("t_seconds_bucket", "+Inf"): 2,
        ("t_seconds_sum", None): 0.0003,
        ("t_seconds_count", None): 2,
    }
