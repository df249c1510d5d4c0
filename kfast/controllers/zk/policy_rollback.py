"""Events that a user's rule can fail: either all of an event happens, or nothing.

Without a rule the events below are what they were. With one, most of them keep a copy of the state
while they run. Those that ask the rule before they change anything need none: a failure and a
controlled shutdown that visit each partition once, and events that cannot come to ask it.

Source: docs/controller.md, section 6.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sized
from typing import TYPE_CHECKING, Concatenate, ParamSpec

from kfast.controllers.zk import fused_events
from kfast.errors import PolicyError

if TYPE_CHECKING:
    from kfast.controllers.zk.controller import Controller
    from kfast.journal import Outcome

P = ParamSpec("P")


def all_or_nothing(
    handler: Callable[Concatenate[Controller, P], Outcome],
    may_fail_late: Callable[..., bool] | None = None,
) -> Callable[Concatenate[Controller, P], Outcome]:
    """Make a handler leave everything as it was where the rule fails.

    Parameters
    ----------
    handler : function
        Takes the controller first.
    may_fail_late : function, optional
        Of the handler's arguments: whether the rule can fail after something has changed.
    """

    @functools.wraps(handler)
    def guarded(controller: Controller, /, *args: P.args, **kwargs: P.kwargs) -> Outcome:
        machine = controller.partition_state_machine
        if machine.decider.policy is None:
            return handler(controller, *args, **kwargs)
        late = may_fail_late is None or may_fail_late(controller, *args, **kwargs)
        active, hints = controller.active, controller.deletion_hints.copy()
        try:
            with machine.decider.all_or_nothing(
                controller.store, controller.journal, late=late, threads=machine.threads
            ):
                return handler(controller, *args, **kwargs)
        except PolicyError:
            controller.active, controller.deletion_hints = active, hints
            raise

    return guarded


def changes_late(
    controller: Controller, started: Iterable[int] = (), bounced: Iterable[int] = (),
    failed: Iterable[int] = (),
) -> bool:
    """Whether `on_broker_change` asks the rule after its first change."""
    state = controller.state
    if not all(isinstance(ids, Sized) for ids in (started, bounced, failed)):
        return True
    new, again, dead = (len(list(ids)) > 0 for ids in (started, bounced, failed))
    if again or (new and dead):
        return True
    if dead:
        return not fused_events.can_visit(controller) or state.any_offline_dir
    return bool(state.pending.any() or state.n_reassigned or state.any_queued)


def shuts_down_late(controller: Controller, *_: object, **__: object) -> bool:
    """Whether `controlled_shutdown` asks the rule after its first change."""
    return controller.journal.full or not fused_events.can_visit(controller)


def completes_reassignments(controller: Controller, *_: object, **__: object) -> bool:
    """Whether ISRs that grow can complete a reassignment, which may elect."""
    return controller.state.n_reassigned > 0


def asks_a_store(controller: Controller, *_: object, **__: object) -> bool:
    """Whether an election reads records first, which leaves traces in the store."""
    return controller.store is not None
