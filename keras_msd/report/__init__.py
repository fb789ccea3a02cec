"""The report of a run as one HTML page."""

from keras_msd.report.page import write_report

__all__ = ["write_report"]
