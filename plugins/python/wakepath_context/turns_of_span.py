# SPDX-License-Identifier: MIT OR Apache-2.0
"""The attribute `wakepath.turns` of each span: the times in which the thread in which it began worked for it.

`_record.c` notes them where it shows a span, and `wakepath_turns.h` makes a text of them.
"""

import functools
import sys

from opentelemetry.sdk.trace import Span

from .thread_of_span import ThreadOfSpan


def install(record):
    """Notes the turns of all spans that have their thread."""
    ThreadOfSpan.begin = staticmethod(record.begin)
    end = Span.end

    @functools.wraps(end)
    def end_noted(self, end_time=None):
        turns = record.end(self, self._start_time) if self._end_time is None else None
        # Greenlets share a thread, and nothing shows when one of them turns to another.
        if turns is not None and end_time is None and "gevent" not in sys.modules:
            self.set_attribute("wakepath.turns", turns)
        end(self, end_time)

    Span.end = end_noted
