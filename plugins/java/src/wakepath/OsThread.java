// SPDX-License-Identifier: MIT OR Apache-2.0
package wakepath;

import java.io.IOException;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * The calling thread's id in the kernel. Java has no name for it; the link /proc/thread-self does: PID/task/TID.
 *
 * <p>A platform thread is the same OS thread all its life, so its id is read once. A virtual thread (Java 21) moves between OS
 * threads, so its id is read at each span.
 */
final class OsThread {
  private static final Path SELF = Path.of("/proc/thread-self");
  private static final MethodHandle IS_VIRTUAL = isVirtual();

  private final ThreadLocal<Long> known = ThreadLocal.withInitial(OsThread::ask);

  /** The id, or 0 if it cannot be read. */
  long current() {
    return isCarried() ? ask() : known.get();
  }

  private static long ask() {
    try {
      return Long.parseLong(Files.readSymbolicLink(SELF).getFileName().toString());
    } catch (IOException | RuntimeException missing) {
      return 0;
    }
  }

  /** Whether the calling thread is virtual. */
  static boolean isCarried() {
    try {
      return IS_VIRTUAL != null && (boolean) IS_VIRTUAL.invokeExact(Thread.currentThread());
    } catch (Throwable impossible) {
      return true;
    }
  }

  private static MethodHandle isVirtual() {
    try {
      MethodType type = MethodType.methodType(boolean.class);
      return MethodHandles.publicLookup().findVirtual(Thread.class, "isVirtual", type);
    } catch (ReflectiveOperationException older) {
      return null;
    }
  }
}
