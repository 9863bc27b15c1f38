// SPDX-License-Identifier: MIT OR Apache-2.0

import io.opentelemetry.api.GlobalOpenTelemetry;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Scope;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * Requests in threads and in a pool, under OpenTelemetry's agent, with a log of the request for which each thread worked.
 *
 * <pre>
 *     Joins FOLDER
 *
 *     thread    two threads serve requests, each with a part that is a span of its own
 *     pool      a thread begins requests and hands each to an ExecutorService of two threads, with the time at which it was queued
 *               (wakepath.queued_ns); a part of the work there is a span of its own
 *     busy      a thread serves forty requests between two sleeps
 * </pre>
 *
 * FOLDER/log has a line `TID FROM SHOWN LEAVES LEFT TRACE` for each stretch of work, by the monotonic clock, ns: the thread takes the request
 * up between FROM and SHOWN, and leaves it between LEAVES and LEFT. The agent writes the spans to the standard output. Each part runs
 * under the name "warm-up" first, often and with little work, while the code is interpreted and compiled: until then to begin a span takes as long as
 * the work.
 */
public class Joins {
  static final int REQUESTS = 100;
  static final int SERVED = 40;

  /** The unit of the work, ns: less in the warm-up. */
  static volatile long unit = 50;

  static final Tracer TRACER = GlobalOpenTelemetry.getTracer("joins");
  static final Queue<String> LOG = new ConcurrentLinkedQueue<>();
  static final ThreadLocal<String> TID = ThreadLocal.withInitial(Joins::tid);

  static String tid() {
    try {
      return Files.readSymbolicLink(Path.of("/proc/thread-self")).getFileName().toString();
    } catch (IOException error) {
      throw new RuntimeException(error);
    }
  }

  static void busy(long ns) {
    for (long end = System.nanoTime() + ns; System.nanoTime() < end; ) {}
  }

  static void rest(long ns) {
    try {
      TimeUnit.NANOSECONDS.sleep(ns);
    } catch (InterruptedException error) {
      throw new RuntimeException(error);
    }
  }

  static Span begin(String name) {
    return TRACER.spanBuilder(name).setNoParent().setSpanKind(SpanKind.SERVER).startSpan();
  }

  /** The thread takes up a span, which it began to do then, works for it, and leaves it. */
  static void work(Span span, long from, Runnable function, Runnable leave) {
    long shown;
    long leaves;
    try (Scope current = span.makeCurrent()) {
      shown = System.nanoTime();
      function.run();
      leaves = System.nanoTime();
      leave.run();
    }
    long left = System.nanoTime();
    LOG.add(TID.get() + " " + from + " " + shown + " " + leaves + " " + left + " " + span.getSpanContext().getTraceId());
  }

  static void part() {
    Span part = TRACER.spanBuilder("part").startSpan();
    try (Scope current = part.makeCurrent()) {
      busy(300 * unit);
      rest(300 * unit);
    }
    part.end();
  }

  static void serve(String name) {
    for (int at = 0; at < REQUESTS / 2; at++) {
      long from = System.nanoTime();
      Span span = begin(name);
      work(
          span,
          from,
          () -> {
            busy(300 * unit);
            rest(500 * unit);
            part();
            busy(100 * unit);
          },
          span::end);
      rest(500 * unit);
    }
  }

  static void threads(String name) {
    List<Thread> threads = List.of(new Thread(() -> serve(name)), new Thread(() -> serve(name)));
    threads.forEach(Thread::start);
    threads.forEach(Joins::join);
  }

  static void join(Thread thread) {
    try {
      thread.join();
    } catch (InterruptedException error) {
      throw new RuntimeException(error);
    }
  }

  static void pool(String name) {
    ExecutorService workers = Executors.newFixedThreadPool(2);
    for (int at = 0; at < REQUESTS; at++) {
      long from = System.nanoTime();
      Span span = begin(name);
      work(span, from, () -> busy(200 * unit), () -> queue(span));
      workers.submit(() -> take(span));
      rest(1500 * unit);
    }
    workers.shutdown();
    try {
      workers.awaitTermination(1, TimeUnit.MINUTES);
    } catch (InterruptedException error) {
      throw new RuntimeException(error);
    }
  }

  static void queue(Span span) {
    Instant now = Instant.now();
    span.setAttribute("wakepath.queued_ns", now.getEpochSecond() * 1_000_000_000L + now.getNano());
  }

  static void take(Span span) {
    work(
        span,
        System.nanoTime(),
        () -> {
          busy(200 * unit);
          rest(300 * unit);
          part();
          busy(100 * unit);
        },
        span::end);
  }

  static void loop(String name) {
    for (int round = 0; round < 20; round++) {
      for (int at = 0; at < SERVED; at++) {
        long from = System.nanoTime();
        Span span = begin(name);
        work(span, from, () -> busy(500 * unit), span::end);
      }
      rest(1000 * unit);
    }
  }

  static void parts(String thread, String pool, String busy) {
    threads(thread);
    pool(pool);
    Thread loop = new Thread(() -> loop(busy));
    loop.start();
    join(loop);
  }

  public static void main(String[] arguments) throws Exception {
    for (int round = 0; round < 10; round++) {
      parts("warm-up", "warm-up", "warm-up");
    }
    unit = 2000;
    parts("thread", "pool", "busy");
    rest(50_000_000);
    Files.write(Path.of(arguments[0], "log"), LOG);
  }
}
