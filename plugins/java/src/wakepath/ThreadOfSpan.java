// SPDX-License-Identifier: MIT OR Apache-2.0
package wakepath;

import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.context.Context;
import io.opentelemetry.sdk.trace.ReadWriteSpan;
import io.opentelemetry.sdk.trace.ReadableSpan;
import io.opentelemetry.sdk.trace.SpanProcessor;

/** Puts the attribute `wakepath.tid` on each span: the OS thread in which it began. */
public final class ThreadOfSpan implements SpanProcessor {
  private static final AttributeKey<Long> TID = AttributeKey.longKey("wakepath.tid");

  private final OsThread thread;

  ThreadOfSpan(OsThread thread) {
    this.thread = thread;
  }

  @Override
  public void onStart(Context parent, ReadWriteSpan span) {
    long tid = thread.current();
    if (tid > 0) {
      span.setAttribute(TID, tid);
    }
  }

  @Override
  public boolean isStartRequired() {
    return true;
  }

  @Override
  public void onEnd(ReadableSpan span) {}

  @Override
  public boolean isEndRequired() {
    return false;
  }
}
