# SPDX-License-Identifier: MIT OR Apache-2.0
"""The OS thread on each span, and each thread's span in its memory.

`opentelemetry-instrument` calls `install`; a program that sets up OpenTelemetry itself calls it once, at any time.
"""

import logging

from . import current_span, thread_of_span

_is_installed = False


def install():
    """Puts `wakepath.tid` on the spans of this process, and shows the current span of each thread in its memory."""
    global _is_installed
    if _is_installed:
        return
    _is_installed = True
    for part in (thread_of_span, current_span):
        try:
            part.install()
        except Exception:  # The program is worth more than its observer.
            logging.getLogger(__name__).exception("%s is not installed", part.__name__)
