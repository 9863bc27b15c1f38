// SPDX-License-Identifier: MIT OR Apache-2.0
package wakepath;

import java.io.IOException;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * The id that the kernel has for the calling thread. Java does not name it; the link /proc/thread-self does: PID/task/TID.
 *
 * <p>A platform thread is the same OS thread all its life, so that it is asked once. A virtual thread (Java 21) is carried by one OS
 * thread after another, and is asked at each span.
 */
final class OsThread {
  private static final Path SELF = Path.of("/proc/thread-self");
  private static final MethodHandle IS_VIRTUAL = isVirtual();

  private final ThreadLocal<Long> known = ThreadLocal.withInitial(OsThread::ask);

  /** The id, or 0 where it cannot be read. */
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

  /** Whether the calling thread is a virtual one. */
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
