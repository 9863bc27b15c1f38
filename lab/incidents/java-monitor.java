// cause: a thread computes in a monitor; the main thread waits to enter it
// size: 1.5 s
// needs: java
// ask: record -- $0
// who: appender
// says: running
// never: VM Thread
// json: contributors kind=running comm=appender
import java.lang.management.*;
import java.nio.file.*;
import java.util.concurrent.*;
class Main {
    static final Object log = new Object();
    public static void main(String[] words) throws Exception {
        boolean twin = System.getenv("TWIN") != null;
        CountDownLatch entered = new CountDownLatch(1);
        new Thread(() -> {
            synchronized (log) {
                entered.countDown();
                var times = ManagementFactory.getThreadMXBean();
                while (!twin && times.getCurrentThreadCpuTime() < 1_500_000_000L);
            }
        }, "appender").start();
        entered.await();
        if (twin) Thread.sleep(1500);
        long began = System.nanoTime();
        synchronized (log) {
            double entered_s = (System.nanoTime() - began) / 1e9;
            Files.writeString(Path.of(System.getenv("PLANTED")), "twin " + entered_s + "\n",
                StandardOpenOption.APPEND);
        }
    }
}
