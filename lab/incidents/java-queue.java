// cause: a thread polls a queue with a time-out of 100 ms, until its producer has slept for 1.5 s
// size: $long s
// ask: record -- $0
// who: producer
// says: time-out
// json: contributors kind=timer comm=producer
import java.io.FileWriter;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
class Main {
    public static void main(String[] words) throws Exception {
        boolean twin = System.getenv("TWIN") != null;
        LinkedBlockingQueue<String> queue = new LinkedBlockingQueue<>();
        Thread producer = new Thread(() -> {
            try {
                if (!twin)
                    Thread.sleep(1500);
                queue.put("order");
            } catch (InterruptedException error) {
            }
        }, "producer");
        producer.start();
        long began = System.nanoTime();
        while (queue.poll(100, TimeUnit.MILLISECONDS) == null)
            ;
        double took = (System.nanoTime() - began) / 1e9;
        try (FileWriter planted = new FileWriter(System.getenv("PLANTED"), true)) {
            planted.write("long " + took + "\ntwin " + took + "\n");
        }
        while (twin && System.nanoTime() - began < 600_000_000L)
            ;
    }
}
