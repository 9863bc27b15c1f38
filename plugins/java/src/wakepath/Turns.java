// SPDX-License-Identifier: MIT OR Apache-2.0
package wakepath;

import java.util.Arrays;

/**
 * A span's turns: the times in which threads worked for it, as text for its attribute `wakepath.turns`.
 *
 * <p>Memory is bounded: the last turns are kept, and the time from which they are whole. Times are ns since 1970. Threads may
 * call it at the same time.
 */
final class Turns {
  /** The maximum number of kept turns. */
  static final int MAX_TURNS = 64;

  /** A thread's turns no further apart are joined, ns: callbacks of a loop follow each other. */
  static final long MAX_GAP = 10_000;

  /** The maximum number of threads with a turn at the same time. */
  private static final int MAX_OPEN = 64;

  /** Not all turns are known, or the span has ended: no more are noted. */
  private boolean isOver;

  private boolean isLost;

  /** The open turns: the thread and beginning of each. */
  private long[] open = new long[2];

  private int opened;

  /** The total number of turns; and the last turns, in a ring: the thread, beginning and end of each. */
  private int count;

  private long[] ring = new long[3 * 4];
  private long droppedTo;

  /** A thread begins to work for the span. */
  synchronized void begin(long tid, long from) {
    if (isOver) {
      return;
    }
    if (opened == MAX_OPEN) {
      lose();
      return;
    }
    if (2 * opened == open.length) {
      open = Arrays.copyOf(open, 2 * open.length);
    }
    open[2 * opened] = tid;
    open[2 * opened + 1] = from;
    opened++;
  }

  /** A thread no longer works for the span. `follows`: it has worked for no other span since its last turn. */
  synchronized void end(long tid, long to, boolean follows) {
    for (int at = 0; at < opened && !isOver; at++) {
      if (open[2 * at] == tid) {
        note(tid, open[2 * at + 1], to, follows);
        opened--;
        open[2 * at] = open[2 * opened];
        open[2 * at + 1] = open[2 * opened + 1];
        return;
      }
    }
  }

  /** Not all turns can be known. */
  synchronized void lose() {
    isOver = true;
    isLost = true;
  }

  private void note(long tid, long from, long to, boolean follows) {
    if (from > to) {
      lose();
      return;
    }
    int last = 3 * ((count + MAX_TURNS - 1) % MAX_TURNS);
    if (follows && count > 0 && ring[last] == tid && from >= ring[last + 2] && from - ring[last + 2] <= MAX_GAP) {
      ring[last + 2] = to;
      return;
    }
    int next = 3 * (count % MAX_TURNS);
    if (count >= MAX_TURNS) {
      droppedTo = Math.max(droppedTo, ring[next + 2]);
    } else if (next == ring.length) {
      ring = Arrays.copyOf(ring, Math.min(2 * ring.length, 3 * MAX_TURNS));
    }
    ring[next] = tid;
    ring[next + 1] = from;
    ring[next + 2] = to;
    count++;
  }

  /**
   * The span, which began then, ends now: `SINCE @TID GAP LENGTH GAP LENGTH @TID GAP LENGTH.`, with each thread's turns; null if
   * they are not known, or if the span never was a thread's current span: its program may have worked for it all the same.
   */
  synchronized String end(long begun, long now) {
    for (int at = 0; at < opened && !isOver; at++) {
      note(open[2 * at], open[2 * at + 1], now, false);
    }
    isOver = true;
    long since = Math.max(begun, droppedTo);
    StringBuilder text = new StringBuilder().append(since);
    int first = Math.max(count - MAX_TURNS, 0);
    for (int number = first; number < count && !isLost; number++) {
      if (isOf(number, since) && !isNamed(first, number, since)) {
        add(text, number, since);
      }
    }
    return isLost || count == 0 ? null : text.append('.').toString();
  }

  private boolean isOf(int number, long since) {
    return ring[3 * (number % MAX_TURNS) + 2] > since;
  }

  /** Whether the turn's thread has an earlier turn. */
  private boolean isNamed(int first, int number, long since) {
    for (int before = first; before < number; before++) {
      if (isOf(before, since) && ring[3 * (before % MAX_TURNS)] == ring[3 * (number % MAX_TURNS)]) {
        return true;
      }
    }
    return false;
  }

  /** Adds a thread's turns; this is its first. */
  private void add(StringBuilder text, int number, long since) {
    long tid = ring[3 * (number % MAX_TURNS)];
    text.append(" @").append(tid);
    long at = since;
    for (; number < count; number++) {
      int turn = 3 * (number % MAX_TURNS);
      if (ring[turn] != tid || ring[turn + 2] <= since) {
        continue;
      }
      // A turn may have begun before its span; a turn before the last turn's end shows a clock that was set back.
      long from = Math.max(ring[turn + 1], since);
      if (from < at) {
        isLost = true;
        return;
      }
      text.append(' ').append(from - at).append(' ').append(ring[turn + 2] - from);
      at = ring[turn + 2];
    }
  }
}
