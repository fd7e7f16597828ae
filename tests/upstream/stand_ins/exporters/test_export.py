"""An empty base where the release's own export tests would be: they are not in the distribution."""


class ExportTesterMixin:
    """Nothing to run."""
