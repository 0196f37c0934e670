"""Who carries out what a policy asks for."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from dally.model import Action


@mypyc_attr(allow_interpreted_subclasses=True)
class Executor:
    """Carries out every action at once, as a simulation does. A backend's asks the cluster's own software."""

    def before_pass(self, now: float) -> None:
        """What happened is in the books, and the policy is asked next."""

    def refusal(self, action: Action) -> str:
        """Why the action cannot be carried out, whatever GPUs the books have as free; empty: it may be possible."""
        return ""

    def apply(self, action: Action, now: float) -> str:
        """Carry out an action that the engine found possible; why that failed, or nothing if it did not."""
        return ""

    def applied(self, action: Action, now: float) -> None:
        """The action is in the books, and the policy goes on."""
