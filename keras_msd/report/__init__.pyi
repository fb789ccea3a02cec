from keras_msd.report.all_runs import write_report_of_all as write_report_of_all
from keras_msd.report.one_run import write_report as write_report
