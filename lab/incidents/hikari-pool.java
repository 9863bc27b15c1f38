// cause: both connections of a pool are taken by threads that sleep; the main thread waits until one is given back
// size: $long s
// needs: java
// ask: record -- $0
// who: report-0
// says: waiting until a time-out
// never: VM Thread
// twin: report-0
// json: contributors kind=timer comm=report-0
import java.nio.file.*;
import java.util.concurrent.*;
class Main {
    static final BlockingQueue<String> pool = new LinkedBlockingQueue<>();
    static void report(int number, CountDownLatch taken) {
        try {
            String connection = pool.take();
            taken.countDown();
            Thread.sleep(1500 + 1000 * number);
            pool.put(connection);
        } catch (InterruptedException e) {
        }
    }
    public static void main(String[] words) throws Exception {
        boolean twin = System.getenv("TWIN") != null;
        for (int i = 0; i < (twin ? 3 : 2); i++) pool.put("connection " + i);
        CountDownLatch taken = new CountDownLatch(2);
        for (int i = 0; i < 2; i++) {
            int number = i;
            new Thread(() -> report(number, taken), "report-" + i).start();
        }
        taken.await();
        long began = System.nanoTime();
        pool.take();
        double taken_s = (System.nanoTime() - began) / 1e9;
        Files.writeString(Path.of(System.getenv("PLANTED")), "long " + taken_s + "\ntwin " + taken_s + "\n",
            StandardOpenOption.APPEND);
        long computed = 0;
        for (began = System.nanoTime(); twin && System.nanoTime() - began < 800_000_000L; ) computed++;
        System.exit(computed < 0 ? 1 : 0);
    }
}
