"""The errors of the pipeline. Their messages are for users of Spark."""

from __future__ import annotations


class PipelineError(Exception):
    """A request that cannot be fulfilled, with what to do about it."""


class OptionError(PipelineError):
    """An option, an offset or a schema is wrong."""


class DataLossError(PipelineError):
    """Entries that were to be read are gone (`failOnDataLoss`)."""


class RegionsError(PipelineError):
    """No region gave the answer that is needed."""
