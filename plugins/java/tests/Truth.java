// SPDX-License-Identifier: MIT OR Apache-2.0

import io.opentelemetry.api.GlobalOpenTelemetry;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Spans in threads, pools, nested calls, futures' stages and virtual threads, each with the attribute `truth.tid`: the thread by
 * /proc, read anew at each span. Prints the number of spans.
 */
public class Truth {
  static final Tracer TRACER = GlobalOpenTelemetry.getTracer("truth");
  static final AtomicInteger spans = new AtomicInteger();

  static Span begin(String name) {
    spans.incrementAndGet();
    try {
      String status = Files.readString(Path.of("/proc/thread-self/status"));
      String tid = status.lines().filter(line -> line.startsWith("Pid:")).findFirst().get().substring(4).trim();
      boolean isVirtual = Thread.currentThread().getClass().getName().contains("Virtual");
      return TRACER
          .spanBuilder(name)
          .setAttribute("truth.tid", Long.parseLong(tid))
          .setAttribute("truth.virtual", isVirtual ? 1 : 0)
          .startSpan();
    } catch (Exception error) {
      throw new RuntimeException(error);
    }
  }

  static void nested(int depth) {
    Span span = begin("nested " + depth);
    try (Scope scope = span.makeCurrent()) {
      if (depth > 0) {
        nested(depth - 1);
      }
    } finally {
      span.end();
    }
  }

  public static void main(String[] arguments) throws Exception {
    nested(3);
    List<Thread> threads = new ArrayList<>();
    for (int at = 0; at < 12; at++) {
      threads.add(new Thread(() -> nested(5)));
    }
    for (Thread thread : threads) thread.start();
    for (Thread thread : threads) thread.join();

    ExecutorService pool = Executors.newFixedThreadPool(4);
    List<CompletableFuture<?>> futures = new ArrayList<>();
    for (int at = 0; at < 200; at++) {
      // A span that begins here and ends in a pool thread.
      Span request = begin("request");
      Context context = Context.current().with(request);
      futures.add(
          CompletableFuture.runAsync(context.wrap(() -> nested(1)), pool)
              .thenRunAsync(() -> nested(1), pool)
              .thenRunAsync(() -> nested(0))
              .whenComplete((nothing, error) -> request.end()));
    }
    for (CompletableFuture<?> future : futures) future.get();
    pool.shutdown();

    try {
      Method start = Thread.class.getMethod("startVirtualThread", Runnable.class);
      for (int at = 0; at < 50; at++) {
        threads.set(0, (Thread) start.invoke(null, (Runnable) Truth::hop));
        threads.get(0).join();
      }
    } catch (NoSuchMethodException older) {
      System.out.println("no virtual threads");
    }
    System.out.println("spans " + spans);
  }

  /** A virtual thread that may change the OS thread at each turn. */
  static void hop() {
    for (int at = 0; at < 5; at++) {
      nested(1);
      try {
        Thread.sleep(1);
      } catch (InterruptedException impossible) {
        return;
      }
    }
  }
}
