// SPDX-License-Identifier: MIT OR Apache-2.0
package wakepath;

import io.opentelemetry.api.trace.Span;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.ContextStorage;
import io.opentelemetry.context.Scope;
import java.lang.ref.Reference;
import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.time.Instant;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Each thread's storage for the current context, which notes the turns of spans: a thread works for its current context's span.
 *
 * <p>A virtual thread may leave its OS thread at any time, unseen: if a span is current in a virtual thread, its turns are not
 * known.
 */
final class FollowedContext implements ContextStorage {
  /** A thread's current turns. */
  private static final class ThreadState {
    final long tid;
    Turns turns;

    /** The last noted turns, for comparison alone. */
    Turns last;

    ThreadState(long tid) {
      this.tid = tid;
    }
  }

  /** A span as a key by its identity; it keeps no span in memory. */
  private static final class Key extends WeakReference<Span> {
    private final int hash;

    Key(Span span, ReferenceQueue<Span> gone) {
      super(span, gone);
      hash = System.identityHashCode(span);
    }

    @Override
    public int hashCode() {
      return hash;
    }

    @Override
    public boolean equals(Object other) {
      return this == other || other instanceof Key && get() != null && get() == ((Key) other).get();
    }
  }

  private static final Map<Key, Turns> TURNS = new ConcurrentHashMap<>();
  private static final ReferenceQueue<Span> GONE = new ReferenceQueue<>();

  private static volatile boolean isFollowed;

  private final ContextStorage storage;
  private final ThreadLocal<ThreadState> threadState;

  private FollowedContext(ContextStorage storage, OsThread thread) {
    this.storage = storage;
    this.threadState = ThreadLocal.withInitial(() -> new ThreadState(OsThread.isCarried() ? 0 : thread.current()));
    isFollowed = true;
  }

  /** Follows the current context, unless it is in use already. */
  static void install(OsThread thread) {
    ContextStorage.addWrapper(storage -> new FollowedContext(storage, thread));
  }

  /** Notes a span's turns from here on: it begins. */
  static void begin(Span span) {
    for (Reference<? extends Span> gone = GONE.poll(); gone != null; gone = GONE.poll()) {
      TURNS.remove(gone);
    }
    if (isFollowed) {
      TURNS.put(new Key(span, GONE), new Turns());
    }
  }

  /** The turns of a span that ends now and began then, as text; null if they are not known. */
  static String end(Span span, long begun) {
    Turns turns = TURNS.remove(new Key(span, null));
    return turns == null ? null : turns.end(begun, now());
  }

  private static long now() {
    Instant now = Instant.now();
    return now.getEpochSecond() * 1_000_000_000L + now.getNano();
  }

  /** The thread turns to a context. */
  private void look(Context context) {
    Span span = context == null ? null : Span.fromContextOrNull(context);
    Turns next = span == null ? null : TURNS.get(new Key(span, null));
    ThreadState own = threadState.get();
    Turns before = own.turns;
    if (next == before) {
      return;
    }
    if (own.tid == 0) {
      // A virtual thread, or a thread without a known number.
      if (next != null) {
        next.lose();
      }
      return;
    }
    long now = now();
    if (before != null) {
      before.end(own.tid, now, before == own.last);
      own.last = before;
    }
    if (next != null) {
      next.begin(own.tid, now);
    }
    own.turns = next;
  }

  @Override
  public Scope attach(Context context) {
    Scope scope = storage.attach(context);
    if (scope == Scope.noop()) {
      return scope;
    }
    look(storage.current());
    return () -> {
      scope.close();
      look(storage.current());
    };
  }

  @Override
  public Context current() {
    return storage.current();
  }

  @Override
  public Context root() {
    return storage.root();
  }
}
