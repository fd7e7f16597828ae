"""The learning rate of every step (5.3): up in a line, then down with the square root of steps.

It is a function of the step alone, so there is no state to save and nothing to resume.
"""

from dataclasses import dataclass

from training.recipe import OptimizationSection


@dataclass(frozen=True)
class Schedule:
    """lrate = d_model^-0.5 min(step^-0.5, step warmup^-1.5), or the same shape with another peak.

    During the last `cooldown_steps` it goes down to zero in a line; also where a run is so short
    that they begin while it warms up.
    """

    peak: float
    warmup_steps: int
    max_steps: int
    cooldown_steps: int = 0

    @classmethod
    def of(cls, section: OptimizationSection, d_model: int) -> "Schedule":
        """The schedule that a recipe asks for."""
        peak = section.peak_learning_rate
        if peak is None:
            peak = d_model**-0.5 * section.warmup_steps**-0.5
        return cls(peak, section.warmup_steps, section.max_steps, section.cooldown_steps)

    def rate(self, step: int) -> float:
        """The learning rate of a step; the first is step 1."""
        begin = self.max_steps - self.cooldown_steps
        if step <= begin:
            return self._paper(step)
        highest = self._paper(max(begin, self.warmup_steps))
        line = highest * (self.max_steps - step + 1) / (self.cooldown_steps + 1)
        return min(line, self.peak * step / self.warmup_steps)

    def _paper(self, step: int) -> float:
        return self.peak * min(step / self.warmup_steps, (self.warmup_steps / step) ** 0.5)
