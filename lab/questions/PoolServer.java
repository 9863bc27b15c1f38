// service: java shop 8196 java -Xmx300m -XX:+UseSerialGC PoolServer 8196
//
// question: monitor
// cause: a request waits for an object's monitor, held by another as it sleeps
// send: 0 /hold, 100 /item
// twin: 0 /hold?free=1, 100 /item
// size: body
// who: GET /hold
//
// question: reentrant-lock
// cause: a request waits for a ReentrantLock, held by another as it sleeps
// send: 0 /hold-lock, 100 /item-lock
// twin: 0 /hold-lock?free=1, 100 /item-lock
// size: body
// who: GET /hold-lock
//
// question: full-pool
// cause: four requests have the server's four threads; another one waits in the queue, before its span
// send: 0 /batch, 0 /batch, 0 /batch, 0 /batch, 50 /quick
// twin: 0 /batch, 0 /batch, 50 /quick
// size: 250 ms
// who: GET /batch
//
// question: collection
// cause: a request asks for a garbage collection
// send: 0 /collect
// twin: 0 /quick
// size: body
// says: collection
//
// question: collection-victim
// cause: a request with many short sleeps is stopped by a collection for another request
// send: 0 /steps, 50 /collect
// asked: /steps
// twin: 0 /steps, 50 /quick
// size: other body
// who: GET /collect
// says: collection

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.ReentrantLock;

/** The JDK's own server with a pool of four threads, under the serial collector. */
public class PoolServer {
    interface Work {
        void run(boolean isFree) throws InterruptedException;
    }

    private static final Object MONITOR = new Object();
    private static final ReentrantLock LOCK = new ReentrantLock();
    private static final List<Object> LIVE = new ArrayList<>();

    /** The time of all collections so far, in ms. */
    private static long collecting() {
        long ms = 0;
        for (GarbageCollectorMXBean one : ManagementFactory.getGarbageCollectorMXBeans()) {
            ms += one.getCollectionTime();
        }
        return ms;
    }

    /** Answers with the time that the work took, in ms; of a collection with the collector's own. */
    private static void at(HttpServer server, String path, Work work) {
        server.createContext(path, exchange -> {
            long began = System.nanoTime();
            long collected = collecting();
            String query = exchange.getRequestURI().getQuery();
            try {
                work.run(query != null && query.contains("free"));
            } catch (InterruptedException error) {
                throw new IOException(error);
            }
            double ms = path.equals("/collect") ? collecting() - collected : (System.nanoTime() - began) / 1e6;
            byte[] body = String.format("%.1f", ms).getBytes();
            exchange.sendResponseHeaders(200, body.length);
            try (OutputStream out = exchange.getResponseBody()) {
                out.write(body);
            }
        });
    }

    public static void main(String[] arguments) throws IOException {
        int port = Integer.parseInt(arguments[0]);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        AtomicInteger threads = new AtomicInteger();
        server.setExecutor(Executors.newFixedThreadPool(4, work -> new Thread(work, "shop-" + threads.incrementAndGet())));
        at(server, "/hold", isFree -> {
            synchronized (isFree ? new Object() : MONITOR) {
                Thread.sleep(400);
            }
        });
        at(server, "/item", isFree -> {
            synchronized (MONITOR) {
            }
        });
        at(server, "/hold-lock", isFree -> {
            ReentrantLock lock = isFree ? new ReentrantLock() : LOCK;
            lock.lock();
            try {
                Thread.sleep(400);
            } finally {
                lock.unlock();
            }
        });
        at(server, "/item-lock", isFree -> {
            LOCK.lock();
            LOCK.unlock();
        });
        at(server, "/batch", isFree -> Thread.sleep(300));
        at(server, "/quick", isFree -> {
            long end = System.nanoTime() + 2_000_000;
            while (System.nanoTime() < end) {
            }
        });
        at(server, "/steps", isFree -> {
            for (int step = 0; step < 150; step++) {
                Thread.sleep(1);
            }
        });
        at(server, "/collect", isFree -> System.gc());
        // What lives makes a collection long.
        for (int object = 0; object < 1_100_000; object++) {
            LIVE.add(new int[] {object});
        }
        server.start();
    }
}
