# SPDX-License-Identifier: MIT OR Apache-2.0
"""The attribute `wakepath.tid` of each span: the OS thread in which it began."""

import functools
import threading

from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider


class ThreadOfSpan(SpanProcessor):
    """Asks the kernel at each span: a cached number would be wrong behind a fork."""

    # Called at each span's beginning. Returns whether its thread is set as it ends.
    begin = None

    def on_start(self, span, parent_context=None):
        if not (self.begin and self.begin(span)):
            span.set_attribute("wakepath.tid", threading.get_native_id())


def install():
    """Adds the processor to the present provider, and to later providers."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        provider.add_span_processor(ThreadOfSpan())
    make = TracerProvider.__init__

    @functools.wraps(make)
    def make_with_processor(self, *arguments, **options):
        make(self, *arguments, **options)
        self.add_span_processor(ThreadOfSpan())

    TracerProvider.__init__ = make_with_processor
