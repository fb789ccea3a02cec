"""Reports as HTML pages: of one run, and of many."""

from keras_msd.report.all_runs import write_report_of_all
from keras_msd.report.page import write_report

__all__ = ["write_report", "write_report_of_all"]
