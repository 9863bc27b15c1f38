// SPDX-License-Identifier: MIT OR Apache-2.0
package wakepath;

import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.context.Context;
import io.opentelemetry.sdk.trace.ReadWriteSpan;
import io.opentelemetry.sdk.trace.ReadableSpan;
import io.opentelemetry.sdk.trace.internal.ExtendedSpanProcessor;

/** Puts the attribute `wakepath.turns` on each span: the times in which threads worked for it. */
public final class TurnsOfSpan implements ExtendedSpanProcessor {
  private static final AttributeKey<String> TURNS = AttributeKey.stringKey("wakepath.turns");

  @Override
  public void onStart(Context parent, ReadWriteSpan span) {
    FollowedContext.begin(span);
  }

  @Override
  public boolean isStartRequired() {
    return true;
  }

  @Override
  public void onEnding(ReadWriteSpan span) {
    String turns = FollowedContext.end(span, span.toSpanData().getStartEpochNanos());
    if (turns != null) {
      span.setAttribute(TURNS, turns);
    }
  }

  @Override
  public boolean isOnEndingRequired() {
    return true;
  }

  @Override
  public void onEnd(ReadableSpan span) {}

  @Override
  public boolean isEndRequired() {
    return false;
  }
}
