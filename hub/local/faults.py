"""Faults on purpose: what goes wrong between a client and a Hub, at the step and as often as asked.

Fault("POST", r"/commit/", status=500)            refused, nothing done
Fault("POST", r"/commit/", drop=True, after=True) done, but the answer never arrives
Fault("PUT", r"/lfs/", drop=True)                 the upload is torn in the middle
"""

import re
from dataclasses import dataclass


@dataclass
class Fault:
    """One kind of trouble; `times` counts down, `skip` lets that many matching requests through first.

    `status` answers with an error, `drop` breaks the connection, `delay_seconds` waits first. With
    `after` the request is carried out before the trouble strikes.
    """

    method: str
    match: str
    status: int | None = None
    drop: bool = False
    delay_seconds: float = 0.0
    after: bool = False
    times: int = 1
    skip: int = 0


def strike(faults: list[Fault], method: str, path: str) -> Fault | None:
    """Return the fault that befalls a request, counted down; None if it goes well."""
    for fault in faults:
        if fault.times < 1 or fault.method not in ("*", method):
            continue
        if re.search(fault.match, path) is None:
            continue
        if fault.skip > 0:
            fault.skip -= 1
            continue
        fault.times -= 1
        return fault
    return None
