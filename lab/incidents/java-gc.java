// cause: a heap of 52 MB is nearly full of live data, so that most of the time goes into garbage collections
// size: $long s
// needs: java
// ask: record -- env JDK_JAVA_OPTIONS=-Xmx52m JAVA_TOOL_OPTIONS=-XX:+UseParallelGC $0
// who: GC
// says: garbage collection
// short: running
// json: rows text~garbage sum=paused_ns
// twin: garbage collection
import java.lang.management.*;
import java.nio.file.*;
import java.util.*;
class Main {
    public static void main(String[] words) throws Exception {
        boolean twin = System.getenv("TWIN") != null;
        int live = twin ? 20 : 430;
        List<byte[]> kept = new ArrayList<>();
        for (int i = 0; i < live; i++) kept.add(new byte[100_000]);
        long sum = 0;
        for (int i = 0; i < (twin ? 15_000 : 60_000); i++) {
            sum += new byte[20_000].length;
            if (i % 7 == 0) kept.set(i % live, new byte[100_000]);
        }
        long ms = 0;
        for (GarbageCollectorMXBean one : ManagementFactory.getGarbageCollectorMXBeans()) ms += one.getCollectionTime();
        Files.writeString(Path.of(System.getenv("PLANTED")), "long " + ms / 1e3 + "\ntwin " + ms / 1e3 + "\n",
            StandardOpenOption.APPEND);
        if (sum < 0) System.out.println(sum);
        if (twin) Thread.sleep(1000);
    }
}
