from keras_msd.report.reports import write_report as write_report
from keras_msd.report.reports import write_report_of_all as write_report_of_all
