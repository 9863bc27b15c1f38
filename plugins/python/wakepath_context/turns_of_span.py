# SPDX-License-Identifier: MIT OR Apache-2.0
"""The attribute `wakepath.turns` of each span: the times in which its first thread worked for it.

`_record.c` notes them where it shows a span, and `wakepath_turns.h` writes them as text. As the span ends, `_record.c` sets them and the
thread, if the span's attributes have the known class.
"""

import functools
import sys

from opentelemetry.sdk.trace import Span

from .thread_of_span import ThreadOfSpan

try:
    from opentelemetry.attributes import BoundedAttributes
except ImportError:  # Each attribute is set by the span's own method.
    BoundedAttributes = None


def install(record):
    """Notes the turns of all spans with a known thread."""
    ThreadOfSpan.begin = staticmethod(record.begin)
    record.use_attributes(BoundedAttributes)
    end, set_on, modules = Span.end, record.end, sys.modules

    @functools.wraps(end)
    def end_noted(self, end_time=None):
        if self._end_time is None:
            # Greenlets share a thread, and nothing shows their turns.
            has_turns = end_time is None and "gevent" not in modules
            rest = set_on(self, self._start_time, has_turns)
            if rest:
                self.set_attributes(rest)
        end(self, end_time)

    Span.end = end_noted
