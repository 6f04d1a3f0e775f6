"""The error every defect of a log is reported with."""


class DataError(ValueError):
    """A log cannot be used as it is. The message says what was expected, what came, where (key and row or episode), and what to do."""
