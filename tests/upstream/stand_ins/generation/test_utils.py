"""An empty base where the release's own generation tests would be: not in the distribution."""


class GenerationTesterMixin:
    """Nothing to run."""
